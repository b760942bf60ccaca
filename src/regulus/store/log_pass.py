"""A pass over the whole log, in steps, at the same time as the thread that appends: it reads what a start does not.

A start only walks the end of the log. Earlier bytes were written to disk long ago, and may have been damaged there: a
LogPass with checksums finds that. A LogPass without checksums supplies the records from which queues and index files
are rebuilt. Records appended meanwhile are not included, and files deleted meanwhile are skipped.
"""

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from regulus.errors import CorruptRecord, StoreError, StoreNotWritable, TruncatedRecord
from regulus.record import big_endian
from regulus.record.dispatch_request import DispatchRequest, request_in_view
from regulus.record.layout import BLANK_SIZE_MIN, MAGIC_BLANK
from regulus.record.synced_mark import HEAD_SIZE
from regulus.store import disk
from regulus.store.commit_log import CommitLog
from regulus.store.log_heads import first_head, head_in
from regulus.store.mapped_file import MappedFile

STEP_SIZE = 128 << 10
"""Bytes read at a time."""
RECORD_SIZE_MAX = 64 << 20
"""A record that states a greater size is skipped by its head alone."""
SEARCH_SIZE = 128 << 10
"""Bytes read at a time to find where the log continues after damage."""


class CheckStep(NamedTuple):
    """The progress of one step in bytes, the number of bytes it read for that, and a sentence for each fault that it
    found."""

    size: int
    read: int
    faults: tuple[str, ...] = ()


class LogPass:
    """Walks the records from `begin` to `end`, which the log has now. `take` gets each whole record, `damaged` the
    physical offset of each other one."""

    def __init__(self, log: CommitLog, begin: int, end: int, *, check_crc: bool,
                 take: Callable[[DispatchRequest], object] | None = None,
                 damaged: Callable[[int], None] | None = None) -> None:
        self._log = log
        self._begin = begin
        self._end = end
        self._check_crc = check_crc
        self._take = take
        self._damaged = damaged
        self._buffer = bytearray(STEP_SIZE)
        self._read_size = 0     # of the current step

    def steps(self) -> Iterator[CheckStep]:
        """Run the pass; each step runs when it is requested. Raises what `take` raises."""
        position = max(self._begin, self._log.start)
        while position < self._end:
            file = self._log.files.find(position)
            # The first files may be deleted between two reads of the list.
            if file is None or position < file.start:
                behind = self._next_start(position)
                if missing := self._log.lacks(position):
                    fault = (f"{missing} is missing, and the log has nothing from {position} to {behind}: what lies "
                             "there is refused to whoever asks for it; stop the broker and bring the file back from a "
                             "backup or replica")
                    yield CheckStep(0, 0, (fault,))
                position = behind
                continue
            try:
                behind, fault = yield from self._pass(file, position)
            except StoreNotWritable:
                raise           # a fault of a record that `take` met, not of the log
            except StoreError as error:
                behind, fault = file.start + file.size, (
                    f"the log cannot be read behind {position} ({error}), and the rest of that file was not looked at: "
                    "look at the disk")
            # Files are deleted from the first on: a missing one was deleted during the pass.
            is_told = bool(fault) and self._log.files.find(position) is file
            yield self._step(behind - position, (fault,) if is_told else ())
            position = behind

    def _step(self, size: int, faults: tuple[str, ...] = ()) -> CheckStep:
        step = CheckStep(size, self._read_size, faults)
        self._read_size = 0
        return step

    def _next_start(self, position: int) -> int:
        return min([file.start for file in tuple(self._log.files.files) if file.start > position], default=self._end)

    def _pass(self, file: MappedFile, physical_offset: int) -> Generator[CheckStep, None, tuple[int, str]]:
        """Where to continue, and the fault there if there is one. Yields whenever the search for the next record took
        another step."""
        stop, cause = self._read(file, physical_offset)
        if not cause:
            return stop, ""
        if self._damaged is not None:
            self._damaged(stop)
        behind = yield from self._next_head(file, stop)
        return behind, (f"the log is damaged at {stop}, byte {stop - file.start} of {file.path} ({cause}), and goes on "
                        f"at {behind}: what is damaged is refused to whoever asks for it; bring the file back from a "
                        "backup or replica")

    def _read(self, file: MappedFile, physical_offset: int) -> tuple[int, str]:
        """The position after the last record of the next piece, and the fault if it ended for one."""
        view = memoryview(self._buffer)[:min(self._end, file.start + file.size) - physical_offset]
        filled = disk.read_into(file.path, physical_offset - file.start, view)
        self._read_size += filled
        walked, cause = self._walk(view, filled, physical_offset)
        return (physical_offset + walked, cause) if walked or cause else self._read_long(file, physical_offset)

    def _walk(self, view: memoryview, filled: int, physical_offset: int) -> tuple[int, str]:
        """The position in the piece at which the walk ended, and the fault if it ended for one."""
        position = 0
        while position < filled:
            try:
                request = request_in_view(view, view, position, filled, self._check_crc)
            except TruncatedRecord:
                return position, ""
            except CorruptRecord as error:
                return position, str(error).rpartition(" at ")[0]
            if request.is_blank:
                return self._behind_file(physical_offset + position) - physical_offset, ""
            if request.physical_offset != physical_offset + position:
                return position, f"record says it is at {request.physical_offset}"
            if self._take is not None:
                self._take(request)
            position += request.size
        return position, ""

    def _behind_file(self, physical_offset: int) -> int:
        size = self._log.files.file_size
        return physical_offset - physical_offset % size + size

    def _read_long(self, file: MappedFile, physical_offset: int) -> tuple[int, str]:
        """Read a piece for a first record that is longer than the usual one, or claims to be."""
        size = int.from_bytes(self._buffer[:4], "big")
        room = min(self._end, file.start + file.size) - physical_offset
        piece = self._buffer
        if len(piece) < size <= min(room, RECORD_SIZE_MAX):
            self._buffer = bytearray(size)
            try:
                return self._read(file, physical_offset)
            finally:
                self._buffer = piece        # the next step is a short one again
        if size <= room and self._is_between_records(file, physical_offset + size):
            return physical_offset + size, ""
        return physical_offset, f"record says that it has {size} bytes"

    def _next_head(self, file: MappedFile, physical_offset: int) -> Generator[CheckStep, None, int]:
        """Where the next recognizable record begins after a damaged one. A body may contain what looks like a record:
        if the damaged record's own length leads to one, that counts."""
        end = min(file.start + file.size, self._end)
        head = head_in(file, physical_offset)
        if head is not None and self._has_head(file, physical_offset + head.size):
            return min(physical_offset + head.size, end)
        position = physical_offset + 1
        while position + HEAD_SIZE <= end:
            data = disk.read_at(file.path, position - file.start, min(SEARCH_SIZE, end - position))
            self._read_size += len(data)
            found = first_head(data, position)
            if found is not None:
                return found.physical_offset
            if len(data) <= HEAD_SIZE:
                break
            position += len(data) - HEAD_SIZE
            yield self._step(0)
        return end

    def _is_between_records(self, file: MappedFile, physical_offset: int) -> bool:
        """Whether a record may end there: at the end of the range, before a blank, or before the next record."""
        if physical_offset == self._end or self._has_head(file, physical_offset):
            return True
        blank = self._log.slice(physical_offset, BLANK_SIZE_MIN)
        return blank is not None and big_endian.int4(blank, 4) == MAGIC_BLANK

    def _has_head(self, file: MappedFile, physical_offset: int) -> bool:
        return physical_offset < file.start + file.size and head_in(file, physical_offset) is not None
