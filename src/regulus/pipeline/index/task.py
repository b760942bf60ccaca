"""Runs the tasks of the index rebuild, which make consume queue units and index entries from a range of the log.

The queue offset gives a unit's place, so the tasks write into the same files at disjoint places, without a shuffle and
in any order. Index entries are numbered in the order of the log, which no task knows alone: each writes its entries to
a staging file, 20 bytes per entry, and other tasks write them into index files when all have been counted. The entry
to which an entry is chained depends on those before it. So a task that makes the second half of a file computes the
chains of the first half, too, which is a small part of the work.

    offset  size  field of a staged entry, big-endian
         0     4  key_hash
         4     8  physical_offset
        12     8  store_timestamp
"""

import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from regulus.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from regulus.model.topics import QUEUE_ID_MAX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS, is_storable
from regulus.pipeline import log_ranges
from regulus.pipeline.archive.task import disk_errors
from regulus.record import index_entry
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE
from regulus.record.consume_queue_unit import encode as encode_unit
from regulus.record.index_entry import IndexHeader
from regulus.record.layout import FIXED_SIZE_V1
from regulus.record.log_units import LogWalk
from regulus.spark.archive.manifest import TopicQueue
from regulus.spark.store.files import CommitLogFiles

OPEN_FILES_MAX = 256
"""Consume queue files that a task keeps open."""
CHUNK_ENTRIES = 16_384
"""Index entries that are written at a time."""
UNITS = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
ENTRIES = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("store_timestamp", ">i8")])
_INDEX_ENTRIES = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("time_difference", ">i4"),
                           ("previous", ">i4")])


