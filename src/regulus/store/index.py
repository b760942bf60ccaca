"""The index of records by key: hash files of keys and unique keys, the newest last.

A file has slots. Each is the head of a chain of entries whose key hashes belong to it, newest entry first. A file is
named by the local time of its first message and is full at `index_num` - 1 entries. Blocks for all slots are reserved
when a file is made, those for the entries in steps.

Source: IndexService, IndexFile.
"""

from collections import deque
from collections.abc import Generator
from pathlib import Path

from regulus.errors import StoreDamaged, StoreNotWritable
from regulus.model.java_numbers import LONG_MAX
from regulus.record import index_entry
from regulus.record.dispatch_request import DispatchRequest
from regulus.record.index_entry import (
    ENTRY_SIZE,
    HEADER_SIZE,
    TIME_DIFFERENCE_MAX,
    IndexHeader,
    decode_entry,
    encode_entry_into,
    encode_header_into,
    key_hash,
    read_slot,
    write_slot,
)
from regulus.record.index_entry import index_key as index_key
from regulus.store import disk
from regulus.store.mapped_file import MappedFile, MappedFilePool

CHAIN_STEP = 1024
"""Entries of a chain that one step of a query reads: they are spread over the file."""
RESERVE_STEP = 1 << 20
"""Bytes of entries for which blocks are reserved at a time."""

# Private names allow these to be C constants in the compiled form.
_ENTRY = ENTRY_SIZE
_DIFFERENCE_MAX = TIME_DIFFERENCE_MAX


