"""The files of a store as a place of queues, and the division of a read among tasks.

A read is planned once, which fixes the end of every queue, so that each query has one answer although a broker may be
writing to the store.
"""

import logging
from collections.abc import Mapping, Sequence

from regulus.model.message_queue import MessageQueue
from regulus.spark.marks import Mark
from regulus.spark.options import ReadOptions
from regulus.spark.read_bounds import QueueState, Sizes, batch_bounds
from regulus.spark.read_plan import (
    Anchor,
    Gap,
    Missing,
    ReadRange,
    Sample,
    UnitRange,
    cut_points,
    partition_count,
    sample_offsets,
    split,
    task_bytes_max,
)
from regulus.spark.selection import queue_text
from regulus.spark.store.ends import Left, StoreEnds, left
from regulus.spark.store.files import ConsumeQueueFiles, StoreFiles

_SAMPLES_MAX = 256

_log = logging.getLogger(__name__)


def plan(options: ReadOptions, cores: int) -> list[ReadRange]:
    """What each task of a batch read takes. Raises OptionError, DataLoss or StoreDamaged."""
    place = StorePlace(options)
    ranges, gaps = batch_bounds(options, place)
    return place.partitions(ranges, gaps, cores=cores)


class StorePlace:
    """The store that the options name. Raises OptionError when there is none."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._store = StoreFiles(options.store_path)
        self._ends: StoreEnds | None = None
        self._ends_of: tuple[object, ...] = ()
        self._told: set[str] = set()

    def close(self) -> None:
        """Nothing to do: the garbage collector unmaps the files."""

    def queues(self) -> list[MessageQueue]:
        selection, name = self._options.selection, self._options.broker_name
        return selection.queues_of(MessageQueue(topic, name, queue_id)
                                   for topic in selection.topics_of(self._store.topics())
                                   for queue_id in self._queue_ids(topic))

    def _queue_ids(self, topic: str) -> set[int]:
        """The topic's queues, including those whose files are gone but which other files of the store know."""
        there = {queue.queue_id for queue in self._store.queues(topic)}
        ends = self._compared()
        return there | {queue_id for queue_id in ends.queue_ids(topic) - there
                        if (lost := ends.missing(self._store.queue(topic, queue_id))) is not None and lost.is_loss}

    def states(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState]:
        # Look at the directory again, because a running broker adds and removes files.
        self._store = StoreFiles(self._options.store_path)
        epochs = self._store.topic_epochs()
        ends = self._compared()
        states = {}
        for queue in queues:
            files = self._files(queue)
            states[queue] = QueueState(*files.bounds(self._store.log), epochs.get(queue.topic, 0),
                                       self._lost(queue, ends, ends.missing(files)),
                                       self._lost(queue, ends, ends.missing_before(files)))
        if (doubt := ends.doubt()) and not any(state.missing for state in states.values()):
            self._tell(doubt)
        return states

    def _lost(self, queue: MessageQueue, ends: StoreEnds, missing: Missing | None) -> Missing | None:
        """What is missing, if it is a loss; anything else missing is only logged as a warning."""
        if missing is None or missing.is_loss:
            return missing
        may_be = ("they may be of a former topic of that name" if ends.left is Left.CLOSED else
                  "the store was not closed by its broker, whose start may repair that")
        self._tell(f"{queue_text(queue)}: messages {missing.first} to {missing.next - 1} cannot be read, "
                   f"because {missing.cause}; {may_be}")
        return None

    def _compared(self) -> StoreEnds:
        """The comparison of the store's files, made again when they have changed."""
        found = _signature(self._store)
        if self._ends is None or self._ends_of != found:
            self._ends, self._ends_of = StoreEnds(self._store), found
        return self._ends

    def _tell(self, text: str) -> None:
        """Log the text as a warning of the driver, once."""
        if text not in self._told:
            self._told.add(text)
            _log.warning("%s", text)

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        found = {}
        for queue, time in times.items():
            files = self._files(queue)
            found[queue] = files.first_stored_at_or_after(time, *files.bounds(self._store.log), self._store.log)
        return found

    def group_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """None for each queue: files are read without a group."""
        return dict.fromkeys(queues)

    def marks(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        found = {}
        for queue, offset in offsets.items():
            files = self._files(queue)
            low, high = files.bounds(self._store.log)
            if low <= offset < high and (mark := self._store.log.mark(files.unit(offset).physical_offset)) is not None:
                found[queue] = mark
        return found

    def record_sizes(self, ranges: Sequence[UnitRange]) -> list[float]:
        averages = []
        for unit, samples in zip(ranges, self._samples(ranges), strict=True):
            averages.append(max(1.0, sum(sample.weight for sample in samples) / (unit.end - unit.start)))
        return averages

    def partitions(self, ranges: Sequence[UnitRange], gaps: Sequence[Gap], *, cores: int | None,
                   sizes: Sizes | None = None) -> list[ReadRange]:
        """The division goes by places in the log, which do not change, so `sizes` are not needed."""
        options = self._options
        files = [self._files(unit.queue) for unit in ranges]
        samples = [sample for of_range in self._samples(ranges) for sample in of_range]
        least = max(options.partitions_min or 1, -(-ReadRange(tuple(ranges)).rows // options.partition_records_max))
        count = partition_count(sum(sample.weight for sample in samples), task_bytes_max(options, cores), least,
                                cores or 1)
        cuts = [[file.first_at_or_behind(cut, unit.start, unit.end) for unit, file in zip(ranges, files, strict=True)]
                for cut in cut_points(samples, count)]
        parts = split([self._anchored(unit) for unit in ranges], cuts)
        if gaps:
            parts[:1] = [ReadRange(parts[0].units if parts else (), tuple(gaps))]
        return parts

    # -----------------------------------------------------------------------------------------------------------------

    def _anchored(self, unit: UnitRange) -> UnitRange:
        """The range, with the first of its messages that has a unit."""
        files = self._files(unit.queue)
        held = files.spans(unit.start, unit.end)
        if not held:
            return unit
        return unit._replace(anchor=Anchor(held[0][0], files.unit(held[0][0]).physical_offset))

    def _files(self, queue: MessageQueue) -> ConsumeQueueFiles:
        return self._store.queue(queue.topic, queue.queue_id)

    def _samples(self, ranges: Sequence[UnitRange]) -> list[list[Sample]]:
        """For each range, units at intervals; each represents the records up to the next one."""
        per_queue = max(8, _SAMPLES_MAX // max(1, len(ranges)))
        samples = []
        for unit_range in ranges:
            samples.append(self._samples_of(unit_range, per_queue))
        return samples

    def _samples_of(self, unit_range: UnitRange, count: int) -> list[Sample]:
        """Samples of one range; empty when no file has its units."""
        file = self._files(unit_range.queue)
        held = file.spans(unit_range.start, unit_range.end)
        chosen = [offset for offset in sample_offsets(unit_range.start, unit_range.end, count)
                  if any(start <= offset < end for start, end in held)]
        if not chosen:
            return []
        units = [file.unit(offset) for offset in chosen]
        last = file.unit(held[-1][1] - 1)
        places = [*(unit.physical_offset for unit in units), last.physical_offset + last.size]
        return [Sample(unit.physical_offset, max(unit.physical_offset + 1, place), unit.size * (behind - offset))
                for unit, place, offset, behind in zip(units, places[1:], chosen, [*chosen[1:], unit_range.end],
                                                       strict=True)]


def _signature(store: StoreFiles) -> tuple[object, ...]:
    """A value that changes when the files that `StoreEnds` compares may have changed, except by a running broker."""
    how = left(store)
    last = store.log.pieces[-1] if store.log.pieces else None
    if how is not Left.CLOSED or last is None:
        return how, last
    return how, last, last.path.stat().st_mtime_ns if last.path.exists() else 0
