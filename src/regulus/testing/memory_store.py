"""A message store in memory: for tests of the broker, and the second implementation that the contract suite runs.

Records are encoded and decoded as the file store does it; the log is one buffer, a queue is a list. Nothing is durable
and nothing expires.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Generator, Iterable, Iterator

from regulus.errors import MessageIllegal, RecordError, StoreDamaged, StoreNotWritable
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import MessageExt
from regulus.model.message_filter import Filter
from regulus.model.store_result import (
    Appended,
    Arrival,
    GetResult,
    GetStatus,
    LogRead,
    PutStatus,
    QueryResult,
    QueueUnit,
)
from regulus.model.store_rules import StoreRules
from regulus.model.sys_flag import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NOT,
    TRANSACTION_ROLLBACK,
)
from regulus.model.topics import SCHEDULE_TOPIC, is_storable
from regulus.record import message_record
from regulus.record.dispatch_request import DispatchRequest, request_at
from regulus.testing.memory_timers import MemoryTimers

SCANNED_MAX = 800
"""The maximum number of messages that one read passes over, as in a file store."""

_DEFAULT_RULES = StoreRules()


class MemoryStore:
    def __init__(self, rules: StoreRules = _DEFAULT_RULES) -> None:
        self.refusal = ""
        """Set by a test: appends answer SERVICE_NOT_AVAILABLE with this remark."""
        self.damaged: dict[tuple[str, int], str] = {}
        """Set by a test: sentences about queues that accept nothing and cannot be read."""
        self.unmapped: dict[tuple[str, int], str] = {}
        """Set by a test: sentences about queues that cannot be read now."""
        self.missing: range | tuple[int, ...] = ()
        """Set by a test: physical offsets in a missing file of the log."""
        self.timers = MemoryTimers(rules.timer_precision_ms)
        self._rules = rules
        self._log = bytearray()
        self._queues: dict[tuple[str, int], list[QueueUnit]] = {}
        self._next_offsets: dict[tuple[str, int], int] = {}
        self._keys: dict[tuple[str, str], list[int]] = {}
        self._dispatched = 0
        self._deleted: dict[str, int] = {}
        """By topic: the end of the log when it was deleted."""
        self._last_indexed = (0, 0)

    # --- appending ---------------------------------------------------------------------------------------------------

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        appended = self._append((message,), now_ms)
        appended.starts = ()
        return appended

    def append_batch(self, messages: Iterable[MessageExt], now_ms: int) -> Appended:
        places = [(message.topic, message.queue_id, message.sys_flag) for message in messages]
        if not places:
            return Appended(PutStatus.MESSAGE_ILLEGAL, remark="the batch is empty")
        if any(flags & TRANSACTION_MASK for _, _, flags in places):
            return Appended(PutStatus.MESSAGE_ILLEGAL, remark="a batch cannot be part of a transaction")
        if len({place[:2] for place in places}) > 1:
            return Appended(PutStatus.MESSAGE_ILLEGAL, remark="a batch belongs to one queue")
        return self._append(messages, now_ms)

    def _append(self, messages: Iterable[MessageExt], now_ms: int) -> Appended:
        if self.refusal:
            return Appended(PutStatus.SERVICE_NOT_AVAILABLE, remark=self.refusal)
        try:
            for message in messages:
                message_record.record_size(message)
                if message.sys_flag & INNER_BATCH:
                    return Appended(PutStatus.MESSAGE_ILLEGAL, remark="a store in memory keeps no inner batches")
                if (message.topic, message.queue_id) in self.damaged:
                    return Appended(PutStatus.QUEUE_DAMAGED,
                                    remark=self.damaged[message.topic, message.queue_id])
                if not is_storable(message.topic, message.queue_id):
                    return Appended(PutStatus.MESSAGE_ILLEGAL, remark=f"{message.topic!r} is no topic's name")
        except MessageIllegal as error:
            return Appended(PutStatus.MESSAGE_ILLEGAL, remark=str(error))
        starts: list[int] = []
        offsets: list[int] = []
        for message in messages:
            queue = (message.topic, message.queue_id)
            has_offset = message.sys_flag & TRANSACTION_MASK in (TRANSACTION_NOT, TRANSACTION_COMMIT)
            message.queue_offset = self._next_offsets.get(queue, 0) if has_offset else 0
            message.physical_offset = len(self._log)
            message.store_timestamp = now_ms
            if has_offset:
                self._next_offsets[queue] = message.queue_offset + 1
            starts.append(message.physical_offset)
            offsets.append(message.queue_offset)
            self._log += message_record.encode(message)
        return Appended(PutStatus.PUT_OK, starts[0], len(self._log), offsets[0], "", tuple(starts))

    def keep_batches(self, topic: str) -> None:
        """Does nothing: there are no such queues in memory. Each message is a record, and inner batches are refused."""

    def dispatch(self, count_max: int, wanted: Container[tuple[str, int]] | None = None,
                 with_properties: bool = False) -> list[Arrival]:
        """Make messages visible, as in the file store: appended messages become visible only here."""
        arrivals = []
        while count_max > 0 and self._dispatched < len(self._log):
            request = request_at(self._log, self._dispatched, len(self._log), False)
            count_max -= 1
            self._dispatched += request.size
            transaction = request.sys_flag & TRANSACTION_MASK
            if transaction != TRANSACTION_ROLLBACK:
                self._index(request)
            if transaction not in (TRANSACTION_NOT, TRANSACTION_COMMIT) \
                    or request.physical_offset < self._deleted.get(request.topic, 0):
                continue
            if request.topic == SCHEDULE_TOPIC and request.delay_level > 0:
                level = min(request.delay_level, len(self._rules.delay_ladder_ms))
                request.tags_code = request.store_timestamp + self._rules.delay_ladder_ms[level - 1]
            queue = self._queues.setdefault((request.topic, request.queue_id), [])
            queue.append(QueueUnit(request.queue_offset, request.physical_offset, request.size, request.tags_code))
            if wanted is None or (request.topic, request.queue_id) in wanted:
                arrivals.append(Arrival(request.topic, request.queue_id, request.queue_offset, request.tags_code,
                                        request.store_timestamp, request.properties() if with_properties else None))
        return arrivals

    def _index(self, request: DispatchRequest) -> None:
        for key in (request.uniq_key, *request.keys.split(" ")):
            if key:
                self._keys.setdefault((request.topic, key), []).append(request.physical_offset)
                self._last_indexed = (request.store_timestamp, request.physical_offset)

    def dispatch_behind_bytes(self) -> int:
        return len(self._log) - self._dispatched

    # --- reading -----------------------------------------------------------------------------------------------------

    def get_message(self, topic: str, queue_id: int, queue_offset: int, count_max: int, bytes_max: int,
                    message_filter: Filter) -> GetResult:
        self._check(topic, queue_id)
        if (topic, queue_id) not in self._queues:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [], 0, 0)
        units = self._queues[topic, queue_id]
        high = len(units)
        if queue_offset < 0:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, 0, 0, high, [], 0, 0)
        if queue_offset == high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, 0, high, [], 0, 0)
        if queue_offset > high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, 0, high, [], 0, 0)
        buffers: list[bytes | memoryview] = []
        size = 0
        next_offset = queue_offset
        for unit in units[queue_offset:queue_offset + SCANNED_MAX]:
            matches = message_filter.takes(unit.tags_code) and (
                not message_filter.reads_properties
                or message_filter.matches_all(message_record.decode(self._log, unit.physical_offset, False).properties))
            if matches and buffers and (len(buffers) >= count_max or size + unit.size > bytes_max):
                break
            next_offset += 1
            if matches:
                buffers.append(self._slice(unit.physical_offset, unit.size))
                size += unit.size
                if len(buffers) >= count_max:
                    break
        status = GetStatus.FOUND if buffers else GetStatus.NO_MATCHED_MESSAGE
        looked = sum(unit.size for unit in units[queue_offset:next_offset]) * message_filter.weight
        return GetResult(status, next_offset, 0, high, buffers, len(buffers), size,
                         looked if message_filter.reads_properties else 0)

    def _slice(self, start: int, size: int) -> memoryview:
        return memoryview(bytes(self._log[start:start + size]))

    def min_offset(self, topic: str, queue_id: int) -> int:
        self._check(topic, queue_id)
        return 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        self._check(topic, queue_id)
        return len(self._queues.get((topic, queue_id), ()))

    def known_max_offset(self, topic: str, queue_id: int) -> int:
        return len(self._queues.get((topic, queue_id), ()))

    def _check(self, topic: str, queue_id: int) -> None:
        if (topic, queue_id) in self.damaged:
            raise StoreDamaged(self.damaged[topic, queue_id])
        if (topic, queue_id) in self.unmapped:
            raise StoreNotWritable(self.unmapped[topic, queue_id])

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, upper: bool = False) -> int:
        units = self._queues.get((topic, queue_id), [])
        times = [self._stored_at(unit) for unit in units]
        return max(bisect_right(times, timestamp) - 1, 0) if upper else bisect_left(times, timestamp)

    def store_timestamp(self, topic: str, queue_id: int, queue_offset: int) -> int:
        units = self._queues.get((topic, queue_id), [])
        return self._stored_at(units[queue_offset]) if 0 <= queue_offset < len(units) else -1

    def _stored_at(self, unit: QueueUnit) -> int:
        return message_record.decode(self._log, unit.physical_offset, False).store_timestamp

    def queue_units(self, topic: str, queue_id: int, queue_offset: int, count_max: int) -> list[QueueUnit]:
        self._check(topic, queue_id)
        if queue_offset < 0:
            return []
        return self._queues.get((topic, queue_id), [])[queue_offset:queue_offset + count_max]

    def has_queue(self, topic: str, queue_id: int) -> bool:
        return (topic, queue_id) in self._queues

    def queues(self) -> list[tuple[str, int]]:
        return sorted(self._queues)

    def queue_ids(self, topic: str) -> list[int]:
        return [queue_id for name, queue_id in self.queues() if name == topic]

    def look_message(self, physical_offset: int) -> MessageExt | None:
        message = None if self.is_missing(physical_offset) else self._decode(physical_offset)
        return message if message is not None and self._is_own_record(message) else None

    def look_head(self, physical_offset: int) -> MessageExt | None:
        message = None if self.is_missing(physical_offset) else self._decode(physical_offset)
        if message is not None:
            message.body = b""
        return message

    def is_missing(self, physical_offset: int) -> bool:
        return physical_offset in self.missing

    def _decode(self, physical_offset: int) -> MessageExt | None:
        if not 0 <= physical_offset < len(self._log):
            return None
        try:
            message = message_record.decode(self._log, physical_offset)
        except RecordError:
            return None
        return message if message.physical_offset == physical_offset else None

    def _is_own_record(self, message: MessageExt) -> bool:
        units = self._queues.get((message.topic, message.queue_id), ())
        if message.queue_offset < len(units) and \
                units[message.queue_offset].physical_offset == message.physical_offset:
            return True
        position = self._dispatched
        while position < message.physical_offset:
            position += request_at(self._log, position, len(self._log), False).size
        return position == message.physical_offset

    def record_bytes(self, physical_offset: int) -> memoryview | None:
        message = self._decode(physical_offset)
        if message is not None and (message.topic, message.queue_id) in self._queues:
            message = self.look_message(physical_offset)
        return self._slice(physical_offset, message.store_size) if message is not None else None

    def messages_holding(self, text: bytes, physical_offset: int) -> Iterator[MessageExt]:
        return (message for message in self.messages_holding_in_steps(text, physical_offset) if message is not None)

    def messages_holding_in_steps(self, text: bytes, physical_offset: int) -> Iterator[MessageExt | None]:
        position = physical_offset
        while position < len(self._log):
            message = message_record.decode(self._log, position, False)
            if text in self._log[position:position + message.store_size]:
                yield message
            else:
                yield None
            position += message.store_size

    def query_message(self, topic: str, key: str, count_max: int, begin: int, end: int,
                      before: int = LONG_MAX) -> QueryResult:
        found = []
        for physical_offset in self._keys.get((topic, key), ()):
            message = message_record.decode(self._log, physical_offset)
            if begin <= message.store_timestamp <= end and physical_offset < before:
                found.append(self._slice(physical_offset, message.store_size))
        return QueryResult(found[-count_max:], *self._last_indexed)

    def query_message_in_steps(self, topic: str, key: str, count_max: int, begin: int, end: int,
                               before: int = LONG_MAX) -> Generator[None, None, QueryResult]:
        yield from ()
        return self.query_message(topic, key, count_max, begin, end, before)

    def delete_topic(self, topic: str) -> None:
        for queue in [queue for queue in self._next_offsets if queue[0] == topic]:
            self._queues.pop(queue, None)
            del self._next_offsets[queue]
        self._deleted[topic] = len(self._log)

    def commit_log_min_offset(self) -> int:
        return 0

    def commit_log_max_offset(self) -> int:
        return len(self._log)

    @property
    def flushed_offset(self) -> int:
        """The end of the log, because every append counts as flushed."""
        return len(self._log)

    def read_log(self, physical_offset: int, size_max: int, end: int) -> LogRead | None:
        read_to = physical_offset
        while read_to < end:
            message = self._decode(read_to)
            if message is None:
                return None
            behind = read_to + message.store_size
            if behind > end or (read_to > physical_offset and behind > physical_offset + size_max):
                break
            read_to = behind
        return LogRead(self._slice(physical_offset, read_to - physical_offset), read_to)

    def log_position_before(self, timestamp: int) -> int:
        return 0

    def earliest_store_timestamp(self) -> int:
        message = self._decode(0)
        return message.store_timestamp if message is not None else -1
