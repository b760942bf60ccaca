"""The file `checkpoint`: up to which store time log, consume queues and full index files are on disk.

Times only grow. Source: StoreCheckpoint.
"""

from pathlib import Path

from regulus.errors import TruncatedRecord
from regulus.record import store_checkpoint
from regulus.record.store_checkpoint import StoreCheckpoint
from regulus.store import disk


class CheckpointFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.checkpoint = StoreCheckpoint()

    def load(self) -> None:
        """A missing or short file reads as all zero: recovery then begins at the first log file."""
        data = disk.read_file(self._path)
        if data is None:
            return
        try:
            self.checkpoint = store_checkpoint.decode(data)
        except TruncatedRecord:
            self.checkpoint = StoreCheckpoint()

    def log_flushed(self, store_timestamp: int) -> None:
        old = self.checkpoint
        self.checkpoint = old._replace(physic_msg_timestamp=max(old.physic_msg_timestamp, store_timestamp))

    def queues_flushed(self, store_timestamp: int) -> None:
        old = self.checkpoint
        self.checkpoint = old._replace(logics_msg_timestamp=max(old.logics_msg_timestamp, store_timestamp))

    def index_flushed(self, store_timestamp: int) -> None:
        old = self.checkpoint
        self.checkpoint = old._replace(index_msg_timestamp=max(old.index_msg_timestamp, store_timestamp))

    def save(self) -> None:
        """Raises StoreNotWritable."""
        disk.write_file(self._path, store_checkpoint.encode(self.checkpoint))
