"""Messages that were popped and are not acknowledged yet.

A pop is noted in the log before its answer is sent. Its checkpoint waits in the topic of timers until a second before
the messages become visible again, and is then in the revive topic, which `pop_revival` reads. Copies of the newest
checkpoints are kept here, so that most acknowledgements need no record of their own:

    all messages of a pop are acknowledged    one record, which removes the checkpoint from the timers
    some messages are                         one record per ACK_FLUSH_MS
    the pop is not known here                 one record for each request, if it may be of an earlier run

If the process is killed, acks of the last ACK_FLUSH_MS may be lost, and their messages are delivered again.

Source: PopBufferMergeService, AckMessageProcessor, ChangeInvisibleTimeProcessor.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from regulus.broker.config import BrokerConfig
from regulus.broker.message_store import MessageStore
from regulus.broker.placement import real_queue_id
from regulus.broker.storing import Storing
from regulus.errors import CorruptRecord, RecordError
from regulus.model import message_properties as names
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import MessageExt
from regulus.model.store_result import Appended, PutStatus
from regulus.model.topics import REVIVE_TOPIC_PREFIX, TIMER_TOPIC
from regulus.record import message_record, pop_record
from regulus.record.pop_record import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CK_TAG,
    NO_EPOCH,
    Acks,
    CheckpointKey,
    PopCheckpoint,
)

FLIGHTS_MAX = 100_000
"""Pops that are kept here; beyond the limit the oldest are left to the log."""
ACK_FLUSH_MS = 1_000
"""How long in ms an ack may be kept here without a record."""
FLUSHED_PER_TICK_MAX = 128
"""Bounds the appends of one tick, so that other requests are served in between."""
BEFORE_REVIVAL_MS = 1_000
"""Time in ms by which a checkpoint reaches the revive topic before its messages become visible again."""

RECALLED_MAX = 64
"""Records about one pop: its checkpoint, and acks of each message."""
RECALLED_BEFORE_MS = 60_000
"""Time in ms by which the record of a pop may be older than the time of the pop."""
MOVES_NOTHING = -1
"""Number of set-backs for records that move no offset: a changed time, or a revival that is put off."""

_MARKER_BODY = b"0"
_AT_ONCE_MS = 0
"""Time of a record that does not wait as a timer."""


def checkpoint_of(message: MessageExt) -> PopCheckpoint:
    """Read a checkpoint from its record. Raises CorruptRecord."""
    checkpoint = pop_record.decode_checkpoint(message.body)
    epoch = names.number(message.properties.get(names.TOPIC_EPOCH))
    removed = max(0, names.number(message.properties.get(names.GROUP_REMOVED)))
    return checkpoint if epoch == NO_EPOCH else replace(checkpoint, topic_epoch=epoch, group_removed=removed)


class Flight:
    """One pop. In `acked` and `unwritten` bit i stands for the i-th message."""

    __slots__ = ("acked", "checkpoint", "revive_queue_id", "since_ms", "unwritten")

    def __init__(self, checkpoint: PopCheckpoint, revive_queue_id: int) -> None:
        self.checkpoint = checkpoint
        self.revive_queue_id = revive_queue_id
        self.acked = 0
        self.unwritten = 0
        self.since_ms = 0

    def bits_of(self, offsets: Iterable[int]) -> int:
        """Bits of these offsets; offsets that are not of this pop have none."""
        if offsets == self.checkpoint.offsets:
            return self.all_bits
        bits = 0
        for offset in offsets:
            if offset in self.checkpoint.offsets:
                bits |= 1 << self.checkpoint.offsets.index(offset)
        return bits

    def offsets_of(self, bits: int) -> tuple[int, ...]:
        return tuple(offset for index, offset in enumerate(self.checkpoint.offsets) if bits >> index & 1)

    def is_told_by(self, revive_queue_id: int, invisible_time: int) -> bool:
        """Whether this pop issued a receipt with these values. The receipt's key is that of the pop."""
        return revive_queue_id == self.revive_queue_id and invisible_time == self.checkpoint.invisible_time

    def is_out(self, offset: int) -> bool:
        """Whether the offset is of this pop and not acknowledged."""
        bit = self.bits_of((offset,))
        return bool(bit & ~self.acked)

    @property
    def out_count(self) -> int:
        """Messages that are not acknowledged."""
        return len(self.checkpoint.offsets) - self.acked.bit_count()

    @property
    def is_done(self) -> bool:
        return self.acked == self.all_bits

    @property
    def all_bits(self) -> int:
        return (1 << len(self.checkpoint.offsets)) - 1


