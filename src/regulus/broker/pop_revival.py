"""Makes messages visible again that were popped and not acknowledged in time.

Checkpoints and acks leave the topic of timers for the revive topic, a checkpoint a second before its time, acks at it.
A checkpoint is decided when its time is over and all acks that were stored in time have come: the timers have passed
that tick, and the queue was read up to what they brought. Each message that is not acknowledged is copied to the retry
topic of its group, or to the dead letters when it has had its tries. What cannot be copied now is put back.

The consumer offset of REVIVE_GROUP says, as RocketMQ has it, which record of a queue was done last; all before it are.

Source: PopReviveService.
"""

from collections.abc import Iterator

from regulus.broker.consumer_offsets import NOT_FOUND, ConsumerOffsets
from regulus.broker.message_store import MessageStore
from regulus.broker.placement import dead_letter_copy, popped_again
from regulus.broker.pop_flights import PopFlights
from regulus.broker.storing import Storing
from regulus.broker.subscription_groups import SubscriptionGroups
from regulus.broker.timers import Timers
from regulus.broker.topics import Topics
from regulus.errors import CorruptRecord
from regulus.model.happenings import Happenings
from regulus.model.message import MessageExt
from regulus.model.store_result import PutStatus
from regulus.model.topics import dlq_topic
from regulus.record import pop_record
from regulus.record.pop_record import ACK_TAG, BATCH_ACK_TAG, CK_TAG, REVIVE_GROUP, CheckpointKey, PopCheckpoint
from regulus.wire.receipt_handle import NORMAL, normal_topic, retry_flag, retry_topic_v1, retry_topic_v2

READ_PER_TICK_MAX = 256
"""Records of one revive queue."""
REVIVED_PER_TICK_MAX = 128
"""Messages of all."""
PENDING_MAX = 20_000
"""Checkpoints of one queue whose time is not over; more are read when these are done."""
POLL_MS = 100
PUT_AGAIN_MS = (10_000, 20_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000, 480_000, 540_000,
                600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000)
"""How long what cannot be revived waits once more, by how often it did. Source: ckRewriteIntervalsInSeconds."""
GONE = "a popped message that was not acknowledged is gone with an old file of the log, or cannot be read"
UNREADABLE = "a record of the revive topic cannot be read"


class _Pending:
    """A checkpoint in a revive queue, and what of it is acknowledged."""

    __slots__ = ("acked", "checkpoint", "queue_offset")

    def __init__(self, checkpoint: PopCheckpoint, queue_offset: int) -> None:
        self.checkpoint = checkpoint
        self.queue_offset = queue_offset
        self.acked: set[int] = set()


class _Queue:
    def __init__(self, queue_id: int, next_offset: int) -> None:
        self.queue_id = queue_id
        self.next_offset = next_offset
        self.pending: dict[CheckpointKey, _Pending] = {}    # in the order of the queue


