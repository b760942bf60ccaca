"""Plans what a stream reads: where it starts, how far each batch goes, what its tasks read, and what was lost.

Spark keeps the planner in one process of the driver while a query runs, and passes it the offsets of its checkpoint.
The checkpoint is the only truth. Other state here, such as a frozen end or the time since which a queue is away, is
lost with the process, which costs nothing but time.

A batch is a function of its two offsets: its tasks, and the order of their rows, depend on nothing else, so that a sink
recognizes the rows of a batch that is repeated. The bytes of a message are known only from samples, which may differ
the next time. So the offset has the result, which divides the batch each time.

Spark asks for the initial offset several times, even after a restart, until the first batch is committed, and meanwhile
the end of a topic moves. So the end of the first batch says in `began` where that batch begins, and this counts, not a
later answer about the start.

A queue that is found later enters the offsets at its first message, without rows; the next batch reads it. A topic
whose epoch changed enters again at 0, and queues that it no longer has are left out. If a log was cut and continued
with other messages, which the mark of the last one read shows, a queue goes back to the first of those, also without
rows.

A queue that lost its end does not move any more, and Spark plans a batch only for an offset that has changed. If losses
are reported, the offset has the place up to which that was done, so that the report gets a batch of its own.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.kafka_partitions import check_brokers
from regulus.spark.marks import Mark
from regulus.spark.offsets import QueueOffsets
from regulus.spark.options import OnDataLoss, ReadOptions
from regulus.spark.read_bounds import Place, QueueState, data_loss, missing_before, named, starting_offsets, to_report
from regulus.spark.read_plan import Gap, UnitRange, is_another_topic
from regulus.spark.readers.admission import Waiting, admit
from regulus.spark.readers.stream_offset import StreamOffset, check_is_ours
from regulus.spark.selection import queue_text
from regulus.spark.task_parts import Part

_log = logging.getLogger(__name__)
_LOOK_SHARE = 10
"""The pause between two searches for queues is at least this many times as long as the last search took."""

_PAUSE_SECONDS = 0.5
"""The pause between two checks for queues that are away."""

_LOST_END = "because the queue lost its end"
_ANEW = "because the topic was deleted and created again; how many more there were is not known"


class StreamPlanner:
    """Plans the batches. `now` is a clock in seconds, `wall_ms` the time of day in ms; `pause` waits for some
    seconds."""

    def __init__(self, options: ReadOptions, place: Place, now: Callable[[], float], wall_ms: Callable[[], int],
                 pause: Callable[[float], None]) -> None:
        """Raises OptionError for a group whose progress `ProgressPublisher` could not publish."""
        if options.consumer_group and options.access_key:
            # `ProgressPublisher` takes its options from the query's progress, which Spark logs, so it has no keys.
            raise OptionError("options 'consumerGroup' and 'accessKey' do not go together in a stream, as the group's "
                              "progress is published with keys that are read from their place: give option "
                              "'credentials', env:NAME or file:/path, in place of 'accessKey' and 'secretKey'")
        self._options = options
        self._place = place
        self._now = now
        self._wall_ms = wall_ms
        self._pause = pause
        self._queues: list[MessageQueue] = []
        self._looked_at: float | None = None
        self._look_seconds = 0.0
        self._states: dict[MessageQueue, QueueState] = {}
        self._target: QueueOffsets | None = None
        self._wrong_since: dict[MessageQueue, float] = {}
        self._batch_at = -inf
        self._initial: dict[str, Any] | None = None
        self._planned: QueueOffsets = {}
        self._record_sizes: dict[MessageQueue, float] = {}
        self._stood: dict[MessageQueue, tuple[int, int]] = {}
        """Offset and end of each queue at the last time when its mark was found unchanged."""
        self._told_losses: dict[MessageQueue, Gap] = {}
        self._is_known = False

    # --- what Spark asks ---------------------------------------------------------------------------------------------

    def initial(self) -> dict[str, Any]:
        """Where a new query starts; each call gives the same answer. Raises OptionError, DataLoss."""
        if self._initial is not None:
            return self._initial
        states = self._look()
        starts, gaps = starting_offsets(self._options, self._place, list(states), states, is_stream=True)
        for gap in gaps:
            # Begin with the gap, so that the first batch meets it and has a row for it.
            starts[gap.queue] = min(starts[gap.queue], gap.start)
        self._is_known = True
        marks = self._marks_before(starts, states)
        self._initial = StreamOffset(starts, _epochs(states), marks, is_initial=True).object()
        return self._initial

    def freeze(self) -> None:
        """Fix the ends: messages that come later are not read, nor those that come after a queue that is away is
        back."""
        self._target = {}
        try:
            states = self._look()
        except (OptionError, DataLoss) as error:
            _log.info("the plan waits for what is away: %s", error)
        else:
            self._target = {queue: state.high for queue, state in states.items()}

    def latest(self, start: Mapping[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """Where the next batch ends; `start` itself if there is no batch to read. Raises DataLoss, OptionError."""
        offset = StreamOffset.parse(start)
        states = self._settled(offset)
        if self._target is not None:
            for queue in offset.positions.keys() & states.keys():
                self._target.setdefault(queue, states[queue].high)
        self._check_checkpoint(offset, states)
        entered = self._with_new_topics(offset, states)
        went_back = self._go_back_to_cuts(entered, states)
        waiting = self._waiting(entered, {queue: state for queue, state in states.items() if queue not in went_back})
        records = sum(each.end - each.start for each in waiting.values())
        if records and self._is_due(records):
            waiting = self._with_sizes(waiting)
            ends = {queue: each.end for queue, each in waiting.items()}
            if is_limited:
                ends = admit(waiting, self._options.trigger_records_max, self._options.trigger_bytes_max)
            entered.positions.update(ends)
            entered.sizes = {queue: max(1, round(waiting[queue].record_size)) for queue, end in ends.items()
                             if end > waiting[queue].start}
            self._batch_at = self._now()
        self._enter_new_queues(entered, states)
        self._enter_losses(entered, offset, states)
        moved = {queue: at for queue, at in entered.positions.items() if offset.positions.get(queue) != at}
        entered.marks = {**{queue: mark for queue, mark in offset.marks.items()
                            if queue in entered.positions and queue not in moved},
                         **self._marks_before(moved, states)}
        if offset.is_initial:
            entered.began = offset
        self._is_known = True
        self._planned = dict(entered.positions)
        is_changed = (entered.positions, entered.epochs, entered.lost) != (offset.positions, offset.epochs, offset.lost)
        return entered.object() if is_changed or offset.is_initial else dict(start)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[Part]:
        """What each task of a batch reads. Raises DataLoss for lost messages, if the options say so."""
        first, last = StreamOffset.parse(start), StreamOffset.parse(end)
        if first.is_initial and last.began is not None:
            first = last.began
        ranges, gaps = [], []
        states = self._states_of(list(last.positions))
        for queue in sorted(first.positions.keys() - last.positions.keys()):
            gaps.append(Gap(queue, first.positions[queue], first.positions[queue] + 1, _ANEW))
        for queue, stop in sorted(last.positions.items()):
            at = first.positions.get(queue)
            if at is None:
                continue
            reached = at
            if is_another_topic(first.epoch(queue), last.epoch(queue)):
                gaps.append(Gap(queue, at, at + 1, _ANEW))
                at = reached = 0
            elif at > stop:
                gaps.append(Gap(queue, stop, at, _cut(stop, at, first.marks.get(queue))))
            state = states.get(queue)
            if state is not None and at < min(stop, state.low):
                gaps += missing_before(queue, at, state._replace(low=min(stop, state.low)))
                at = min(stop, state.low)
            if queue in last.lost and (begin := max(stop, reached, first.lost.get(queue, 0))) < last.lost[queue]:
                lost = None if state is None else state.gap(queue)
                gaps.append(Gap(queue, begin, last.lost[queue], _LOST_END if lost is None else lost.cause))
            if at < stop:
                ranges.append(UnitRange(queue.topic, queue.queue_id, at, stop, queue.broker_name, last.epoch(queue)))
        reported = to_report(gaps, self._options.on_data_loss)
        # A queue that is not there after a restart may be read from before what was planned, and has no size then.
        sizes = last.sizes if all(unit.queue in last.sizes for unit in ranges) else None
        return self._place.partitions(ranges, reported, cores=None, sizes=sizes) if ranges or reported else []

    def report(self) -> dict[str, Any] | None:
        """The ends of the queues for the query's progress, with what `progress` needs for the lag in bytes and
        seconds."""
        if not self._states:
            return None
        ends = {queue: state.high for queue, state in self._states.items()}
        behind = {queue: self._planned[queue] for queue, end in ends.items() if self._planned.get(queue, end) < end}
        stored = self._place.marks(behind) if behind else {}
        facts: dict[str, Any] = {"asOf": self._wall_ms(), "recordBytes": {}, "waitingSince": {}}
        for queue in sorted(behind):
            facts["recordBytes"][queue_text(queue)] = round(self._record_sizes.get(queue, 0))
            if queue in stored:
                facts["waitingSince"][queue_text(queue)] = stored[queue].store_time
        options = self._options
        facts["read"] = {"nameServer": options.name_server, "consumerGroup": options.consumer_group,
                         "credentials": options.credentials}
        return {**StreamOffset(ends, _epochs(self._states)).object(), "lag": facts}

    # --- what is there -----------------------------------------------------------------------------------------------

    def _look(self) -> dict[MessageQueue, QueueState]:
        """The state of the selected queues, which are searched for again at intervals."""
        began = self._now()
        if self._looked_at is None or began - self._looked_at >= _LOOK_SHARE * self._look_seconds:
            self._queues = self._found_queues()
            self._looked_at = self._now()
            self._look_seconds = self._looked_at - began
        self._states = self._place.states(self._queues)
        return self._states

    def _found_queues(self) -> list[MessageQueue]:
        """The selected queues. A topic that no broker knows any more is kept: asking for its state waits for it."""
        try:
            found = self._place.queues()
        except OptionError:
            if not self._queues:
                raise
            return self._queues
        if self._options.kafka_schema:
            check_brokers(found)
        return found

    def _states_of(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState]:
        """The states that were read last, because a batch is planned right afterwards; new ones after a restart."""
        if not self._states:
            self._look()
        return {queue: self._states[queue] for queue in queues if queue in self._states}

    def _settled(self, offset: StreamOffset) -> dict[MessageQueue, QueueState]:
        """The states, after queues that are away, or end before the offset, had `retryTimeout` to come back.

        The first plan of a process, and plans of a query that is to end, wait for them; others leave it to the next
        plan. Raises OptionError, DataLoss.
        """
        while True:
            try:
                states = self._look()
            except (OptionError, DataLoss):
                # The topic was read before, so its name is right, and its brokers are away.
                if not self._is_to_wait(offset.positions):
                    raise
            else:
                if not self._is_known:
                    check_is_ours(offset, self._options.selection, states)
                if not self._is_to_wait(_queues_behind(offset, states)):
                    return states
            self._pause(_PAUSE_SECONDS)
            self._looked_at = None

    def _is_to_wait(self, wrong: Iterable[MessageQueue]) -> bool:
        # Ask for all of them, because this starts the time of each.
        are_new = [not self._is_lasting(queue) for queue in wrong if self._options.selection.names(queue.topic)]
        return any(are_new) and (not self._is_known or self._target is not None)

    def _check_checkpoint(self, offset: StreamOffset, states: Mapping[MessageQueue, QueueState]) -> None:
        """Raises DataLoss when queues of the offset are not there."""
        gone = [f"{queue_text(queue)} is no longer there, where {at} is to be read next"
                for queue, at in offset.positions.items() if queue not in states and self._is_lasting(queue)]
        if gone and self._options.on_data_loss is OnDataLoss.FAIL:
            raise DataLoss(f"{named(gone)}: start the broker, give a topic that has fewer queues now its read queues "
                           "back, or set failOnDataLoss to false to continue without")

    def _is_lasting(self, queue: MessageQueue) -> bool:
        """Whether a queue's fault lasts longer than the restart of a broker, or the delay of a replica, would."""
        now = self._now()
        return now - self._wrong_since.setdefault(queue, now) >= self._options.retry_timeout_ms / 1000

    def _with_new_topics(self, offset: StreamOffset, states: Mapping[MessageQueue, QueueState]) -> StreamOffset:
        """The offset, with topics that were created again at their beginnings. Raises DataLoss, if the options say
        so."""
        entered = StreamOffset(dict(offset.positions), offset.epochs, offset.marks)
        made_anew: dict[tuple[str, str], str] = {}
        for queue in offset.positions:
            state = states.get(queue)
            if state is None or state.topic_epoch in (0, offset.epoch(queue)):
                continue
            entered.epochs[queue.topic, queue.broker_name] = state.topic_epoch
            if not is_another_topic(offset.epoch(queue), state.topic_epoch):
                continue
            entered.positions[queue] = 0
            entered.marks.pop(queue, None)
            made_anew[queue.topic, queue.broker_name] = (
                f"topic {queue.topic!r} on broker {queue.broker_name} was deleted and created again (epoch "
                f"{offset.epoch(queue)}, now {state.topic_epoch})")
        if made_anew and self._options.on_data_loss is OnDataLoss.FAIL:
            raise DataLoss(f"{named(list(made_anew.values()))}, or this is the checkpoint of another cluster: what was "
                           "not read of it is gone; give the query a new checkpointLocation, or set failOnDataLoss to "
                           "false to read the new topic from its beginning")
        for queue in offset.positions.keys() - states.keys():
            if (queue.topic, queue.broker_name) in made_anew:
                # The new topic has fewer queues. One that it gets later is not related to the former one.
                del entered.positions[queue]
        return entered

    # --- what was read is still there --------------------------------------------------------------------------------

    def _go_back_to_cuts(self, offset: StreamOffset, states: Mapping[MessageQueue, QueueState]) -> set[MessageQueue]:
        """Queues in which another message is now in the place of the last one read. Their offsets go back to the first
        message stored after that one. Raises DataLoss, if the options say so."""
        found = self._changed_marks(offset, states)
        # Messages that replaced others that were read were stored after those.
        behind = {queue: offset.marks[queue].store_time + 1 for queue in found}
        firsts = self._place.offsets_at(behind) if behind else {}
        cuts = []
        for queue, mark in found.items():
            at = offset.positions[queue]
            first = min(at - 1, max(firsts[queue], states[queue].low))
            told = (f"{queue_text(queue)}: message {at - 1} was {offset.marks[queue]} when it was read, and now it is "
                    f"{mark}: the log lost its end, as after a loss of power, or the topic was created again, and what "
                    f"was stored since then from {first} to {at - 1} was not read")
            if self._options.on_data_loss is OnDataLoss.FAIL:
                cuts.append(told)
                continue
            _log.warning("%s; the stream continues from %d", told, first)
            offset.positions[queue] = first
        if cuts:
            raise DataLoss(f"{named(cuts)}; set failOnDataLoss to false, or to report, to continue from there")
        return set(found)

    def _changed_marks(self, offset: StreamOffset,
                       states: Mapping[MessageQueue, QueueState]) -> dict[MessageQueue, Mark]:
        """The present marks of places where another message was read last. A queue that has not grown since the last
        check is not asked again."""
        asked = {}
        for queue in offset.marks:
            state, at = states.get(queue), offset.positions.get(queue, 0)
            if state is not None and state.low < at <= state.high and self._stood.get(queue) != (at, state.high):
                asked[queue] = at - 1
        found = self._place.marks(asked) if asked else {}
        changed = {queue: mark for queue, mark in found.items() if mark != offset.marks[queue]}
        for queue, at in asked.items():
            if queue not in changed:
                self._stood[queue] = (at + 1, states[queue].high)
        return changed

    def _marks_before(self, positions: Mapping[MessageQueue, int],
                      states: Mapping[MessageQueue, QueueState]) -> dict[MessageQueue, Mark]:
        """The marks of the messages before these offsets."""
        before = {queue: at - 1 for queue, at in positions.items()
                  if (state := states.get(queue)) is not None and state.low < at <= state.high}
        return self._place.marks(before) if before else {}

    # --- what is to be read ------------------------------------------------------------------------------------------

    def _enter_new_queues(self, offset: StreamOffset, states: Mapping[MessageQueue, QueueState]) -> None:
        """Add queues that were found since, from their first message on; the next batch reads them."""
        for queue, state in states.items():
            if queue not in offset.positions and (self._target is None or queue in self._target):
                offset.positions[queue] = state.low
                offset.epochs.setdefault((queue.topic, queue.broker_name), state.topic_epoch)

    def _enter_losses(self, offset: StreamOffset, before: StreamOffset,
                      states: Mapping[MessageQueue, QueueState]) -> None:
        """Note the lost ends that this batch reports or an earlier one did, of queues that are read up to there."""
        if self._options.on_data_loss is not OnDataLoss.REPORT:
            return
        for queue in offset.positions.keys() & before.positions.keys():
            state, at = states.get(queue), offset.positions[queue]
            if state is None and queue in before.lost:
                offset.lost[queue] = before.lost[queue]
            elif state is not None and at == state.high and (lost := state.gap(queue)) is not None:
                offset.lost[queue] = lost.end

    def _waiting(self, offset: StreamOffset, states: Mapping[MessageQueue, QueueState]) -> dict[MessageQueue, Waiting]:
        """What each queue has to read now. Raises DataLoss for queues that end before the offset, or lost their ends.

        If the options say that the read continues, the offset goes back to the queue's end.
        """
        waiting = {}
        lost: list[Gap] = []
        for queue, at in offset.positions.items():
            state = states.get(queue)
            if state is None:
                continue
            if at <= state.high:
                self._wrong_since.pop(queue, None)
            elif not self._is_lasting(queue):
                continue
            elif self._options.on_data_loss is OnDataLoss.FAIL:
                lost += missing_before(queue, at, state)
                continue
            else:
                offset.positions[queue] = at = state.high
            lost += self._new_losses(queue, state)
            high = state.high if self._target is None else min(state.high, self._target.get(queue, at))
            waiting[queue] = Waiting(at, max(at, high), self._record_sizes.get(queue, 1.0))
        if lost:
            raise data_loss(lost)
        return waiting

    def _new_losses(self, queue: MessageQueue, state: QueueState) -> list[Gap]:
        """The messages that are lost after the queue's end, if the options say that the read fails; else logs them."""
        lost = state.gap(queue)
        if lost is None or self._told_losses.get(queue) == lost:
            return []
        if self._options.on_data_loss is OnDataLoss.FAIL:
            return [lost]
        self._told_losses[queue] = lost
        _log.warning("%s; the stream continues without", lost)
        return []

    def _is_due(self, records: int) -> bool:
        """Whether enough messages are waiting, or they have waited for long enough."""
        options = self._options
        if self._target is not None or records >= options.trigger_records_min:
            return True
        return self._now() - self._batch_at >= options.trigger_delay_max_ms / 1000

    def _with_sizes(self, waiting: Mapping[MessageQueue, Waiting]) -> dict[MessageQueue, Waiting]:
        """Add the bytes of a message, from samples."""
        ranges = [UnitRange(queue.topic, queue.queue_id, each.start, each.end, queue.broker_name)
                  for queue, each in waiting.items() if each.start < each.end]
        for unit, size in zip(ranges, self._place.record_sizes(ranges), strict=True):
            self._record_sizes[unit.queue] = size
        return {queue: each._replace(record_size=self._record_sizes.get(queue, 1.0))
                for queue, each in waiting.items()}


def _epochs(states: Mapping[MessageQueue, QueueState]) -> dict[tuple[str, str], int]:
    return {(queue.topic, queue.broker_name): state.topic_epoch for queue, state in states.items()}


def _queues_behind(offset: StreamOffset, states: Mapping[MessageQueue, QueueState]) -> list[MessageQueue]:
    """Queues of the offset that are not there, or end before it and are not of another topic."""
    return [queue for queue, at in offset.positions.items() if (state := states.get(queue)) is None
            or (state.high < at and not is_another_topic(offset.epoch(queue), state.topic_epoch))]


def _cut(end: int, at: int, last: Mark | None) -> str:
    """The reason for an error: messages from `end` on are gone, though they were read up to `at`."""
    read = "" if last is None else f"; message {at - 1} was {last}"
    return f"the queue ended at {end} for a while, before {at}, which was to be read next{read}"
