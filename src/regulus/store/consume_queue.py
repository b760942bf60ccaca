"""The consume queue of one topic and queue id: where in the log its messages lie.

Unit k of 20 bytes is at position 20 * k of the files laid end to end. `end` is in bytes; queue offsets count units.
Files are mapped when they are first touched and unmapped when too many are mapped (see MappedFilePool), so thousands of
queues that rest cost nothing. Blocks are reserved in steps that grow with the file, from one page up: a queue with
three messages takes 4 KiB of the disk and not 6 MB.

Source: ConsumeQueue.
"""

from pathlib import Path

from regulus.errors import MessageIllegal, StoreDamaged
from regulus.model.store_result import QueueUnit
from regulus.model.topics import NAME_SIZE_MAX, is_storable
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE, encode_into, unpack_all
from regulus.record.consume_queue_unit import decode as decode_unit
from regulus.record.consume_queue_unit import encode as encode_unit
from regulus.store import disk
from regulus.store.mapped_file import MappedFile, MappedFilePool
from regulus.store.mapped_file_queue import MappedFileQueue

RESERVE_MAX = 256 << 10
NAME_SHOWN_MAX = 80
"""Characters of a refused name that an error text repeats."""
RECOVERED_FILES = 3
"""How many files at the end recovery reads; the ones before were full when the next was begun."""

_UNIT = UNIT_SIZE
_SCAN = 3276 * UNIT_SIZE
_FILLER_SIZE = FILLER.size


