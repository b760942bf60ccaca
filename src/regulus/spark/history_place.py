"""An archive and the brokers that it is of as one place: what the brokers no longer have comes from the archive.

A queue begins where the archive begins, or the broker where that has more, and ends where the broker's does. Of what
both have, the archive's rows are read: what is once archived stays there while the query runs, and retention may take
the broker's copy at any time.
"""

from collections.abc import Mapping, Sequence

from regulus.errors import DataLoss
from regulus.model.message_queue import MessageQueue
from regulus.spark.archive_place import ArchivePlace
from regulus.spark.live_brokers import LiveBrokers
from regulus.spark.options import ReadOptions
from regulus.spark.read_bounds import Part, QueueState
from regulus.spark.read_plan import Gap, UnitRange
from regulus.spark.selection import queue_text


class HistoryPlace:
    """Of both options, `archivePath` and `nameServer`. Close it when done."""

    def __init__(self, options: ReadOptions) -> None:
        """Raises OptionError when there is no archive."""
        self._archive = ArchivePlace(options)
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
            self._archive.look_again()
        for queue, state in states.items():
            archived = self._archive.bounds(queue)
            if archived is None:
                continue
            if archived.behind > state.high:
                raise DataLoss(f"{queue_text(queue)} ends at {state.high}, and the archive has messages up to "
                               f"{archived.behind - 1}: the topic was made anew, or the broker lost its end, or the "
                               "archive is of another broker; read archive and brokers apart")
            states[queue] = state._replace(low=min(archived.first, state.low))
        return states

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        found = self._live.offsets_at(times)
        lows = {queue: state.low for queue, state in self._live.states(list(times)).items()}
        early = {queue: time for queue, time in times.items()
                 if self._archive.bounds(queue) is not None and found[queue] <= lows[queue]}
        for queue, offset in self._archive.offsets_at(early).items():
            if offset < self._behind(queue):
                found[queue] = offset
        return found

    def group_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        return self._live.group_offsets(queues)

    def store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        archived = {queue: offset for queue, offset in offsets.items() if offset < self._behind(queue)}
        live = {queue: offset for queue, offset in offsets.items() if queue not in archived}
        return {**self._live.store_times(live), **self._archive.store_times(archived)}

    def record_sizes(self, ranges: Sequence[UnitRange]) -> list[float]:
        """From the manifests where the archive has the range's beginning, else from samples."""
        archived = [unit for unit in ranges if unit.start < self._behind(unit.queue)]
        live = [unit for unit in ranges if unit.start >= self._behind(unit.queue)]
        sizes = dict(zip(archived, self._archive.record_sizes(archived), strict=True))
        sizes |= zip(live, self._live.record_sizes(live), strict=True) if live else ()
        return [sizes[unit] for unit in ranges]

    def partitions(self, ranges: Sequence[UnitRange], gaps: Sequence[Gap], *,
                   cores: int | None) -> list[Part]:
        archived, live = [], []
        for unit in ranges:
            behind = self._behind(unit.queue)
            if unit.start < behind:
                archived.append(unit._replace(end=min(unit.end, behind)))
            if unit.end > behind:
                live.append(unit._replace(start=max(unit.start, behind)))
        return [*self._archive.partitions(archived, gaps, cores=cores),
                *(self._live.partitions(live, (), cores=cores) if live else ())]

    def _behind(self, queue: MessageQueue) -> int:
        """Up to where the archive has a queue."""
        archived = self._archive.bounds(queue)
        return 0 if archived is None else archived.behind
