"""What a broker's answer to a pop says of where its messages lie."""

import pytest

from regulus.errors import HeaderError
from regulus.model.message import MessageExt
from regulus.model.receipt_handle import encode
from regulus.wire.headers import PopMessageResponse
from regulus.wire.popped_offsets import PoppedOffsets


def message(topic: str, queue_id: int, offset: int, physical_offset: int) -> MessageExt:
    return MessageExt(topic, b"", {}, queue_id=queue_id, queue_offset=offset, physical_offset=physical_offset)


def response(**fields: str) -> PopMessageResponse:
    return PopMessageResponse(pop_time=1_000, invisible_time=60_000, revive_qid=4, rest_num=0, **fields)


def test_handles_are_made_of_where_each_queue_begins() -> None:
    told = response(start_offset_info="0 1 10;1 0 5", msg_offset_info="0 1 10,12;1 0 5")
    offsets = PoppedOffsets(told, "a")
    messages = [message("Orders", 1, 12, 900), message("Orders", 1, 10, 800), message("%RETRY%g_Orders", 0, 5, 700)]
    assert [encode(each) for each in offsets.handles(messages, [None, None, None])] == [
        "10 1000 60000 4 0 a 1 12", "10 1000 60000 4 0 a 1 10", "5 1000 60000 4 1 a 0 5"]


def test_a_receipt_that_the_broker_sends_along_counts() -> None:
    offsets = PoppedOffsets(response(), "a")
    (handle,) = offsets.handles([message("Orders", 1, 12, 900)], ["7 1 2 3 2 a 0 8"])
    assert encode(handle) == "7 1 2 3 2 a 0 8"


def test_deliveries_in_order_are_counted_by_the_queue_or_by_the_message() -> None:
    offsets = PoppedOffsets(response(order_count_info="0 1 3;0 qo1%12 5"), "a")
    assert offsets.order_count(message("Orders", 1, 12, 0)) == 5
    assert offsets.order_count(message("Orders", 1, 13, 0)) == 3
    assert offsets.order_count(message("Orders", 2, 13, 0)) == 0


@pytest.mark.parametrize("field", ["start_offset_info", "msg_offset_info", "order_count_info"])
@pytest.mark.parametrize("told", ["nonsense", "0 1 x", "0 1 1,x"])
def test_an_answer_that_cannot_be_read_is_said_to_be_so(field: str, told: str) -> None:
    with pytest.raises(HeaderError, match="answer to a pop"):
        PoppedOffsets(response(**{field: told}), "a")
