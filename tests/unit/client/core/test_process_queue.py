"""The offset that may be committed is always the smallest unfinished one."""

from hypothesis import given
from hypothesis import strategies as st

from regulus.client.core import process_queue
from regulus.client.core.process_queue import NOTHING_PUT, ProcessQueue
from regulus.model.message import MessageExt


def message_at(offset: int, size: int = 1) -> MessageExt:
    return MessageExt("T", b"x" * size, {}, queue_offset=offset)


def test_a_slow_message_holds_the_offset_back():
    queue = ProcessQueue()
    first, second, third = messages = [message_at(offset) for offset in (1, 2, 3)]
    queue.put(messages)
    assert queue.remove([second]) == 1
    assert queue.remove([third]) == 1
    assert queue.remove([first]) == 4


def test_nothing_may_be_committed_before_anything_was_put():
    assert ProcessQueue().commit_offset() == NOTHING_PUT
    assert ProcessQueue().remove([message_at(5)]) == NOTHING_PUT


def test_a_message_put_twice_counts_once():
    queue = ProcessQueue()
    assert len(queue.put([message_at(1, 10)])) == 1
    assert queue.put([message_at(1, 10)]) == []
    assert (queue.count, queue.size) == (1, 10)


def test_count_size_and_span_follow_what_is_cached():
    queue = ProcessQueue()
    messages = [message_at(offset, size=3) for offset in (10, 11, 15)]
    queue.put(messages)
    assert (queue.count, queue.size, queue.span(), queue.offset_range()) == (3, 9, 5, (10, 15))
    queue.remove([messages[0]])
    assert (queue.count, queue.size, queue.span()) == (2, 6, 4)
    queue.remove(messages)
    assert (queue.count, queue.size, queue.span(), queue.offset_range()) == (0, 0, 0, (0, 0))


@given(gaps=st.lists(st.integers(1, 4), min_size=1, max_size=40), data=st.data())
def test_committed_offset_is_the_smallest_unfinished_for_any_order_of_completion(gaps, data):
    offsets = [sum(gaps[:index + 1]) for index in range(len(gaps))]
    queue = ProcessQueue()
    cut = data.draw(st.integers(0, len(offsets)))
    queue.put([message_at(offset) for offset in offsets[:cut]])
    put, done = set(offsets[:cut]), set()
    later = offsets[cut:]
    for offset in data.draw(st.permutations(offsets)):
        if offset not in put:
            queue.put([message_at(each) for each in later])
            put.update(later)
        done.add(offset)
        unfinished = put - done
        assert queue.remove([message_at(offset)]) == (min(unfinished) if unfinished else max(put) + 1)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_messages_put_out_of_order_hold_the_offset_back_too(offsets):
    queue, put = ProcessQueue(), []
    for offset in offsets:
        queue.put([message_at(offset)])
        put.append(offset)
        assert queue.commit_offset() == min(put)
    remaining = set(offsets)
    for offset in sorted(remaining, reverse=True):
        remaining.discard(offset)
        assert queue.remove([message_at(offset)]) == (min(remaining) if remaining else max(offsets) + 1)


def test_a_body_that_its_listener_changed_leaves_as_many_bytes_as_it_brought():
    queue = ProcessQueue()
    message = message_at(1, 10)
    queue.put([message])
    message.body = None
    queue.remove([message])
    assert queue.size == 0


def test_messages_that_come_in_falling_order_are_put_in_order_once(monkeypatch):
    """And not once each, which would cost the square of what a pull brings."""
    sortings = []

    def counted(offsets):
        sortings.append(len(offsets))
        return sorted(offsets)
    monkeypatch.setattr(process_queue, "sorted", counted, raising=False)
    queue = ProcessQueue()
    messages = [message_at(200 - number) for number in range(200)]
    queue.put(messages)
    assert queue.remove(messages[::2]) == 1
    assert queue.remove(messages[1::2]) == 201
    assert sortings == [200]
