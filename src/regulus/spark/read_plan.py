"""Splits a read among tasks, by arithmetic over queues, offsets and bytes. Pure.

A partition is a range of the commit log, not a range of one queue: its task walks the log forwards, for any number of
queues, so that a disk reads once and in order. The consume queues say which records of its range the task takes, so a
message is read exactly when a consumer could see it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from regulus.model.message_queue import MessageQueue

if TYPE_CHECKING:
    from regulus.spark.options import ReadOptions

SMALL_READ_BYTES = 16 << 20
"""Bytes of a read below which a second task costs more time than it saves."""

STREAM_PARTITION_BYTES = 64 << 20
"""Bytes of a stream's partition, at most, so that there is work for all cores, whose number does not count here."""

GAP = "gap"
"""The message_type of a row that reports messages that are gone."""

CREATED_AGAIN = ("because the topic was deleted and created again, or its log was cut, after the read was planned: "
                 "other messages have their numbers now")
"""The cause of a gap that a task finds in place of the messages that it was to read."""

GAP_END = "GAP_END"
GAP_CAUSE = "GAP_CAUSE"
"""Properties of such a row."""


class Anchor(NamedTuple):
    """A message of a queue, by which a task recognizes the queue: its number, and its place in the log."""

    queue_offset: int
    physical_offset: int


class UnitRange(NamedTuple):
    """Messages [start, end) of one queue. A store's files are of one broker, whose name is not in them.

    A topic may be deleted and created again after the plan, and its queue then has other messages under these numbers.
    So a task compares the epoch of the topic (see read_bounds.QueueState), and in a store's files also the place of a
    message in the log, because RocketMQ keeps no epochs.
    """

    topic: str
    queue_id: int
    start: int
    end: int
    broker_name: str = ""
    topic_epoch: int = 0
    anchor: Anchor | None = None

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


def is_another_topic(known: int, found: int) -> bool:
    """Whether two epochs belong to different topics of one name. A place without epochs does not show it, and epochs of
    brokers and of archives (read_bounds.QueueState) cannot be compared."""
    return known * found > 0 and known != found


class Gap(NamedTuple):
    """Messages [start, end) of a queue that are gone."""

    queue: MessageQueue
    start: int
    end: int
    cause: str

    def __str__(self) -> str:
        """The text for errors."""
        one = f"message {self.start} is" if self.end == self.start + 1 else \
            f"messages {self.start} to {self.end - 1} are"
        return f"{self.queue.topic}/{self.queue.broker_name}/{self.queue.queue_id}: {one} gone, {self.cause}"


class Missing(NamedTuple):
    """Messages [first, next) of a queue that cannot be read, and how they are known. If not `is_loss`, a start of the
    broker may repair them."""

    first: int
    next: int
    cause: str
    is_loss: bool


