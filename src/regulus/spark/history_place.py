"""An archive and the brokers that it is of as one place: what the brokers no longer have comes from the archive.

A queue begins where the archive begins, or the broker where that has more, and ends where the broker's does. Of what
both have, the archive's rows are read: what is once archived stays there while the query runs, and retention may take
the broker's copy at any time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from regulus.errors import DataLoss
from regulus.model.message_queue import MessageQueue
from regulus.spark import archive_manifest, archive_plan
from regulus.spark.archive_manifest import Manifest
from regulus.spark.archive_plan import ArchiveRange, FilePart, Wanted
from regulus.spark.live_brokers import LiveBrokers
from regulus.spark.options import OnDataLoss, ReadOptions
from regulus.spark.read_bounds import Part, QueueState, data_loss
from regulus.spark.read_plan import Gap, UnitRange
from regulus.spark.selection import queue_text

_FOREVER = 1 << 52
_STREAM_TASKS_AT_ONCE = 1


class HistoryPlace:
    """Of both options, `archivePath` and `nameServer`. Close it when done."""

    def __init__(self, options: ReadOptions) -> None:
        """Raises OptionError when there is no archive."""
        self._options = options
        self._archive = Path(options.archive_path)
        self._manifests: list[Manifest] = []
        self._archived: dict[MessageQueue, tuple[int, int]] = {}
        self._load()
        self._live = LiveBrokers(options)

    def close(self) -> None:
        self._live.close()

    def queues(self) -> list[MessageQueue]:
        """Those of the brokers: a queue that only the archive has is read from the archive alone, without brokers."""
        return self._live.queues()

    def states(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState]:
        states = self._live.states(queues)
        if any(state.low > self._behind(queue) for queue, state in states.items()):
            # The brokers let go of something since: it may stand in the archive by now.
            self._load()
        for queue, state in states.items():
            first, behind = self._archived.get(queue, (state.low, state.low))
            if behind > state.high:
                raise DataLoss(f"{queue_text(queue)} ends at {state.high}, and the archive has messages up to "
                               f"{behind - 1}: the topic was made anew, or the broker lost its end, or the archive is "
                               "of another broker; read archive and brokers apart")
            states[queue] = state._replace(low=min(first, state.low))
        return states

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        found = self._live.offsets_at(times)
        lows = {queue: state.low for queue, state in self._live.states(list(times)).items()}
        for queue, time in times.items():
            if queue in self._archived and found[queue] <= lows[queue]:
                archived = self._archived_offset_at(queue, time)
                found[queue] = found[queue] if archived is None else archived
        return found

    def group_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        return self._live.group_offsets(queues)

    def store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """For what the brokers have: of a message in the archive alone it is not looked up."""
        return self._live.store_times({queue: offset for queue, offset in offsets.items()
                                       if offset >= self._behind(queue)})

    def record_sizes(self, ranges: Sequence[UnitRange]) -> list[float]:
        """From the manifests where the archive has the range's beginning, else from samples."""
        facts = self._archived_sizes()
        live = [unit for unit in ranges if unit.queue not in facts or unit.start >= self._behind(unit.queue)]
        sampled = dict(zip(live, self._live.record_sizes(live), strict=True)) if live else {}
        return [sampled[unit] if unit in sampled else facts[unit.queue] for unit in ranges]

    def partitions(self, ranges: Sequence[UnitRange], gaps: Sequence[Gap], *,
                   cores: int | None) -> list[Part]:
        archived, live = [], []
        for unit in ranges:
            behind = self._behind(unit.queue)
            if unit.start < behind:
                archived.append(unit._replace(end=min(unit.end, behind)))
            if unit.end > behind:
                live.append(unit._replace(start=max(unit.start, behind)))
        found = [*gaps, *self._lost(archived)]
        return [*self._archive_tasks(archived, cores), *self._live.partitions(live, found, cores=cores)]

    # -----------------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        self._manifests = archive_manifest.load(self._archive)
        self._archived = archive_plan.bounds(self._manifests)

    def _behind(self, queue: MessageQueue) -> int:
        """Up to where the archive has a queue."""
        return self._archived.get(queue, (0, 0))[1]

    def _lost(self, units: Iterable[UnitRange]) -> list[Gap]:
        """What of the units went before it was archived; none when nobody wants to know. Raises DataLoss."""
        if self._options.on_data_loss is OnDataLoss.GO_ON:
            return []
        wanted = {unit.queue: unit for unit in units}
        lost = [gap for gap in archive_plan.never_archived(self._manifests, wanted)
                if wanted[gap.queue].start < gap.end and gap.start < wanted[gap.queue].end]
        if lost and self._options.on_data_loss is OnDataLoss.FAIL:
            raise data_loss(lost[0])
        return lost

    def _archive_tasks(self, units: Sequence[UnitRange], cores: int | None) -> list[ArchiveRange]:
        windows = {unit.queue: Wanted(unit.queue_id, unit.start, unit.end, -_FOREVER, _FOREVER) for unit in units}
        if not windows:
            return []
        return archive_plan.tasks(self._archive, self._manifests, windows, self._options,
                                  cores or _STREAM_TASKS_AT_ONCE)

    def _archived_sizes(self) -> dict[MessageQueue, float]:
        """Bytes in the log of a message of each queue, on average over its topic's files."""
        totals: dict[tuple[str, str], tuple[int, int]] = {}
        for manifest in self._manifests:
            for file in manifest.files:
                key = (file.topic, manifest.range.broker_name)
                size, rows = totals.get(key, (0, 0))
                totals[key] = (size + file.log_bytes, rows + file.rows)
        return {queue: size / rows for queue in self._archived
                for size, rows in [totals.get((queue.topic, queue.broker_name), (0, 0))] if rows}

    def _archived_offset_at(self, queue: MessageQueue, time: int) -> int | None:
        """The first archived message stored at or after a time; None when all are older."""
        from regulus.spark import archive_scan

        read = replace(self._options, tags=None)
        for manifest in self._manifests:
            if manifest.range.broker_name != queue.broker_name:
                continue
            for file in manifest.files:
                facts = file.queues.get(queue.queue_id) if file.topic == queue.topic else None
                if facts is None or facts.time_last < time:
                    continue
                if facts.time_first >= time:
                    return facts.first
                window = Wanted(queue.queue_id, facts.first, facts.next, time, _FOREVER)
                part = FilePart(str(self._archive / file.path), (window,), facts.rows, 1)
                batches = archive_scan.scan(read, ("queue_offset",), ArchiveRange((part,)))
                return min(int(offset) for batch in batches for offset in batch.column(0).to_pylist())
        return None
