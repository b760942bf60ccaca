"""The whole log once more, a step at a time, beside the thread that appends: what a start does not walk.

A start walks the end of the log. What lies before was on disk long ago, and may have rotted there: a LogPass with
checksums finds that. One without gives the records from which queues and index files are built anew. Records that
appear meanwhile are left out, and files that are deleted meanwhile are passed over.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from regulus.errors import CorruptRecord, StoreError, StoreNotWritable, TruncatedRecord
from regulus.record import big_endian
from regulus.record.dispatch_request import DispatchRequest, request_in_view
from regulus.record.layout import BLANK_SIZE_MIN, MAGIC_BLANK
from regulus.store import disk
from regulus.store.commit_log import CommitLog
from regulus.store.log_heads import find_heads, head_in
from regulus.store.mapped_file import MappedFile

STEP_SIZE = 128 << 10
"""Bytes read at a time."""
RECORD_SIZE_MAX = 64 << 20
"""A record that says to be longer is passed over by its head alone."""


class CheckStep(NamedTuple):
    """What one step read, in bytes, and a sentence for each fault that it found."""

    size: int
    faults: tuple[str, ...] = ()


class LogPass:
    """Goes through the records from `begin` to `end`, which lie in the log now. `take` gets each one that is whole,
    `damaged` the physical offset of each that is not."""

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

    def steps(self) -> Iterator[CheckStep]:
        """Each step is taken when it is asked for. Raises what `take` raises."""
        position = max(self._begin, self._log.start)
        while position < self._end:
            file = self._log.files.find(position)
            # The first files may go between two looks at the list.
            if file is None or position < file.start:
                behind = self._next_start(position)
                if missing := self._log.lacks(position):
                    fault = (f"{missing} is missing, and the log has nothing from {position} to {behind}: what lies "
                             "there is refused to whoever asks for it; stop the broker and bring the file back from a "
                             "backup or replica")
                    yield CheckStep(0, (fault,))
                position = behind
                continue
            behind, fault = self._read(file, position)
            # Files go from the first on: one that is not there any more was deleted while we looked.
            is_told = bool(fault) and self._log.files.find(position) is file
            yield CheckStep(behind - position, (fault,) if is_told else ())
            position = behind

    def _next_start(self, position: int) -> int:
        return min([file.start for file in tuple(self._log.files.files) if file.start > position], default=self._end)

    def _read(self, file: MappedFile, physical_offset: int) -> tuple[int, str]:
        """Where to go on, and the fault there if there is one."""
        view = memoryview(self._buffer)[:min(self._end, file.start + file.size) - physical_offset]
        try:
            filled = disk.read_into(file.path, physical_offset - file.start, view)
            walked, cause = self._walk(view, filled, physical_offset)
            if cause:
                return self._pass_over(file, physical_offset + walked, cause)
            return (physical_offset + walked, "") if walked else self._read_long(file, physical_offset)
        except StoreError as error:
            if isinstance(error, StoreNotWritable):
                raise           # which `take` met, and not the log
            return file.start + file.size, (f"the log cannot be read behind {physical_offset} ({error}), and the rest "
                                            "of that file was not looked at: look at the disk")

    def _walk(self, view: memoryview, filled: int, physical_offset: int) -> tuple[int, str]:
        """Behind which byte of the piece the walk ended; and why, when that is a fault."""
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
        """Nothing is whole in the piece: its first record is longer, or says so."""
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
        return self._pass_over(file, physical_offset, f"record says that it has {size} bytes")

    def _pass_over(self, file: MappedFile, physical_offset: int, cause: str) -> tuple[int, str]:
        """Behind a damaged record, where the next one begins that can be told."""
        if self._damaged is not None:
            self._damaged(physical_offset)
        behind = min(self._next_head(file, physical_offset), self._end)
        return behind, (f"the log is damaged at {physical_offset}, byte {physical_offset - file.start} of {file.path} "
                        f"({cause}), and goes on at {behind}: what is damaged is refused to whoever asks for it; bring "
                        "the file back from a backup or replica")

    def _next_head(self, file: MappedFile, physical_offset: int) -> int:
        """A body may hold what looks like a record: where the damaged one's own length leads to one, that counts."""
        head = head_in(file, physical_offset)
        if head is not None and self._has_head(file, physical_offset + head.size):
            return physical_offset + head.size
        found = next(find_heads(file, physical_offset - file.start + 1), None)
        return found.physical_offset if found is not None else file.start + file.size

    def _is_between_records(self, file: MappedFile, physical_offset: int) -> bool:
        """Whether a record may end there: at the end of what is looked at, before a blank, before the next record."""
        if physical_offset == self._end or self._has_head(file, physical_offset):
            return True
        blank = self._log.slice(physical_offset, BLANK_SIZE_MIN)
        return blank is not None and big_endian.int4(blank, 4) == MAGIC_BLANK

    def _has_head(self, file: MappedFile, physical_offset: int) -> bool:
        return physical_offset < file.start + file.size and head_in(file, physical_offset) is not None