class PopRevival:
    def __init__(self, store: MessageStore, storing: Storing, timers: Timers, flights: PopFlights, topics: Topics,
                 groups: SubscriptionGroups, offsets: ConsumerOffsets) -> None:
        self.happenings = Happenings()
        self.revived = 0
        self._store = store
        self._storing = storing
        self._timers = timers
        self._flights = flights
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._queues: list[_Queue] = []
        self._passed = (0, 0)       # what the timers had passed at the last look, and where the log ended then
        self._passed_ms = 0         # what they have passed, of which all is in the queues

    def tick(self, host: bytes, now_ms: int, *, is_v2: bool) -> int | None:
        """Ms until the next look, 0 when there is more to do; None when nobody pops here."""
        config = self._topics.get(self._flights.revive_topic)
        if config is None or not any(self._store.max_offset(config.topic_name, queue_id)
                                     for queue_id in range(config.read_queue_nums)):
            return None
        if len(self._queues) != config.read_queue_nums:
            self._queues = [_Queue(queue_id, self._done_offset(queue_id) + 1)
                            for queue_id in range(config.read_queue_nums)]
        self._note_passed()
        is_behind = False
        room = REVIVED_PER_TICK_MAX
        for queue in self._queues:
            is_read = self._read(queue)
            is_behind |= not is_read
            for pending in self._due(queue, is_read):
                if room <= 0:
                    return 0
                room -= len(pending.checkpoint.offsets)
                if not self._decide(queue, pending, host, now_ms, is_v2):
                    return POLL_MS
            self._commit(queue, now_ms)
        return 0 if is_behind else POLL_MS

    def _done_offset(self, queue_id: int) -> int:
        done = self._offsets.query(REVIVE_GROUP, self._flights.revive_topic, queue_id)
        return max(NOT_FOUND, done, self._store.min_offset(self._flights.revive_topic, queue_id) - 1)

    def _note_passed(self) -> None:
        """What the timers delivered is in the queues when the log is dispatched up to where it ended then."""
        passed_ms, log_end = self._passed
        dispatched = self._store.commit_log_max_offset() - self._store.dispatch_behind_bytes()
        if log_end <= dispatched:
            self._passed_ms = passed_ms
            self._passed = (self._timers.read_ms, self._store.commit_log_max_offset())

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, queue: _Queue) -> bool:
        """Whether all was read."""
        topic = self._flights.revive_topic
        for _ in range(READ_PER_TICK_MAX // 32):
            if len(queue.pending) >= PENDING_MAX:
                return False
            units = self._store.queue_units(topic, queue.queue_id, queue.next_offset, 32)
            for unit in units:
                message = self._store.look_message(unit.physical_offset)
                if message is not None:
                    self._take(queue, message, unit.queue_offset)
                queue.next_offset = unit.queue_offset + 1
            if not units:
                queue.next_offset = max(queue.next_offset, self._store.min_offset(topic, queue.queue_id))
            if len(units) < 32:
                return queue.next_offset >= self._store.max_offset(topic, queue.queue_id)
        return False

    def _take(self, queue: _Queue, message: MessageExt, queue_offset: int) -> None:
        try:
            if message.tags == CK_TAG:
                checkpoint = pop_record.decode_checkpoint(message.body)
                queue.pending[checkpoint.key] = _Pending(checkpoint, queue_offset)
            elif message.tags in (ACK_TAG, BATCH_ACK_TAG):
                acks = pop_record.decode_acks(message.body)
                pending = queue.pending.get(acks.key)
                if pending is not None:
                    pending.acked.update(acks.offsets)
        except CorruptRecord as error:
            self.happenings.note(UNREADABLE, str(error))

    # --- deciding ----------------------------------------------------------------------------------------------------

    def _due(self, queue: _Queue, is_read: bool) -> Iterator[_Pending]:
        if is_read:
            yield from [pending for pending in queue.pending.values()
                        if pending.checkpoint.revive_time <= self._passed_ms]

    def _decide(self, queue: _Queue, pending: _Pending, host: bytes, now_ms: int, is_v2: bool) -> bool:
        """False when the store takes nothing now: the checkpoint stays, without what was copied."""
        checkpoint = pending.checkpoint
        key = checkpoint.key
        flight = self._flights.find(key)
        if flight is not None:
            pending.acked.update(flight.offsets_of(flight.acked))
        if self._topics.get(normal_topic(key.topic, key.group)) is not None:
            for offset in checkpoint.offsets:
                if offset in pending.acked:
                    continue
                if not self._revive(queue, checkpoint, offset, host, now_ms, is_v2):
                    return False
                pending.acked.add(offset)
        self._flights.take_bits(key)
        del queue.pending[key]
        return True

    def _revive(self, queue: _Queue, checkpoint: PopCheckpoint, offset: int, host: bytes, now_ms: int,
                is_v2: bool) -> bool:
        """False when it must be tried again."""
        key = checkpoint.key
        units = self._store.queue_units(key.topic, key.queue_id, offset, 1)
        if not units or units[0].queue_offset != offset:
            self.happenings.note(GONE, f"offset {offset} of {key.topic}, queue {key.queue_id}")
            return True
        message = self._store.look_message(units[0].physical_offset)
        if message is None:
            if self._store.is_missing(units[0].physical_offset):
                return self._put_again(queue, checkpoint, offset, host, now_ms)
            self.happenings.note(GONE, f"offset {offset} of {key.topic}, queue {key.queue_id}")
            return True
        copy = self._copy(message, key, host, now_ms, is_v2)
        if copy is None:
            return True
        status = self._storing.append(copy, now_ms).status
        if status == PutStatus.QUEUE_DAMAGED:
            return self._put_again(queue, checkpoint, offset, host, now_ms)
        self.revived += status == PutStatus.PUT_OK
        return status in (PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL)

    def _copy(self, message: MessageExt, key: CheckpointKey, host: bytes, now_ms: int,
              is_v2: bool) -> MessageExt | None:
        """For the next try, or for the dead letters; None of a group that is gone."""
        group = self._groups.table.get(key.group)
        if group is None:
            return None
        normal = normal_topic(key.topic, key.group)
        if message.reconsume_times >= group.retry_max_times:
            self._topics.create_if_absent(dlq_topic(key.group), 1, now_ms)
            message.topic = normal
            return dead_letter_copy(message, key.group, host)
        topic = key.topic
        if retry_flag(topic, key.group) == NORMAL:
            topic = retry_topic_v2(normal, key.group) if is_v2 else retry_topic_v1(normal, key.group)
        self._topics.create_if_absent(topic, 1, now_ms)
        if self._offsets.query(key.group, topic, 0) == NOT_FOUND:
            self._offsets.commit(key.group, topic, 0, 0, now_ms)
        return popped_again(message, topic, key.pop_time, host)

    def _put_again(self, queue: _Queue, checkpoint: PopCheckpoint, offset: int, host: bytes, now_ms: int) -> bool:
        key = checkpoint.key
        wait_ms = PUT_AGAIN_MS[min(checkpoint.put_again_times, len(PUT_AGAIN_MS) - 1)]
        again = PopCheckpoint(
            key=key._replace(start_offset=offset), broker_name=checkpoint.broker_name,
            invisible_time=now_ms - key.pop_time + wait_ms, offsets=(offset,),
            put_again_times=checkpoint.put_again_times + 1)
        return self._flights.begin(again, queue.queue_id, host, now_ms).status is PutStatus.PUT_OK

    def _commit(self, queue: _Queue, now_ms: int) -> None:
        """Up to the first checkpoint that is not decided."""
        first = next(iter(queue.pending.values()), None)
        done = (queue.next_offset if first is None else first.queue_offset) - 1
        topic = self._flights.revive_topic
        if done > self._offsets.query(REVIVE_GROUP, topic, queue.queue_id):
            self._offsets.commit(REVIVE_GROUP, topic, queue.queue_id, done, now_ms)