class IndexFile:
    def __init__(self, file: MappedFile, slot_num: int, index_num: int, header: IndexHeader) -> None:
        self.file = file
        self.slot_num = slot_num
        self.index_num = index_num
        self.begin_timestamp = header.begin_timestamp
        self.end_timestamp = header.end_timestamp
        self.begin_physical_offset = header.begin_physical_offset
        self.end_physical_offset = header.end_physical_offset
        self.hash_slot_count = header.hash_slot_count
        self.index_count = header.index_count
        self.entries_start = index_entry.entry_position(slot_num, 0)
        self.fault = ""
        """What is inconsistent in it, if anything was found; it is rebuilt soon."""
        self.is_anew = False
        """Whether it was rebuilt since the start: an inconsistency found afterwards is a fault of the log."""

    @property
    def name(self) -> str:
        return Path(self.file.path).name

    @property
    def is_full(self) -> bool:
        return self.index_count >= self.index_num

    @property
    def header(self) -> IndexHeader:
        return IndexHeader(self.begin_timestamp, self.end_timestamp, self.begin_physical_offset,
                           self.end_physical_offset, self.hash_slot_count, self.index_count)

    def put(self, hash_: int, physical_offset: int, store_timestamp: int) -> None:
        """Add one entry; the caller has checked that the file is not full. Raises StoreNotWritable."""
        file = self.file
        number = self.index_count
        position = self.entries_start + number * _ENTRY
        if position + _ENTRY > file.reserved_position:
            file.reserve(position + RESERVE_STEP)
        if file.mapping is None:
            file.map()
        file.is_used = True
        cells = file.cells
        assert cells is not None
        slot = hash_ % self.slot_num
        previous = read_slot(cells, slot)
        if previous <= 0 or previous >= number:
            previous = 0
        difference = 0
        if self.begin_timestamp > 0 and store_timestamp > self.begin_timestamp:
            difference = (store_timestamp - self.begin_timestamp) // 1000
            if difference > _DIFFERENCE_MAX:
                difference = _DIFFERENCE_MAX
        encode_entry_into(cells, position, hash_, physical_offset, difference, previous)
        # In this order: another thread that reads the slot takes its number for an existing entry.
        self.index_count = number + 1
        write_slot(cells, slot, number)
        if number <= 1:
            self.begin_physical_offset = physical_offset
            self.begin_timestamp = store_timestamp
        if previous == 0:
            self.hash_slot_count += 1
        self.end_physical_offset = physical_offset
        self.end_timestamp = store_timestamp
        encode_header_into(cells, self.begin_timestamp, self.end_timestamp, self.begin_physical_offset,
                           self.end_physical_offset, self.hash_slot_count, self.index_count)
        # Only marks that there is something to flush: the changed bytes are spread over the whole file.
        file.wrote_position += 1

    def matches(self, begin: int, end: int) -> bool:
        """Whether the file may have entries of messages stored in [begin, end]."""
        return ((begin < self.begin_timestamp and end > self.end_timestamp)
                or self.begin_timestamp <= begin <= self.end_timestamp
                or self.begin_timestamp <= end <= self.end_timestamp)

    def count_at_end(self) -> int:
        """The number of entries that the last record has in this file."""
        count = 0
        while count < self.index_count - 1:
            position = self.entries_start + (self.index_count - 1 - count) * ENTRY_SIZE
            entry = decode_entry(disk.read_at(self.file.path, position, ENTRY_SIZE), 0)
            if entry.physical_offset != self.end_physical_offset:
                break
            count += 1
        return count

    def query(self, hash_: int, count_max: int, begin: int, end: int,
              before: int) -> Generator[None, None, list[int]]:
        """Physical offsets of records under this hash, newest first; yields after each CHAIN_STEP entries."""
        found: list[int] = []
        if self.index_count <= 1:
            return found
        view = self.file.slice(0, self.file.size)
        slot = hash_ % self.slot_num
        number = read_slot(view, slot)
        if number < 0 or number >= self.index_count:
            self.fault = f"has a slot that does not fit: {slot}"
        passed = 0
        newer_offset = self.end_physical_offset
        while 0 < number < self.index_count and len(found) < count_max:
            entry = decode_entry(view, self.entries_start + number * ENTRY_SIZE)
            if entry.key_hash % self.slot_num != slot or entry.time_difference < 0 \
                    or not 0 <= entry.physical_offset <= newer_offset:
                self.fault = f"has an entry that does not fit: {number}"
                break
            newer_offset = entry.physical_offset
            time_read = self.begin_timestamp + entry.time_difference * 1000
            if entry.key_hash == hash_ and begin <= time_read <= end and entry.physical_offset < before:
                found.append(entry.physical_offset)
            if entry.previous >= number:
                self.fault = f"has a chain that leads back: {number}"
                break
            if time_read < begin:
                break
            number = entry.previous
            passed += 1
            if passed % CHAIN_STEP == 0:
                yield
        return found


