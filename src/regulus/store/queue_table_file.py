"""The file `regulusQueues`: the queues and index files that a start will find, so that it notices missing ones and need
not open them all. Its format is that of `record.queue_table`.

A worker writes it after the queues were flushed, and a clean stop writes it again. The thread that deletes queues and
takes files of the log out of use adds a line for each; a table that is being written meanwhile gets the line, too. If
no line can be added, the table stays, because it is the only record of other deletions, and a whole one should be
written soon (`is_behind`).
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
"""How often a table is written again at once because something was deleted meanwhile; after that it is written soon."""


class QueueTableFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._later: list[bytes] = []
        """Lines about deletions since the worker last began to collect the content of a table."""
        self._takes_lines = False
        self._unbelieved = b""
        """The file that `load` removed, because it is of another log."""
        self.fault = ""
        """Why the table on disk does not have all deletions; empty when it does."""

    @property
    def is_behind(self) -> bool:
        """Whether there is no table, or one that lacks a line."""
        return bool(self.fault) or not self._takes_lines

    def load(self, log_files: MappedFileQueue, is_log_ended: bool) -> QueueTable | None:
        """The table; None when there is none of this log. With `is_log_ended`, nothing may have been added to the log
        since either, as a Java broker does, which keeps no table."""
        data = disk.read_file(self._path)
        if data is None:
            return None
        try:
            table = queue_table.decode(data)
        except CorruptRecord:
            return None
        if not fits(table.mark, log_files) or (is_log_ended and not _ends_at(table.position, log_files)):
            # A later start must not trust it either.
            with suppress(StoreNotWritable):
                self.remove()
                self._unbelieved = data
            return None
        self._cut_torn_line(data)
        return table

    def _cut_torn_line(self, data: bytes) -> None:
        """Remove an incomplete last line, which the next line would complete wrongly. If it cannot be removed, nothing
        is added to this table."""
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
        """Restore the file that `load` removed, because a start that is refused changes nothing, and the log may come
        back. Raises StoreNotWritable."""
        if self._unbelieved:
            disk.write_file(self._path, self._unbelieved)

    def begin(self) -> None:
        """Begin a table: deletions from now on are added to the one that is saved next."""
        self._later = []

    def save(self, mark: SyncedMark, position: int, log_start: int, index: Iterable[tuple[str, int]],
             queues: Iterable[tuple[str, int, int, int]], faulty: Iterable[tuple[str, int]],
             births: Iterable[tuple[str, int, int]] = ()) -> None:
        """Save a table. All records before `position` have their units on disk, and the marked record is on disk
        itself. Worker thread. Raises StoreNotWritable."""
        table = queue_table.encode(position, mark, log_start, index, queues, faulty, births)
        for _ in range(SAVES_MAX):
            before, self.fault = self.fault, ""     # a line that cannot be added from now on sets it again
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
        """Note queues that are or will be deleted, and the end of the log: a start must not miss them, nor put earlier
        records into later queues of these names."""
        lines = b"".join([queue_table.encode_gone(topic, queue_id, log_end) for queue_id in queue_ids])
        if lines:
            self._note(lines, is_durable=is_durable)

    def note_log_start(self, log_start: int) -> None:
        """Note that the first file of the log will be deleted: a start must not miss it."""
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
    """Whether the marked record is in the log. If not, a Java broker, a backup or a resync changed the log since, and
    the mark does not apply to it."""
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
    # The rest of the file was too short for a record that found no room, or was cut off.
    behind = log_files.find(file.start + file.size)
    return behind is None or not any(disk.read_at(behind.path, 0, 8))
