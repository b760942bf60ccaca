from hypothesis import given
from hypothesis import strategies as st

from regulus.model.message_queue import MessageQueue
from regulus.spark.readers.admission import Waiting, admit

Q0, Q1, Q2 = (MessageQueue("t", "b", number) for number in range(3))

waitings = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 500), st.floats(1, 5000)), min_size=1, max_size=5)


def test_all_that_fits_is_read():
    waiting = {Q0: Waiting(5, 10, 100.0), Q1: Waiting(0, 0, 1.0)}
    assert admit(waiting, 5, 500) == {Q0: 10, Q1: 0}


def test_each_queue_gets_its_share_of_the_messages():
    assert admit({Q0: Waiting(0, 900, 1.0), Q1: Waiting(10, 110, 1.0)}, 100, 1 << 30) == {Q0: 90, Q1: 20}


def test_bytes_bound_a_batch_as_well():
    assert admit({Q0: Waiting(0, 100, 1000.0), Q1: Waiting(0, 100, 1000.0)}, 150, 100_000) == {Q0: 50, Q1: 50}


def test_a_message_greater_than_the_limit_is_read_alone():
    assert sum(admit({Q0: Waiting(0, 5, 1e9), Q1: Waiting(0, 5, 1e9)}, 100, 1000).values()) == 1


def test_a_queue_with_little_does_not_wait_for_one_with_much():
    assert admit({Q0: Waiting(0, 100_000, 1.0), Q1: Waiting(0, 2, 1.0)}, 100, 1 << 30) == {Q0: 99, Q1: 1}


def test_the_last_place_goes_round():
    starts, taken = {Q0: 0, Q1: 0, Q2: 0}, []
    for _ in range(3):
        ends = admit({queue: Waiting(start, start + 100, 1.0) for queue, start in starts.items()}, 1, 1 << 30)
        taken.append(next(queue for queue in starts if ends[queue] > starts[queue]))
        starts = ends
    assert sorted(taken) == [Q0, Q1, Q2]


@given(waitings, st.integers(1, 400), st.integers(1, 300_000))
def test_limits_hold_and_something_is_always_read(sizes, records_max, bytes_max):
    waiting = {MessageQueue("t", "b", number): Waiting(start, start + count, size)
               for number, (start, count, size) in enumerate(sizes)}
    ends = admit(waiting, records_max, bytes_max)
    taken = {queue: ends[queue] - each.start for queue, each in waiting.items()}
    records = sum(taken.values())
    assert all(0 <= taken[queue] <= each.end - each.start for queue, each in waiting.items())
    assert records <= records_max
    assert (records > 0) == any(each.end > each.start for each in waiting.values())
    size = sum(taken[queue] * each.record_size for queue, each in waiting.items())
    assert records == 1 or size <= bytes_max + 1e-6
