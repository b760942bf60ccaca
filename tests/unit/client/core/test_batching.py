import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.client.core.batching import Gatherer, check_batch, encoded_size, split
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
    messages = [message(body=b"abc", KEYS="k1 k2"), message(body=b"", TAGS="\u4e2d")]
    assert sum(map(encoded_size, messages)) == len(message_batch.encode(messages))


def test_sends_gather_until_the_batch_is_full():
    gatherer = Gatherer(batch_size_max=3, held_size_max=100)
    key = gatherer.add(message(body=b"ab"), None)
    assert not gatherer.is_full(key)
    assert gatherer.add(message(body=b"c"), None) == key
    assert gatherer.is_full(key)
    assert [each.body for each in gatherer.take(key)] == [b"ab", b"c"]
    assert gatherer.held_size == 0
    assert gatherer.take(key) == []


def test_topic_tag_and_wait_flag_keep_batches_apart():
    gatherer = Gatherer(batch_size_max=10, held_size_max=100)
    keys = {gatherer.add(each, None) for each in (message(), message("U"), message(TAGS="A"), message(WAIT="false"))}
    assert len(keys) == 4


@pytest.mark.parametrize("alone", [
    message(DELAY="1"), message("%RETRY%G"), message(PGROUP="G"), message(TRAN_MSG="true")])
def test_messages_that_cannot_wait_are_sent_directly_and_hold_nothing(alone):
    gatherer = Gatherer(batch_size_max=10, held_size_max=100)
    assert gatherer.add(alone, None) is None
    assert gatherer.held_size == 0


def test_when_too_much_waits_a_message_is_sent_directly():
    gatherer = Gatherer(batch_size_max=10, held_size_max=4)
    key = gatherer.add(message(body=b"abcd"), None)
    assert gatherer.add(message(body=b"e"), None) is None
    gatherer.take(key)
    assert gatherer.add(message(body=b"e"), None) is not None
