"""The file `checkpoint`: the store times up to which log, consume queues and full index files are on disk. Next to it,
`regulusSynced` marks the last record that is certainly on disk.

Except after a cut of the log, times and mark only grow, and each has one writer, so that log and queues may be flushed
at the same time.

Source: StoreCheckpoint.
"""

from pathlib import Path

from regulus.errors import CorruptRecord, TruncatedRecord
from regulus.record import store_checkpoint, synced_mark
from regulus.record.store_checkpoint import StoreCheckpoint
from regulus.record.synced_mark import SyncedMark
from regulus.store import disk

MARK_NAME = "regulusSynced"


class CheckpointFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._loaded = StoreCheckpoint()
        self._log_timestamp = 0
        self._queues_timestamp = 0
        self._index_timestamp = 0

    @property
    def checkpoint(self) -> StoreCheckpoint:
        return self._loaded._replace(physic_msg_timestamp=self._log_timestamp,
                                     logics_msg_timestamp=self._queues_timestamp,
                                     index_msg_timestamp=self._index_timestamp)

    def load(self) -> None:
        """Read the file. A missing or short one reads as all zero: recovery then begins at the first log file."""
        data = disk.read_file(self._path)
        try:
            self._loaded = store_checkpoint.decode(data) if data is not None else StoreCheckpoint()
        except TruncatedRecord:
            self._loaded = StoreCheckpoint()
        self._log_timestamp = self._loaded.physic_msg_timestamp
        self._queues_timestamp = self._loaded.logics_msg_timestamp
        self._index_timestamp = self._loaded.index_msg_timestamp

    def log_flushed(self, store_timestamp: int) -> None:
        self._log_timestamp = max(self._log_timestamp, store_timestamp)

    def queues_flushed(self, store_timestamp: int) -> None:
        self._queues_timestamp = max(self._queues_timestamp, store_timestamp)

    def index_flushed(self, store_timestamp: int) -> None:
        self._index_timestamp = max(self._index_timestamp, store_timestamp)

    def end_at(self, store_timestamp: int) -> None:
        """Lower the times after a deliberate cut of the log: its last record is now of this time, and later times do
        not apply to new records."""
        self._log_timestamp = min(self._log_timestamp, store_timestamp)
        self._queues_timestamp = min(self._queues_timestamp, store_timestamp)
        self._index_timestamp = min(self._index_timestamp, store_timestamp)

    def save(self) -> None:
        """Raises StoreNotWritable."""
        disk.write_file(self._path, store_checkpoint.encode(self.checkpoint))


class SyncedMarkFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved: SyncedMark | None = None

    def load(self) -> SyncedMark | None:
        """The mark; None when there is none, or none that can be read: then nothing is known to be on disk, which is
        always safe."""
        data = disk.read_file(self._path)
        if data is None:
            return None
        try:
            return synced_mark.decode(data)
        except CorruptRecord:
            return None

    def remove(self) -> None:
        """Raises StoreNotWritable."""
        disk.remove_file(self._path)
        self._saved = None

    def save(self, mark: SyncedMark) -> None:
        """Save the mark. The caller has synced the log up to the record's end. Raises StoreNotWritable."""
        if mark != self._saved:
            disk.write_file(self._path, synced_mark.encode(mark))
            self._saved = mark
