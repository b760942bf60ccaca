"""Find where two copies of one log begin to differ: this one, whose broker is stopped, and another that is read piece
by piece.

A log only grows. If both have the same record at one position, everything before it is the same. A bisection over the
files finds the last one that begins equally, and only that file is compared to its end. Records are equal only if all
their bytes are: two may have the same size at the same position, and mostly have.

The generator yields a Look for each piece of the other log that it needs, and is sent its bytes.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

from regulus.errors import StoreDamaged
from regulus.record.layout import BLANK_SIZE_MIN, MAGIC_BLANK
from regulus.record.synced_mark import HEAD_SIZE
from regulus.store import disk
from regulus.store.log_heads import LogHead, head_at
from regulus.store.mapped_file_queue import NAME_SIZE, file_name

LOOK_SIZE = 1 << 20
"""Bytes of both logs that are compared at a time."""
_WINDOW = 8 << 20
_MAGIC_BLANK = (MAGIC_BLANK & 0xFFFFFFFF).to_bytes(4, "big")


class Look(NamedTuple):
    """A range of bytes in the other log, which has them in one file."""

    offset: int
    size: int


class LogTail(NamedTuple):
    """What a log has after one position: where it ends, and the number of records."""

    end: int
    records: int


class RestingLog:
    """The files of a log that no broker writes; only read. Raises StoreDamaged when they are not a log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.starts = [int(name) for name in disk.names(directory)
                       if len(name) == NAME_SIZE and name.isascii() and name.isdigit()
                       and disk.file_size(directory / name)]
        if not self.starts:
            raise StoreDamaged(f"{directory} has no files of a log")
        self.file_size = disk.file_size(directory / file_name(self.starts[0]))
        for number, start in enumerate(self.starts):
            path = directory / file_name(start)
            if disk.file_size(path) != self.file_size or start != self.starts[0] + number * self.file_size:
                raise StoreDamaged(f"{path} has another size than the file before it, or one is missing between them: "
                                   "start its broker first, which says what is wrong")

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes, which must be in one file."""
        start = offset - offset % self.file_size
        return disk.read_at(self._directory / file_name(start), offset - start, size)

    def units(self, start: int) -> Iterator[tuple[int, int, bool]]:
        """The records of the file that begins at `start`: the start and the end of each; True marks a blank at the end.
        Stops at anything else."""
        position = begin = start
        data = b""
        while position < start + self.file_size:
            at = position - begin
            if at + HEAD_SIZE > len(data) and begin + len(data) < start + self.file_size:
                data, begin, at = self.read(position, min(_WINDOW, start + self.file_size - position)), position, 0
            if data[at + 4:at + BLANK_SIZE_MIN] == _MAGIC_BLANK:
                yield position, start + self.file_size, True
                return
            head = head_at(data, at, position)
            if head is None or position + head.size > start + self.file_size:
                return
            yield position, position + head.size, False
            position += head.size

    def first_record(self, start: int) -> LogHead | None:
        return head_at(self.read(start, HEAD_SIZE), 0, start) if start in self.starts else None

    def unit_at(self, offset: int) -> int | None:
        """The start of the record or blank that contains the byte at `offset`; None when the log ends before it."""
        for begin, end, _ in self.units(offset - offset % self.file_size):
            if begin <= offset < end:
                return begin
        return None

    def behind(self, offset: int) -> LogTail:
        """What would be cut if the log were cut at `offset`."""
        end, records = offset, 0
        for start in self.starts:
            for begin, behind, is_blank in self.units(start) if start + self.file_size > offset else ():
                if begin >= offset:
                    end = behind
                    records += not is_blank
        return LogTail(end, records)


def find_parting(log: RestingLog, first: int, end: int) -> Generator[Look, bytes, int | None]:
    """The start of the first record here that the other log does not have; None when it has all.

    The other log has the bytes from `first` to `end`. Raises StoreDamaged when the two no longer have a common record.
    """
    files = [start for start in log.starts if log.first_record(start) is not None]
    places = [place for start in files if start >= first and (place := _place_in(log, start)) is not None]
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        if (yield from _begins_alike(log, places[middle], end)):
            low = middle + 1
        else:
            high = middle
    if not low:
        raise StoreDamaged(f"nothing of the log here, which begins at {log.starts[0]}, is found in the master's, which "
                           f"has {first} to {end}: give this slave an empty folder, or a copy of the master's store")
    position = places[low - 1]
    file_end = position - position % log.file_size + log.file_size
    while position < min(file_end, end):
        look = Look(position, min(LOOK_SIZE, file_end - position, end - position))
        theirs, ours = (yield look), log.read(*look)
        if theirs != ours:
            return log.unit_at(position + _alike(ours, theirs))
        position += look.size
    if position < file_end:
        return log.unit_at(position)
    return position if log.first_record(position) is not None else None


def _place_in(log: RestingLog, start: int) -> int | None:
    """The first record of a file that can be requested: a master takes 0 as a request to begin with its last file."""
    if start:
        return start
    head = log.first_record(start)
    assert head is not None
    return head.size if log.unit_at(head.size) is not None else None


def _begins_alike(log: RestingLog, place: int, end: int) -> Generator[Look, bytes, bool]:
    head = head_at(log.read(place, HEAD_SIZE), 0, place)
    size = head.size if head is not None else BLANK_SIZE_MIN
    if place + size > end:
        return False
    return (yield Look(place, size)) == log.read(place, size)


def _alike(ours: bytes, theirs: bytes) -> int:
    """The number of equal bytes at the beginning."""
    low, high = 0, min(len(ours), len(theirs))
    while low < high:
        middle = (low + high + 1) // 2
        if ours[low:middle] == theirs[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
