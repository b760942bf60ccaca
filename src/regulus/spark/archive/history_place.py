"""An archive and its brokers as one place: messages that the brokers no longer have come from the archive.

A queue begins where the archive begins, or the broker if that has more, and ends where the broker's queue does. Of
messages that both have, the archive's rows are read, because they stay there while the query runs, whereas retention
may remove the broker's copy at any time.

A queue that only the archive has ends where the archive does. Its topic was deleted, or has fewer queues than before,
and all that can still be read of it is archived. If its whole broker is away, it is not known what else that had.
"""

from collections.abc import Iterable, Mapping, Sequence

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.archive.order import in_order
from regulus.spark.archive.place import ArchivePlace
from regulus.spark.live.brokers import LiveBrokers
from regulus.spark.marks import Mark
from regulus.spark.options import ReadOptions
from regulus.spark.read_bounds import QueueState, Sizes, to_report
from regulus.spark.read_plan import Gap, UnitRange, divided, in_task_order
from regulus.spark.selection import queue_text
from regulus.spark.task_parts import Part

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
        """The queues that only the archive has."""
        self._served: set[tuple[str, str]] = set()
        """Topics that a broker has, with its name."""
        self._seen: dict[MessageQueue, int] = {}
        """The queues that were there, with the offset up to which they were planned or, if a loss is an error, up to
        which brokers had them."""
        self._topics_seen: set[str] = set()
        """The topics that some broker had."""

    def close(self) -> None:
        self._live.close()

    # --- which queues ------------------------------------------------------------------------------------------------

    def queues(self) -> list[MessageQueue]:
        """The selected queues that brokers or the archive have. Raises OptionError, and DataLoss for one whose broker
        is away, if the options say so."""
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
        """The queues to read from the archive alone. A queue that a stream has read further than that is left out, to
        wait for its broker or the archive. Raises DataLoss when the broker is away, if the options say so."""
        if not queues:
            return set()
        self._archive.look_again()
        brokers = self._live.broker_names()
        alone = set()
        for queue in queues:
            behind = self._behind(queue)
            if queue.broker_name not in brokers and self._options.fail_on_data_loss:
                if queue in self._seen:
                    # The broker may only be restarting.
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
            # Brokers have removed messages since, or a topic was created again: the archive may have them by now.
            self._archive.look_again()
        if any(self._behind(queue) > state.high for queue, state in states.items()):
            # Ask the brokers again: what was archived a moment ago may have come after they were asked.
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
        """Whether archive and broker do not simply overlap, so that the archive must be looked at again."""
        return not state.low <= self._behind(queue) <= state.high or self._is_older(queue, state)

    def _is_older(self, queue: MessageQueue, state: QueueState) -> bool:
        """Whether everything archived is older than the topic, and the queue is not just continued by it."""
        archived = self._archive.bounds(queue)
        return (archived is not None and 0 < archived.time_last < state.topic_epoch and archived.behind != state.low
                and not self._epochs.is_continued(queue, state.topic_epoch))

    def _check(self, states: Mapping[MessageQueue, QueueState]) -> None:
        """Raises DataLoss when archive and broker do not have the same topic."""
        for queue, state in states.items():
            if (behind := self._behind(queue)) > state.high:
                raise DataLoss(f"{queue_text(queue)} ends at {state.high}, and the archive has messages up to "
                               f"{behind - 1}: the topic was created again, or the broker lost its end, or the archive "
                               "is of another broker; read archive and brokers apart")
        older = {queue: state for queue, state in states.items() if self._is_older(queue, state)}
        for queue in self._made_anew(older):
            raise DataLoss(f"{queue_text(queue)}: the archive has messages up to {self._behind(queue) - 1}, all stored "
                           f"before the topic was created (epoch {older[queue].topic_epoch}): they are of another "
                           "topic of that name; read archive and brokers apart")

    def _made_anew(self, states: Mapping[MessageQueue, QueueState]) -> list[MessageQueue]:
        """The queues whose first message is not older than the topic.

        A broker that lost its list of topics gives a topic a new epoch when it is created again, but its queues
        continue with the messages that they have.
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
        """The group's offsets, also of queues that only the archive has, because a broker may still know them."""
        asked = [queue for queue in queues
                 if queue not in self._alone or (queue.topic, queue.broker_name) in self._served]
        return {**dict.fromkeys(queues), **self._live.group_offsets(asked)}

    # --- what they hold ----------------------------------------------------------------------------------------------

    def marks(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, Mark]:
        """The marks of the brokers take precedence: archived messages do not change when a broker's log is cut."""
        live = self._live.marks({queue: offsets[queue] for queue in self._live_of(offsets)})
        archived = {queue: offset for queue, offset in offsets.items()
                    if queue not in live and offset < self._behind(queue)}
        if archived:
            self._archive.look_again()
        return {**live, **self._archive.marks(archived)}

    def record_sizes(self, ranges: Sequence[UnitRange]) -> list[float]:
        """Bytes of a message: from the manifests if the archive has the range's beginning, else from samples."""
        archived = [unit for unit in ranges if unit.start < self._behind(unit.queue)]
        live = [unit for unit in ranges if unit.start >= self._behind(unit.queue)]
        sizes = dict(zip(archived, self._archive.record_sizes(archived), strict=True))
        sizes |= zip(live, self._live.record_sizes(live), strict=True) if live else ()
        return [sizes[unit] for unit in ranges]

    def partitions(self, ranges: Sequence[UnitRange], gaps: Sequence[Gap], *, cores: int | None,
                   sizes: Sizes | None = None) -> Sequence[Part]:
        """What each task reads. Raises DataLoss for messages that neither has, if the options say so."""
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
            # The end of the archive moves, so it must not divide a batch that a stream may repeat.
            ordered = in_task_order(ranges)
            parts = divided(ordered, [sizes[unit.queue] for unit in ordered], self._options, cores)
            files, lost = self._archive.in_order(archived)
            return in_order(parts, self._behind, files, self._alone, [*told, *lost])
        return [*self._archive.partitions(archived, told, cores=cores),
                *(self._live.partitions(live, (), cores=cores) if live else ())]

    def _behind(self, queue: MessageQueue) -> int:
        """The offset at which the archive's part of a queue ends."""
        archived = self._archive.bounds(queue)
        return 0 if archived is None else archived.behind


