"""Makes messages visible again that were popped and not acknowledged in time.

Checkpoints and acks leave the topic of timers for the revive topic, a checkpoint a second before its time, acks at it.
A checkpoint is decided when its time is over and all acks that were stored in time have come: the timers have passed
that tick, and the queue was read up to what they brought. Each message that is not acknowledged is copied to the retry
topic of its group, or to the dead letters when it has had its tries, or has no room for a receipt. What cannot be
copied now is put back. Behind the copies an ack of theirs is written to the queue: whoever reads the checkpoint again,
after a kill or as the next master, brings none of them a second time. What was put back is not acknowledged: its own
checkpoint has the key of the first one where it is the first message of that, and who reads both keeps the first.

Of a queue that has more checkpoints than are kept here, the rest is passed over for the acks of those that are. When
none of these is due any more, it is read again from the first that was not kept.

What was popped and reached nobody is given back before its time: a copy that counts no delivery goes to the retry
topic, and an ack of the pop's own message to the log. A kill in between leaves it to its time, when it counts. One that
is given back again and again counts from some time on, too.

The consumer offset of REVIVE_GROUP says, as RocketMQ has it, which record of a queue was done last; all before it are.

Source: PopReviveService.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

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
from regulus.model.happenings import Happenings
from regulus.model.message import MessageExt
from regulus.model.receipt_handle import NORMAL, normal_topic, retry_flag, retry_topic_v1, retry_topic_v2, size_max
from regulus.model.store_result import PutStatus
from regulus.model.topics import SubscriptionGroupConfig, dlq_topic
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
"""Records of one revive queue."""
READ_AT_ONCE_MAX = 32
REVIVED_PER_TICK_MAX = 128
"""Messages of all."""
PENDING_MAX = 20_000
"""Checkpoints of one queue that came and are not decided; the rest are taken when none of these is due."""
POLL_MS = 100
GIVEN_BACK_MAX = 10_000
"""Messages that wait to be given back; more of them come at their time, and count."""
GIVEN_BACK_TIMES_MAX = 16
"""Of one message, uncounted. Each time writes it anew, so from then on it counts, and is a dead letter in the end."""
PUT_AGAIN_MS = (10_000, 20_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000, 480_000, 540_000,
                600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000)
"""How long what cannot be revived waits once more, by how often it did. Source: ckRewriteIntervalsInSeconds."""
GONE = "a popped message that was not acknowledged is gone with an old file of the log, or cannot be read"
MISSING = "a file of the log is not there, and popped messages may come again only with it: put it back and start anew"
UNREADABLE = "a record of the revive topic cannot be read"
DAMAGED = "popped messages do not come again before a damaged queue is built anew: stop the broker and start it again"
PUT_BACK = "a popped message that was not acknowledged waits longer: its queue or its file is damaged"
REFUSED = "a popped message that was not acknowledged is neither for a retry nor a dead letter: see maxMessageSize"


class _Pending:
    """A checkpoint in a revive queue, and what of it is acknowledged; of that, what was put back."""

    __slots__ = ("acked", "checkpoint", "put_back", "queue_offset")

    def __init__(self, checkpoint: PopCheckpoint, queue_offset: int) -> None:
        self.checkpoint = checkpoint
        self.queue_offset = queue_offset
        self.acked: set[int] = set()
        self.put_back: tuple[int, ...] = ()


class _Queue:
    """All before `next_offset` was taken; of what is pending, all acks before `seen_offset` are known, which are those
    that the timers brought until `seen_ms`."""

    def __init__(self, queue_id: int) -> None:
        self.queue_id = queue_id
        self.next_offset = self.seen_offset = -1    # not known yet
        self.seen_ms = 0
        self.awaited: tuple[int, int] | None = None     # what becomes of `seen_ms`, when that offset is seen
        self.is_full = False            # no checkpoint is taken until none is due
        self.pending: dict[CheckpointKey, _Pending] = {}    # in the order of the queue
        self.times: list[tuple[int, int, CheckpointKey]] = []   # the same as a heap: when it is due, its offset there
        self.fault = ""                 # why it cannot be read
        self.missing = -1               # the first record whose file of the log is not there

    @property
    def due(self) -> _Pending | None:
        """The first that can be decided."""
        return self.pending[self.times[0][2]] if self.times and self.times[0][0] <= self.seen_ms else None

    def take(self, checkpoint: PopCheckpoint, queue_offset: int) -> None:
        """One that is there already, and came twice, stays as it is; what was put back of it is due with it again."""
        known = self.pending.get(checkpoint.key)
        if known is not None:
            known.acked.difference_update(set(known.put_back).intersection(checkpoint.offsets))
        else:
            self.pending[checkpoint.key] = _Pending(checkpoint, queue_offset)
            heappush(self.times, (checkpoint.revive_time, queue_offset, checkpoint.key))

    def drop_first(self) -> None:
        del self.pending[heappop(self.times)[2]]

    def go_back(self) -> None:
        """Take up again what was only passed over."""
        self.is_full, self.seen_offset, self.seen_ms, self.awaited = False, self.next_offset, 0, None


class PopRevival:
    def __init__(self, store: MessageStore, storing: Storing, timers: Timers, flights: PopFlights, topics: Topics,
                 groups: SubscriptionGroups, offsets: ConsumerOffsets) -> None:
        self.happenings = Happenings()
        self.revived = 0
        self.is_hurried = False
        """Something was given back since the last tick."""
        self._store = store
        self._storing = storing
        self._timers = timers
        self._flights = flights
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._queues: list[_Queue] = []
        self._given_back: deque[tuple[Flight, int]] = deque()
        self._ticks = 0
        self._passed = (0, 0)       # what the timers had passed at the last look, and where the log ended then
        self._passed_ms = 0         # what they have passed, of which all is in the queues

    def tick(self, host: bytes, now_ms: int, *, is_v2: bool) -> int | None:
        """Ms until the next look, 0 when there is more to do; None when nobody pops here."""
        self.is_hurried = False
        room = self._give_back_some(REVIVED_PER_TICK_MAX, host, now_ms, is_v2)
        config = self._topics.get(self._flights.revive_topic)
        if config is None or not any(self._store.known_max_offset(config.topic_name, queue_id)
                                     for queue_id in range(config.read_queue_nums)):
            return (POLL_MS if room > 0 else 0) if self._given_back else None
        if len(self._queues) != config.read_queue_nums:
            self._queues = [_Queue(queue_id) for queue_id in range(config.read_queue_nums)]
        self._note_passed()
        first = self._ticks % len(self._queues)     # in turn, so that no queue takes all the room of the others
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
        """A message of a pop reached nobody: soon it is there for others, as often tried as before. False where too
        many wait for that: it comes at its time."""
        if len(self._given_back) >= GIVEN_BACK_MAX:
            return False
        self._given_back.append((flight, offset))
        self.is_hurried = True
        return True

    def lower_done(self, now_ms: int) -> None:
        """At a start: of a log that was cut, no more is done than it has. What is done is the last one, where others'
        offsets are the next."""
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
        """What the timers delivered is in the queues when the log is dispatched up to where it ended then."""
        passed_ms, log_end = self._passed
        dispatched = self._store.commit_log_max_offset() - self._store.dispatch_behind_bytes()
        if log_end <= dispatched:
            self._passed_ms = passed_ms
            self._passed = (self._timers.read_ms, self._store.commit_log_max_offset())

    def _give_back_some(self, room: int, host: bytes, now_ms: int, is_v2: bool) -> int:
        """The room that is left for what is due."""
        while room > 0 and self._given_back:
            if not self._give_one_back(*self._given_back[0], host, now_ms, is_v2):
                break
            self._given_back.popleft()
            room -= 1
        return room

    def _give_one_back(self, flight: Flight, offset: int, host: bytes, now_ms: int, is_v2: bool) -> bool:
        """False when the store takes nothing now. What cannot be given back comes at its time."""
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
        """Whether there is more to read at once. Raises StoreDamaged."""
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
        """A checkpoint may be lost with it, or not: it is not counted as done, so a start with the file finds it. Those
        behind it are decided nevertheless, and once more then."""
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
        """The room that is left for the messages of others. Raises StoreDamaged."""
        while room > 0 and (pending := queue.due) is not None:
            room -= len(pending.checkpoint.offsets)
            if not self._decide(queue, pending, host, now_ms, is_v2):
                break
        return room

    def _decide(self, queue: _Queue, pending: _Pending, host: bytes, now_ms: int, is_v2: bool) -> bool:
        """False when the store takes nothing now: the checkpoint stays, without what was copied."""
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
        """False when it must be tried again."""
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
                return False        # after a kill nobody would look for it there
            status = self._storing.append(copy, now_ms).status
            if status != PutStatus.MESSAGE_ILLEGAL:
                break
        if status == PutStatus.QUEUE_DAMAGED:
            return self._put_again(queue, checkpoint, offset, host, now_ms, PUT_BACK, place)
        if status == PutStatus.MESSAGE_ILLEGAL:
            return self._put_again(queue, checkpoint, offset, host, now_ms, REFUSED, place)
        self.revived += status == PutStatus.PUT_OK
        return status == PutStatus.PUT_OK

    def is_of_deleted_group(self, checkpoint: PopCheckpoint) -> bool:
        """Popped by a group of the name that was deleted since, with its offsets. Who does not know of the deletion, as
        a slave that was promoted, and what RocketMQ popped, goes on: nothing is lost."""
        removed = self._offsets.set_backs.removed.get(checkpoint.key.group, 0)
        return checkpoint.topic_epoch != NO_EPOCH and removed > checkpoint.group_removed

    def _is_of_another_topic(self, message: MessageExt, checkpoint: PopCheckpoint) -> bool:
        """Of the same name, made since: it was never popped. By the time alone a clock that was put back would say so
        of what was, and by the number alone a slave that was promoted and did not know the topic."""
        return (checkpoint.topic_epoch not in (NO_EPOCH, self._topics.epochs.of(checkpoint.key.topic))
                and message.store_timestamp > checkpoint.key.pop_time)

    def _copies(self, message: MessageExt, key: CheckpointKey, group: SubscriptionGroupConfig, now_ms: int,
                is_v2: bool) -> Iterator[MessageExt]:
        """What it may become, the best first: the next try, or a dead letter where it has had all, or where what is
        noted of it has no room beside its own properties."""
        if message.reconsume_times < group.retry_max_times:
            copy = self._next_try(message, key, now_ms, is_v2, is_counted=True)
            if copy is not None:
                yield copy
        self._topics.create_if_absent(dlq_topic(key.group), 1, now_ms)
        message.topic = normal_topic(key.topic, key.group)
        yield dead_letter_copy(message, key.group, self._host_of(message))
        yield dead_letter_as_it_is(message, key.group, self._host_of(message))

    def _host_of(self, message: MessageExt) -> bytes:
        """Where its copy is to be looked at: here, or where the message was stored if the broker knows no own name."""
        return self._storing.facts.store_host or message.store_host

    def _next_try(self, message: MessageExt, key: CheckpointKey, now_ms: int, is_v2: bool, *,
                  is_counted: bool) -> MessageExt | None:
        """The copy for the retry topic, which is there then; None where it has no room for a receipt."""
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
        """For the receipt that a pop adds."""
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
        """Up to the first checkpoint that is not decided."""
        first = next(iter(queue.pending.values()), None)
        done = (queue.next_offset if first is None else first.queue_offset) - 1
        if queue.missing >= 0:
            done = min(done, queue.missing - 1)
        topic = self._flights.revive_topic
        if done > self._offsets.query(REVIVE_GROUP, topic, queue.queue_id):
            self._offsets.commit(REVIVE_GROUP, topic, queue.queue_id, done, now_ms)
