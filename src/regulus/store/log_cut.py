"""Cutting the log at the end of its intact records, without losing a byte.

The bytes that are cut are kept in `cut/<physical offset>-<number>` next to the log's directory: the rest of the file
that is cut, as raw bytes under a name with its offset, and later files unchanged. Files without content are removed. No
broker ever deletes what is kept there.
"""

from pathlib import Path

from regulus.errors import StoreNotWritable
from regulus.store import disk
from regulus.store.log_heads import LogHead, find_heads, head_in
from regulus.store.mapped_file import MappedFile
from regulus.store.mapped_file_queue import MappedFileQueue, file_name

DIRECTORY = "cut"
CUTS_MAX = 1000
"""Cuts at one physical offset. With more, an operator must look at them first."""


class LogCut:
    """A cut of the log at `end`. Until `carry_out`, nothing has changed on disk, only the content of `files`."""

    def __init__(self, files: MappedFileQueue, end: int) -> None:
        later = files.take_from(end)[::-1]
        self.end = end
        self.place: Path | None = None
        """The folder that keeps what was cut; None before that, and when only zeros were cut."""
        self.names = tuple(Path(file.path).name for file in later)
        """The names of the later files."""
        self._directory = files.directory.parent / DIRECTORY
        self._part = files.last
        self._part_end = self._content_end(self._part) if self._part is not None else 0
        self._later = [file for file in later if disk.content_end(file.path, 0, file.size)]
        self._empty = [file for file in later if file not in self._later]

    def _content_end(self, file: MappedFile) -> int:
        return disk.content_end(file.path, file.wrote_position, file.size)

    @property
    def size(self) -> int:
        """Bytes that are cut, in each file up to the last one that is not zero."""
        part_size = self._part_end - self._part.wrote_position if self._part is not None else 0
        return part_size + sum(disk.content_end(file.path, 0, file.size) for file in self._later)

    def first_head(self) -> LogHead | None:
        """The head of the record at the cut itself, if the head is whole; then its body is not."""
        for file in (self._part, *self._later):
            if file is not None and file.start <= self.end < file.start + file.size:
                return head_in(file, self.end)
        return None

    def heads(self) -> list[LogHead]:
        """Records after the one at the cut, as far as they can be recognized. Bytes that look like a record inside the
        body of another one with a whole head do not count."""
        first = self.first_head()
        behind = self.end + (first.size if first is not None else 1)
        files = [self._part, *self._later] if self._part is not None else self._later
        return [head for file in files for head in find_heads(file, max(behind - file.start, 0))]

    def carry_out(self) -> None:
        """Keep what is cut, then remove it from the log. May be called again after a fault. Raises StoreNotWritable."""
        if self.size:
            self._keep()
        for file in self._empty:
            disk.remove_file(Path(file.path))
        if self._part is not None:
            disk.zero(self._part.path, self._part.wrote_position, self._part.size)

    def _keep(self) -> None:
        if self.place is None:
            self.place = self._keep_part(_make_place(self._directory, self.end))
        # From the last file on: a crash in between leaves a log without a gap.
        while self._later:
            path = Path(self._later[-1].path)
            disk.move_file(path, self.place / path.name)
            self._later.pop()

    def _keep_part(self, place: Path) -> Path:
        if self._part is not None and self._part_end > self._part.wrote_position:
            try:
                position = self._part.wrote_position
                disk.copy_part(self._part.path, position, self._part_end - position, place / file_name(self.end))
            except StoreNotWritable:
                disk.remove_tree(place)
                raise
        return place


def _make_place(directory: Path, end: int) -> Path:
    for number in range(1, CUTS_MAX + 1):
        place = directory / f"{file_name(end)}-{number}"
        if not disk.exists(place):
            disk.make_directory(place)
            disk.sync_directory(directory)
            return place
    raise StoreNotWritable(f"{directory} keeps {CUTS_MAX} cuts at {end} already: look at them and move them away")
