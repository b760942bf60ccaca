"""A sequence of files of one size, each named by the offset of its first byte, 20 digits.

Only the last may be unfinished. Source: MappedFileQueue.
"""

from bisect import bisect_right
from pathlib import Path

from regulus.errors import StoreDamaged
from regulus.store import disk
from regulus.store.mapped_file import MappedFile, MappedFilePool

NAME_SIZE = 20

_START_MAX = 0x7FFFFFFFFFFFFFFF


def file_name(start: int) -> str:
    return f"{start:020d}"


class MappedFileQueue:
    def __init__(self, directory: Path, file_size: int, pool: MappedFilePool, size_key: str,
                 is_sequential: bool = False) -> None:
        """`size_key` is the configuration key of `file_size`, for error texts."""
        self.directory = directory
        self.file_size = file_size
        self.files: list[MappedFile] = []
        self._pool = pool
        self._size_key = size_key
        self._is_sequential = is_sequential
        self._is_directory_made = False

    def load(self) -> None:
        """Take over the files of the directory, all considered full. Raises StoreDamaged for one of another size."""
        found = [name for name in disk.names(self.directory)
                 if len(name) == NAME_SIZE and name.isascii() and name.isdigit()]
        while found and disk.file_size(self.directory / found[len(found) - 1]) == 0:
            # A crash between making the newest files and bringing their sizes to disk leaves such files.
            disk.remove_file(self.directory / found.pop())
        self.files = []
        for name in found:
            path = self.directory / name
            size = disk.file_size(path)
            if size != self.file_size:
                raise StoreDamaged(
                    f"{path} has {size} bytes where {self._size_key} says {self.file_size}: set {self._size_key} to "
                    "the value the store was written with, or bring this file back from a backup or replica")
            start = int(name)
            if start > _START_MAX - size:
                raise StoreDamaged(f"{path} is not a file of a store, for none begins there: move it away")
            before = self.last
            if before is not None and start < before.start + self.file_size:
                raise StoreDamaged(f"{path} overlaps the file before it, {file_name(before.start)}: "
                                   "one of the two belongs to another store; move it away")
            self.files.append(self._mapped_file(path, start, self.file_size))

    @property
    def last(self) -> MappedFile | None:
        # Counted from the beginning, because the compiled form has no negative indices.
        return self.files[len(self.files) - 1] if self.files else None

    @property
    def start(self) -> int:
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """The offset after the last written byte."""
        last = self.last
        return last.start + last.wrote_position if last is not None else 0

    def find(self, offset: int) -> MappedFile | None:
        """The file that contains, or will contain, the byte at `offset`."""
        files = self.files
        first = files[0] if files else None
        if first is None or offset < first.start:
            return None
        index = (offset - first.start) // self.file_size
        file = files[min(index, len(files) - 1)]
        if not file.start <= offset < file.start + self.file_size:
            # Only if files are missing in between.
            file = files[bisect_right(files, offset, key=_start) - 1]
            if offset >= file.start + self.file_size:
                return None
        return file

    def make(self, start: int, *, is_anew: bool = False) -> MappedFile:
        """A new, empty file on disk that is not yet one of `files`. Raises StoreNotWritable.

        With `is_anew`, an existing file loses its content; not for files that two threads may make at once.
        """
        if not self._is_directory_made:
            disk.make_directory(self.directory, is_durable=False)
            self._is_directory_made = True
        path = self.directory / file_name(start)
        disk.create_sized(path, self.file_size, is_anew=is_anew)
        file = self._mapped_file(path, start, 0)
        file.is_new = True
        return file

    def _mapped_file(self, path: Path, start: int, wrote_position: int) -> MappedFile:
        file = MappedFile(str(path), start, self.file_size, wrote_position, self._pool)
        file.is_sequential = self._is_sequential
        return file

    def extend(self, start: int) -> MappedFile:
        """Add a new last file. Raises StoreNotWritable."""
        file = self.make(start, is_anew=True)
        self.files.append(file)
        return file

    def take_from(self, offset: int) -> list[MappedFile]:
        """Set the end to `offset` in memory only; returns the files that begin there or later, which are removed from
        this queue.

        A first file that begins exactly there stays, because only its name says where an empty log continues.
        """
        taken: list[MappedFile] = []
        last = self.last
        while last is not None and last.start >= offset:
            if last.start == offset and len(self.files) == 1:
                break
            self.files.pop()
            last.unmap()
            taken.append(last)
            last = self.last
        if last is not None:
            last.wrote_position = min(offset - last.start, last.size)
            last.flushed_position = last.wrote_position
            last.reserved_position = disk.page_floor(last.wrote_position)
        return taken

    def truncate(self, offset: int) -> None:
        """End at `offset`: remove files that begin there or later, and fill the rest of the last one with zeros.

        Raises StoreNotWritable.
        """
        for file in self.take_from(offset):
            disk.remove_file(Path(file.path))
        last = self.last
        if last is not None:
            disk.zero(last.path, last.wrote_position, last.size)

    def remove_all(self) -> None:
        for file in self.files:
            file.unmap()
            disk.remove_file(Path(file.path))
        self.files = []


def _start(file: MappedFile) -> int:
    return file.start
