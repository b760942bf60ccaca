"""The files of a store, read only: the commit log and the consume queues of a running, stopped or copied broker.

    <store>/commitlog/<20 digits>                       the name is the physical offset of the file's first byte
    <store>/consumequeue/<topic>/<queue>/<20 digits>    the name is the position of its first byte in the queue

Nothing is locked and nothing repaired. A queue ends with the last unit whose record is in the log: after it a file
holds zeros, or units that a broker truncated without clearing them. A file may be missing between others: its content
is lost, and the rest can be read.

Source: DefaultMessageStore, ConsumeQueue.
"""

import errno
import mmap
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import NamedTuple, TypeAlias

from regulus.errors import DataLoss, HeaderError, OptionError, RecordError, StoreDamaged
from regulus.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from regulus.record import big_endian, consume_queue_unit, layout, message_record
from regulus.record.byte_runs import Buffer
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE, ConsumeQueueUnit
from regulus.record.dispatch_request import DispatchRequest, request_at
from regulus.spark.marks import Mark, mark_of
from regulus.spark.runtime.worker_memory import not_mapped
from regulus.wire import fastjson

NAME_DIGITS = 20
WINDOW_BYTES = 32 << 20
"""Bytes of a file that are mapped at a time, because the memory of Spark's workers may be limited. A larger record has
a window of its own size."""
_HEAD = Struct(">ii")
_BODY_START_MAX = layout.BODY_START_V4 + 2 * (layout.HOST_V6_SIZE - layout.HOST_V4_SIZE)
_OTHERS_MAX = (1 << 16) + (1 << 16)
"""Bytes of topic and properties that a record has at most."""
_MAGICS = (layout.MAGIC_V1, layout.MAGIC_V2)

UnitTest: TypeAlias = Callable[[ConsumeQueueUnit], bool]


class FilePiece(NamedTuple):
    """One file of a sequence. `start` is the position of its first byte in the whole."""

    start: int
    size: int
    path: Path