class ConsumeQueue:
    def __init__(self, topic: str, queue_id: int, files: MappedFileQueue) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.tail: MappedFile | None = None
        self.start = 0
        """Position of the first unit that may be served."""
        self.end = 0
        self.max_physical_offset = -1
        """Behind the last record that has a unit here; -1 for none."""
        self.next_offset = 0
        """Queue offset that the next appended message gets; ahead of `end` until it is dispatched."""
        self.is_dirty = False
        self.is_deleted = False

    @property
    def min_offset(self) -> int:
        return self.start // _UNIT

    @property
    def max_offset(self) -> int:
        return self.end // _UNIT

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, physical_offset: int, size: int, tags_code: int, queue_offset: int) -> bool:
        """Add the unit of one record; False when it is there already. Raises StoreNotWritable, and changes nothing
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

    def _make_way(self, queue_offset: int) -> bool:
        """Have `tail` and `end` where the unit of `queue_offset` goes. False when that unit was built before."""
        wanted = queue_offset * _UNIT
        if self.tail is None:
            self._begin_at(wanted)
        elif wanted < self.end:
            if wanted:
                return False
            self._begin_anew()
        elif wanted > self.end:
            self._fill_up_to(wanted)
        if self.tail is None or self.end >= self.tail.start + self.tail.size:
            self.tail = self.files.extend(self.end)
        return True

    def _begin_anew(self) -> None:
        """A first message later in the log than one of a higher offset: between them the topic was deleted and made
        anew, and then the broker killed before this queue was on disk."""
        self.files.remove_all()
        self.tail = None
        self._begin_at(0)

    def _begin_at(self, position: int) -> None:
        """The first file of a queue may begin at any unit: the ones before, which are gone, become fillers."""
        file = self.files.extend(position - position % self.files.file_size)
        file.write(0, encode_unit(FILLER) * ((position - file.start) // _UNIT))
        file.wrote_position = position - file.start
        self.tail = file
        self.start = self.end = position

    def _fill_up_to(self, position: int) -> None:
        """Records between were lost with their units: fillers keep each later message at its own queue offset."""
        if position - self.end > self.files.file_size:
            # No gap of that size comes about in a working store; then the unit goes to the end, as in RocketMQ.
            return
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
        """From `queue_offset` on, without fillers; empty behind the end. Asked for one below the start, begins
        there."""
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

    def recover(self) -> None:
        """Take up what is on disk: find the end, and behind which record of the log that is. Raises StoreDamaged."""
        self.files.load()
        files = self.files.files
        self.tail = None
        self.start = files[0].start if files else 0
        self.end = self.start
        self.max_physical_offset = -1
        for file in files[max(0, len(files) - RECOVERED_FILES):]:
            if self.end not in (self.start, file.start):
                raise StoreDamaged(f"{file.path}: the file before it is missing; move consumequeue, index and "
                                   "checkpoint away, all are rebuilt from the log")
            count = self._scan(file)
            self.end = file.start + count
            if count < file.size:
                break
        self._cut(self.end)

    def _scan(self, file: MappedFile) -> int:
        """Bytes of whole units at the beginning of `file`; learns the last record that they speak of."""
        position = 0
        while position < file.size:
            data = disk.read_at(file.path, position, min(_SCAN if position else disk.PAGE_SIZE // _UNIT * _UNIT,
                                                         file.size - position))
            for physical_offset, size, _ in unpack_all(data):
                if physical_offset < 0 or size <= 0:
                    return position
                if size != _FILLER_SIZE:
                    self.max_physical_offset = physical_offset + size
                position += _UNIT
        return position

    def truncate(self, physical_offset: int) -> None:
        """Drop the units of records that begin at `physical_offset` or later. Raises StoreNotWritable."""
        if self.max_physical_offset <= physical_offset:
            return
        count = self._first_from(physical_offset)
        last = self.unit(count - 1) if count * _UNIT > self.start else None
        self._cut(count * _UNIT)
        self.max_physical_offset = last.physical_offset + last.size if last and last.size != _FILLER_SIZE else -1

    def _first_from(self, physical_offset: int) -> int:
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
        """The first unit from `queue_offset` on that is no filler."""
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
        # Read and not mapped: most queues begin well, and thousands need not be mapped to see that.
        first_unit = decode_unit(disk.read_at(file.path, self.start - file.start, _UNIT))
        if first_unit.size != _FILLER_SIZE and first_unit.physical_offset >= physical_offset_min:
            return
        first = self._next_unit(self._first_from(physical_offset_min), self.end // _UNIT)
        self.start = first.queue_offset * _UNIT if first is not None else self.end

    # --- flushing ----------------------------------------------------------------------------------------------------

    def dirty_pages(self) -> int:
        return sum(-(-(file.wrote_position - file.flushed_position) // disk.PAGE_SIZE) for file in self.files.files)

    def start_flush(self) -> None:
        """Let the disk begin with what `flush` will wait for."""
        for file in tuple(self.files.files):
            if file.wrote_position > file.flushed_position:
                disk.start_sync(file.path)

    def flush(self) -> list[MappedFile]:
        """Bring all units to disk; the new files whose names are still to be made durable.

        Safe beside a thread that puts more. Raises StoreNotWritable.
        """
        files = tuple(self.files.files)
        for file in files:
            file.flush()
        return [file for file in files if file.is_new]


class ConsumeQueues:
    """All consume queues of a store, made when first asked for."""

    def __init__(self, directory: Path, file_size: int, pool: MappedFilePool) -> None:
        self.directory = directory
        self.table: dict[str, dict[int, ConsumeQueue]] = {}
        self._file_size = file_size
        self._pool = pool
        self._deleted: dict[tuple[str, int], int] = {}      # the log's end then, while records before it come here

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.table.get(topic)
        return queues.get(queue_id) if queues is not None else None

    def have(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Raises MessageIllegal for a topic or queue id after which no folder may be named."""
        queues = self.table.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        return queue if queue is not None else self._make(topic, queue_id)

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The only place where a name from outside becomes a path."""
        if not is_storable(topic, queue_id):
            raise MessageIllegal(f"no message is stored under topic {topic[:NAME_SHOWN_MAX]!r}, queue {queue_id}: a "
                                 f"topic's name has 1 to {NAME_SIZE_MAX} of the characters %|a-zA-Z0-9_-")
        files = MappedFileQueue(self.directory / topic / str(queue_id), self._file_size, self._pool,
                                "mappedFileSizeConsumeQueue")
        queue = ConsumeQueue(topic, queue_id, files)
        queue.max_physical_offset = self._deleted.pop((topic, queue_id), -1)
        self.table.setdefault(topic, {})[queue_id] = queue
        return queue

    def all(self) -> list[ConsumeQueue]:
        return [queue for queues in tuple(self.table.values()) for queue in tuple(queues.values())]

    def load(self) -> None:
        """Find and recover the queues on disk. Raises StoreDamaged, StoreNotWritable."""
        for topic in disk.names(self.directory, directories=True):
            for name in disk.names(self.directory / topic, directories=True):
                if name.isascii() and name.isdigit() and str(int(name)) == name and is_storable(topic, int(name)):
                    self.have(topic, int(name)).recover()

    @property
    def max_physical_offset(self) -> int:
        """Behind the last record that any queue speaks of; -1 when none does."""
        return max((queue.max_physical_offset for queue in self.all()), default=-1)

    def truncate(self, physical_offset: int) -> None:
        for queue in self.all():
            queue.truncate(physical_offset)

    def correct_starts(self, physical_offset_min: int) -> None:
        for queue in self.all():
            queue.correct_start(physical_offset_min)

    def delete_queue(self, topic: str, queue_id: int, dispatched: int, log_end: int) -> None:
        """Forget one queue and remove its files; a power cut may bring them back. Raises StoreNotWritable.

        Its records that the log has from `dispatched` to `log_end` get no unit any more, not even in a queue that is
        made anew for the same topic meanwhile: they would push its own aside.
        """
        queues = self.table.get(topic, {})
        queue = queues.pop(queue_id, None)
        if queue is None:
            return
        if not queues:
            del self.table[topic]
        self._deleted = {key: end for key, end in self._deleted.items() if end > dispatched}
        if log_end > dispatched:
            self._deleted[topic, queue_id] = log_end
        queue.is_deleted = True
        queue.files.remove_all()
        disk.remove_tree(self.directory / topic / str(queue_id))

    def delete(self, topic: str, dispatched: int, log_end: int) -> None:
        """The same with all queues of a topic that there are; nothing else is looked for on disk."""
        if topic not in self.table:
            return
        for queue_id in tuple(self.table[topic]):
            self.delete_queue(topic, queue_id, dispatched, log_end)
        disk.remove_tree(self.directory / topic)
        disk.sync_directory(self.directory)
