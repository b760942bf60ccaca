"""The file `regulusQueues`: which queues and index files a start will find, so that it sees what is missing and need
not open them all. Its format is that of `record.queue_table`.

It is written by a worker after the queues were flushed, and once more by a clean stop. The thread that deletes queues
and takes files of the log out of use adds a line for each; a table that is being written meanwhile gets it, too. Where
no line can be added, the table stays as it is, for it says of other deletions what nobody else knows, and a whole one
is to be written soon (`is_behind`).
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from regulus.errors import CorruptRecord, StoreNotWritable
from regulus.record import layout, queue_table
from regulus.record.queue_table import QueueTable
from regulus.record.synced_mark import HEAD_SIZE, SyncedMark
from regulus.store import disk
from regulus.store.mapped_file_queue import MappedFileQueue

NAME = queue_table.FILE_NAME
SAVES_MAX = 3
"""So often a table is written at once because something was deleted meanwhile; then it is to be written soon."""


class QueueTableFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._later: list[bytes] = []
        """Lines about what was deleted since the worker last began to collect what a table says."""
        self._takes_lines = False
        self._unbelieved = b""
        """What `load` removed, because the log is not the one it speaks of."""
        self.fault = ""
        """Why the table on disk does not know all that was deleted; empty when it does."""

    @property
    def is_behind(self) -> bool:
        """Whether there is none, or one that lacks a line."""
        return bool(self.fault) or not self._takes_lines

    def load(self, log_files: MappedFileQueue, is_log_ended: bool) -> QueueTable | None:
        """None when there is no table of this log. `is_log_ended`: nor may anything have been added to the log since,
        as a Java broker does, which keeps no table."""
        data = disk.read_file(self._path)
        if data is None:
            return None
        try:
            table = queue_table.decode(data)
        except CorruptRecord:
            return None
        if not fits(table.mark, log_files) or (is_log_ended and not _ends_at(table.position, log_files)):
            # It must not be believed by a later start either.
            with suppress(StoreNotWritable):
                self.remove()
                self._unbelieved = data
            return None
        self._cut_torn_line(data)
        return table

    def _cut_torn_line(self, data: bytes) -> None:
        """The next line would make a false one of it. Where it cannot be cut, nothing is added to this table."""
        whole = data[:data.rindex(b"\n") + 1]
        with suppress(StoreNotWritable):
            if whole != data:
                disk.write_file(self._path, whole)
            self._takes_lines = True

    def remove(self) -> None:
        """Raises StoreNotWritable."""
        disk.remove_file(self._path)
        self._takes_lines = False

    def put_back(self) -> None:
        """Leave what `load` removed, for a start that is refused changes nothing, and the log may come back. Raises
        StoreNotWritable."""
        if self._unbelieved:
            disk.write_file(self._path, self._unbelieved)

    def begin(self) -> None:
        """What is deleted from now on may be in the table that is saved next."""
        self._later = []

    def save(self, mark: SyncedMark, position: int, log_start: int, index: Iterable[tuple[str, int]],
             queues: Iterable[tuple[str, int, int, int]], faulty: Iterable[tuple[str, int]],
             births: Iterable[tuple[str, int, int]] = ()) -> None:
        """All records before `position` have their units on disk, and the marked one is there itself. Worker thread.
        Raises StoreNotWritable."""
        table = queue_table.encode(position, mark, log_start, index, queues, faulty, births)
        for _ in range(SAVES_MAX):
            before, self.fault = self.fault, ""     # whoever cannot add a line from now on says so again
            count = len(self._later)
            try:
                disk.write_file(self._path, table + b"".join(self._later[:count]))
            except StoreNotWritable:
                self.fault = self.fault or before
                raise
            self._takes_lines = True
            if count == len(self._later):
                return
        self.fault = "much was deleted while the table was written"

    def note_gone(self, topic: str, queue_ids: Iterable[int], log_end: int, *, is_durable: bool) -> None:
        """Queues are about to be deleted, or are, and the log ends there: a start must not miss them, nor put what lies
        before into others of the same names."""
        lines = b"".join([queue_table.encode_gone(topic, queue_id, log_end) for queue_id in queue_ids])
        if lines:
            self._note(lines, is_durable=is_durable)

    def note_log_start(self, log_start: int) -> None:
        """The first file of the log is about to be deleted: a start must not miss it."""
        self._note(queue_table.encode_log_start(log_start), is_durable=True)

    def _note(self, lines: bytes, *, is_durable: bool) -> None:
        self._later.append(lines)       # first: a table that is saved from now on has them, if this one has not
        if not self._takes_lines:
            self.fault = f"{self._path} is not written yet"
            return
        try:
            disk.append_to(self._path, lines, is_durable=is_durable)
        except StoreNotWritable as error:
            self.fault = str(error)


def fits(mark: SyncedMark, log_files: MappedFileQueue) -> bool:
    """Whether the record that was marked is there. Else a Java broker, a backup or a resync changed the log since, and
    the mark says nothing of this one."""
    for file in log_files.files:
        if file.start <= mark.start and mark.end <= file.start + file.size:
            return mark.fits(disk.read_at(file.path, mark.start - file.start, HEAD_SIZE))
    return False


def _ends_at(position: int, log_files: MappedFileQueue) -> bool:
    file = log_files.find(position)
    if file is None:
        return False
    head = disk.read_at(file.path, position - file.start, 8)
    if int.from_bytes(head[4:], "big") != layout.MAGIC_BLANK & 0xFFFFFFFF:
        return not any(head)
    # The rest of the file was too short for a record that then found no room, or was cut off.
    behind = log_files.find(file.start + file.size)
    return behind is None or not any(disk.read_at(behind.path, 0, 8))
