"""An archive as a place of queues: what its manifests name, and nothing that is still to be archived."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regulus.errors import DataLoss
from regulus.model.message_queue import MessageQueue
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive import plan as archive_plan
from regulus.spark.archive.manifest import Manifest
from regulus.spark.archive.order import OrderedFiles, Task, in_order
from regulus.spark.archive.plan import FOREVER, ArchiveRange, QueueBounds, Wanted
from regulus.spark.marks import Mark
from regulus.spark.offsets import EARLIEST, LATEST
from regulus.spark.options import NoMatch, OnDataLoss, ReadOptions
from regulus.spark.read_bounds import (
    QueueState,
    Sizes,
    batch_bounds,
    check_match,
    ending_times,
    starting_times,
    to_report,
)
from regulus.spark.read_plan import Gap, UnitRange, divided, in_task_order
from regulus.spark.selection import queue_text


def plan(options: ReadOptions, cores: int) -> list[ArchiveRange]:
    """What each task of a batch read takes. Raises OptionError, DataLoss.

    A time chooses row by row. Of a topic that was deleted and made anew, the earlier ones of its name are read too.
    """
    place = ArchivePlace(options, with_past=True)
    queues = place.queues()
    states = place.states(queues)
    begins, stops = starting_times(options, queues), ending_times(options, queues)
    if begins and options.no_match is NoMatch.ERROR:
        for queue, start in place.offsets_at(begins).items():
            check_match(options, queue, start, states[queue])
    untimed = replace(options, starting_times=None, starting_timestamp=None, ending_times=None, ending_timestamp=None,
                      starting_offsets=EARLIEST if begins else options.starting_offsets,
                      ending_offsets=LATEST if stops else options.ending_offsets)
    ranges, gaps = batch_bounds(untimed, place)
    wanted = {}
    for unit in ranges:
        state = states[unit.queue]
        wanted[unit.queue] = Wanted(unit.queue_id, 0 if unit.start == state.low else unit.start,
                                    FOREVER if unit.end == state.high else unit.end,
                                    begins.get(unit.queue, -FOREVER), stops.get(unit.queue, FOREVER))
    return place.tasks(wanted, gaps, cores)


class ArchivePlace:
    """The archive that the options name. Raises OptionError when there is none.

    A queue that has had no message since its topic was made anew is empty, unless the read is `with_past`.
    """

    def __init__(self, options: ReadOptions, *, with_past: bool = False) -> None:
        self._options = options
        self._with_past = with_past
        self._path = archive_manifest.place(options.archive_path)
        self._manifests: list[Manifest] = []
        self._bounds: dict[MessageQueue, QueueBounds] = {}
        self.look_again()

    def close(self) -> None:
        """Nothing is held."""

    def look_again(self) -> None:
        """A job may have archived more since."""
        self._manifests = archive_manifest.load(self._path, self._manifests)
        self._bounds = {queue: QueueBounds(0, 0, epoch=each.epoch) if each.is_past and not self._with_past else each
                        for queue, each in archive_plan.bounds(self._manifests).items()}

    def queues(self) -> list[MessageQueue]:
        chosen = set(self._options.selection.topics_of({queue.topic for queue in self._bounds}, "the archive"))
        return self._options.selection.queues_of((queue for queue in self._bounds if queue.topic in chosen),
                                                 "the archive")

    def all_queues(self) -> Collection[MessageQueue]:
        """What the archive had of all topics when it was last looked at."""
        return self._bounds.keys()

    def bounds(self, queue: MessageQueue) -> QueueBounds | None:
        """What the archive had of a queue when it was last looked at."""
        return self._bounds.get(queue)

    def states(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState]:
        self.look_again()
        return {queue: QueueState(each.first, each.behind, -1 - each.epoch) for queue in queues
                if (each := self._bounds.get(queue)) is not None}

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        found = {}
        for queue, time in times.items():
            wanted = self._wanted({queue: 0}, end=FOREVER, time_start=time)
            row = next(self._rows(wanted, ("queue_offset",)), None)
            found[queue] = self._bounds[queue].behind if row is None else int(row[0])
        return found

    def group_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Files are read without a group, so the options name none."""
        return dict.fromkeys(queues)

    def marks(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        """All of them in one pass over the manifests, and one over each file that has some."""
        rows = self._rows(self._wanted(offsets), ("topic", "broker_name", "queue_id", "store_time", "message_id",
                                                  "offset_message_id"))
        return {MessageQueue(*row[:3]): Mark(row[3] // 1000, row[4] or row[5]) for row in rows}

    def record_sizes(self, ranges: Sequence[UnitRange]) -> list[float]:
        """Bytes in the log, on average over the files of the topic."""
        totals: dict[tuple[str, str], tuple[int, int]] = {}
        for manifest in self._manifests:
            for file in manifest.files:
                key = (file.topic, manifest.range.broker_name)
                size, rows = totals.get(key, (0, 0))
                totals[key] = (size + file.log_bytes, rows + file.rows)
        found = [totals.get((unit.topic, unit.broker_name), (0, 0)) for unit in ranges]
        return [size / rows if rows else 1.0 for size, rows in found]

    def partitions(self, ranges: Sequence[UnitRange], gaps: Sequence[Gap], *, cores: int | None,
                   sizes: Sizes | None = None) -> Sequence[Task]:
        if not sizes:
            return self.tasks(self._windows(ranges), gaps, cores)
        ordered = in_task_order(ranges)
        parts = divided(ordered, [sizes[unit.queue] for unit in ordered], self._options, cores)
        files, lost = self.in_order(ranges)
        return in_order(parts, lambda queue: FOREVER, files, (), [*gaps, *lost])

    def in_order(self, ranges: Sequence[UnitRange]) -> tuple[OrderedFiles, list[Gap]]:
        """The files of a stream's batch, and what is to be reported of it. Raises DataLoss."""
        wanted = self._windows(ranges)
        manifests = self._manifests if wanted else ()
        return OrderedFiles(archive_plan.parts(self._path, manifests, wanted)), self._lost(wanted)

    def _windows(self, ranges: Sequence[UnitRange]) -> dict[MessageQueue, Wanted]:
        """Raises DataLoss."""
        wanted = {}
        for unit in ranges:
            bounds = self._bounds[unit.queue]
            if bounds.is_mixed:
                raise DataLoss(f"{queue_text(unit.queue)}: the topic was deleted and made anew within one archived "
                               "range, whose messages cannot be told apart: read the archive alone, as a batch, which "
                               "has those of both")
            wanted[unit.queue] = Wanted(unit.queue_id, unit.start, unit.end, log_start=bounds.log_start)
        return wanted

    def tasks(self, wanted: Mapping[MessageQueue, Wanted], gaps: Iterable[Gap],
              cores: int | None) -> list[ArchiveRange]:
        """What each task reads of the wanted rows. Raises DataLoss for what went before it was archived."""
        lost = self._lost(wanted)
        parts = list(archive_plan.parts(self._path, self._manifests if wanted else (), wanted))
        return archive_plan.tasks(parts, [*gaps, *lost], self._options, cores)

    def _lost(self, wanted: Mapping[MessageQueue, Wanted]) -> list[Gap]:
        """What is to be reported. Raises DataLoss."""
        return to_report(list(archive_plan.lost(self._manifests if wanted else (), wanted)), self._options.on_data_loss)

    # -----------------------------------------------------------------------------------------------------------------

    def _wanted(self, offsets: Mapping[MessageQueue, int], *, end: int | None = None,
                time_start: int = -FOREVER) -> dict[MessageQueue, Wanted]:
        """The row at an offset of each queue, or all from there on up to `end`."""
        return {queue: Wanted(queue.queue_id, offset, offset + 1 if end is None else end, time_start,
                              log_start=bounds.log_start)
                for queue, offset in offsets.items() if (bounds := self._bounds.get(queue)) is not None}

    def _rows(self, wanted: Mapping[MessageQueue, Wanted], columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        """The wanted rows in the order of the log, times in microseconds."""
        import pyarrow as pa

        from regulus.spark.archive import scan as archive_scan

        # A gap is not a row with a time; it is reported when the messages are read.
        goes_on = OnDataLoss.FAIL if self._options.fail_on_data_loss else OnDataLoss.GO_ON
        read = replace(self._options, tags=None, verify_bodies=False, on_data_loss=goes_on)
        for part in archive_plan.parts(self._path, self._manifests, wanted):
            for batch in archive_scan.scan(read, columns, ArchiveRange((part,))):
                yield from zip(*((column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
                                 for column in batch.columns), strict=True)
