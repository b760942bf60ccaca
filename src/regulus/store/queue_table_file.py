"""The file `regulusQueues`: which queues and index files a start will find, so that it sees what is missing and need
not open them all. Its format is that of `record.queue_table`.

It is written by a worker after the queues were flushed, and once more by a clean stop. The thread that deletes queues
and takes files of the log out of use adds a line for each; what it adds while a table is being written is added to the
new one by the worker.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from regulus.errors import CorruptRecord, StoreNotWritable
from regulus.record import queue_table
from regulus.record.queue_table import QueueTable
from regulus.record.synced_mark import HEAD_SIZE, SyncedMark
from regulus.store import disk
from regulus.store.mapped_file_queue import MappedFileQueue

NAME = "regulusQueues"


class QueueTableFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._later: list[bytes] = []
        """Lines about what was deleted since the worker last began to collect what a table says."""
        self._is_there = False

    def load(self, log_files: MappedFileQueue, is_log_ended: bool) -> QueueTable | None:
        """None when there is no table of this log. `is_log_ended`: nor may anything have been added to the log since,
        as a Java broker does, which keeps no table."""
        data = disk.read_file(self._path)
        if data is None:
            return None
        self._is_there = True
        try:
            table = queue_table.decode(data)
        except CorruptRecord:
            return None
        if not fits(table.mark, log_files) or (is_log_ended and not _ends_at(table.position, log_files)):
            # It must not be believed by a later start either.
            with suppress(StoreNotWritable):
                self.remove()
            return None
        return table

    def remove(self) -> None:
        """Raises StoreNotWritable."""
        disk.remove_file(self._path)
        self._is_there = False

    def begin(self) -> None:
        """What is deleted from now on may be in the table that is saved next."""
        self._later = []

    def save(self, mark: SyncedMark, log_start: int, index: Iterable[tuple[str, int]],
             queues: Iterable[tuple[str, int, int, int]], faulty: Iterable[tuple[str, int]],
             births: Iterable[tuple[str, int, int]] = ()) -> None:
        """All records up to the marked one have their units on disk. Worker thread. Raises StoreNotWritable."""
        data = queue_table.encode(mark.end, mark, log_start, index, queues, faulty, births)
        disk.write_file(self._path, data)
        self._is_there = True
        later, self._later = self._later, []
        for line in later:
            self._add(line)

    def note_gone(self, topic: str, queue_id: int, log_end: int) -> None:
        """A queue is about to be deleted, and the log ends there: a start must not miss it, nor put what lies before
        into one of the same name."""
        self._note(queue_table.encode_gone(topic, queue_id, log_end))

    def note_log_start(self, log_start: int) -> None:
        """The first file of the log is about to be deleted: a start must not miss it."""
        self._note(queue_table.encode_log_start(log_start))

    def _note(self, line: bytes) -> None:
        self._later.append(line)
        self._add(line)

    def _add(self, line: bytes) -> None:
        if not self._is_there:
            return
        try:
            disk.append_to(self._path, line)
        except StoreNotWritable:
            # Without a table the next start looks at each queue, which takes longer and is as good.
            self.remove()


def fits(mark: SyncedMark, log_files: MappedFileQueue) -> bool:
    """Whether the record that was marked is there. Else a Java broker, a backup or a resync changed the log since, and
    the mark says nothing of this one."""
    for file in log_files.files:
        if file.start <= mark.start and mark.end <= file.start + file.size:
            return mark.fits(disk.read_at(file.path, mark.start - file.start, HEAD_SIZE))
    return False


def _ends_at(position: int, log_files: MappedFileQueue) -> bool:
    file = log_files.find(position)
    return file is not None and not any(disk.read_at(file.path, position - file.start, 8))
