"""A store in memory for the broker's tests."""

from collections.abc import Sequence

from regulus.model.delay_level import parse_ladder
from regulus.model.message import MessageExt
from regulus.model.store_result import Appended, Arrival, GetResult, GetStatus, PutStatus, QueryResult, QueueUnit
from regulus.record import message_record
from regulus.record.java_hash import tags_code


class SmallStore:
    def __init__(self, ladder: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h") -> None:
        self.log = bytearray()
        self.ends: dict[tuple[str, int], int] = {}
        self.table: dict[tuple[str, int], list[QueueUnit]] = {}
        self.times: dict[tuple[str, int], list[int]] = {}
        self.arrivals: list[Arrival] = []
        self.ladder = parse_ladder(ladder)
        self.refuse: PutStatus | None = None

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        if self.refuse is not None:
            return Appended(self.refuse, remark="refused by the test")
        key = (message.topic, message.queue_id)
        message.queue_offset = self.ends.get(key, 0)
        message.physical_offset = len(self.log)
        message.store_timestamp = now_ms
        record = message_record.encode(message)
        self.log += record
        self.ends[key] = message.queue_offset + 1
        code = tags_code(message.tags)
        if message.topic == "SCHEDULE_TOPIC_XXXX":
            code = now_ms + self.ladder[message.queue_id]
        self.table.setdefault(key, []).append(
            QueueUnit(message.queue_offset, message.physical_offset, len(record), code))
        self.times.setdefault(key, []).append(now_ms)
        self.arrivals.append(Arrival(*key, message.queue_offset, code, now_ms))
        return Appended(PutStatus.PUT_OK, message.physical_offset, len(self.log), message.queue_offset)

    def append_batch(self, messages: Sequence[MessageExt], now_ms: int) -> Appended:
        results = [self.append(message, now_ms) for message in messages]
        if results[0].status:
            return results[0]
        return Appended(PutStatus.PUT_OK, results[0].start, results[-1].end, results[0].queue_offset,
                        starts=tuple(result.start for result in results))

    def get_message(self, topic: str, queue_id: int, queue_offset: int, count_max: int, bytes_max: int,
                    tags_codes: frozenset[int] | None) -> GetResult:
        units = self.table.get((topic, queue_id))
        if units is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [], 0, 0)
        end = len(units)
        if queue_offset >= end:
            status = GetStatus.OFFSET_OVERFLOW_ONE if queue_offset == end else GetStatus.OFFSET_OVERFLOW_BADLY
            return GetResult(status, end, 0, end, [], 0, 0)
        buffers: list[memoryview] = []
        at = queue_offset
        for unit in units[queue_offset:]:
            if len(buffers) == count_max:
                break
            at = unit.queue_offset + 1
            if tags_codes is None or unit.tags_code in tags_codes:
                buffers.append(memoryview(bytes(self.log[unit.physical_offset:unit.physical_offset + unit.size])))
        status = GetStatus.FOUND if buffers else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(status, at, 0, end, buffers, len(buffers), sum(map(len, buffers)))

    def min_offset(self, topic: str, queue_id: int) -> int:
        return 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), 0)

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, upper: bool = False) -> int:
        times = self.times.get((topic, queue_id), [])
        if upper:
            return max([i for i, time in enumerate(times) if time <= timestamp], default=0)
        return next((i for i, time in enumerate(times) if time >= timestamp), len(times))

    def store_timestamp(self, topic: str, queue_id: int, queue_offset: int) -> int:
        times = self.times.get((topic, queue_id), [])
        return times[queue_offset] if 0 <= queue_offset < len(times) else -1

    def queue_units(self, topic: str, queue_id: int, queue_offset: int, count_max: int) -> list[QueueUnit]:
        return self.table.get((topic, queue_id), [])[queue_offset:queue_offset + count_max]

    def queues(self) -> list[tuple[str, int]]:
        return list(self.table)

    def look_message(self, physical_offset: int) -> MessageExt | None:
        if not 0 <= physical_offset < len(self.log):
            return None
        return message_record.decode(bytes(self.log), physical_offset)

    def record_bytes(self, physical_offset: int) -> memoryview | None:
        message = self.look_message(physical_offset)
        return None if message is None else memoryview(bytes(self.log))[physical_offset:][:message.store_size]

    def query_message(self, topic: str, key: str, count_max: int, begin: int, end: int) -> QueryResult:
        found = []
        for (name, _), units in self.table.items():
            for unit in units:
                message = message_record.decode(bytes(self.log), unit.physical_offset)
                if name == topic and (key in message.keys.split() or key == message.message_id):
                    found.append(memoryview(bytes(self.log))[unit.physical_offset:][:unit.size])
        return QueryResult(found[:count_max], 0, 0)

    def delete_topic(self, topic: str) -> None:
        for key in [key for key in self.table if key[0] == topic]:
            del self.table[key]

    def commit_log_min_offset(self) -> int:
        return 0

    def commit_log_max_offset(self) -> int:
        return len(self.log)

    def dispatch_behind_bytes(self) -> int:
        return 0

    def earliest_store_timestamp(self) -> int:
        return -1