class _Brokers(LiveBrokers):
    """Running brokers, which need not have the selected topics."""

    def queues_there(self) -> list[MessageQueue]:
        """The queues of the selected topics that exist."""
        selection = self._options.selection
        topics = selection.named_topics or selection.topics_of(self.topics())
        found = self.queues_by_topic(sorted(topics))
        return [queue for queues in found.values() for queue in queues]

    def broker_names(self) -> set[str]:
        """The names of all brokers of the cluster."""
        return set(self.call(self._admin.cluster_info, "the list of brokers").broker_addr_table)


class TopicEpochs:
    """The epoch of each topic at each broker, even when some of the queues, or the whole broker, are away."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[str, str], int] = {}
        self._continued: set[tuple[MessageQueue, int]] = set()

    def of_live(self, queue: MessageQueue, epoch: int) -> int:
        self._epochs[queue.topic, queue.broker_name] = epoch
        return epoch

    def of_alone(self, queue: MessageQueue) -> int:
        """The epoch of the topic's other queues; 0, which means unknown, when no broker could be asked."""
        return self._epochs.get((queue.topic, queue.broker_name), 0)

    def note_continued(self, queue: MessageQueue, epoch: int) -> None:
        """Note that the queue has messages from before the epoch."""
        self._continued.add((queue, epoch))

    def is_continued(self, queue: MessageQueue, epoch: int) -> bool:
        return (queue, epoch) in self._continued