class Sample(NamedTuple):
    """A stretch [physical_offset, behind) of the log, and the bytes of one queue's records within it."""

    physical_offset: int
    behind: int
    weight: int


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What one task reads: all records of `units`. It also reports `gaps`, which planning has found."""

    units: tuple[UnitRange, ...]
    gaps: tuple[Gap, ...] = ()

    @property
    def rows(self) -> int:
        return sum(unit.end - unit.start for unit in self.units)


def task_bytes_max(options: "ReadOptions", cores: int | None) -> int:
    """The bytes that one task reads at most; `cores` is None for a stream."""
    return options.partition_bytes_max if cores else min(options.partition_bytes_max, STREAM_PARTITION_BYTES)


def partition_count(bytes_total: int, partition_bytes_max: int, partitions_min: int, cores: int) -> int:
    """The number of tasks; a multiple of `cores` for a large read, so that no core is idle during the last tasks."""
    count = max(partitions_min, -(-bytes_total // partition_bytes_max))
    return count if bytes_total < SMALL_READ_BYTES else -(-count // cores) * cores


def in_task_order(ranges: Iterable[UnitRange]) -> list[UnitRange]:
    """The ranges in an order in which a task has one broker and one topic, as far as possible."""
    return sorted(ranges, key=lambda unit: (unit.broker_name, unit.topic, unit.queue_id, unit.start))


def divided(ranges: Sequence[UnitRange], record_sizes: Sequence[float], options: "ReadOptions",
            cores: int | None) -> list[ReadRange]:
    """What each task reads, divided by offsets alone; `record_sizes` has the bytes of a message of each range."""
    weight = sum((unit.end - unit.start) * size for unit, size in zip(ranges, record_sizes, strict=True))
    count = partition_count(round(weight), task_bytes_max(options, cores), options.partitions_min or 1, cores or 1)
    return split_evenly(ranges, record_sizes, count, options.partition_records_max)


def cut_points(samples: Sequence[Sample], count: int) -> list[int]:
    """The physical offsets, ascending, at which the log is cut into at most `count` ranges of about equal weight.

    A sample's weight is spread evenly over its stretch, so that a cut may be between samples, too, because queues that
    are written in turn have their samples at the same few places of the log.
    """
    changes: dict[int, float] = {}
    for start, behind, weight in samples:
        density = weight / (behind - start)
        changes[start] = changes.get(start, 0.0) + density
        changes[behind] = changes.get(behind, 0.0) - density
    part = sum(sample.weight for sample in samples) / count
    cuts: list[int] = []
    passed = density = 0.0
    before = 0
    for place in sorted(changes):
        gained = density * (place - before)
        while len(cuts) < count - 1 and (wanted := part * (len(cuts) + 1) - passed) <= gained:
            # Rounding of sums may put a cut slightly before or after the stretch, so it is limited to the stretch.
            ahead = min(max(wanted / gained, 0.0), 1.0) if gained > 0 else 0.0
            cuts.append(before + round((place - before) * ahead))
        passed += gained
        density += changes[place]
        before = place
    return sorted(set(cuts))


def sample_offsets(start: int, end: int, samples_max: int) -> list[int]:
    """At most `samples_max` queue offsets, evenly spaced over [start, end)."""
    count = min(samples_max, end - start)
    return [start + (end - start) * number // count for number in range(count)]


def split(ranges: Sequence[UnitRange], cut_units: Sequence[Sequence[int]]) -> list[ReadRange]:
    """The parts between cuts. `cut_units[k]` has the first queue offset after cut k for each of `ranges`.

    Empty ranges are left out.
    """
    partitions = []
    starts = [unit.start for unit in ranges]
    for ends in [*cut_units, [unit.end for unit in ranges]]:
        units = tuple(unit._replace(broker_name="", start=start, end=end)
                      for unit, start, end in zip(ranges, starts, ends, strict=True) if start < end)
        if units:
            partitions.append(ReadRange(units))
        starts = [max(start, end) for start, end in zip(starts, ends, strict=True)]
    return partitions


def split_evenly(ranges: Sequence[UnitRange], record_sizes: Sequence[float], count: int,
                 records_max: int) -> list[ReadRange]:
    """About `count` partitions of about equal bytes, none with more than `records_max` messages, in the order of
    `ranges`. `record_sizes` has the bytes of a message of each range, on average."""
    target = sum((unit.end - unit.start) * size for unit, size in zip(ranges, record_sizes, strict=True)) / count
    partitions: list[ReadRange] = []
    taken: list[UnitRange] = []
    records, weight = 0, 0.0
    for unit, size in zip(ranges, record_sizes, strict=True):
        start = unit.start
        while start < unit.end:
            room = min(records_max - records, max(1, ceil((target - weight) / size)))
            stop = min(unit.end, start + room)
            taken.append(unit._replace(start=start, end=stop))
            records, weight, start = records + stop - start, weight + (stop - start) * size, stop
            if weight >= target or records >= records_max:
                partitions.append(ReadRange(tuple(taken)))
                taken, records, weight = [], 0, 0.0
    return [*partitions, ReadRange(tuple(taken))] if taken else partitions


def first_at_or_behind(physical_offsets: Sequence[int], cut: int, low: int, high: int) -> int:
    """The first of [low, high) whose record is at or after `cut`; `high` when there is none."""
    return bisect_left(physical_offsets, cut, low, high)
