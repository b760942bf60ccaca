"""Receipt handles: made of a broker's answer, and read from a client that may have written anything."""

import pytest

from regulus.errors import CallRefused
from regulus.model.message import MessageExt
from regulus.proxy.receipt_handle import PoppedOffsets, live, parse
from regulus.wire.headers import PopMessageResponse

# As the real broker 5.3.3 makes it, with the place in the log behind it.
TEXT = "0 1795744177395 15000 2 0 broker-a 3 1 897"


def test_a_handle_reads_as_it_was_written() -> None:
    handle = parse(TEXT)
    assert (handle.pop_time, handle.invisible_time, handle.revive_queue_id) == (1795744177395, 15000, 2)
    assert (handle.broker, handle.queue_id, handle.queue_offset, handle.physical_offset) == ("broker-a", 3, 1, 897)
    assert handle.text() == TEXT
    assert handle.receipt() == "0 1795744177395 15000 2 0 broker-a 3 1"
    assert parse(handle.receipt()).physical_offset == -1


@pytest.mark.parametrize("text", ["", "x", TEXT + " 1", TEXT.replace("3", "-3"), TEXT.replace(" ", "  "),
                                  TEXT.replace("15000", "1" * 20), TEXT.replace("2 0", "2 3"), TEXT.replace("3", "３"),
                                  "0 " * 400, TEXT + "\n"])
def test_what_is_no_handle_is_refused_for_good(text: str) -> None:
    with pytest.raises(CallRefused) as refused:
        parse(text)
    assert refused.value.code == 40013


def test_a_handle_lives_until_its_message_is_visible_again() -> None:
    assert live(TEXT, 1795744177395 + 14_999).queue_id == 3
    with pytest.raises(CallRefused, match="expired"):
        live(TEXT, 1795744177395 + 15_000)


def test_the_topic_in_which_a_message_lies() -> None:
    assert parse(TEXT).real_topic("Orders", "g") == "Orders"
    assert parse(TEXT.replace("2 0", "2 1")).real_topic("Orders", "g") == "%RETRY%g_Orders"
    assert parse(TEXT.replace("2 0", "2 2")).real_topic("Orders", "g") == "%RETRY%g+Orders"


def message(topic: str, queue_id: int, offset: int, physical_offset: int) -> MessageExt:
    return MessageExt(topic, b"", {}, queue_id=queue_id, queue_offset=offset, physical_offset=physical_offset)


def response(**fields: str) -> PopMessageResponse:
    return PopMessageResponse(pop_time=1_000, invisible_time=60_000, revive_qid=4, rest_num=0, **fields)


def test_handles_are_made_of_where_each_queue_begins() -> None:
    told = response(start_offset_info="0 1 10;1 0 5", msg_offset_info="0 1 10,12;1 0 5")
    offsets = PoppedOffsets(told, "a", "Orders")
    messages = [message("Orders", 1, 12, 900), message("Orders", 1, 10, 800), message("%RETRY%g_Orders", 0, 5, 700)]
    assert [each.text() for each in offsets.handles(messages, [None, None, None])] == [
        "10 1000 60000 4 0 a 1 12 900", "10 1000 60000 4 0 a 1 10 800", "5 1000 60000 4 1 a 0 5 700"]


def test_a_receipt_that_the_broker_sends_along_counts() -> None:
    offsets = PoppedOffsets(response(), "a", "Orders")
    (handle,) = offsets.handles([message("Orders", 1, 12, 900)], ["7 1 2 3 2 a 0 8"])
    assert handle.text() == "7 1 2 3 2 a 0 8 900"


def test_deliveries_in_order_are_counted_by_the_queue_or_by_the_message() -> None:
    offsets = PoppedOffsets(response(order_count_info="0 1 3;0 qo1%12 5"), "a", "Orders")
    assert offsets.order_count(message("Orders", 1, 12, 0)) == 5
    assert offsets.order_count(message("Orders", 1, 13, 0)) == 3
    assert offsets.order_count(message("Orders", 2, 13, 0)) == 0


def test_an_answer_that_cannot_be_read_is_the_brokers_fault() -> None:
    with pytest.raises(CallRefused) as refused:
        PoppedOffsets(response(start_offset_info="nonsense"), "a", "Orders")
    assert refused.value.code == 50001
