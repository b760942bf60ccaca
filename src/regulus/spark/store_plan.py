"""Which messages of a store's files a read takes, and how they are divided among tasks.

`plan` runs once and fixes the end of every queue, so that a store that is being written gives each query one answer.
"""

from regulus.errors import OptionError
from regulus.spark import offsets as queue_offsets
from regulus.spark.offsets import Queue
from regulus.spark.options import ReadOptions
from regulus.spark.read_plan import (
    ReadRange,
    Sample,
    UnitRange,
    cut_points,
    partition_count,
    sample_offsets,
    split,
)
from regulus.spark.store_files import ConsumeQueueFiles, StoreFiles

_SAMPLES_MAX = 256


def plan(options: ReadOptions, cores: int) -> list[ReadRange]:
    """What each task reads. Raises OptionError, DataLoss or StoreDamaged."""
    store = StoreFiles(options.store_path)
    queues = _selected_queues(options, store)
    bounds = _bounds(options, store, queues)
    ranges = [UnitRange(topic, queue_id, *bounds[topic, queue_id]) for topic, queue_id in queues]
    ranges = [unit for unit in ranges if unit.start < unit.end]
    files = [queues[unit.topic, unit.queue_id] for unit in ranges]
    samples = _samples(ranges, files)
    least = max(options.partitions_min or 1, -(-ReadRange(tuple(ranges)).rows // options.partition_records_max))
    count = partition_count(sum(sample.weight for sample in samples), options.partition_bytes_max, least, cores)
    cuts = [[file.first_at_or_behind(cut, unit.start, unit.end) for unit, file in zip(ranges, files, strict=True)]
            for cut in cut_points(samples, count)]
    return split(ranges, cuts)


def _selected_queues(options: ReadOptions, store: StoreFiles) -> dict[Queue, ConsumeQueueFiles]:
    selection = options.selection
    queues = {(queue.topic, queue.queue_id): queue for topic in selection.topics_of(store.topics())
              for queue in store.queues(topic) if selection.takes_queue(topic, queue.queue_id)}
    missing = sorted(set(selection.queues) - set(queues))
    if missing:
        there = ", ".join(f"{topic}/{queue_id}" for topic, queue_id in sorted(queues)) or "none of them"
        raise OptionError(f"option 'assign' names {missing[0][0]}/{missing[0][1]}, which the store does not have: "
                          f"it has {there}")
    return queues


def _bounds(options: ReadOptions, store: StoreFiles,
            queues: dict[Queue, ConsumeQueueFiles]) -> dict[Queue, tuple[int, int]]:
    """From where to where each queue is read."""
    starts, ends = options.starting_offsets, options.ending_offsets
    if starts is not None and options.starting_timestamp is None:
        queue_offsets.check_queues(starts, queues, "startingOffsets")
    if ends is not None and options.ending_timestamp is None:
        queue_offsets.check_queues(ends, queues, "endingOffsets")
    bounds = {}
    for queue, files in queues.items():
        low, high = files.bounds(store.log)
        start, end = low, high
        if options.starting_timestamp is not None:
            start = files.first_stored_at_or_after(options.starting_timestamp, low, high, store.log)
        elif starts is not None:
            start = queue_offsets.resolve_start(starts[queue], low, high, queue, options.fail_on_data_loss)
        if options.ending_timestamp is not None:
            end = files.first_stored_at_or_after(options.ending_timestamp, low, high, store.log)
        elif ends is not None:
            end = queue_offsets.resolve_end(ends[queue], low, high, queue, options.fail_on_data_loss)
        bounds[queue] = (start, end)
    return bounds


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