class Index:
    def __init__(self, directory: Path, slot_num: int, index_num: int, pool: MappedFilePool) -> None:
        self.files: list[IndexFile] = []
        self.tail: IndexFile | None = None
        self._directory = directory
        self._slot_num = slot_num
        self._index_num = index_num
        self._file_size = index_entry.file_size(slot_num, index_num)
        self._pool = pool
        self._full: deque[IndexFile] = deque()

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, request: DispatchRequest) -> None:
        """Index one record by its keys, unless it is indexed already. Raises StoreNotWritable."""
        tail = self.tail
        if tail is not None and request.physical_offset < tail.end_physical_offset:
            return
        if request.uniq_hash >= 0:
            self._put_hash(request.uniq_hash, request)
        elif request.uniq_key:
            self._put_key(request.uniq_key, request)
        if request.keys_hash >= 0:
            self._put_hash(request.keys_hash, request)
        elif request.keys:
            if " " in request.keys:
                for key in request.keys.split(" "):
                    if key:
                        self._put_key(key, request)
            else:
                self._put_key(request.keys, request)

    def _put_key(self, key: str, request: DispatchRequest) -> None:
        self._put_hash(key_hash(index_key(request.topic, key)), request)

    def _put_hash(self, hash_: int, request: DispatchRequest) -> None:
        tail = self.tail
        if tail is None or tail.index_count >= tail.index_num:
            tail = self._extend(request.store_timestamp)
        tail.put(hash_, request.physical_offset, request.store_timestamp)

    def _extend(self, store_timestamp: int) -> IndexFile:
        """Make a new file. Its time begins at the end of the file before, which shows in the time difference of its
        first entry."""
        path = self._directory / index_entry.file_name(store_timestamp, self.tail.name if self.tail is not None else "")
        disk.make_directory(self._directory)
        disk.create_sized(path, self._file_size)
        file = MappedFile(str(path), 0, self._file_size, 0, self._pool)
        file.is_new = True
        before = self.tail
        header = IndexHeader()
        if before is not None:
            header = IndexHeader(before.end_timestamp, before.end_timestamp, before.end_physical_offset,
                                 before.end_physical_offset)
        made = IndexFile(file, self._slot_num, self._index_num, header)
        try:
            file.reserve(min(made.entries_start + RESERVE_STEP, file.size))
        except StoreNotWritable:
            disk.remove_file(path)
            raise
        if before is not None:
            self._full.append(before)
        self.files.append(made)
        self.tail = made
        return made

    # --- reading -----------------------------------------------------------------------------------------------------

    def query(self, topic: str, key: str, count_max: int, begin: int, end: int,
              before: int = LONG_MAX) -> Generator[None, None, list[int]]:
        """Physical offsets, below `before`, of records indexed under `key` with store time in [begin, end], to the
        second; newest first. Yields after each step.

        Only hashes are compared, so records of other keys may be among them, and one record may occur twice.
        """
        hash_ = key_hash(index_key(topic, key))
        found: list[int] = []
        for file in self.files[::-1]:
            if len(found) >= count_max:
                break
            if file.matches(begin, end) and file.begin_physical_offset < before:
                try:
                    found += yield from file.query(hash_, count_max - len(found), begin, end, before)
                except StoreNotWritable:
                    if file in self.files:
                        raise           # else it was deleted between two steps, with all its records
            if file.begin_timestamp < begin:
                break
        return found

    @property
    def last_update(self) -> tuple[int, int]:
        """Store time and physical offset of the newest entry; zeros when there is none."""
        if self.tail is None:
            return 0, 0
        return self.tail.end_timestamp, self.tail.end_physical_offset

    # --- rebuilding ------------------------------------------------------------------------------------------

    def before(self, file: IndexFile) -> IndexFile | None:
        number = self.files.index(file)
        return self.files[number - 1] if number else None

    def suspect(self, physical_offset: int, fault: str) -> None:
        """Mark the file that points to this record as inconsistent."""
        for file in self.files:
            if file.begin_physical_offset <= physical_offset <= file.end_physical_offset:
                file.fault = fault

    def end_at(self, log_end: int) -> None:
        """Cut the index to a new end of the log. Files that point to later records are to be rebuilt, and until then do
        not prevent indexing new records."""
        for file in self.files:
            if file.end_physical_offset >= log_end:
                file.fault = "has entries of records behind the end of the log"
                file.end_physical_offset = log_end

    def close_tail(self) -> None:
        """Close the newest file, so that it can be rebuilt; further entries go to a new file. Raises
        StoreNotWritable."""
        if self.tail is not None:
            self._extend(self.tail.end_timestamp)

    def replace(self, old: IndexFile, header: IndexHeader) -> None:
        """Use another file in place of the old one from now on."""
        file = MappedFile(old.file.path, 0, self._file_size, 0, self._pool)
        new = IndexFile(file, self._slot_num, self._index_num, header)
        new.is_anew = True
        self._put_instead(old, [new])
        tail = self.tail
        if tail is not None and tail.index_count <= 1 and self.before(tail) is new:
            # An empty file has the end time of the one before, even if that was wrong.
            tail.begin_timestamp = tail.end_timestamp = new.end_timestamp
            tail.begin_physical_offset = tail.end_physical_offset = new.end_physical_offset

    def drop(self, old: IndexFile) -> None:
        """Raises StoreNotWritable."""
        disk.remove_file(Path(old.file.path))
        self._put_instead(old, [])

    def _put_instead(self, old: IndexFile, new: list[IndexFile]) -> None:
        number = self.files.index(old)
        self.files[number:number + 1] = new
        old.file.unmap()

    # --- recovery and flushing ---------------------------------------------------------------------------------------

    def load(self, drop_later_than: int | None, known: dict[str, int] | None, log_start: int,
             log_bound: int) -> bool:
        """Take over the files on disk; returns whether all expected files exist. Raises StoreDamaged, StoreNotWritable.

        After a crash, files that may not be wholly on disk are removed: all after the one that ends at
        `drop_later_than`, the end time of the last flushed file; so are all after a damaged or missing one. They can be
        rebuilt from the log. `known` are the files that existed, with the physical offsets of their ends; None when
        that is not known.
        """
        flushed_to = -1
        is_beyond = False
        self.files = []
        found = [name for name in disk.names(self._directory)
                 if len(name) == index_entry.NAME_SIZE and name.isdigit()]
        missing = [name for name, end in (known or {}).items() if name not in found and end >= log_start]
        for name in found:
            # The first message writes to the newest file, and a message that cannot be indexed is refused.
            disk.check_writable(self._directory / name)
        if disk.is_directory(self._directory):
            disk.check_writable(self._directory)
        first_missing = min(missing, default="")
        is_whole = not missing and (bool(found) or known == {})
        for name in found:
            path = self._directory / name
            size = disk.file_size(path)
            if size not in (0, self._file_size):
                raise StoreDamaged(
                    f"{path} has {size} bytes where maxHashSlotNum {self._slot_num} and maxIndexNum {self._index_num} "
                    f"make {self._file_size}: set both to the values the store was written with, or move the index "
                    "folder away")
            header = index_entry.decode_header(disk.read_at(path, 0, HEADER_SIZE)) if size else IndexHeader()
            if drop_later_than is not None:
                is_beyond = (is_beyond or flushed_to == drop_later_than
                             or not 0 < header.end_timestamp <= drop_later_than)
            file = IndexFile(MappedFile(str(path), 0, self._file_size, 0, self._pool), self._slot_num, self._index_num,
                             header)
            is_lost = size == 0 or is_beyond or not self._is_sound(file, log_bound)
            if is_lost or (first_missing and name > first_missing):
                disk.remove_file(path)
                is_whole = False
                first_missing = first_missing or name
                continue
            flushed_to = header.end_timestamp
            self.files.append(file)
        self.tail = self.files[len(self.files) - 1] if self.files else None
        return is_whole

    def _is_sound(self, file: IndexFile, log_bound: int) -> bool:
        """Whether the header and the newest entry agree, and point to records before `log_bound`."""
        if not 0 < file.index_count <= self._index_num or not 0 <= file.end_physical_offset < log_bound:
            return False
        if file.index_count == 1:
            return True
        newest = disk.read_at(file.file.path, file.entries_start + (file.index_count - 1) * ENTRY_SIZE, ENTRY_SIZE)
        return decode_entry(newest, 0).physical_offset == file.end_physical_offset

    def names(self) -> list[tuple[str, int]]:
        """The files, each with the physical offset of its newest entry."""
        return [(file.name, file.end_physical_offset) for file in tuple(self.files) if file.index_count > 1]

    def flush_full(self) -> int:
        """Bring full files that were not flushed yet to disk; returns the end time of the last of them, 0 when there
        were none."""
        flushed_to = 0
        while self._full:
            file = self._full[0]
            self.flush_file(file)
            flushed_to = file.end_timestamp
            self._full.popleft()
        return flushed_to

    def flush(self) -> None:
        """Bring the newest file to disk, too."""
        if self.tail is not None:
            self.flush_file(self.tail)

    def flush_file(self, index_file: IndexFile) -> None:
        index_file.file.flush_whole()
        if index_file.file.is_new:
            disk.sync_directory(self._directory)
            index_file.file.is_new = False