class Stretch(NamedTuple):
    """Consecutive queue offsets [first, next); the first one's record is at `physical_offset`, the last one's at
    `last_place`."""

    first: int
    next: int
    physical_offset: int
    last_place: int

    @property
    def messages(self) -> int:
        return self.next - self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsTask:
    """A task that writes units. `floors`: only these queues, and of each only units of records from there on; None: all
    units of all queues. `refused`: places of records whose queue offset rotted, which get no unit.

    `seeks_end`: whether recovery checks the range; then the task stops where the log ends, and reports it.
    """

    store_path: str
    output: str
    start: int
    end: int
    delays_ms: tuple[int, ...]
    queue_file_size: int
    with_index: bool
    known_topics: frozenset[str] | None
    seeks_end: bool = False
    floors: dict[TopicQueue, int] | None = None
    refused: dict[TopicQueue, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By queue: the first and the last place of each run of such records."""

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsFacts:
    start: int
    reached: int
    records: int
    units: int
    skipped: int
    """Bytes in which no record was found."""
    rejected: int
    """Records that get no unit, because no queue can have the number that they state."""
    entries: int
    stretches: dict[TopicQueue, tuple[Stretch, ...]]
    dropped_topics: frozenset[str]
    log_end: log_ranges.LogEnd | None


class Piece(NamedTuple):
    """A part of the entries of a staging file."""

    path: str
    first: int
    entries: int

    def between(self, low: int, high: int) -> Any:
        """The entries [low, high) of the piece."""
        return np.fromfile(self.path, dtype=ENTRIES, count=high - low, offset=(self.first + low) * ENTRIES.itemsize)

    def store_timestamp(self, number: int) -> int:
        return int(self.between(number, number + 1)["store_timestamp"][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTask:
    """Entries of one index file: `pieces`, which follow those of `before`, which other tasks write.

    The task with the last entries also writes the slots and the header.
    """

    path: str
    before: tuple[Piece, ...]
    pieces: tuple[Piece, ...]
    is_last: bool
    end_before: int
    """The end time of the file before, 0 for the first; the first entry's time difference depends on it."""
    slots: int
    entries_max: int

    @property
    def size(self) -> int:
        return index_entry.ENTRY_SIZE * sum(piece.entries for piece in self.pieces)


def staged_entries(output: str, start: int) -> Path:
    return Path(output) / "_entries" / f"{start:020d}"


def queue_directory(output: str, topic: str, queue_id: int) -> Path:
    return Path(output) / "consumequeue" / topic / str(queue_id)


def is_known(topic: str, known_topics: frozenset[str] | None) -> bool:
    """Whether a topic has queues. A deleted topic has only records in the log, and an invalid name has no folder."""
    return is_storable(topic, 0) and (
        known_topics is None or topic in known_topics or topic in SYSTEM_TOPICS
        or topic.startswith((SYSTEM_TOPIC_PREFIX, "RMQ_SYS_")))


# --- consume queues --------------------------------------------------------------------------------------------------


def rebuild_units(task: UnitsTask, attempt: str) -> UnitsFacts:
    """Write the units of one range; to run it again does no harm. Raises ArchiveFailed when the disk is full."""
    log = log_ranges.open_log(task.store_path)
    with disk_errors(Path(task.output)):
        rebuild = _RangeRebuild(task, attempt)
        try:
            return rebuild.run(log)
        finally:
            rebuild.close()


class _RangeRebuild:
    def __init__(self, task: UnitsTask, attempt: str) -> None:
        self._task = task
        self._files = _QueueFiles(task.output, task.queue_file_size)
        self._walk = LogWalk(task.delays_ms, task.seeks_end, True, task.with_index)
        self._topics: list[str] = []
        self._is_kept: list[bool] = []
        self._stretches: dict[TopicQueue, list[Stretch]] = {}
        self._records = self._units = self._entries = self._rejected = 0
        self._draft = staged_entries(task.output, task.start).with_suffix(f".{attempt}")
        self._entries_file = None
        if task.with_index:
            self._draft.parent.mkdir(parents=True, exist_ok=True)
            self._entries_file = self._draft.open("wb")

    def close(self) -> None:
        self._files.close()
        if self._entries_file is not None:
            self._entries_file.close()

    def run(self, log: CommitLogFiles) -> UnitsFacts:
        task = self._task
        reached = task.start
        skipped = 0
        end = None
        for passage in log_ranges.passages(log, self._walk, task.start, task.end):
            if isinstance(passage, log_ranges.Skipped):
                skipped += passage.end - passage.start
                reached = passage.end
                continue
            rows, base = passage.rows, passage.window.start
            end = log_ranges.end_in(passage) if task.seeks_end else None
            if end is not None:
                reached = end.offset
                self._take(rows.first(int(np.searchsorted(rows.column("position"), reached - base))), base)
                break
            self._take(rows, base)
            reached = passage.end
        if self._entries_file is not None:
            self._entries_file.close()
            self._draft.replace(staged_entries(task.output, task.start))
        dropped = {topic for topic, is_kept in zip(self._topics, self._is_kept, strict=True) if not is_kept}
        return UnitsFacts(
            start=task.start, reached=reached, records=self._records, units=self._units, skipped=skipped,
            rejected=self._rejected, entries=self._entries,
            stretches={key: tuple(parts) for key, parts in self._stretches.items()},
            dropped_topics=frozenset(dropped), log_end=end)

    def _take(self, rows: log_ranges.WalkedPiece, base: int) -> None:
        """Write the units and entries of some records."""
        for name in list(self._walk.topics)[len(self._topics):]:
            topic = name.decode("utf-8", "replace")
            self._topics.append(topic)
            self._is_kept.append(is_known(topic, self._task.known_topics))
        places = rows.column("position") + base
        self._records += len(places)
        if self._entries_file is not None and len(rows.hashes):
            counts = rows.column("entries")
            entries = np.empty(len(rows.hashes), dtype=ENTRIES)
            entries["key_hash"] = rows.hashes
            entries["physical_offset"] = np.repeat(places, counts)
            entries["store_timestamp"] = np.repeat(rows.column("store_timestamp"), counts)
            self._entries_file.write(entries.data)
            self._entries += len(entries)
        self._take_units(rows, places)

    def _take_units(self, rows: log_ranges.WalkedPiece, places: Any) -> None:
        kinds = rows.column("sys_flag") & TRANSACTION_MASK
        is_wanted = (kinds == TRANSACTION_NOT) | (kinds == TRANSACTION_COMMIT)
        if not all(self._is_kept):
            is_wanted &= np.array(self._is_kept, dtype=np.bool_)[rows.column("topic")]
        topic, queue_ids, offsets = rows.column("topic"), rows.column("queue_id"), rows.column("queue_offset")
        # No checksum covers these numbers. A queue has no more messages before a record than fit into the log there.
        is_possible = ((queue_ids >= 0) & (queue_ids <= QUEUE_ID_MAX) & (offsets >= 0)
                       & (offsets <= places // FIXED_SIZE_V1))
        self._rejected += int((is_wanted & ~is_possible).sum())
        is_wanted &= is_possible
        order = log_ranges.stable_order(topic, queue_ids)
        order = order[is_wanted[order]]
        if not len(order):
            return
        topic, queue_ids, offsets = topic[order], queue_ids[order], offsets[order]
        units = np.empty(len(order), dtype=UNITS)
        units["physical_offset"] = places[order]
        units["size"] = rows.column("size")[order]
        units["tags_code"] = rows.column("tags_code")[order]
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = (np.diff(topic) != 0) | (np.diff(queue_ids) != 0) | (np.diff(offsets) != 1)
        starts = np.flatnonzero(is_first).tolist()
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            key = self._topics[int(topic[start])], int(queue_ids[start])
            self._put(key, int(offsets[start]), units[start:end])

    def _put(self, key: TopicQueue, first: int, units: Any) -> None:
        if self._task.floors is not None:
            floor = self._task.floors.get(key)
            if floor is None:
                return
            places = units["physical_offset"].astype(np.int64)
            below = int(np.searchsorted(places, floor))
            first, units = first + below, units[below:]
            if len(units) and any(low <= int(places[below]) <= high for low, high in self._task.refused.get(key, ())):
                return
        if not len(units):
            return
        self._files.write(key, first, units.tobytes())
        self._units += len(units)
        stretches = self._stretches.setdefault(key, [])
        if stretches and stretches[-1].next == first:
            stretches[-1] = stretches[-1]._replace(next=first + len(units),
                                                   last_place=int(units["physical_offset"][-1]))
        else:
            stretches.append(Stretch(first, first + len(units), int(units["physical_offset"][0]),
                                     int(units["physical_offset"][-1])))


class _QueueFiles:
    """The files of all queues, made in full size at the first write; at most OPEN_FILES_MAX stay open."""

    def __init__(self, output: str, file_size: int) -> None:
        self._output = output
        self._file_size = file_size
        self._open: OrderedDict[tuple[TopicQueue, int], int] = OrderedDict()

    def write(self, key: TopicQueue, queue_offset: int, data: bytes) -> None:
        """Write units to their places, which may be in several files."""
        position = queue_offset * UNIT_SIZE
        view = memoryview(data)
        while view:
            start = position - position % self._file_size
            room = start + self._file_size - position
            # A nearly full disk may write less than requested; then the next write fails with an error.
            written = os.pwrite(self._descriptor(key, start), view[:room], position - start)
            position += written
            view = view[written:]

    def _descriptor(self, key: TopicQueue, start: int) -> int:
        descriptor = self._open.get((key, start))
        if descriptor is not None:
            self._open.move_to_end((key, start))
            return descriptor
        if len(self._open) >= OPEN_FILES_MAX:
            os.close(self._open.popitem(last=False)[1])
        directory = queue_directory(self._output, *key)
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / f"{start:020d}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._open[key, start] = descriptor
        # Other tasks may be writing the same file; growing it to its full size does not remove their data.
        os.ftruncate(descriptor, self._file_size)
        return descriptor

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])


def write_fillers(output: str, queue_file_size: int, key: TopicQueue, stretches: list[Stretch]) -> None:
    """Fill the places before a queue's first unit, from its file's start on, and those of lost messages."""
    files = _QueueFiles(output, queue_file_size)
    try:
        units_a_file = queue_file_size // UNIT_SIZE
        end = stretches[0].first - stretches[0].first % units_a_file
        for stretch in sorted(stretches):
            if stretch.first > end:
                files.write(key, end, encode_unit(FILLER) * (stretch.first - end))
            end = max(end, stretch.next)
    finally:
        files.close()


# --- index -----------------------------------------------------------------------------------------------------------


def build_index_part(task: IndexTask, attempt: str) -> int:
    """Write some entries of an index file, and return their number. Raises ArchiveFailed when the disk is full.

    Tasks write the same file at disjoint places, as in consume queues; to run one again does no harm.
    """
    path = Path(task.path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
        with path.open("r+b") as file:
            file.truncate(index_entry.file_size(task.slots, task.entries_max))
            return _IndexPart(task).write(file)


class _IndexPart:
    def __init__(self, task: IndexTask) -> None:
        self._task = task
        self._heads = np.zeros(task.slots, dtype=np.int32)
        self._next = 1
        first = (task.before + task.pieces)[0]
        self._begin_timestamp = first.store_timestamp(0)
        self._begin_physical_offset = int(first.between(0, 1)["physical_offset"][0])

    def write(self, file: BinaryIO) -> int:
        task = self._task
        for staged in _chunks(task.before):
            self._chain(staged)
        start = self._next
        file.seek(index_entry.entry_position(task.slots, start))
        for staged in _chunks(task.pieces):
            file.write(self._entries(staged).data)
        if task.is_last:
            file.seek(0)
            file.write(index_entry.encode_header(self._header()))
            file.write(self._heads.astype(">i4").data)
        return self._next - start

    def _chain(self, staged: Any) -> Any:
        """The entry to which each entry is chained."""
        previous = np.empty(len(staged), dtype=np.int32)
        index_entry.chain(staged["key_hash"].astype(np.int64).data, previous.data, self._heads.data, self._next)
        self._next += len(staged)
        return previous

    def _entries(self, staged: Any) -> Any:
        begins = np.full(len(staged), self._begin_timestamp)
        if self._next == 1:
            begins[0] = self._task.end_before
        times = staged["store_timestamp"].astype(np.int64)
        differences = np.where((begins > 0) & (times > begins), (times - begins) // 1000, 0)
        entries = np.empty(len(staged), dtype=_INDEX_ENTRIES)
        entries["key_hash"] = staged["key_hash"]
        entries["physical_offset"] = staged["physical_offset"]
        entries["time_difference"] = np.minimum(differences, index_entry.TIME_DIFFERENCE_MAX)
        entries["previous"] = self._chain(staged)
        return entries

    def _header(self) -> IndexHeader:
        last = self._task.pieces[-1].between(self._task.pieces[-1].entries - 1, self._task.pieces[-1].entries)
        return IndexHeader(self._begin_timestamp, int(last["store_timestamp"][0]), self._begin_physical_offset,
                           int(last["physical_offset"][0]), int(np.count_nonzero(self._heads)), self._next)


def _chunks(pieces: tuple[Piece, ...]) -> Iterator[Any]:
    """The entries of the pieces, at most CHUNK_ENTRIES at a time, which fit in the processor's cache."""
    for piece in pieces:
        for low in range(0, piece.entries, CHUNK_ENTRIES):
            yield piece.between(low, min(low + CHUNK_ENTRIES, piece.entries))
