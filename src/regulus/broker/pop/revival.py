"""Makes messages visible again that were popped and not acknowledged in time.

Checkpoints and acks move from the topic of timers to the revive topic, a checkpoint a second before its time, acks at
it. A checkpoint is decided when its time is over and all acks that were stored in time have arrived: the timers have
passed that tick, and the queue was read up to what they delivered. Each unacknowledged message is copied to the retry
topic of its group, or to the dead letters if it has no attempts left or no room for a receipt. A message that cannot be
copied now gets a new checkpoint. After the copies, an ack for them is written to the queue, so that a broker that reads
the checkpoint again, after a kill or as the next master, does not copy them twice. The ack leaves out messages with a
new checkpoint. If such a message is the first of its pop, both checkpoints have the same key, and a reader of both
keeps the first.

If a queue has more checkpoints than are kept here, the rest of it is read only for acks of the kept ones. When none of
those is due any more, it is read again from the first one that was not kept.

Messages of a pop that reached no client are given back before their time: a copy without a counted delivery goes to the
retry topic, and an ack of the original to the log. After a kill in between, the message becomes visible at its time,
with a counted delivery. One that is given back again and again counts after some times, too.

The consumer offset of REVIVE_GROUP is, as in RocketMQ, the last record of a queue that is done; all before it are done.

Source: PopReviveService.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from regulus.broker.dead_letter_notes import note_dead_letter
from regulus.broker.end_counts import EndCounts
from regulus.broker.groups.consumer_offsets import NOT_FOUND, ConsumerOffsets
from regulus.broker.groups.subscription_groups import SubscriptionGroups
from regulus.broker.message_store import MessageStore
from regulus.broker.placement import dead_letter_as_it_is, dead_letter_copy, popped_again
from regulus.broker.pop.flights import Flight, PopFlights, checkpoint_of
from regulus.broker.storing import Storing
from regulus.broker.timers.timers import Timers
from regulus.broker.topics import Topics
from regulus.errors import CorruptRecord, StoreDamaged
from regulus.model import message_properties as names
from regulus.model.happenings import EventTexts, Happenings
from regulus.model.message import MessageExt
from regulus.model.receipt_handle import NORMAL, normal_topic, retry_flag, retry_topic_v1, retry_topic_v2, size_max
from regulus.model.store_result import PutStatus
from regulus.model.topics import SubscriptionGroupConfig, dlq_topic, is_dlq_topic
from regulus.record import pop_record
from regulus.record.pop_record import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CK_TAG,
    NO_EPOCH,
    REVIVE_GROUP,
    CheckpointKey,
    PopCheckpoint,
)

READ_PER_TICK_MAX = 256
"""Records of one revive queue that one tick reads."""
READ_AT_ONCE_MAX = 32       # records read in one call of the store
REVIVED_PER_TICK_MAX = 128
"""Messages of all queues together that one tick decides."""
PENDING_MAX = 20_000
"""Undecided checkpoints kept for one queue; the rest are read again when none of these is due."""
POLL_MS = 100       # pause when nothing is due
GIVEN_BACK_MAX = 10_000
"""Messages that wait to be given back; beyond the limit they become visible at their time, with a counted delivery."""
GIVEN_BACK_TIMES_MAX = 16
"""Times that one message is given back without counting a delivery. Each stores a new copy; later ones count, and lead
to the dead letters."""
PUT_AGAIN_MS = (10_000, 20_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000, 480_000, 540_000,
                600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000)
"""How long in ms a message waits that cannot be revived now, by how often it waited. Source:
ckRewriteIntervalsInSeconds."""
GONE = "a popped message that was not acknowledged was deleted with an old file of the log, or cannot be read"
MISSING = "a file of the log is missing, and some popped messages come again only with it: restore it, and restart"
UNREADABLE = "a record of the revive topic cannot be read"
DAMAGED = "popped messages stay invisible until a damaged queue is rebuilt: restart the broker"
PUT_BACK = "a popped message that was not acknowledged waits longer: its queue or its file is damaged"
REFUSED = "a popped message that was not acknowledged can be neither retried nor a dead letter: see maxMessageSize"


class _Pending:
    """A checkpoint in a revive queue with its decided messages. `put_back` are those that got a new checkpoint."""

    __slots__ = ("acked", "checkpoint", "put_back", "queue_offset")

    def __init__(self, checkpoint: PopCheckpoint, queue_offset: int) -> None:
        self.checkpoint = checkpoint
        self.queue_offset = queue_offset
        self.acked: set[int] = set()
        self.put_back: tuple[int, ...] = ()


class _Queue:
    """Progress in one revive queue. Records before `next_offset` were taken. Acks before `seen_offset` are known, which
    are all that the timers delivered until `seen_ms`."""

    def __init__(self, queue_id: int) -> None:
        # -1: not known yet
        self.queue_id = queue_id
        self.next_offset = self.seen_offset = -1    # not known yet
        self.seen_ms = 0
        self.awaited: tuple[int, int] | None = None     # the next `seen_ms`, and the offset that must be seen first
        self.is_full = False            # no checkpoint is taken until none is due
        self.pending: dict[CheckpointKey, _Pending] = {}    # in the order of the queue
        self.times: list[tuple[int, int, CheckpointKey]] = []   # a heap of the same: due time, queue offset, key
        self.fault = ""                 # why the queue cannot be read
        self.missing = -1               # first record in a missing file of the log

    @property
    def due(self) -> _Pending | None:
        """The first checkpoint that can be decided."""
        return self.pending[self.times[0][2]] if self.times and self.times[0][0] <= self.seen_ms else None

    def take(self, checkpoint: PopCheckpoint, queue_offset: int) -> None:
        """Add a checkpoint. One with a known key is a new checkpoint of some of its messages, which are then decided
        again with the known one."""
        known = self.pending.get(checkpoint.key)
        if known is not None:
            known.acked.difference_update(set(known.put_back).intersection(checkpoint.offsets))
        else:
            self.pending[checkpoint.key] = _Pending(checkpoint, queue_offset)
            heappush(self.times, (checkpoint.revive_time, queue_offset, checkpoint.key))

    def drop_first(self) -> None:
        del self.pending[heappop(self.times)[2]]

    def go_back(self) -> None:
        """Read again from the first record that was read only for acks."""
        self.is_full, self.seen_offset, self.seen_ms, self.awaited = False, self.next_offset, 0, None


class PopRevival:
    def __init__(self, store: MessageStore, storing: Storing, timers: Timers, flights: PopFlights, topics: Topics,
                 groups: SubscriptionGroups, offsets: ConsumerOffsets, ends: EndCounts) -> None:
        self.happenings = Happenings()
        self.dead_letters = EventTexts()
        self.revived = 0
        self.is_hurried = False
        """Whether something was given back since the last tick."""
        self._store = store
        self._storing = storing
        self._timers = timers
        self._flights = flights
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._ends = ends
        self._queues: list[_Queue] = []
        self._given_back: deque[tuple[Flight, int]] = deque()
        self._ticks = 0
        self._passed = (0, 0)       # at the last look: the time that the timers have passed, and the end of the log
        self._passed_ms = 0         # the timers have passed this time, and all that they delivered is in the queues

    def tick(self, host: bytes, now_ms: int, *, is_v2: bool) -> int | None:
        """Do a part of the work. Returns ms until the next call, 0 when there is more, None when there are no pops."""
        self.is_hurried = False
        room = self._give_back_some(REVIVED_PER_TICK_MAX, host, now_ms, is_v2)
        config = self._topics.get(self._flights.revive_topic)
        if config is None or not any(self._store.known_max_offset(config.topic_name, queue_id)
                                     for queue_id in range(config.read_queue_nums)):
            return (POLL_MS if room > 0 else 0) if self._given_back else None
        if len(self._queues) != config.read_queue_nums:
            self._queues = [_Queue(queue_id) for queue_id in range(config.read_queue_nums)]
        self._note_passed()
        first = self._ticks % len(self._queues)     # in turn, so that no queue uses all the room of the others
        self._ticks += 1
        is_behind = False
        for queue in self._queues[first:] + self._queues[:first]:
            try:
                is_behind |= self._read(queue)
                room = self._decide_due(queue, room, host, now_ms, is_v2)
                self._commit(queue, now_ms)
                queue.fault = ""
            except StoreDamaged as error:
                if queue.fault != str(error):
                    queue.fault = str(error)
                    self.happenings.note(DAMAGED, queue.fault)
        return 0 if is_behind or room <= 0 else POLL_MS

    def give_back(self, flight: Flight, offset: int) -> bool:
        """Give back a message of a pop that reached no client; others get it soon, without counting a delivery. False
        when too many wait for that; it then becomes visible at its time."""
        if len(self._given_back) >= GIVEN_BACK_MAX:
            return False
        self._given_back.append((flight, offset))
        self.is_hurried = True
        return True

    def lower_done(self, now_ms: int) -> None:
        """At a start: lower what is done to the end of a log that was cut. It is the last record, while offsets of
        other groups are the next one."""
        topic = self._flights.revive_topic
        for queue_id, done in self._offsets.queues(REVIVE_GROUP, topic).items():
            end = self._store.known_max_offset(topic, queue_id)
            if done >= end:
                self._offsets.commit(REVIVE_GROUP, topic, queue_id, end - 1, now_ms)

    def _done_offset(self, queue_id: int) -> int:
        topic = self._flights.revive_topic
        return max(NOT_FOUND, self._offsets.query(REVIVE_GROUP, topic, queue_id),
                   self._store.min_offset(topic, queue_id) - 1)

    def _note_passed(self) -> None:
        """Note what the timers have passed. Their deliveries are in the queues when the log is dispatched up to where
        it ended then."""
        passed_ms, log_end = self._passed
        dispatched = self._store.commit_log_max_offset() - self._store.dispatch_behind_bytes()
        if log_end <= dispatched:
            self._passed_ms = passed_ms
            self._passed = (self._timers.read_ms, self._store.commit_log_max_offset())

    def _give_back_some(self, room: int, host: bytes, now_ms: int, is_v2: bool) -> int:
        """Give back waiting messages; returns the room that is left for checkpoints."""
        while room > 0 and self._given_back:
            if not self._give_one_back(*self._given_back[0], host, now_ms, is_v2):
                break
            self._given_back.popleft()
            room -= 1
        return room

    def _give_one_back(self, flight: Flight, offset: int, host: bytes, now_ms: int, is_v2: bool) -> bool:
        """False when the store refuses now. A message that cannot be given back becomes visible at its time."""
        key = flight.checkpoint.key
        group = self._groups.get(key.group)
        if group is None or self.is_of_deleted_group(flight.checkpoint) \
                or self._flights.find(key) is not flight or not flight.is_out(offset):
            return True
        try:
            units = self._store.queue_units(key.topic, key.queue_id, offset, 1)
            is_there = bool(units) and units[0].queue_offset == offset
            message = self._store.look_message(units[0].physical_offset) if is_there else None
        except StoreDamaged:
            return True
        if message is None or self._is_of_another_topic(message, flight.checkpoint):
            return True
        if names.number(message.properties.get(names.GIVEN_BACK)) >= GIVEN_BACK_TIMES_MAX:
            copy: MessageExt | None = next(self._copies(message, key, group, now_ms, is_v2))
        else:
            copy = self._next_try(message, key, now_ms, is_v2, is_counted=False)
        if copy is None:
            return True
        if copy.topic in self._topics.unsaved:
            return False
        status = self._storing.append(copy, now_ms).status
        if status == PutStatus.PUT_OK:
            self._flights.end_receipt(flight, offset, host, now_ms)
        return status in (PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL, PutStatus.QUEUE_DAMAGED)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, queue: _Queue) -> bool:
        """Read records of a queue. True when there is more to read at once. Raises StoreDamaged."""
        topic = self._flights.revive_topic
        if queue.next_offset < 0:
            queue.next_offset = queue.seen_offset = self._done_offset(queue.queue_id) + 1
        if queue.is_full and queue.due is None and len(queue.pending) < PENDING_MAX:
            queue.go_back()
        if queue.awaited is None:
            queue.awaited = (self._passed_ms, self._store.max_offset(topic, queue.queue_id))
        is_behind = True
        for _ in range(READ_PER_TICK_MAX // READ_AT_ONCE_MAX):
            queue.is_full |= len(queue.pending) >= PENDING_MAX
            units = self._store.queue_units(topic, queue.queue_id, queue.seen_offset, READ_AT_ONCE_MAX)
            for unit in units:
                message = self._store.look_message(unit.physical_offset)
                if message is not None:
                    self._take(queue, message, unit.queue_offset)
                elif self._store.is_missing(unit.physical_offset):
                    self._miss(queue, unit.queue_offset, unit.physical_offset)
                else:
                    self.happenings.note(UNREADABLE, f"at {unit.physical_offset} of the log")
                queue.seen_offset = unit.queue_offset + 1
            if not units:
                queue.seen_offset = max(queue.seen_offset, self._store.min_offset(topic, queue.queue_id))
            if not queue.is_full:
                queue.next_offset = queue.seen_offset
            if len(units) < READ_AT_ONCE_MAX:
                is_behind = queue.seen_offset < self._store.max_offset(topic, queue.queue_id)
                break
        passed_ms, offset = queue.awaited
        if queue.seen_offset >= offset:
            queue.seen_ms, queue.awaited = passed_ms, None
        return is_behind

    def _miss(self, queue: _Queue, queue_offset: int, physical_offset: int) -> None:
        """Note a record in a missing file of the log, which may be a checkpoint.

        It does not count as done, so that a start with the file finds it. Later checkpoints are decided nevertheless,
        and again then.
        """
        if queue.missing < 0 or queue_offset < queue.missing:
            queue.missing = queue_offset
            self.happenings.note(MISSING, f"at {physical_offset} of the log")

    def _take(self, queue: _Queue, message: MessageExt, queue_offset: int) -> None:
        try:
            if message.tags == CK_TAG:
                if not queue.is_full:
                    queue.take(checkpoint_of(message), queue_offset)
            elif message.tags in (ACK_TAG, BATCH_ACK_TAG):
                acks = pop_record.decode_acks(message.body)
                pending = queue.pending.get(acks.key)
                if pending is not None:
                    pending.acked.update(acks.offsets)
        except CorruptRecord as error:
            self.happenings.note(UNREADABLE, str(error))

    # --- deciding ----------------------------------------------------------------------------------------------------

    def _decide_due(self, queue: _Queue, room: int, host: bytes, now_ms: int, is_v2: bool) -> int:
        """Decide due checkpoints; returns the room that is left for messages of others. Raises StoreDamaged."""
        while room > 0 and (pending := queue.due) is not None:
            room -= len(pending.checkpoint.offsets)
            if not self._decide(queue, pending, host, now_ms, is_v2):
                break
        return room

    def _decide(self, queue: _Queue, pending: _Pending, host: bytes, now_ms: int, is_v2: bool) -> bool:
        """Decide one checkpoint. False when the store refuses now: it stays, without the messages that were copied."""
        checkpoint = pending.checkpoint
        key = checkpoint.key
        flight = self._flights.find(key)
        if flight is not None:
            pending.acked.update(flight.offsets_of(flight.acked))
        group, is_revived = self._groups.get(key.group), False
        if group is not None and not self.is_of_deleted_group(checkpoint) \
                and self._topics.get(normal_topic(key.topic, key.group)) is not None:
            for offset in (each for each in checkpoint.offsets if each not in pending.acked):
                if not self._revive(queue, checkpoint, offset, group, host, now_ms, is_v2):
                    break
                pending.acked.add(offset)
                is_revived = True
            decided = [offset for offset in checkpoint.offsets
                       if offset in pending.acked and offset not in pending.put_back]
            if is_revived and decided:
                self._flights.note_decided(key, decided, queue.queue_id, host, now_ms)
            if not pending.acked.issuperset(checkpoint.offsets):
                return False
        self._flights.take_bits(key)
        queue.drop_first()
        return True

    def _revive(self, queue: _Queue, checkpoint: PopCheckpoint, offset: int, group: SubscriptionGroupConfig,
                host: bytes, now_ms: int, is_v2: bool) -> bool:
        """Copy one message, or give it a new checkpoint. False when it must be tried again."""
        key = checkpoint.key
        place = f"offset {offset} of {key.topic}, queue {key.queue_id}"
        try:
            units = self._store.queue_units(key.topic, key.queue_id, offset, 1)
            is_there = bool(units) and units[0].queue_offset == offset
            message = self._store.look_message(units[0].physical_offset) if is_there else None
        except StoreDamaged as error:
            return self._put_again(queue, checkpoint, offset, host, now_ms, PUT_BACK, f"{place}: {error}")
        if message is None:
            if is_there and self._store.is_missing(units[0].physical_offset):
                return self._put_again(queue, checkpoint, offset, host, now_ms, PUT_BACK, place)
            self.happenings.note(GONE, place)
            return True
        if self._is_of_another_topic(message, checkpoint):
            return True
        status = PutStatus.MESSAGE_ILLEGAL
        for copy in self._copies(message, key, group, now_ms, is_v2):
            if copy.topic in self._topics.unsaved:
                return False        # After a kill, no consumer would read a topic that is not saved.
            status = self._storing.append(copy, now_ms).status
            if status != PutStatus.MESSAGE_ILLEGAL:
                break
        if status == PutStatus.PUT_OK and is_dlq_topic(copy.topic):
            note_dead_letter(self.dead_letters, copy, key.group)
        if status == PutStatus.QUEUE_DAMAGED:
            return self._put_again(queue, checkpoint, offset, host, now_ms, PUT_BACK, place)
        if status == PutStatus.MESSAGE_ILLEGAL:
            return self._put_again(queue, checkpoint, offset, host, now_ms, REFUSED, place)
        if status == PutStatus.PUT_OK:
            self.revived += 1
            self._ends.note_popped_end(key.group, normal_topic(key.topic, key.group), is_dlq_topic(copy.topic))
        return status == PutStatus.PUT_OK

    def is_of_deleted_group(self, checkpoint: PopCheckpoint) -> bool:
        """Whether an earlier group of this name, which was deleted since, popped the messages.

        Pops of RocketMQ, and those known to a promoted slave without the deletion, count as the current group's, so
        that nothing is lost.
        """
        removed = self._offsets.set_backs.removed.get(checkpoint.key.group, 0)
        return checkpoint.topic_epoch != NO_EPOCH and removed > checkpoint.group_removed

    def _is_of_another_topic(self, message: MessageExt, checkpoint: PopCheckpoint) -> bool:
        """Whether the message is of a later topic of the same name, and was never popped.

        Both conditions are necessary. By time alone, popped messages would look so after the clock was set back; by
        number alone, all would on a promoted slave that did not know the topic.
        """
        return (checkpoint.topic_epoch not in (NO_EPOCH, self._topics.epochs.of(checkpoint.key.topic))
                and message.store_timestamp > checkpoint.key.pop_time)

    def _copies(self, message: MessageExt, key: CheckpointKey, group: SubscriptionGroupConfig, now_ms: int,
                is_v2: bool) -> Iterator[MessageExt]:
        """Possible copies of the message, the best first: the next attempt if there is one left and room for its
        properties; a dead letter; a dead letter without more properties."""
        if message.reconsume_times < group.retry_max_times:
            copy = self._next_try(message, key, now_ms, is_v2, is_counted=True)
            if copy is not None:
                yield copy
        self._topics.create_if_absent(dlq_topic(key.group), 1, now_ms)
        message.topic = normal_topic(key.topic, key.group)
        yield dead_letter_copy(message, key.group, self._host_of(message))
        yield dead_letter_as_it_is(message, key.group, self._host_of(message))

    def _host_of(self, message: MessageExt) -> bytes:
        """The host of the copy's message id: this broker or, without a configured address, the host of the message."""
        return self._storing.facts.store_host or message.store_host

    def _next_try(self, message: MessageExt, key: CheckpointKey, now_ms: int, is_v2: bool, *,
                  is_counted: bool) -> MessageExt | None:
        """The copy for the retry topic, which is created if necessary; None without room for a receipt."""
        topic = key.topic
        if retry_flag(topic, key.group) == NORMAL:
            topic = retry_topic_v2(topic, key.group) if is_v2 else retry_topic_v1(topic, key.group)
        copy = popped_again(message, topic, key.pop_time, self._host_of(message), is_counted)
        if not self._has_room(copy):
            return None
        self._topics.create_if_absent(topic, 1, now_ms)
        if self._offsets.query(key.group, topic, 0) == NOT_FOUND:
            self._offsets.commit(key.group, topic, 0, 0, now_ms)
        return copy

    def _has_room(self, copy: MessageExt) -> bool:
        """Whether the copy has room for the receipt that a pop adds."""
        receipt_size = len(names.POP_CK) + 2 + size_max(self._flights.broker_name)
        return len(names.format(copy.properties).encode()) + receipt_size <= names.PROPERTIES_SIZE_MAX

    def _put_again(self, queue: _Queue, checkpoint: PopCheckpoint, offset: int, host: bytes, now_ms: int, why: str,
                   place: str) -> bool:
        key = checkpoint.key
        wait_ms = PUT_AGAIN_MS[min(checkpoint.put_again_times, len(PUT_AGAIN_MS) - 1)]
        again = PopCheckpoint(
            key=key._replace(start_offset=offset), broker_name=checkpoint.broker_name,
            invisible_time=max(0, now_ms + wait_ms - key.pop_time), offsets=(offset,),
            put_again_times=checkpoint.put_again_times + 1, topic_epoch=checkpoint.topic_epoch,
            group_removed=checkpoint.group_removed)
        if self._flights.put(again, queue.queue_id, host, now_ms).status is not PutStatus.PUT_OK:
            return False
        queue.pending[key].put_back += (offset,)
        self.happenings.note(why, place)
        return True

    def _commit(self, queue: _Queue, now_ms: int) -> None:
        """Save progress up to the first undecided checkpoint."""
        first = next(iter(queue.pending.values()), None)
        done = (queue.next_offset if first is None else first.queue_offset) - 1
        if queue.missing >= 0:
            done = min(done, queue.missing - 1)
        topic = self._flights.revive_topic
        if done > self._offsets.query(REVIVE_GROUP, topic, queue.queue_id):
            self._offsets.commit(REVIVE_GROUP, topic, queue.queue_id, done, now_ms)
