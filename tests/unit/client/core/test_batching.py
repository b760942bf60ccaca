import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.client.core.batching import check_batch, encoded_size, may_gather, split
from regulus.errors import MessageIllegal
from regulus.model.message import Message
from regulus.wire import message_batch


def message(topic="T", body=b"x", **properties):
    return Message(topic, body, properties=properties)


@pytest.mark.parametrize(("messages", "cause"), [
    ([], "at least one"),
    ([message("T"), message("U")], "one topic"),
    ([message(), message(WAIT="false")], "all wait"),
    ([message(DELAY="3")], "delay"),
    ([message(TIMER_DELAY_SEC="3")], "delay"),
    ([message("%RETRY%G")], "retry topic"),
    ([message(TRAN_MSG="true")], "transactional"),
    ([message(_SYS_MSG_PRIORITY_="3")], "its priority chooses its queue"),
])
def test_what_cannot_be_a_batch_is_refused_before_sending(messages, cause):
    with pytest.raises(MessageIllegal, match=cause):
        check_batch(messages)


def test_equal_wait_flags_make_a_batch_whether_written_or_not():
    check_batch([message(), message(WAIT="true")])
    check_batch([message(WAIT="false"), message(WAIT="false")])


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=30), st.integers(1, 300))
def test_a_cut_list_keeps_order_and_stays_below_the_limit(bodies, size_max):
    messages = [message(body=body, KEYS="k") for body in bodies]
    batches = list(split(messages, size_max))
    assert [each for batch in batches for each in batch] == messages
    assert all(len(batch) == 1 or sum(map(encoded_size, batch)) <= size_max for batch in batches)


def test_encoded_size_is_the_size_in_the_body():
    messages = [message(body=b"abc", KEYS="k1 k2"), message(body=b"", TAGS="\u4e2d"), message(body=b"x")]
    size = sum(map(encoded_size, messages))
    for each in messages:
        each.properties["UNIQ_KEY"] = "0" * 32      # as each gets it when it is sent
    assert size == len(message_batch.encode(messages))


@pytest.mark.parametrize("alone", [
    message(DELAY="1"), message("%RETRY%G"), message(PGROUP="G"), message(TRAN_MSG="true"),
    message(_SYS_MSG_PRIORITY_="0")])
def test_what_cannot_be_in_a_batch_does_not_gather(alone):
    assert not may_gather(alone)
    assert may_gather(message())
