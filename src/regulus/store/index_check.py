"""Check whether the chains of an index file match its entries, and rebuild a file where they do not.

The entries alone determine the slots and the chains, so damage anywhere between them shows. The check and the rebuild
both run in steps, at the same time as the thread that writes and queries. A rebuilt file replaces one that is no longer
written, and is used once `take_over` has put it in its place.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from sys import byteorder

from regulus.model.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from regulus.record.dispatch_request import DispatchRequest
from regulus.record.index_entry import (
    ENTRY_SIZE,
    SLOT_SIZE,
    IndexEntry,
    decode_entry,
    slot_position,
    time_difference,
)
from regulus.store import disk
from regulus.store.commit_log import CommitLog
from regulus.store.index import Index, IndexFile
from regulus.store.log_heads import head_in
from regulus.store.log_pass import CheckStep, LogPass
from regulus.store.mapped_file import MappedFilePool

ENTRIES_PER_STEP = 4096
SLOTS_PER_STEP = 65_536
ANEW = "anew"
"""Folder within that of the index where a file is built."""

_ENTRIES = Struct(">iqii")


class IndexCheck:
    """Checks the entries that one file has now. `file.fault` is set to the inconsistency found.

    The thread that writes creates it, so that its initial state is consistent; the steps are for another thread.
    """

    def __init__(self, file: IndexFile, log: CommitLog) -> None:
        self.file = file
        self._header = file.header
        self._count = file.index_count
        self._log = log
        self._log_end = log.end
        self._heads = array("i")
        self._last_offset = 0

    def steps(self) -> Iterator[CheckStep]:
        """Raises StoreError when the file, or the log, cannot be read."""
        fault = self._look_at_times()
        if fault:
            yield self._found(0, fault)
            return
        self._heads = array("i", bytes(SLOT_SIZE * self.file.slot_num))
        for first in range(1, self._count, ENTRIES_PER_STEP):
            size = (min(first + ENTRIES_PER_STEP, self._count) - first) * ENTRY_SIZE
            fault = self._look_at_entries(first, self._read(self.file.entries_start + first * ENTRY_SIZE, size))
            if fault:
                yield self._found(size, fault)
                return
            yield CheckStep(size, size)
        for first in range(0, self.file.slot_num, SLOTS_PER_STEP):
            size = min(SLOTS_PER_STEP, self.file.slot_num - first) * SLOT_SIZE
            fault = self._look_at_slots(first, self._read(slot_position(first), size))
            if fault:
                yield self._found(size, fault)
                return
            yield CheckStep(size, size)

    def _read(self, position: int, size: int) -> bytes:
        return disk.read_at(self.file.file.path, position, size)

    def _found(self, size: int, fault: str) -> CheckStep:
        self.file.fault = fault
        return CheckStep(size, size, (f"index file {self.file.name} {fault}",))

    def _look_at_times(self) -> str:
        """What is wrong with the times in the header, by which queries skip a file. They must be those of the first and
        the last record, whose distance is also in the last entry."""
        header, last = self._header, self._count - 1
        if last < 1:
            return ""
        for physical_offset, timestamp in ((header.begin_physical_offset, header.begin_timestamp),
                                           (header.end_physical_offset, header.end_timestamp)):
            if self._store_timestamp(physical_offset) not in (None, timestamp):
                return f"has a time in its header that is not that of the record at {physical_offset}"
        is_begin_known = self._store_timestamp(header.begin_physical_offset) is not None
        entry = decode_entry(self._read(self.file.entries_start + last * ENTRY_SIZE, ENTRY_SIZE), 0)
        # The difference of the first entry is to the end of the file before. If the clock was set back, the last time
        # may be the lower one.
        is_borne_out = entry.time_difference == time_difference(header.end_timestamp, header.begin_timestamp) \
            and (is_begin_known or header.begin_timestamp <= header.end_timestamp)
        if last > 1 and not is_borne_out:
            return "has times in its header that its last entry does not bear out"
        return ""

    def _store_timestamp(self, physical_offset: int) -> int | None:
        """The store time of the record there, if the log has one."""
        log_file = self._log.files.find(physical_offset)
        head = head_in(log_file, physical_offset) if log_file is not None else None
        return head.store_timestamp if head is not None else None

    def _look_at_entries(self, first: int, data: bytes) -> str:
        heads, slot_num = self._heads, self.file.slot_num
        for number, (hash_, physical_offset, difference, previous) in enumerate(_ENTRIES.iter_unpack(data), first):
            slot = hash_ % slot_num
            if hash_ < 0 or difference < 0 or previous != heads[slot] \
                    or not self._last_offset <= physical_offset < self._log_end:
                return f"has an entry that does not fit: {number}"
            heads[slot] = number
            self._last_offset = physical_offset
        return ""

    def _look_at_slots(self, first: int, data: bytes) -> str:
        found = array("i", data)
        if byteorder == "little":
            found.byteswap()
        if found == self._heads[first:first + len(found)]:
            return ""
        for slot, number in enumerate(found, first):
            if self._older(number) != self._heads[slot]:
                return f"has a slot that does not fit: {slot}"
        return ""

    def _older(self, number: int) -> int:
        """The first entry of a chain that existed when the check began: entries may be added to the newest file."""
        while self._count <= number < self.file.index_count:
            entry: IndexEntry = decode_entry(self._read(self.file.entries_start + number * ENTRY_SIZE, ENTRY_SIZE), 0)
            if entry.previous >= number:
                return -1
            number = entry.previous
        return number


class IndexRebuild:
    """Rebuilds a file of `index` from the log. The file is no longer written (see Index.close_tail)."""

    def __init__(self, index: Index, file: IndexFile, log: CommitLog) -> None:
        self._index = index
        self._file = file
        self._directory = Path(file.file.path).parent / ANEW
        self._pool = MappedFilePool(4)
        self._anew = Index(self._directory, file.slot_num, file.index_num, self._pool)
        before = index.before(file)
        self._begin = before.end_physical_offset if before is not None else log.start
        self._skipped = before.count_at_end() if before is not None else 0
        end = log.behind(file.end_physical_offset) if file.end_physical_offset >= log.start else log.start
        self._pass = LogPass(log, self._begin, end, check_crc=False, take=self._put)

    def steps(self) -> Iterator[CheckStep]:
        """Worker thread. Raises StoreError."""
        disk.remove_tree(self._directory)
        yield from self._pass.steps()
        for file in self._anew.files[:1]:
            self._anew.flush_file(file)
        self._pool.unmap_all()

    def _put(self, request: DispatchRequest) -> None:
        if request.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            return
        if request.physical_offset == self._begin and self._skipped:
            self._leave_out(request)
        # Entries that do not fit any more are in the next file, as they were before.
        if len(self._anew.files) < 2:
            self._anew.put(request)

    def _leave_out(self, request: DispatchRequest) -> None:
        """Skip the first keys of a record if they are in the file before."""
        skipped = self._skipped
        if request.uniq_key:
            request.uniq_key = ""
            skipped -= 1
        keys = [key for key in request.keys.split(" ") if key]
        request.keys = " ".join(keys[skipped:])

    def take_over(self) -> list[str]:
        """Put the rebuilt file in the old one's place; returns sentences about it. For the thread that writes and
        queries. Raises StoreNotWritable."""
        if self._file not in self._index.files:
            return []           # all its records were deleted meanwhile, and it with them
        built = self._anew.files[0] if self._anew.files else None
        if built is None:
            self._index.drop(self._file)
            return [f"index file {self._file.name} is removed: the log has no record of it any more"]
        disk.move_tree(Path(built.file.path), Path(self._file.file.path))
        disk.remove_tree(self._directory)
        self._index.replace(self._file, built.header)
        return [f"index file {self._file.name} was built anew from the log, with {built.index_count - 1} entries"]
