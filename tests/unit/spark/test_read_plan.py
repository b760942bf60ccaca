import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regulus.model.message_queue import MessageQueue
from regulus.spark.read_plan import (
    Gap,
    ReadRange,
    Sample,
    UnitRange,
    cut_points,
    partition_count,
    sample_offsets,
    split,
    split_evenly,
)

MB = 1 << 20


@pytest.mark.parametrize(("size", "least", "cores", "count"), [
    (0, 1, 8, 1), (15 * MB, 1, 8, 1), (16 * MB, 1, 8, 8), (1182 * MB, 1, 2, 6), (256 * MB, 1, 1, 1),
    (15 * MB, 3, 8, 3), (1024 * MB, 3, 2, 4), (1024 * MB, 5, 2, 6),
])
def test_partition_count(size, least, cores, count):
    assert partition_count(size, 256 * MB, least, cores) == count


def test_cuts_divide_the_weight_evenly():
    samples = [Sample(offset, offset + 10, 10) for offset in range(0, 1000, 10)]
    assert cut_points(samples, 4) == [250, 500, 750]


def test_cuts_fall_between_samples_that_lie_together():
    samples = [Sample(start + queue, start + queue + 500, 500) for start in (0, 500) for queue in range(8)]
    parts = np.diff([0, *cut_points(samples, 20), 1000])
    assert len(parts) == 20
    assert parts.min() >= 45
    assert parts.max() <= 56


def test_stretches_without_messages_are_not_cut():
    assert cut_points([Sample(0, 10, 10), Sample(10**6, 10**6 + 10, 10)], 4) == [5, 10, 10**6 + 5]


def test_one_part_has_no_cut():
    assert cut_points([Sample(0, 10, 10), Sample(10, 20, 10)], 1) == []


@settings(deadline=None)
@given(st.lists(st.builds(lambda start, size, weight: Sample(start, start + size, weight), st.integers(0, 10**6),
                          st.integers(1, 10**5), st.integers(1, 10**4)), max_size=50), st.integers(1, 20))
def test_cuts_ascend_and_are_too_few_rather_than_too_many(samples, count):
    cuts = cut_points(samples, count)
    assert cuts == sorted(set(cuts))
    assert len(cuts) < count


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(1, 50))
def test_samples_lie_in_the_range_and_begin_it(start, size, count):
    offsets = sample_offsets(start, start + size, count)
    assert offsets[0] == start
    assert offsets == sorted(set(offsets))
    assert offsets[-1] < start + size
    assert len(offsets) <= count


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 100)), min_size=1, max_size=5), st.data())
def test_every_message_is_in_exactly_one_part(queues, data):
    ranges = [UnitRange("t", number, start, start + size) for number, (start, size) in enumerate(queues)]
    cuts = []
    lowest = [unit.start for unit in ranges]
    for _ in range(data.draw(st.integers(0, 4))):
        lowest = [data.draw(st.integers(low, unit.end)) for low, unit in zip(lowest, ranges, strict=True)]
        cuts.append(lowest)
    parts = split(ranges, cuts)
    seen = [(unit.queue_id, offset) for part in parts for unit in part.units for offset in range(unit.start, unit.end)]
    assert sorted(seen) == sorted((unit.queue_id, offset) for unit in ranges for offset in range(unit.start, unit.end))
    assert all(part.rows > 0 for part in parts)


def test_rows():
    assert ReadRange((UnitRange("t", 0, 5, 8), UnitRange("t", 1, 0, 1))).rows == 4


def units_of(parts):
    return [[tuple(unit)[1:4] for unit in part.units] for part in parts]


def test_messages_are_divided_by_their_bytes():
    ranges = [UnitRange("t", 0, 0, 100), UnitRange("t", 1, 0, 100)]
    assert units_of(split_evenly(ranges, [30.0, 10.0], 2, 1000)) == [[(0, 0, 67)], [(0, 67, 100), (1, 0, 100)]]
    assert units_of(split_evenly(ranges, [10.0, 10.0], 1, 1000)) == [[(0, 0, 100), (1, 0, 100)]]


def test_no_partition_has_more_messages_than_allowed():
    ranges = [UnitRange("t", 0, 5, 25), UnitRange("t", 1, 0, 10)]
    parts = split_evenly(ranges, [1.0, 1000.0], 2, 8)
    assert max(part.rows for part in parts) == 8
    assert sum(part.rows for part in parts) == 30


def test_a_message_greater_than_a_share_gets_a_partition_of_its_own():
    assert units_of(split_evenly([UnitRange("t", 0, 0, 3)], [7.0], 10, 1000)) == [[(0, 0, 1)], [(0, 1, 2)], [(0, 2, 3)]]
    assert split_evenly([], [], 3, 10) == []


def test_a_gap_says_which_messages_and_why():
    queue = MessageQueue("t", "b", 0)
    assert str(Gap(queue, 3, 4, "so")) == "t/b/0: message 3 is gone, so"
    assert str(Gap(queue, 3, 9, "so")) == "t/b/0: messages 3 to 8 are gone, so"
