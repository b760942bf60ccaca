"""An archive and the brokers that it is of as one place: what the brokers no longer have comes from the archive.

A queue begins where the archive begins, or the broker where that has more, and ends where the broker's does. Of what
both have, the archive's rows are read: what is once archived stays there while the query runs, and retention may take
the broker's copy at any time.

A queue that only the archive has ends where the archive does. Its topic was deleted, or has fewer queues than it had,
and all that can still be read of it is archived. Where its whole broker is away, nobody knows what else that had.
"""

from collections.abc import Iterable, Mapping, Sequence

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.archive.order import in_order
from regulus.spark.archive.place import ArchivePlace
from regulus.spark.live.brokers import LiveBrokers
from regulus.spark.marks import Mark
from regulus.spark.options import ReadOptions
from regulus.spark.read_bounds import Part, QueueState, Sizes, to_report
from regulus.spark.read_plan import Gap, UnitRange, divided, in_task_order
from regulus.spark.selection import queue_text

_BOTH = "the cluster with its archive"


class HistoryPlace:
    """For reads with both options, `archivePath` and `nameServer`. Close it when done."""

    def __init__(self, options: ReadOptions) -> None:
        """Raises OptionError when there is no archive."""
        self._options = options
        self._archive = ArchivePlace(options)
        self._live = _Brokers(options)
        self._epochs = TopicEpochs()
        self._alone: set[MessageQueue] = set()
        """Queues that only the archive has."""
        self._served: set[tuple[str, str]] = set()
        """Topics that a broker has, with its name."""
        self._seen: dict[MessageQueue, int] = {}
        """Queues that were there, how far they were planned, and of a read that is to fail how far brokers had them."""
        self._topics_seen: set[str] = set()
        """Topics that some broker had."""

    def close(self) -> None:
        self._live.close()

    # --- which queues ------------------------------------------------------------------------------------------------

    def queues(self) -> list[MessageQueue]:
        """Those that brokers or the archive have. Raises OptionError, and DataLoss for one whose broker is away when
        that is to fail."""
        selection = self._options.selection
        there = set(self._live.queues_there())
        topics = {queue.topic for queue in there}
        if vanished := sorted((self._topics_seen & selection.named_topics) - topics):
            raise OptionError(f"no broker knows topic {', '.join(map(repr, vanished))} any more")
        topics |= {queue.topic for queue in self._archive.all_queues()}
        if selection.named_topics - topics:
            topics |= self._live.topics()
        chosen = set(selection.topics_of(topics, _BOTH))
        either = there.union(queue for queue in self._archive.all_queues() if queue.topic in chosen)
        queues = selection.queues_of(either, _BOTH)
        self._alone = self._read_alone([queue for queue in queues if queue not in there])
        self._served = {(queue.topic, queue.broker_name) for queue in there}
        return [queue for queue in queues if queue in there or queue in self._alone]

    def _read_alone(self, queues: Sequence[MessageQueue]) -> set[MessageQueue]:
        """Of queues that only the archive has, those to read from it: a stream that was further in one waits for the
        broker, or for the archive. Raises DataLoss when the broker is away and that is to fail."""
        if not queues:
            return set()
        self._archive.look_again()
        brokers = self._live.broker_names()
        alone = set()
        for queue in queues:
            behind = self._behind(queue)
            if queue.broker_name not in brokers and self._options.fail_on_data_loss:
                if queue in self._seen:
                    # It may be no more than a restart.
                    continue
                raise DataLoss(f"{queue_text(queue)} is in the archive, and broker {queue.broker_name} is not in the "
                               f"cluster: what it had behind message {behind - 1} cannot be read; start the broker, or "
                               "read the archive alone, or set failOnDataLoss to false or report to read what is "
                               "archived of it")
            if self._seen.get(queue, 0) <= behind:
                alone.add(queue)
                self._seen.setdefault(queue, 0)
        return alone

    def _live_of(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        return [queue for queue in queues if queue not in self._alone]

    # --- from where to where -----------------------------------------------------------------------------------------

    def states(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState]:
        there = self._live_of(queues)
        states = self._live.states(there)
        if len(there) < len(queues) or any(self._is_odd(queue, state) for queue, state in states.items()):
            # The brokers let go of something since, or a topic was made anew: the archive may have it by now.
            self._archive.look_again()
        if any(self._behind(queue) > state.high for queue, state in states.items()):
            # What was archived a moment ago came after the brokers were asked.
            states = self._live.states(there)
        self._check(states)
        for queue, state in states.items():
            self._topics_seen.add(queue.topic)
            self._seen.setdefault(queue, 0)
            if self._options.fail_on_data_loss:
                self._seen[queue] = max(self._seen[queue], state.high)
            archived = self._archive.bounds(queue)
            low = state.low if archived is None else min(archived.first, state.low)
            states[queue] = QueueState(low, state.high, self._epochs.of_live(queue, state.topic_epoch))
        for queue in queues:
            if queue not in states and (archived := self._archive.bounds(queue)) is not None:
                states[queue] = QueueState(archived.first, archived.behind, self._epochs.of_alone(queue))
        return {queue: states[queue] for queue in queues if queue in states}

    def _is_odd(self, queue: MessageQueue, state: QueueState) -> bool:
        """Whether archive and broker do not simply overlap."""
        return not state.low <= self._behind(queue) <= state.high or self._is_older(queue, state)

    def _is_older(self, queue: MessageQueue, state: QueueState) -> bool:
        """Whether all that is archived is older than the topic, and the queue does not just go on there."""
        archived = self._archive.bounds(queue)
        return (archived is not None and 0 < archived.time_last < state.topic_epoch and archived.behind != state.low
                and not self._epochs.is_continued(queue, state.topic_epoch))

    def _check(self, states: Mapping[MessageQueue, QueueState]) -> None:
        """That archive and brokers have the same topics. Raises DataLoss."""
        for queue, state in states.items():
            if (behind := self._behind(queue)) > state.high:
                raise DataLoss(f"{queue_text(queue)} ends at {state.high}, and the archive has messages up to "
                               f"{behind - 1}: the topic was made anew, or the broker lost its end, or the archive is "
                               "of another broker; read archive and brokers apart")
        older = {queue: state for queue, state in states.items() if self._is_older(queue, state)}
        for queue in self._made_anew(older):
            raise DataLoss(f"{queue_text(queue)}: the archive has messages up to {self._behind(queue) - 1}, all stored "
                           f"before the topic was made anew (epoch {older[queue].topic_epoch}): they are of another "
                           "topic of that name; read archive and brokers apart")

    def _made_anew(self, states: Mapping[MessageQueue, QueueState]) -> list[MessageQueue]:
        """Queues whose first message is not older than the topic.

        A broker that lost its list of topics gives a topic a new epoch when it is created again, but its queues go on
        with the messages that they have.
        """
        found = []
        stored = self._live.marks({queue: state.low for queue, state in states.items()}) if states else {}
        for queue, mark in stored.items():
            if mark.store_time >= states[queue].topic_epoch:
                found.append(queue)
            else:
                self._epochs.note_continued(queue, states[queue].topic_epoch)
        return sorted(found)

    def offsets_at(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        there = self._live_of(times)
        found = self._live.offsets_at({queue: times[queue] for queue in there})
        lows = {queue: state.low for queue, state in self._live.states(there).items()}
        early = {queue: time for queue, time in times.items()
                 if self._archive.bounds(queue) is not None and found.get(queue, 0) <= lows.get(queue, 0)}
        for queue, offset in self._archive.offsets_at(early).items():
            if queue not in found or offset < self._behind(queue):
                found[queue] = offset
        return found

    def group_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """A broker may still know of a queue that its topic no longer has."""
        asked = [queue for queue in queues
                 if queue not in self._alone or (queue.topic, queue.broker_name) in self._served]
        return {**dict.fromkeys(queues), **self._live.group_offsets(asked)}

    # --- what they hold ----------------------------------------------------------------------------------------------

    def marks(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        """Those of the brokers first: what is archived does not change when a broker's log is cut."""
        live = self._live.marks({queue: offsets[queue] for queue in self._live_of(offsets)})
        archived = {queue: offset for queue, offset in offsets.items()
                    if queue not in live and offset < self._behind(queue)}
        if archived:
            self._archive.look_again()
        return {**live, **self._archive.marks(archived)}

    def record_sizes(self, ranges: Sequence[UnitRange]) -> list[float]:
        """From the manifests where the archive has the range's beginning, else from samples."""
        archived = [unit for unit in ranges if unit.start < self._behind(unit.queue)]
        live = [unit for unit in ranges if unit.start >= self._behind(unit.queue)]
        sizes = dict(zip(archived, self._archive.record_sizes(archived), strict=True))
        sizes |= zip(live, self._live.record_sizes(live), strict=True) if live else ()
        return [sizes[unit] for unit in ranges]

    def partitions(self, ranges: Sequence[UnitRange], gaps: Sequence[Gap], *, cores: int | None,
                   sizes: Sizes | None = None) -> Sequence[Part]:
        """Raises DataLoss for what neither has, where the read is to fail then."""
        if any(unit.start < self._behind(unit.queue) for unit in ranges):
            # Compaction may have replaced files since, and removed what it replaced.
            self._archive.look_again()
        archived, live, gone = [], [], []
        for unit in ranges:
            queue, behind = unit.queue, self._behind(unit.queue)
            self._seen[queue] = max(self._seen.get(queue, 0), unit.end)
            if unit.start < behind:
                archived.append(unit._replace(end=min(unit.end, behind)))
            if unit.end <= behind:
                continue
            if queue in self._alone:
                gone.append(Gap(queue, max(unit.start, behind), unit.end,
                                f"no broker has the queue any more, and the archive ends at {behind}"))
            else:
                live.append(unit._replace(start=max(unit.start, behind)))
        told = [*gaps, *to_report(gone, self._options.on_data_loss)]
        if sizes:
            # Where the archive ends is another place tomorrow, so that does not divide what a stream does again.
            ordered = in_task_order(ranges)
            parts = divided(ordered, [sizes[unit.queue] for unit in ordered], self._options, cores)
            files, lost = self._archive.in_order(archived)
            return in_order(parts, self._behind, files, self._alone, [*told, *lost])
        return [*self._archive.partitions(archived, told, cores=cores),
                *(self._live.partitions(live, (), cores=cores) if live else ())]

    def _behind(self, queue: MessageQueue) -> int:
        """Up to where the archive has a queue."""
        archived = self._archive.bounds(queue)
        return 0 if archived is None else archived.behind


class _Brokers(LiveBrokers):
    """Running brokers, which need not have what is chosen."""

    def queues_there(self) -> list[MessageQueue]:
        """The queues of those chosen topics that exist."""
        selection = self._options.selection
        topics = selection.named_topics or selection.topics_of(self.topics())
        found = self.queues_by_topic(sorted(topics))
        return [queue for queues in found.values() for queue in queues]

    def broker_names(self) -> set[str]:
        """Of the whole cluster."""
        return set(self.call(self._admin.cluster_info, "the list of brokers").broker_addr_table)


class TopicEpochs:
    """Which topic of its name each broker has, where some of its queues, or the whole broker, may be away."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[str, str], int] = {}
        self._continued: set[tuple[MessageQueue, int]] = set()

    def of_live(self, queue: MessageQueue, epoch: int) -> int:
        self._epochs[queue.topic, queue.broker_name] = epoch
        return epoch

    def of_alone(self, queue: MessageQueue) -> int:
        """The epoch of the topic's other queues; 0, which is unknown, where nobody could be asked."""
        return self._epochs.get((queue.topic, queue.broker_name), 0)

    def note_continued(self, queue: MessageQueue, epoch: int) -> None:
        """The queue has messages from before the epoch."""
        self._continued.add((queue, epoch))

    def is_continued(self, queue: MessageQueue, epoch: int) -> bool:
        return (queue, epoch) in self._continued
