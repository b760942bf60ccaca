"""Which messages of a store's files a read takes, and how they are divided among tasks.

`plan` runs once and fixes the end of every queue, so that a store that is being written gives each query one answer.
"""

from collections.abc import Iterable

from regulus.errors import OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark import offsets as queue_offsets
from regulus.spark.offsets import EARLIEST, LATEST, QueueOffsets
from regulus.spark.options import NoMatch, ReadOptions
from regulus.spark.read_plan import (
    ReadRange,
    Sample,
    UnitRange,
    cut_points,
    partition_count,
    sample_offsets,
    split,
)
from regulus.spark.selection import queue_text
from regulus.spark.store_files import ConsumeQueueFiles, StoreFiles

_SAMPLES_MAX = 256


def plan(options: ReadOptions, cores: int) -> list[ReadRange]:
    """What each task reads. Raises OptionError, DataLoss or StoreDamaged."""
    store = StoreFiles(options.store_path)
    queues = _selected_queues(options, store)
    bounds = _bounds(options, store, queues)
    ranges = [UnitRange(queue.topic, queue.queue_id, *bounds[queue]) for queue in queues]
    ranges = [unit for unit in ranges if unit.start < unit.end]
    files = [queues[MessageQueue(unit.topic, options.broker_name, unit.queue_id)] for unit in ranges]
    samples = _samples(ranges, files)
    least = max(options.partitions_min or 1, -(-ReadRange(tuple(ranges)).rows // options.partition_records_max))
    count = partition_count(sum(sample.weight for sample in samples), options.partition_bytes_max, least, cores)
    cuts = [[file.first_at_or_behind(cut, unit.start, unit.end) for unit, file in zip(ranges, files, strict=True)]
            for cut in cut_points(samples, count)]
    return split(ranges, cuts)


def _selected_queues(options: ReadOptions, store: StoreFiles) -> dict[MessageQueue, ConsumeQueueFiles]:
    files = {MessageQueue(topic, options.broker_name, queue.queue_id): queue
             for topic in options.selection.topics_of(store.topics()) for queue in store.queues(topic)}
    return {queue: files[queue] for queue in options.selection.queues_of(files)}


def _bounds(options: ReadOptions, store: StoreFiles,
            queues: dict[MessageQueue, ConsumeQueueFiles]) -> dict[MessageQueue, tuple[int, int]]:
    """From where to where each queue is read."""
    starts = _of_each(options.starting_offsets, EARLIEST, queues, "startingOffsets",
                      is_used=options.starting_timestamp is None and options.starting_times is None)
    ends = _of_each(options.ending_offsets, LATEST, queues, "endingOffsets",
                    is_used=options.ending_timestamp is None and options.ending_times is None)
    start_times = _times(options.starting_times, options.starting_timestamp, queues, "startingOffsetsByTimestamp")
    end_times = _times(options.ending_times, options.ending_timestamp, queues, "endingOffsetsByTimestamp")
    bounds = {}
    for queue, files in queues.items():
        low, high = files.bounds(store.log)
        start = queue_offsets.resolve_start(starts[queue], low, high, queue, options.fail_on_data_loss)
        end = queue_offsets.resolve_end(ends[queue], low, high, queue, options.fail_on_data_loss)
        if queue in start_times:
            start = files.first_stored_at_or_after(start_times[queue], low, high, store.log)
            check_match(options, queue, start, high)
        if queue in end_times:
            end = files.first_stored_at_or_after(end_times[queue], low, high, store.log)
        bounds[queue] = (start, end)
    return bounds


def check_match(options: ReadOptions, queue: MessageQueue, start: int, high: int) -> None:
    """Raises OptionError for a start by time that no message of the queue reaches, unless that may be."""
    if start == high and options.no_match is NoMatch.ERROR:
        raise OptionError(f"{queue_text(queue)} has no message stored at or after its starting time; set "
                          "startingOffsetsByTimestampStrategy to latest to read nothing of it")


def _of_each(offsets: QueueOffsets | int, default: int, queues: Iterable[MessageQueue], option: str, *,
             is_used: bool) -> QueueOffsets:
    if isinstance(offsets, int):
        return dict.fromkeys(queues, offsets)
    if not is_used:
        return dict.fromkeys(queues, default)
    placed = queue_offsets.at_brokers(offsets, queues, option)
    queue_offsets.check_queues(placed, queues, option)
    return placed


def _times(times: QueueOffsets | None, time: int | None, queues: Iterable[MessageQueue], option: str) -> QueueOffsets:
    """The time for each queue that has one."""
    of_all = {} if time is None else dict.fromkeys(queues, time)
    if times is None:
        return of_all
    placed = queue_offsets.at_brokers(times, queues, option)
    queue_offsets.check_queues(placed, queues, option)
    return placed


def _samples(ranges: list[UnitRange], files: list[ConsumeQueueFiles]) -> list[Sample]:
    """Units here and there; each stands for the records up to the next one."""
    samples = []
    per_queue = max(8, _SAMPLES_MAX // max(1, len(ranges)))
    for unit_range, file in zip(ranges, files, strict=True):
        chosen = sample_offsets(unit_range.start, unit_range.end, per_queue)
        for offset, behind in zip(chosen, [*chosen[1:], unit_range.end], strict=True):
            unit = file.unit(offset)
            samples.append(Sample(unit.physical_offset, unit.size * (behind - offset)))
    return samples
