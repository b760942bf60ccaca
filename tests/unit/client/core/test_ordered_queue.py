import pytest

from regulus.client.core.ordered_queue import OrderedQueue, suspend_ms
from regulus.model.message import MessageExt


def messages(count):
    return [MessageExt("T", b"x", {}, queue_offset=offset) for offset in range(count)]


def test_one_batch_is_current_until_it_is_done():
    queue = OrderedQueue()
    first, second, third = messages(3)
    queue.put([first, second, third])
    assert queue.begin_next(2) == [first, second]
    assert queue.begin_next(2) == []
    queue.done()
    assert queue.begin_next(2) == [third]
    queue.done()
    assert queue.begin_next(2) == []


def test_a_failed_batch_stays_and_counts():
    queue = OrderedQueue()
    queue.put(messages(2))
    batch = queue.begin_next(1)
    queue.failed()
    assert queue.current == batch
    assert batch[0].reconsume_times == 1


def test_a_limit_of_three_allows_four_tries_and_minus_one_any_number():
    queue = OrderedQueue()
    queue.put(messages(1))
    queue.begin_next(1)
    tries = 1
    while not queue.has_had_enough(3):
        queue.failed()
        tries += 1
    assert tries == 4
    assert not queue.has_had_enough(-1)


@pytest.mark.parametrize(("wished", "pause"), [(-1, 1000), (1, 10), (60_000, 30_000), (500, 500)])
def test_rests_are_between_10_ms_and_30_s(wished, pause):
    assert suspend_ms(wished, 1000) == pause
