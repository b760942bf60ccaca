"""The consume queue of a topic of `queue.type=BatchCQ`, whose records may have many messages each.

It has one unit of 46 bytes for each record, without gaps, from position 0 on. A unit states the queue offset of its
first message: units are found by bisection, and a message inside a record by the unit of that record. Where records at
its end are lost, one filler says at which offset the queue continues. `start`, `end` and `known_end` are positions, as
in other queues; queue offsets count messages.

Source: BatchConsumeQueue.
"""

from collections.abc import Callable, Iterator

from regulus.model.store_result import QueueUnit
from regulus.record import batch_unit
from regulus.record.batch_unit import FILLER_SIZE, UNIT_SIZE, BatchUnit
from regulus.record.dispatch_request import DispatchRequest
from regulus.store import disk
from regulus.store.consume_queue import RESERVE_MAX, ConsumeQueue
from regulus.store.mapped_file import MappedFile
from regulus.store.mapped_file_queue import MappedFileQueue

_UNIT = UNIT_SIZE
_SCAN = 1424 * UNIT_SIZE
_NOT_READ = -1, 0
_OFFSET_MAX = 1 << 62
"""No queue ends beyond this, whatever the records of a copied log say: so there is room for the messages sent later."""


class BatchConsumeQueue(ConsumeQueue):
    def __init__(self, topic: str, queue_id: int, files: MappedFileQueue, birth: int = -1) -> None:
        super().__init__(topic, queue_id, files, birth)
        self.is_batch = True
        self._max_offset = 0
        self._first = _NOT_READ
        """A start position, and the offset of the first message there."""

    @property
    def min_offset(self) -> int:
        """The first queue offset, read once for each start; read and not mapped, because workers call this too."""
        start, offset = self._first
        if start != self.start:
            start = self.start
            first = self._read_unit(start)
            if first is None:
                return self._max_offset
            offset = first.queue_offset
            self._first = start, offset
        return offset

    @property
    def max_offset(self) -> int:
        return self._max_offset

    # --- writing -----------------------------------------------------------------------------------------------------

    def put_record(self, request: DispatchRequest) -> bool:
        """Add the unit of one record; False when the record, or its messages, already have units. Raises
        StoreNotWritable, and changes nothing then."""
        if request.physical_offset + request.size <= self.max_physical_offset:
            return False
        offset = request.queue_offset
        if offset + request.message_count > _OFFSET_MAX:
            self.has_gap = True
            return False
        if offset < self._max_offset:
            if offset:
                self.has_gap = self.has_gap or self.max_physical_offset >= 0
                return False
            # A record later in the log has a lower first offset: between them the topic was deleted and made again.
            self.files.remove_all()
            self.tail = None
            self.start = self.end = self._max_offset = 0
            self._first = _NOT_READ
        has_gap = self.has_gap or offset > self._max_offset
        self._add(BatchUnit(request.physical_offset, request.size, request.tags_code, request.store_timestamp, offset,
                            request.message_count))
        self.has_gap = has_gap
        self.max_physical_offset = request.physical_offset + request.size
        return True

    def _add(self, unit: BatchUnit) -> None:
        file = self.tail
        if file is None or self.end >= file.start + file.size:
            file = self.files.extend(self.end)
            self.tail = file
        position = self.end - file.start
        if position + _UNIT > file.reserved_position:
            file.reserve(position + max(_UNIT, min(position, RESERVE_MAX)))
        file.write(position, batch_unit.encode(unit))
        file.wrote_position = position + _UNIT
        self.end += _UNIT
        self._max_offset = unit.next_offset
        self.next_offset = max(self.next_offset, self._max_offset)

    def go_on_at(self, queue_offset: int) -> None:
        if queue_offset > self._max_offset:
            last = self.unit_at(self.end - _UNIT)
            self._add(BatchUnit(max(self.max_physical_offset, 0), FILLER_SIZE, 0,
                                last.store_timestamp if last is not None else 0, queue_offset - 1, 1))

    # --- reading -----------------------------------------------------------------------------------------------------

    def unit_at(self, position: int) -> BatchUnit | None:
        return next(batch_unit.decode_all(self.readable(position, _UNIT)), None)

    def last_unit(self) -> BatchUnit | None:
        """The last unit, read and not mapped; None when no unit may be served."""
        return self._read_unit(self.end - _UNIT)

    def batch_units(self, queue_offset: int, size_max: int) -> Iterator[tuple[BatchUnit, int]]:
        """Units from the record that contains the message on, within one file and `size_max` bytes.

        Each comes with the offset of the first message in the next record. If there is no next record, the offset after
        its own messages, and the end of the queue, take its place.
        """
        position = self._position_of(queue_offset)
        units = batch_unit.decode_all(self.readable(position, max(size_max // _UNIT, 1) * _UNIT))
        unit = next(units, None)
        while unit is not None:
            position += _UNIT
            following = next(units, None)
            behind = following if following is not None else self._unit_from(position, is_mapped=True)[1]
            yield unit, behind.queue_offset if behind is not None and behind.queue_offset > unit.queue_offset \
                else self._max_offset
            unit = following

    def units(self, queue_offset: int, count_max: int) -> list[QueueUnit]:
        found: list[QueueUnit] = []
        position = self._position_of(queue_offset)
        while len(found) < count_max and position < self.end:
            data = self.readable(position, (count_max - len(found)) * _UNIT)
            if not data:
                break
            found += [_of_record(unit) for unit in batch_unit.decode_all(data) if not unit.is_filler]
            position += len(data)
        return found

    def unit(self, queue_offset: int) -> QueueUnit | None:
        """The unit of the record that contains the message."""
        unit = self.unit_at(self._position_of(queue_offset))
        return _of_record(unit) if unit is not None and unit.queue_offset <= queue_offset and not unit.is_filler \
            else None

    def offset_by_time(self, timestamp: int, *, upper: bool) -> int:
        """The offset of the first record stored at `timestamp` or later; the last record if all are older.

        With `upper`, if several records were stored exactly at `timestamp`, the last of them.
        """
        last = self.unit_at(self.end - _UNIT)
        if last is None or timestamp >= last.store_timestamp:
            return last.queue_offset if last is not None else 0
        found = self.unit_at(self._first_position(lambda unit: unit.store_timestamp >= timestamp))
        if upper and found is not None and found.store_timestamp == timestamp:
            behind, _ = self._parted(lambda unit: unit.store_timestamp > timestamp)
            found = self.unit_at(behind - _UNIT)
        return found.queue_offset if found is not None else self._max_offset

    def _position_of(self, queue_offset: int) -> int:
        """The position of the unit whose record contains the message, or of the next one; the end of the queue after
        the last message.

        The search compares only first offsets: a damaged message count hides no other record.
        """
        behind, found = self._parted(lambda unit: unit.queue_offset > queue_offset)
        last = self.unit_at(behind - _UNIT)
        return behind - _UNIT if last is not None and queue_offset < max(last.next_offset, last.queue_offset + 1) \
            else found

    def _first_position(self, is_there: Callable[[BatchUnit], bool], is_mapped: bool = True) -> int:
        """The position of the first unit for which `is_there` is true, as it is for all later ones; the end when there
        is none."""
        return self._parted(is_there, is_mapped)[1]

    def _parted(self, is_there: Callable[[BatchUnit], bool], is_mapped: bool = True) -> tuple[int, int]:
        """The end of the last unit for which `is_there` is false, and the start of the first unit for which it is true.
        They differ where files between them are missing."""
        low, high = self.start // _UNIT, self.end // _UNIT
        found = self.end
        while low < high:
            middle = (low + high) // 2
            position, unit = self._unit_from(middle * _UNIT, is_mapped)
            if unit is not None and not is_there(unit):
                low = position // _UNIT + 1
            else:
                high, found = middle, position
        return low * _UNIT, found

    def _unit_from(self, position: int, is_mapped: bool) -> tuple[int, BatchUnit | None]:
        """The unit at `position`, or if its file is missing, the first one of the next file; and its position."""
        read = self.unit_at if is_mapped else self._read_unit
        unit = read(position)
        if unit is None:
            position = min((file.start for file in tuple(self.files.files) if file.start > position), default=self.end)
            unit = read(position)
        return position, unit

    def _read_unit(self, position: int) -> BatchUnit | None:
        """Like `unit_at`, for another thread than the one that reads, and for queues that need not be mapped."""
        file = self.files.find(position) if self.start <= position < self.end else None
        if file is None:
            return None
        return next(batch_unit.decode_all(disk.read_at(file.path, position - file.start, _UNIT)), None)

    # --- recovery ----------------------------------------------------------------------------------------------------

    def take_up(self, built: ConsumeQueue) -> None:
        super().take_up(built)
        self.next_offset = max(self.next_offset, built.next_offset)

    def know_end(self, max_offset: int) -> None:
        self.tabled_max_offset = max_offset

    def look(self, log_bound: int) -> None:
        self._max_offset = 0
        self._first = _NOT_READ
        super().look(log_bound)
        self._learn_end()

    def _scan(self, file: MappedFile, log_bound: int) -> int:
        position = 0
        last_end = self.max_physical_offset
        while position < file.size:
            data = disk.read_at(file.path, position, min(_SCAN if position else disk.PAGE_SIZE // _UNIT * _UNIT,
                                                         file.size - position))
            for unit in batch_unit.decode_all(data):
                if not unit.is_valid or unit.physical_offset < last_end \
                        or unit.physical_end > log_bound or unit.queue_offset < self._max_offset:
                    return position
                self.max_physical_offset = last_end = unit.physical_end
                self._max_offset = unit.next_offset
                position += _UNIT
        return position

    def _content_end(self) -> int:
        last = self.files.last
        if last is None:
            return 0
        begin = min(max(self.end - last.start, 0), last.size)
        end = last.start + disk.content_end(last.path, begin, last.size)
        return -(-end // _UNIT) * _UNIT

    def empty(self) -> None:
        super().empty()
        self._max_offset = 0
        self._first = _NOT_READ

    def truncate(self, physical_offset: int) -> None:
        if self.max_physical_offset <= physical_offset:
            return
        self.birth = min(self.birth, physical_offset)
        position, _ = self._parted(lambda unit: unit.physical_offset >= physical_offset + unit.is_filler)
        if self.known_end == self.end:
            self.known_end = position
        self._cut(position)
        last = self.unit_at(position - _UNIT)
        self.max_physical_offset = last.physical_end if last is not None else self.birth

    def first_from(self, physical_offset: int) -> int:
        unit = self.unit_at(self.first_position(physical_offset))
        return unit.queue_offset if unit is not None else self._max_offset

    def first_position(self, physical_offset: int) -> int:
        """Position of the first unit whose record begins at `physical_offset` or later; the end when there is none. It
        is read and not mapped, so any thread may call this. Raises StoreError."""
        return self._first_position(lambda unit: unit.physical_offset >= physical_offset, is_mapped=False)

    def correct_start(self, physical_offset_min: int) -> None:
        first = self._read_unit(self.start)
        if first is not None and first.physical_offset < physical_offset_min:
            self.start = self.first_position(physical_offset_min)

    def _cut(self, end: int) -> None:
        super()._cut(end)
        self._first = _NOT_READ
        self._learn_end()
        self.next_offset = self._max_offset

    def _learn_end(self) -> None:
        """Units before the start count too: they say where the queue continues when nothing else is left."""
        file = self.files.find(self.end - _UNIT) if self.end >= _UNIT else None
        if file is None:
            self._max_offset = 0
            return
        data = disk.read_at(file.path, self.end - _UNIT - file.start, _UNIT)
        self._max_offset = next(batch_unit.decode_all(data)).next_offset


def _of_record(unit: BatchUnit) -> QueueUnit:
    return QueueUnit(unit.queue_offset, unit.physical_offset, unit.size, unit.tags_code)
