"""The consume queue of one topic and queue id: where in the log its messages lie.

Unit k of 20 bytes is at position 20 * k of the files laid end to end. `end` is in bytes; queue offsets count units.
Files are mapped when they are first touched and unmapped when too many are mapped (see MappedFilePool), so thousands of
queues that rest cost nothing. Blocks are reserved in steps that grow with the file, from one page up: a queue with
three messages takes 4 KiB of the disk and not 6 MB.

Source: ConsumeQueue.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from regulus.errors import MessageIllegal, StoreDamaged, StoreError
from regulus.model.store_result import QueueUnit
from regulus.model.topics import LIGHT_PREFIX, NAME_SIZE_MAX, is_storable
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE, encode_into, unpack_all
from regulus.record.consume_queue_unit import decode as decode_unit
from regulus.record.consume_queue_unit import encode as encode_unit
from regulus.record.queue_table import bounds
from regulus.store import disk
from regulus.store.mapped_file import MappedFile, MappedFilePool
from regulus.store.mapped_file_queue import MappedFileQueue

RESERVE_MAX = 256 << 10
NAME_SHOWN_MAX = 80
"""Characters of a refused name that an error text repeats."""
RECOVERED_FILES = 3
"""How many files at the end recovery reads; the ones before were full when the next was begun."""

ANEW = ".anew"
"""Folder within that of all queues in which some are built anew: no topic has such a name."""

_UNIT = UNIT_SIZE
_SCAN = 3276 * UNIT_SIZE
_FILLER_SIZE = FILLER.size
_UNKNOWN = 0x7FFFFFFFFFFFFFFF


class ConsumeQueue:
    def __init__(self, topic: str, queue_id: int, files: MappedFileQueue) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.is_light = topic.startswith(LIGHT_PREFIX)
        """Whether its units point at records of other topics."""
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
        self.known_end = 0
        """Where the units are known to have ended at least, or anything at all was found behind them; a queue that ends
        before has lost some."""
        self.tabled_max_offset = 0
        """Where it ended, in queue offsets, when the table of queues was written; 0 when that does not know it."""
        self.has_gap = False
        """Whether a unit was put behind ones that were not there."""

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

    def go_on_at(self, queue_offset: int) -> None:
        """Give no message an offset below this one, which had others before they were lost. Raises StoreNotWritable."""
        position = queue_offset * _UNIT
        if position > self.end:
            if self.tail is None:
                self._begin_at(position)
            else:
                self._fill_up_to(position)
            self.next_offset = max(self.next_offset, queue_offset)

    def _make_way(self, queue_offset: int) -> bool:
        """Have `tail` and `end` where the unit of `queue_offset` goes. False when that unit was built before."""
        wanted = queue_offset * _UNIT
        if self.tail is None:
            self.has_gap = wanted > 0
            self._begin_at(wanted)
        elif wanted < self.end:
            if wanted:
                return False
            self._begin_anew()
        elif wanted > self.end:
            self.has_gap = True
            # A gap of any length is what a lost file of the log leaves, up to where the queue ended. Beyond, no larger
            # one than a file comes about in a working store; then the unit goes to the end, as in RocketMQ.
            if wanted <= max(self.end + self.files.file_size, self.tabled_max_offset * _UNIT):
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
        file = self.files.make(position - position % self.files.file_size, is_anew=True)
        file.write(0, encode_unit(FILLER) * ((position - file.start) // _UNIT))
        file.wrote_position = position - file.start
        self.files.files.append(file)       # only now: on a full disk nothing has changed
        self.tail = file
        self.start = self.end = position

    def _fill_up_to(self, position: int) -> None:
        """Records between were lost with their units: fillers keep each later message at its own queue offset."""
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

    def recover(self, log_bound: int) -> None:
        """Take up what is on disk, and remove what lies behind the last unit. Raises StoreDamaged for a file of a wrong
        size, StoreNotWritable."""
        self.look(log_bound)
        self._cut(self.end)

    def look(self, log_bound: int) -> None:
        """Find the end, and behind which record of the log that is; change nothing. Units of records behind
        `log_bound`, where no log file is, are none. Raises StoreDamaged for a file of a wrong size."""
        self.files.load()
        files = self.files.files
        self.tail = None
        self.start = files[0].start if files else 0
        self.end = self.start
        self.max_physical_offset = -1
        for file in files[max(0, len(files) - RECOVERED_FILES):]:
            if self.end not in (self.start, file.start):
                break
            count = self._scan(file, log_bound)
            self.end = file.start + count
            if count < file.size:
                break
        self.known_end = self._content_end()

    def _scan(self, file: MappedFile, log_bound: int) -> int:
        """Bytes of whole units at the beginning of `file`; learns the last record that they speak of."""
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
        """Behind the last unit that is not all zero, whether it is one or not."""
        last = self.files.last
        if last is None:
            return 0
        begin = min(max(self.end - last.start, 0), last.size)
        end = last.start + disk.content_end(last.path, begin, last.size)
        return -(-end // _UNIT) * _UNIT

    def empty(self) -> None:
        """Remove all files, so that the queue can be built anew. Raises StoreNotWritable."""
        self.files.remove_all()
        self.tail = None
        self.start = self.end = self.next_offset = 0
        self.max_physical_offset = -1
        self.has_gap = False

    def truncate(self, physical_offset: int) -> None:
        """Drop the units of records that begin at `physical_offset` or later. Raises StoreNotWritable."""
        if self.max_physical_offset <= physical_offset:
            return
        count = self._first_from(physical_offset)
        last = self.unit(count - 1) if count * _UNIT > self.start else None
        if self.known_end == self.end:
            self.known_end = count * _UNIT
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


class QueueFault(NamedTuple):
    bounds: str
    text: str


class ConsumeQueues:
    """All consume queues of a store, made when first asked for."""

    def __init__(self, directory: Path, file_size: int, pool: MappedFilePool) -> None:
        self.directory = directory
        self.table: dict[str, dict[int, ConsumeQueue]] = {}
        self._file_size = file_size
        self._pool = pool
        self.log_bound = _UNKNOWN
        """Behind the last file of the log."""
        self.log_start = 0
        self.log_end = _UNKNOWN
        """Where the log began and ended when it was recovered; what queues say of other records is cut when they are
        opened."""
        self.strays: list[str] = []
        """What `load` found among the queues and is none."""
        self.resting: dict[str, dict[int, str]] = {}
        """Queues that are on disk and not opened yet, by topic and id: the `bounds` of their queue offsets."""
        self.faulty: dict[tuple[str, int], QueueFault] = {}
        """Queues that did not agree with the log when they were looked at. Nothing is put there or read until they are
        built anew."""
        self.fault_of: Callable[[ConsumeQueue], str] | None = None
        """Tells what is wrong with a queue that was opened; None as long as the log is being recovered."""
        self._deleted: dict[tuple[str, int], int] = {}      # the log's end then, while records before it come here

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.table.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        return queue if queue is not None or not (self.resting or self.faulty) else self._wake(topic, queue_id)

    def have(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Raises MessageIllegal for a topic or queue id after which no folder may be named."""
        queues = self.table.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        if queue is None and (self.resting or self.faulty):
            queue = self._wake(topic, queue_id)
        return queue if queue is not None else self._make(topic, queue_id)

    def _wake(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Open a queue that rests; None when there is none. Raises StoreDamaged for one that does not agree with the
        log, now and whenever it is asked for, StoreNotWritable."""
        faulty = self.faulty.get((topic, queue_id))
        if faulty is not None:
            raise StoreDamaged(faulty.text)
        resting = self.resting.get(topic)
        if resting is None or queue_id not in resting:
            return None
        text = resting[queue_id]
        queue = self._make(topic, queue_id)
        try:
            fault = self._take_up(queue, bounds(text)[1] * _UNIT)
        except StoreError:
            self._forget(topic, queue_id)       # it rests on
            raise
        if fault:
            self._forget(topic, queue_id)
            self.set_faulty(topic, queue_id, text, fault)
        # Only now: a thread that lists all queues meanwhile finds it here or there, and never nowhere.
        self._rest_no_more(topic, queue_id)
        if fault:
            raise StoreDamaged(self.faulty[topic, queue_id].text)
        return queue

    def _rest_no_more(self, topic: str, queue_id: int) -> None:
        resting = self.resting[topic]
        del resting[queue_id]
        if not resting:
            del self.resting[topic]

    def _forget(self, topic: str, queue_id: int) -> None:
        queues = self.table[topic]
        del queues[queue_id]
        if not queues:
            del self.table[topic]

    def _take_up(self, queue: ConsumeQueue, known_end: int) -> str:
        """What is wrong with the queue, once the log is recovered; empty when nothing is."""
        queue.tabled_max_offset = known_end // _UNIT
        if self.fault_of is None:
            queue.recover(self.log_bound)
            queue.known_end = max(queue.known_end, known_end)
            return ""
        fault = self.look(queue, known_end)
        if fault:
            return fault
        queue.recover(self.log_bound)
        queue.truncate(self.log_end)
        queue.known_end = max(queue.known_end, known_end)
        fault = self.fault_of(queue)        # once more: what lay behind the log's end hid the last unit
        queue.correct_start(self.log_start)
        return fault

    def look(self, queue: ConsumeQueue, known_end: int) -> str:
        """What is wrong with a queue that rests. Changes nothing on disk."""
        assert self.fault_of is not None
        try:
            queue.look(self.log_bound)
            queue.known_end = max(queue.known_end, known_end)
            return self.fault_of(queue)
        except StoreError as error:
            return f"cannot be opened ({error})"

    def set_faulty(self, topic: str, queue_id: int, text: str, fault: str) -> None:
        self.faulty[topic, queue_id] = QueueFault(text, f"queue {queue_id} of {topic} {fault}: it is not served until "
                                                  "it is built anew from the log")

    def check_resting(self, topic: str, queue_id: int) -> str:
        """What is wrong with a queue that rests, and rests on; empty when nothing is, or it rests no more. For a thread
        beside the one that puts and reads."""
        text = self.resting.get(topic, {}).get(queue_id)
        if text is None:
            return ""
        return self.look(ConsumeQueue(topic, queue_id, self._files(topic, queue_id)), bounds(text)[1] * _UNIT)

    def peek(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue that rests as it is on disk, for looking only; it rests on. Raises StoreError."""
        if queue_id not in self.resting.get(topic, {}):
            return None
        queue = ConsumeQueue(topic, queue_id, self._files(topic, queue_id))
        queue.look(self.log_bound)
        return queue

    def rest_faulty(self, topic: str, queue_id: int, fault: str) -> bool:
        """Take a queue that rests out of use; False when somebody has opened it meanwhile, and found it well."""
        text = self.resting.get(topic, {}).get(queue_id)
        if text is None:
            return (topic, queue_id) in self.faulty
        self.set_faulty(topic, queue_id, text, fault)
        self._rest_no_more(topic, queue_id)
        return True

    def beside(self, directory: Path, pool: MappedFilePool) -> "ConsumeQueues":
        """Others of the same kind, for whoever builds there what is out of use here."""
        return ConsumeQueues(directory, self._file_size, pool)

    def known_max_offset(self, topic: str, queue_id: int) -> int:
        """Of a queue that is out of use: where it ended when that was last known."""
        return bounds(self.faulty[topic, queue_id].bounds)[1]

    def take_back(self, topic: str, queue_id: int, log_start: int) -> ConsumeQueue:
        """Open a queue that was built anew; the log begins at `log_start` now. Raises StoreError, and it stays out of
        use."""
        queue = ConsumeQueue(topic, queue_id, self._files(topic, queue_id))
        queue.recover(_UNKNOWN)
        queue.correct_start(log_start)
        self.table.setdefault(topic, {})[queue_id] = queue
        del self.faulty[topic, queue_id]
        return queue

    def wake_all(self) -> None:
        """Open all queues that rest. Raises StoreDamaged, StoreNotWritable."""
        for topic, queues in tuple(self.resting.items()):
            for queue_id in tuple(queues):
                self._wake(topic, queue_id)

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The only place where a name from outside becomes a path."""
        if not is_storable(topic, queue_id):
            raise MessageIllegal(f"no message is stored under topic {topic[:NAME_SHOWN_MAX]!r}, queue {queue_id}: a "
                                 f"topic's name has 1 to {NAME_SIZE_MAX} of the characters %|a-zA-Z0-9_-")
        queue = ConsumeQueue(topic, queue_id, self._files(topic, queue_id))
        queue.max_physical_offset = self._deleted.pop((topic, queue_id), -1)
        self.table.setdefault(topic, {})[queue_id] = queue
        return queue

    def _files(self, topic: str, queue_id: int) -> MappedFileQueue:
        return MappedFileQueue(self.directory / topic / str(queue_id), self._file_size, self._pool,
                               "mappedFileSizeConsumeQueue")

    def all(self) -> list[ConsumeQueue]:
        """Those that are open."""
        return [queue for queues in tuple(self.table.values()) for queue in tuple(queues.values())]

    def load(self, expected: dict[str, dict[int, str]] | None) -> None:
        """Take up the queues on disk. Those of topics in `expected`, with the bounds of their queue offsets, rest until
        somebody asks for them; all others are opened. Raises StoreDamaged, StoreNotWritable."""
        self.resting = expected or {}
        topics, self.strays = disk.folders_and_files(self.directory)
        for topic in topics:
            if topic in self.resting:
                continue
            if topic == ANEW:
                disk.remove_tree(self.directory / ANEW)     # a broker was killed while it built there
                continue
            names, others = disk.folders_and_files(self.directory / topic)
            for name in names:
                if name.isascii() and name.isdigit() and str(int(name)) == name and is_storable(topic, int(name)):
                    self.have(topic, int(name)).recover(self.log_bound)
                else:
                    others.append(name)
            if not topic.startswith(LIGHT_PREFIX):
                self.strays += [f"{topic}/{name}" for name in others]

    def ids(self, topic: str) -> list[int]:
        return [*self.table.get(topic, ()), *self.resting.get(topic, ()),
                *(queue_id for name, queue_id in self.faulty if name == topic)]

    def names(self) -> list[tuple[str, int]]:
        """Topic and id of each queue, in their order."""
        found = [(queue.topic, queue.queue_id) for queue in self.all() if queue.tail is not None]
        return sorted([*found, *self.resting_names(), *self.faulty])

    def resting_names(self) -> list[tuple[str, int]]:
        return [(topic, queue_id) for topic, resting in tuple(self.resting.items()) for queue_id in tuple(resting)]

    def bounds_of_all(self) -> list[tuple[str, int, int, int]]:
        """Topic, queue id, first queue offset and the one behind the last unit of each queue."""
        # Resting ones first: one that is opened meanwhile is among the open ones before it rests no more.
        found = {(topic, queue_id): bounds(text) for topic, resting in tuple(self.resting.items())
                 for queue_id, text in tuple(resting.items())}
        found |= {(queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset) for queue in self.all()
                  if queue.tail is not None}
        found |= {name: bounds(faulty.bounds) for name, faulty in tuple(self.faulty.items())}
        return [(*name, *its_bounds) for name, its_bounds in found.items()]

    @property
    def count(self) -> int:
        return len(self.faulty) + sum(map(len, self.table.values())) + sum(map(len, self.resting.values()))

    @property
    def max_physical_offset(self) -> int:
        """Behind the last record that any open queue speaks of; -1 when none does."""
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
        if self.faulty.pop((topic, queue_id), None) is not None:
            disk.remove_tree(self.directory / topic / str(queue_id))
            return
        queue = self.find(topic, queue_id)
        if queue is None:
            return
        queues = self.table[topic]
        del queues[queue_id]
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
        queue_ids = self.ids(topic)
        if not queue_ids:
            return
        for queue_id in queue_ids:
            self.delete_queue(topic, queue_id, dispatched, log_end)
        disk.remove_tree(self.directory / topic)
        disk.sync_directory(self.directory)