class PopFlights:
    """Pops in flight. `host` arguments are the address under which the broker stores its own records."""

    def __init__(self, config: BrokerConfig, store: MessageStore, storing: Storing, started_ms: int) -> None:
        self.revive_topic = REVIVE_TOPIC_PREFIX + config.broker_cluster_name
        self.broker_name = config.broker_name
        self._store = store
        self._storing = storing
        self._known_from_ms = started_ms
        """Pops since this time with unacknowledged messages are all kept here."""
        # Ordered, because removing the first entry of a plain dict again and again visits all entries that were removed
        # before.
        self._flights: OrderedDict[CheckpointKey, Flight] = OrderedDict()
        self._partial: OrderedDict[CheckpointKey, Flight] = OrderedDict()   # with acks that have no record yet

    def __len__(self) -> int:
        return len(self._flights)

    def all(self) -> list[Flight]:
        """A copy of the list, the oldest first."""
        return list(self._flights.values())

    def begin(self, checkpoint: PopCheckpoint, revive_queue_id: int, host: bytes, now_ms: int,
              set_backs: int = MOVES_NOTHING) -> Appended:
        """Note a pop; its messages may be returned when the record is stored. `set_backs` is the number of set-backs of
        the offset that the pop moves."""
        appended = self.put(checkpoint, revive_queue_id, host, now_ms, set_backs)
        if appended.status is PutStatus.PUT_OK:
            self._flights[checkpoint.key] = Flight(checkpoint, revive_queue_id)
            while len(self._flights) > FLIGHTS_MAX:     # one too many, and those that were recalled since
                self._let_go(next(iter(self._flights.values())), host, now_ms)
        return appended

    def put(self, checkpoint: PopCheckpoint, revive_queue_id: int, host: bytes, now_ms: int,
            set_backs: int = MOVES_NOTHING) -> Appended:
        """Store a checkpoint, so that its messages become visible at its time, without keeping it as in flight."""
        message = self._message(checkpoint.encode(), revive_queue_id, CK_TAG, checkpoint.unique_key,
                                checkpoint.revive_time - BEFORE_REVIVAL_MS, host, now_ms)
        message.properties[names.SET_BACKS] = str(set_backs)
        if checkpoint.topic_epoch != NO_EPOCH:
            message.properties[names.TOPIC_EPOCH] = str(checkpoint.topic_epoch)
        if checkpoint.group_removed:
            message.properties[names.GROUP_REMOVED] = str(checkpoint.group_removed)
        return self._storing.store(message, now_ms)

    def note_decided(self, key: CheckpointKey, offsets: list[int], revive_queue_id: int, host: bytes,
                     now_ms: int) -> None:
        """Record that these messages of a pop are acknowledged or visible again. If the store refuses, some may become
        visible twice after a kill."""
        self._write(Acks(key, self.broker_name, tuple(offsets)), revive_queue_id, _AT_ONCE_MS, host, now_ms)

    def know_from(self, time_ms: int) -> None:
        """At a start: treat pops before this time as those of earlier runs. They may be in the future of the current
        clock, if that was set back or is another machine's."""
        self._known_from_ms = max(self._known_from_ms, time_ms)

    def find(self, key: CheckpointKey) -> Flight | None:
        return self._flights.get(key)

    def recall(self, key: CheckpointKey, now_ms: int) -> Flight | None:
        """The pop, if its time is not over.

        A pop of an earlier run is found in the log by the message index, and kept from then on. None if nothing of it
        can be in flight, or without an index.
        """
        flight = self._flights.get(key) or self._found(key)
        if flight is None or now_ms >= flight.checkpoint.revive_time:
            return None
        self._flights[key] = flight
        return flight

    def _found(self, key: CheckpointKey) -> Flight | None:
        if key.pop_time >= self._known_from_ms:
            return None
        flight: Flight | None = None
        acked: dict[int, set[int]] = {}     # by revive queue: acks in another queue than the checkpoint's do not count
        for message in self._records_of(key):
            if names.TIMER_DEL_UNIQUE_KEY in message.properties:
                return None     # all messages are acknowledged
            try:
                queue_id = real_queue_id(message.properties)
                queue_id = message.queue_id if queue_id < 0 else queue_id
                if message.tags == CK_TAG:
                    checkpoint = checkpoint_of(message)
                    if checkpoint.key == key and not checkpoint.put_again_times:
                        flight = Flight(checkpoint, queue_id)
                elif message.tags in (ACK_TAG, BATCH_ACK_TAG):
                    acks = pop_record.decode_acks(message.body)
                    acked.setdefault(queue_id, set()).update(acks.offsets if acks.key == key else ())
            except CorruptRecord:
                continue
        if flight is not None:
            flight.acked = flight.bits_of(acked.get(flight.revive_queue_id, ()))
        return flight

    def _records_of(self, key: CheckpointKey) -> Iterator[MessageExt]:
        """Records about the pop among the timers and in the revive topic. The index also finds others with the same
        hash."""
        unique_key, begin = key.unique_key(self.broker_name), max(0, key.pop_time - RECALLED_BEFORE_MS)
        for topic in (TIMER_TOPIC, self.revive_topic):
            for buffer in self._store.query_message(topic, unique_key, RECALLED_MAX, begin, LONG_MAX).buffers:
                try:
                    message = message_record.decode(buffer)
                except RecordError:
                    continue
                properties = message.properties
                if self.revive_topic in (message.topic, properties.get(names.REAL_TOPIC)) \
                        and unique_key in (properties.get(names.UNIQUE_KEY), properties.get(names.KEYS)):
                    yield message

    def end_receipt(self, flight: Flight, offset: int, host: bytes, now_ms: int) -> None:
        """End a receipt because its message has another time. Recorded at once: otherwise a kill could deliver the
        message at the old time, although the consumer got the new one."""
        self._ack(flight, flight.bits_of((offset,)), host, now_ms)
        if flight.unwritten and flight.checkpoint.key in self._partial:
            self._write_partial(flight, host, now_ms)

    def ack(self, acks: Acks, revive_queue_id: int, invisible_time: int, host: bytes, now_ms: int) -> Appended | None:
        """Acknowledge messages; None when that needs no record now."""
        flight = self._flights.get(acks.key)
        if flight is None:
            if acks.key.pop_time >= self._known_from_ms or now_ms >= acks.key.pop_time + invisible_time:
                return None     # acknowledged before, visible again, or never popped
            return self._write(acks, revive_queue_id, acks.key.pop_time + invisible_time, host, now_ms)
        if not flight.is_told_by(revive_queue_id, invisible_time):
            return None
        return self._ack(flight, flight.bits_of(acks.offsets) & ~flight.acked, host, now_ms)

    def _ack(self, flight: Flight, bits: int, host: bytes, now_ms: int) -> Appended | None:
        if not bits:
            return None
        key = flight.checkpoint.key
        flight.acked |= bits
        flight.unwritten |= bits
        if flight.is_done:
            return self._end(flight, host, now_ms)
        if key not in self._partial:
            flight.since_ms = now_ms
            self._partial[key] = flight
        return None

    def take_bits(self, key: CheckpointKey) -> int:
        """The acknowledged bits of a pop whose messages become visible again, which is then no longer in flight."""
        flight = self._flights.pop(key, None)
        self._partial.pop(key, None)
        return flight.acked if flight is not None else 0

    def tick(self, host: bytes, now_ms: int) -> int | None:
        """Record acks that were kept long enough; returns ms until the next call."""
        for _ in range(FLUSHED_PER_TICK_MAX):
            flight = next(iter(self._partial.values()), None)
            if flight is None:
                return None
            wait_ms = flight.since_ms + ACK_FLUSH_MS - now_ms
            if wait_ms > 0:
                return wait_ms
            if not self._write_partial(flight, host, now_ms):
                return ACK_FLUSH_MS
        return 0

    def stop(self, host: bytes, now_ms: int) -> None:
        """At the end of a run: record all acks that have no record."""
        while self._partial and self._write_partial(next(iter(self._partial.values())), host, now_ms):
            pass

    # -----------------------------------------------------------------------------------------------------------------

    def _end(self, flight: Flight, host: bytes, now_ms: int) -> Appended:
        """End a pop whose messages are all acknowledged. If the store refuses, it is kept and tried again."""
        checkpoint = flight.checkpoint
        leaves_ms = checkpoint.revive_time - BEFORE_REVIVAL_MS
        if now_ms < leaves_ms - BEFORE_REVIVAL_MS:
            marker = self._message(_MARKER_BODY, flight.revive_queue_id, CK_TAG, checkpoint.unique_key, leaves_ms,
                                   host, now_ms)
            marker.properties[names.TIMER_DEL_UNIQUE_KEY] = f"{self.revive_topic}+{checkpoint.unique_key}"
            appended = self._storing.store(marker, now_ms)
        else:
            appended = self._write(Acks(checkpoint.key, self.broker_name, flight.offsets_of(flight.unwritten)),
                                   flight.revive_queue_id, checkpoint.revive_time, host, now_ms)
        if appended.status is PutStatus.PUT_OK:
            self._flights.pop(checkpoint.key, None)
            self._partial.pop(checkpoint.key, None)
        else:
            flight.since_ms = now_ms
            self._partial[checkpoint.key] = flight
        return appended

    def _write_partial(self, flight: Flight, host: bytes, now_ms: int) -> bool:
        """Record the acks of a pop; False when the store refuses now."""
        checkpoint = flight.checkpoint
        if flight.is_done:
            return self._end(flight, host, now_ms).status is PutStatus.PUT_OK
        appended = self._write(Acks(checkpoint.key, self.broker_name, flight.offsets_of(flight.unwritten)),
                               flight.revive_queue_id, checkpoint.revive_time, host, now_ms)
        if appended.status is not PutStatus.PUT_OK:
            return False
        flight.unwritten = 0
        del self._partial[checkpoint.key]
        return True

    def _let_go(self, flight: Flight, host: bytes, now_ms: int) -> None:
        """Leave a pop, and with it others of its time, to the log: acks of pops that are not kept need a record
        each."""
        key = flight.checkpoint.key
        if flight.unwritten:
            self._write_partial(flight, host, now_ms)
        self._flights.pop(key, None)
        self._partial.pop(key, None)
        self._known_from_ms = max(self._known_from_ms, key.pop_time + 1)

    def _write(self, acks: Acks, revive_queue_id: int, due_ms: int, host: bytes, now_ms: int) -> Appended:
        message = self._message(acks.encode(), revive_queue_id, acks.tag, acks.unique_key, due_ms, host, now_ms)
        message.properties[names.KEYS] = acks.key.unique_key(acks.broker_name)      # for `recall`
        return self._storing.store(message, now_ms)

    def _message(self, body: bytes, queue_id: int, tag: str, unique_key: str, due_ms: int, host: bytes,
                 now_ms: int) -> MessageExt:
        properties = {names.TAGS: tag, names.UNIQUE_KEY: unique_key}
        if due_ms != _AT_ONCE_MS:
            properties[names.TIMER_DELIVER_MS] = str(due_ms)
        return MessageExt(self.revive_topic, body, properties, queue_id, 0, 0, now_ms, host, host, 0)