class Window(NamedTuple):
    """A mapped part of a file. `start` is the position of its first byte in the whole sequence."""

    start: int
    data: mmap.mmap

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class MappedFiles:
    """A sequence of files that together are one long string of bytes, of which small windows are mapped."""

    def __init__(self, directory: Path, *, with_holes: bool = False) -> None:
        """Raises StoreDamaged for files that overlap, and for a missing one unless they are read `with_holes`."""
        self.directory = directory
        self.pieces = _pieces(directory, with_holes=with_holes)
        self._starts = [piece.start for piece in self.pieces]
        self._window: Window | None = None
        """The last window that was mapped."""

    @property
    def start(self) -> int:
        return self.pieces[0].start if self.pieces else 0

    @property
    def end(self) -> int:
        """The position after the last byte of the last file, used or not."""
        return self.pieces[-1].start + self.pieces[-1].size if self.pieces else 0

    def piece_at(self, position: int) -> FilePiece:
        """The file that holds byte `position`. Raises DataLoss when none does."""
        index = bisect_left(self._starts, position + 1) - 1
        if index < 0 or position >= self.pieces[index].start + self.pieces[index].size:
            raise DataLoss(f"{self.directory} has no file with byte {position}{self._around(index)}")
        return self.pieces[index]

    def _around(self, index: int) -> str:
        """The text for an error that says which bytes are missing after the file of that number."""
        if not 0 <= index < len(self.pieces) - 1:
            return f", only from {self.start} to {self.end}"
        return f": none from {self.pieces[index].start + self.pieces[index].size} to {self._starts[index + 1]}"

    def next_start(self, position: int) -> int:
        """The start of the next file after `position`; the end of the sequence when there is none."""
        index = bisect_left(self._starts, position + 1)
        return self._starts[index] if index < len(self._starts) else self.end

    def spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that files hold, one for each file."""
        first = max(0, bisect_left(self._starts, start + 1) - 1)
        found = []
        for piece in self.pieces[first:]:
            if piece.start >= end:
                break
            if start < piece.start + piece.size:
                found.append((max(start, piece.start), min(end, piece.start + piece.size)))
        return found

    def window(self, position: int, size: int = 1) -> Window:
        """A window with `size` bytes from `position` on, or fewer at the end of the file. Raises DataLoss when no file
        has that position, and TaskOutOfMemory."""
        window = self._window
        if window is not None and window.start <= position and position + size <= window.end:
            return window
        piece = self.piece_at(position)
        within = position - piece.start
        start = within - within % WINDOW_BYTES
        if within + size > start + WINDOW_BYTES:
            start = within - within % mmap.ALLOCATIONGRANULARITY
        end = min(piece.size, max(start + WINDOW_BYTES, within + size))
        # Unmap the old window first, so that there is room for the new one.
        self._window = window = None
        self._window = Window(piece.start + start, _mapped(piece, start, end - start))
        return self._window


class ConsumeQueueFiles:
    """The units of one queue."""

    def __init__(self, topic: str, queue_id: int, directory: Path, *, with_holes: bool = False) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._files = MappedFiles(directory, with_holes=with_holes)

    def unit(self, queue_offset: int) -> ConsumeQueueUnit:
        position = queue_offset * UNIT_SIZE
        window = self._files.window(position, UNIT_SIZE)
        return consume_queue_unit.decode(memoryview(window.data), position - window.start)

    def units(self, start: int, end: int) -> bytes:
        """The bytes of the units [start, end)."""
        pieces = []
        while start < end:
            position = start * UNIT_SIZE
            window = self._files.window(position, UNIT_SIZE)
            stop = min(end, window.end // UNIT_SIZE)
            pieces.append(window.data[position - window.start:stop * UNIT_SIZE - window.start])
            start = stop
        return b"".join(pieces)

    def spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) that files hold."""
        return [(low // UNIT_SIZE, high // UNIT_SIZE)
                for low, high in self._files.spans(start * UNIT_SIZE, end * UNIT_SIZE)]

    def bounds(self, log: "CommitLogFiles") -> tuple[int, int]:
        """Queue offsets [first, end) of the messages that the log holds and a consumer can see.

        Raises OptionError when there is no log, because queues with units are then not empty, but unreadable.
        """
        low = self._files.start // UNIT_SIZE
        high = self._files.end // UNIT_SIZE
        end = self._bisect(low, high, lambda place: self._is_blank(place, high))
        if low < end and not log.pieces:
            raise OptionError(f"{log.directory} has no file of a log, and {self._files.directory} has {end - low} "
                              "units: option 'storePath' must be the root of a broker's store with its log, which the "
                              "setting storePathCommitLog may have put elsewhere")
        end = self._first(low, end, lambda unit: unit.physical_offset >= log.end)
        while end > low and not self._is_in_log(end - 1, log):
            end -= 1
        start = self._first(low, end, lambda unit: unit.physical_offset >= log.start)
        return self._next_real(start, end)[0], end

    def units_behind(self, end: int) -> Iterator[tuple[int, ConsumeQueueUnit]]:
        """The units from `end` on, the last one first. Their records are not in the log, or they are leftovers."""
        high = self._files.end // UNIT_SIZE
        for low, behind in reversed(self.spans(end, self._bisect(end, high, lambda at: self._is_blank(at, high)))):
            for offset in range(behind - 1, low - 1, -1):
                if (unit := self.unit(offset)) != FILLER and unit.size > 0:
                    yield offset, unit

    def units_within(self, start: int, end: int) -> Iterator[tuple[int, ConsumeQueueUnit]]:
        """The units whose records start in [start, end) of the log, whether or not they are good records."""
        low, high = self._files.start // UNIT_SIZE, self._files.end // UNIT_SIZE
        high = self._bisect(low, high, lambda at: self._is_blank(at, high))
        low = self._first(low, high, lambda unit: unit.physical_offset >= start)
        for first, behind in self.spans(low, high):
            for offset in range(first, behind):
                unit = self.unit(offset)
                if unit.physical_offset >= end and unit != FILLER:
                    return
                if start <= unit.physical_offset and unit.size > 0 and unit != FILLER:
                    yield offset, unit

    def begins_with_filler(self) -> bool:
        """Whether the broker began the queue with a message that had others before it, which were already gone."""
        return bool(self._files.pieces) and self.unit(self._files.start // UNIT_SIZE) == FILLER

    def count_behind(self, physical_offset: int) -> int:
        """The number of units whose records start at or after that offset."""
        low, high = self._files.start // UNIT_SIZE, self._files.end // UNIT_SIZE
        end = self._bisect(low, high, lambda at: self._is_blank(at, high))
        return end - self._first(low, end, lambda unit: unit.physical_offset >= physical_offset)

    def first_at_or_behind(self, physical_offset: int, low: int, high: int) -> int:
        """The first unit of [low, high) whose record starts at or after `physical_offset`."""
        return self._first(low, high, lambda unit: unit.physical_offset >= physical_offset)

    def first_stored_at_or_after(self, timestamp: int, low: int, high: int, log: "CommitLogFiles") -> int:
        """The first message of [low, high) with store time >= `timestamp`; `high` when there is none. A message that
        cannot be read counts as stored with the next one that can."""
        while low < high:
            middle = (low + high) // 2
            probe, stored = self._next_stored(middle, high, log)
            if stored is None or stored >= timestamp:
                high = middle
            else:
                low = probe + 1
        return low

    def _next_stored(self, queue_offset: int, high: int, log: "CommitLogFiles") -> tuple[int, int | None]:
        """The first message from `queue_offset` on whose store time can be read, and that time; `high` and None when
        there is none."""
        while queue_offset < high:
            spans = self.spans(queue_offset, high)
            if not spans:
                break
            queue_offset = spans[0][0]
            place = self.unit(queue_offset).physical_offset
            try:
                return queue_offset, log.store_timestamp(place)
            except RecordError:
                queue_offset += 1
            except DataLoss:
                queue_offset = self.first_at_or_behind(max(place + 1, log.next_start(place)), queue_offset + 1, high)
        return high, None

    def _first(self, low: int, high: int, holds: UnitTest) -> int:
        """The first unit of [low, high) for which `holds` is true; it must be true for all later ones, too. Units that
        no file has are skipped. A unit without a place in the log counts as the next one that has a place."""
        def holds_at(place: int) -> bool:
            unit = self._next_real(place, high)[1]
            return unit is None or holds(unit)
        return self._bisect(low, high, holds_at)

    def _bisect(self, low: int, high: int, holds_at: Callable[[int], bool]) -> int:
        spans = self.spans(low, high)
        number = bisect_left(spans, True, key=lambda span: holds_at(span[1] - 1))
        if number == len(spans):
            return high
        low, high = spans[number]
        while low < high:
            middle = (low + high) // 2
            if holds_at(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _next_real(self, low: int, high: int) -> tuple[int, ConsumeQueueUnit | None]:
        """The first unit of [low, high) that has a place in the log and is neither a filler nor damaged; `high` and
        None when there is none."""
        for start, end in self.spans(low, high):
            for place in range(start, end):
                unit = self.unit(place)
                if unit.size > 0 and unit.physical_offset >= 0 and unit != FILLER:
                    return place, unit
        return high, None

    def _is_blank(self, place: int, high: int) -> bool:
        """Whether the queue ends there. A single blank unit before one that is not blank is damaged."""
        return all(self.unit(each).size <= 0 for start, end in self.spans(place, min(high, place + 2))
                   for each in range(start, end))

    def _is_in_log(self, queue_offset: int, log: "CommitLogFiles") -> bool:
        if not self.spans(queue_offset, queue_offset + 1):
            return False
        unit = self.unit(queue_offset)
        return unit == FILLER or log.holds(unit, self.topic, self.queue_id, queue_offset)


class CommitLogFiles(MappedFiles):
    """The commit log."""

    def store_timestamp(self, physical_offset: int) -> int:
        """Store time of the record that starts there, 0 for one that was removed."""
        if physical_offset < self.start:
            return 0
        return self._request(physical_offset).store_timestamp

    def mark(self, physical_offset: int) -> Mark | None:
        """The mark of the record that starts there; None when no record does."""
        try:
            window = self.record_window(physical_offset)
            return mark_of(message_record.decode(window.data, physical_offset - window.start, False))
        except (RecordError, DataLoss):
            return None

    def holds(self, unit: ConsumeQueueUnit, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether the unit's record is in the log. A removed record counts: it was there, so its unit is not a
        leftover."""
        if unit.physical_offset < self.start:
            return True
        try:
            request = self._request(unit.physical_offset)
        except (RecordError, DataLoss):
            return False
        return (request.topic, request.queue_id, request.queue_offset, request.size) == (
            topic, queue_id, queue_offset, unit.size)

    def tells_its_place(self, physical_offset: int) -> bool:
        """Whether the record that starts there names this place as its own. Raises RecordError, DataLoss."""
        return self._request(physical_offset).physical_offset == physical_offset

    def _request(self, physical_offset: int) -> DispatchRequest:
        window = self.record_window(physical_offset)
        return request_at(window.data, physical_offset - window.start, len(window.data), False)

    def record_window(self, physical_offset: int) -> Window:
        """A window that has the whole record that starts there, if one does."""
        window = self.window(physical_offset, _BODY_START_MAX)
        size = _record_size(window.data, physical_offset - window.start)
        if not size or physical_offset + size <= window.end:
            return window
        del window
        return self.window(physical_offset, size)

    def span(self, start: int, end: int) -> Window:
        """A window with all of [start, end), which are bytes of one file; the caller alone keeps it mapped."""
        piece, first = self.piece_at(start), self.span_start(start)
        self._window = None
        behind = min(end, piece.start + piece.size)
        return Window(first, _mapped(piece, first - piece.start, behind - first))

    def span_start(self, start: int) -> int:
        """The start of the window that `span` gives for that start."""
        return start - (start - self.piece_at(start).start) % mmap.ALLOCATIONGRANULARITY


def _record_size(data: Buffer, position: int) -> int:
    """The size that a record states at that position; 0 when its other fields refute it, so that a rotten size does not
    decide how much is mapped."""
    if len(data) - position < layout.BODY_START_V4:
        return 0
    size, magic = _HEAD.unpack_from(data, position)
    sys_flag = big_endian.int4(data, position + layout.SYS_FLAG)
    hosts = (bool(sys_flag & BORN_HOST_V6) + bool(sys_flag & STORE_HOST_V6)) * (
        layout.HOST_V6_SIZE - layout.HOST_V4_SIZE)
    place = position + layout.BODY_START_V4 + hosts
    if magic not in _MAGICS or place > len(data):
        return 0
    others = size - big_endian.int4(data, place - 4) - hosts
    return size if layout.FIXED_SIZE_V1 <= others <= layout.FIXED_SIZE_V1 + _OTHERS_MAX else 0


class StoreFiles:
    """A store's directory. Raises OptionError when it is not one."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._queues = self.path / "consumequeue"
        self._batch_queues = self.path / "batchconsumequeue"
        for directory in (self.path / "commitlog", self._queues):
            if not directory.is_dir():
                raise OptionError(f"option 'storePath' is {path!r}, which has no directory {directory.name!r}: it must "
                                  "be the root of a broker's store, on the machine where Spark's tasks run")
        self.log = CommitLogFiles(self.path / "commitlog", with_holes=True)
        if not self.log.pieces and not (self.path / "config").is_dir():
            # The store of a broker that has had no message yet has its settings at least.
            raise OptionError(f"option 'storePath' is {path!r}, where 'commitlog' has no file of a log, and which has "
                              "no directory 'config' either: it must be the root of a broker's store")

    def topics(self) -> set[str]:
        """The topics that have queues, and those that the broker knows but that never had a message."""
        with_queues = {path.name for folder in (self._queues, self._batch_queues) if folder.is_dir()
                       for path in folder.iterdir()
                       # A running broker rebuilds queues in a folder whose name begins with a dot, which no topic has.
                       if not path.name.startswith(".") and path.is_dir() and any(path.iterdir())}
        return with_queues | self.configured_topics()

    def configured_topics(self) -> set[str]:
        """The topics that the broker knows. Raises StoreDamaged."""
        try:
            text = (self.path / "config" / "topics.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return set()
        try:
            return set(fastjson.loads(text).get("topicConfigTable") or ())
        except (ValueError, HeaderError, AttributeError) as error:
            raise StoreDamaged(f"{self.path}/config/topics.json is not JSON: {error}") from error

    def queues(self, topic: str) -> list[ConsumeQueueFiles]:
        """The queues of a topic, by number. Raises OptionError for a topic of `queue.type=BatchCQ`, whose queues are
        not read here."""
        if (self._batch_queues / topic).is_dir():
            raise OptionError(f"topic {topic} has queue.type=BatchCQ, and such topics are not read as tables: have a "
                              "consumer send their messages on to a topic without queue.type")
        directory = self._queues / topic
        if not directory.is_dir():
            return []
        numbers = sorted(int(path.name) for path in directory.iterdir() if path.is_dir() and path.name.isdecimal())
        return [self.queue(topic, number) for number in numbers]

    def queue(self, topic: str, queue_id: int) -> ConsumeQueueFiles:
        return ConsumeQueueFiles(topic, queue_id, self._queues / topic / str(queue_id), with_holes=True)

    def topic_epochs(self) -> dict[str, int]:
        """The epochs that a Regulus broker keeps; empty for other brokers. Raises StoreDamaged."""
        path = self.path / "config" / "regulusTopicEpochs.json"
        try:
            epochs = fastjson.loads(path.read_text(encoding="utf-8")).get("topicEpochs")
        except FileNotFoundError:
            return {}
        except (ValueError, HeaderError, AttributeError) as error:
            raise StoreDamaged(f"{path} is not JSON: {error}") from error
        return {topic: epoch for topic, epoch in (epochs or {}).items() if type(epoch) is int}


def _mapped(piece: FilePiece, start: int, size: int) -> mmap.mmap:
    try:
        with piece.path.open("rb") as file:
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ, offset=start)
    except FileNotFoundError as error:
        raise DataLoss(f"{piece.path} was removed while it was to be read") from error
    except ValueError as error:
        raise DataLoss(f"{piece.path} was cut short while it was to be read") from error
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise not_mapped(piece.path, size) from error
        raise


def _pieces(directory: Path, *, with_holes: bool) -> list[FilePiece]:
    """The files of a sequence, in order. Raises StoreDamaged when one does not begin where the one before it ends."""
    if not directory.is_dir():
        return []
    pieces = sorted(FilePiece(int(path.name), path.stat().st_size, path) for path in directory.iterdir()
                    if len(path.name) == NAME_DIGITS and path.name.isdecimal())
    pieces = [piece for piece in pieces if piece.size > 0]
    for left, right in pairwise(pieces):
        end = left.start + left.size
        if end > right.start or (end < right.start and not with_holes):
            raise StoreDamaged(f"{directory}: file {right.path.name} does not begin where {left.path.name} ends")
    return pieces


def is_in_use(store_path: str) -> bool:
    """Whether a running broker has the store locked, as far as this machine's kernel knows.

    The lock file is not opened: closing it would drop the lock of a broker in this very process.
    """
    try:
        state = (Path(store_path) / "lock").stat()
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    return any(place in line.split() for line in lines)
