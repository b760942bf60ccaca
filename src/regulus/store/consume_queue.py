"""The consume queue of one topic and queue id: the positions of its messages in the log.

Unit k of 20 bytes is at position 20 * k of the concatenated files. `end` is in bytes; queue offsets count units. Files
are mapped when they are first used and unmapped when too many are mapped (see MappedFilePool), so thousands of idle
queues cost nothing. Blocks are reserved in steps that grow with the file, from one page up: a queue with three messages
takes 4 KiB of the disk and not 6 MB.

Source: ConsumeQueue.
"""

from regulus.model.store_result import QueueUnit
from regulus.model.topics import LIGHT_PREFIX
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE, encode_into, unpack_all
from regulus.record.consume_queue_unit import decode as decode_unit
from regulus.record.consume_queue_unit import encode as encode_unit
from regulus.store import disk
from regulus.store.mapped_file import MappedFile
from regulus.store.mapped_file_queue import MappedFileQueue

RESERVE_MAX = 256 << 10
RECOVERED_FILES = 3
"""The number of files at the end that recovery reads; earlier ones were full when the next was begun."""

_UNIT = UNIT_SIZE
_SCAN = 3276 * UNIT_SIZE
_FILLER_SIZE = FILLER.size


class ConsumeQueue:
    def __init__(self, topic: str, queue_id: int, files: MappedFileQueue, birth: int = -1) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.is_light = topic.startswith(LIGHT_PREFIX)
        """Whether its units point at records of other topics."""
        self.is_batch = False
        """Whether it is a BatchConsumeQueue."""
        self.tail: MappedFile | None = None
        self.start = 0
        """Position of the first unit that may be served."""
        self.end = 0
        self.birth = birth
        """The end of the log when a queue of this name was last deleted, -1 for never. Records before it do not belong
        to this queue."""
        self.max_physical_offset = birth
        """The offset after the last record that has a unit here; the birth of an empty queue."""
        self.next_offset = 0
        """Queue offset that the next appended message gets; ahead of `end` until that message is dispatched."""
        self.is_dirty = False
        self.is_deleted = False
        self.known_end = 0
        """The position up to which the queue is known to have had units, or content of any kind; a queue that ends
        before it has lost some."""
        self.tabled_max_offset = 0
        """The queue offset at which it ended when the table of queues was written; 0 when the table does not know
        it."""
        self.has_gap = False
        """Whether a unit was put after missing ones, or came after later ones and belonged before them."""

    @property
    def min_offset(self) -> int:
        return self.start // _UNIT

    @property
    def max_offset(self) -> int:
        return self.end // _UNIT

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, physical_offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Add the unit of one record; False when it already exists. Raises StoreNotWritable, and changes nothing
        then."""
        if physical_offset + size <= self.max_physical_offset:
            return False
        file = self.tail
        if file is None or queue_offset * _UNIT != self.end or self.end >= file.start + file.size:
            if not self._make_way(queue_offset):
                return False
            file = self.tail
            assert file is not None
        position = self.end - file.start
        if position + _UNIT > file.reserved_position:
            file.reserve(position + max(_UNIT, min(position, RESERVE_MAX)))
        if file.mapping is None:
            file.map()
        file.is_used = True
        assert file.cells is not None
        encode_into(file.cells, position, physical_offset, size, tags_code)
        file.wrote_position = position + _UNIT
        self.end += _UNIT
        self.max_physical_offset = physical_offset + size
        if self.next_offset * _UNIT < self.end:
            self.next_offset = self.end // _UNIT
        return True

    def go_on_at(self, queue_offset: int) -> None:
        """Give no message an offset below this one, because lost messages had those. Raises StoreNotWritable."""
        position = queue_offset * _UNIT
        if position > self.end:
            if self.tail is None:
                self._begin_at(position)
            else:
                self._fill_up_to(position)
            self.next_offset = max(self.next_offset, queue_offset)

    def _make_way(self, queue_offset: int) -> bool:
        """Set `tail` and `end` to where the unit of `queue_offset` goes. False when that unit exists already."""
        wanted = queue_offset * _UNIT
        if self.tail is None:
            self.has_gap = wanted > 0
            self._begin_at(wanted)
        elif wanted < self.end:
            if wanted:
                self.has_gap = self.has_gap or self.max_physical_offset >= 0
                return False
            self._begin_anew()
        elif wanted > self.end:
            self.has_gap = True
            # A lost file of the log leaves a gap of any length, up to where the queue ended. Beyond that, a working
            # store makes no gap larger than a file; then the unit goes to the end, as in RocketMQ.
            if wanted <= max(self.end + self.files.file_size, self.tabled_max_offset * _UNIT):
                self._fill_up_to(wanted)
        if self.tail is None or self.end >= self.tail.start + self.tail.size:
            self.tail = self.files.extend(self.end)
        return True

    def _begin_anew(self) -> None:
        """Start the queue again, because a record later in the log has a lower offset.

        Between the two records the topic was deleted and made again, and the broker was killed before this queue was on
        disk.
        """
        self.files.remove_all()
        self.tail = None
        self._begin_at(0)

    def _begin_at(self, position: int) -> None:
        """Begin the first file at any unit: earlier units, which no longer exist, become fillers."""
        file = self.files.make(position - position % self.files.file_size, is_anew=True)
        file.write(0, encode_unit(FILLER) * ((position - file.start) // _UNIT))
        file.wrote_position = position - file.start
        self.files.files.append(file)       # only now: when the disk is full, nothing has changed
        self.tail = file
        self.start = self.end = position

    def _fill_up_to(self, position: int) -> None:
        """Add fillers up to `position`, because the records between were lost with their units: each later message
        keeps its queue offset."""
        while self.end < position:
            if self.tail is None or self.end >= self.tail.start + self.tail.size:
                self.tail = self.files.extend(self.end)
            file = self.tail
            upto = min(position, file.start + file.size)
            file.write(self.end - file.start, encode_unit(FILLER) * ((upto - self.end) // _UNIT))
            file.wrote_position = upto - file.start
            self.end = upto

    # --- reading -----------------------------------------------------------------------------------------------------

    def readable(self, position: int, size_max: int) -> memoryview:
        """Whole units from `position` on, within one file; empty when there are none."""
        if position < self.start or position >= self.end:
            return memoryview(b"")
        file = self.files.find(position)
        if file is None:
            return memoryview(b"")
        upto = min(file.start + file.size, self.end, position + size_max)
        return file.slice(position - file.start, upto - position)

    def units(self, queue_offset: int, count_max: int) -> list[QueueUnit]:
        """Units from `queue_offset` on, without fillers; empty after the end. An offset below the start means the
        start."""
        found: list[QueueUnit] = []
        position = max(queue_offset * _UNIT, self.start)
        while len(found) < count_max and position < self.end:
            data = self.readable(position, (count_max - len(found)) * _UNIT)
            if not data:
                break
            for index, unit in enumerate(unpack_all(data), position // _UNIT):
                if unit[1] != _FILLER_SIZE:
                    found.append(QueueUnit(index, *unit))
            position += len(data)
        return found

    def unit(self, queue_offset: int) -> QueueUnit | None:
        data = self.readable(queue_offset * _UNIT, _UNIT)
        return QueueUnit(queue_offset, *decode_unit(data)) if data else None

    # --- recovery ----------------------------------------------------------------------------------------------------

    def recover(self, log_bound: int) -> None:
        """Take over the files on disk, and remove what comes after the last unit. Raises StoreDamaged for a file of a
        wrong size, StoreNotWritable."""
        self.look(log_bound)
        self._cut(self.end)

    def take_up(self, built: "ConsumeQueue") -> None:
        """Take over the files that another queue object wrote, which are now in this one's place; they are not scanned.
        Raises StoreDamaged, StoreNotWritable."""
        self.files.load()
        self.start = built.start
        self.max_physical_offset = built.max_physical_offset
        self.known_end = built.end
        self._cut(built.end)

    def know_end(self, max_offset: int) -> None:
        """Set the queue offset at which it ended when the table of queues was written."""
        self.tabled_max_offset = max_offset
        self.known_end = max(self.known_end, max_offset * _UNIT)

    def look(self, log_bound: int) -> None:
        """Find the end of the queue and of its last record in the log, without changing anything.

        Units of records after `log_bound`, where there is no log file, do not count, nor do units of records before its
        birth. Raises StoreDamaged for a file of a wrong size.
        """
        self.files.load()
        files = self.files.files
        self.tail = None
        self.start = files[0].start if files else 0
        self.end = self.start
        self.max_physical_offset = self.birth
        for file in files[max(0, len(files) - RECOVERED_FILES):]:
            if self.end not in (self.start, file.start):
                break
            count = self._scan(file, log_bound)
            self.end = file.start + count
            if count < file.size:
                break
        self.known_end = self._content_end()

    def _scan(self, file: MappedFile, log_bound: int) -> int:
        """The bytes of whole units at the beginning of `file`; notes the last record that they point to."""
        position = 0
        last_end = self.max_physical_offset
        while position < file.size:
            data = disk.read_at(file.path, position, min(_SCAN if position else disk.PAGE_SIZE // _UNIT * _UNIT,
                                                         file.size - position))
            for physical_offset, size, _ in unpack_all(data):
                if physical_offset < 0 or size <= 0:
                    return position
                if size != _FILLER_SIZE:
                    if physical_offset < last_end or physical_offset + size > log_bound:
                        return position
                    self.max_physical_offset = last_end = physical_offset + size
                position += _UNIT
        return position

    def _content_end(self) -> int:
        """The position after the last unit that is not all zero, valid or not."""
        last = self.files.last
        if last is None:
            return 0
        begin = min(max(self.end - last.start, 0), last.size)
        end = last.start + disk.content_end(last.path, begin, last.size)
        return -(-end // _UNIT) * _UNIT

    def empty(self) -> None:
        """Remove all files, so that the queue can be rebuilt. Raises StoreNotWritable."""
        self.files.remove_all()
        self.tail = None
        self.start = self.end = self.next_offset = 0
        self.max_physical_offset = self.birth
        self.has_gap = False

    def truncate(self, physical_offset: int) -> None:
        """Drop the units of records that begin at `physical_offset` or later. Raises StoreNotWritable."""
        if self.max_physical_offset <= physical_offset:
            return
        self.birth = min(self.birth, physical_offset)
        count = self.first_from(physical_offset)
        last = self.unit(count - 1) if count * _UNIT > self.start else None
        if self.known_end == self.end:
            self.known_end = count * _UNIT
        self._cut(count * _UNIT)
        self.max_physical_offset = last.physical_offset + last.size if last and last.size != _FILLER_SIZE \
            else self.birth

    def first_from(self, physical_offset: int) -> int:
        """Queue offset of the first unit whose record begins at `physical_offset` or later; the end when there is
        none."""
        low, high = self.start // _UNIT, self.end // _UNIT
        while low < high:
            middle = (low + high) // 2
            unit = self._next_unit(middle, high)
            if unit is not None and unit.physical_offset < physical_offset:
                low = unit.queue_offset + 1
            else:
                high = middle
        return low

    def _next_unit(self, queue_offset: int, upto: int) -> QueueUnit | None:
        """The first unit from `queue_offset` on that is not a filler."""
        found = self.units(queue_offset, 1)
        return found[0] if found and found[0].queue_offset < upto else None

    def _cut(self, end: int) -> None:
        self.files.truncate(end)
        self.end = end
        self.start = min(self.start, end)
        self.tail = self.files.last
        self.next_offset = end // _UNIT

    def correct_start(self, physical_offset_min: int) -> None:
        """Skip units of records that the log no longer has, and fillers at the beginning."""
        file = self.files.find(self.start)
        if file is None or self.start >= self.end:
            return
        # Read and not mapped: most queues need no correction, and thousands need not be mapped to see that.
        first_unit = decode_unit(disk.read_at(file.path, self.start - file.start, _UNIT))
        if first_unit.size != _FILLER_SIZE and first_unit.physical_offset >= physical_offset_min:
            return
        first = self._next_unit(self.first_from(physical_offset_min), self.end // _UNIT)
        self.start = first.queue_offset * _UNIT if first is not None else self.end

    # --- flushing ----------------------------------------------------------------------------------------------------

    def dirty_pages(self) -> int:
        return sum(-(-(file.wrote_position - file.flushed_position) // disk.PAGE_SIZE) for file in self.files.files)

    def start_flush(self) -> None:
        """Start writing to disk what `flush` will wait for."""
        for file in tuple(self.files.files):
            if file.wrote_position > file.flushed_position:
                disk.start_sync(file.path)

    def flush(self) -> list[MappedFile]:
        """Bring all units to disk; returns the new files whose names are not durable yet.

        Another thread may add units at the same time. Raises StoreNotWritable.
        """
        files = tuple(self.files.files)
        for file in files:
            file.flush()
        return [file for file in files if file.is_new]
