"""Whether the units of a consume queue point at its own records.

Looked at are the first and the last unit of each file, which are enough to tell a foreign or overwritten file; that the
units between follow the log's order was seen when the queue was opened.
"""

from regulus.errors import StoreError
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE, unpack_all
from regulus.store import disk
from regulus.store.commit_log import CommitLog
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.log_heads import owner_in
from regulus.store.mapped_file import MappedFile


class QueueCheck:
    def __init__(self, log: CommitLog, log_end: int) -> None:
        """`log_end`: where the log ended when it was recovered."""
        self._log = log
        self._log_end = log_end

    def fault_of(self, queue: ConsumeQueue) -> str:
        """What is wrong with a queue, to go on behind its name; empty when nothing is. Raises StoreError."""
        if queue.is_light:
            return ""
        if queue.end < queue.known_end:
            return f"ends at {queue.max_offset}, and something was there up to {queue.known_end // UNIT_SIZE}"
        if queue.has_gap:
            return "has a gap"
        for file in queue.files.files:
            for position in self._samples(queue, file):
                if not self._is_own(queue, file, position):
                    return f"has a unit that is not its own: {(file.start + position) // UNIT_SIZE}"
        return ""

    @staticmethod
    def _samples(queue: ConsumeQueue, file: MappedFile) -> list[int]:
        """Positions of the first and the last unit in a file that may be served."""
        first = max(queue.start - file.start, 0)
        last = min(queue.end - file.start, file.size) - UNIT_SIZE
        return sorted({first, last}) if first <= last else []

    def _is_own(self, queue: ConsumeQueue, file: MappedFile, position: int) -> bool:
        """A filler has no record, nor has a unit whose record's file is gone: both are passed over when they are
        read. A unit behind the log's end is cut when the queue is opened."""
        (unit,) = unpack_all(disk.read_at(file.path, position, UNIT_SIZE))
        physical_offset, size, _ = unit
        log_file = self._log.files.find(physical_offset)
        if size == FILLER.size or log_file is None or physical_offset >= self._log_end:
            return True
        try:
            owner = owner_in(log_file, physical_offset)
        except StoreError:
            if self._log.files.find(physical_offset) is log_file:
                raise
            return True     # its file was deleted while we looked
        return owner == (queue.topic, queue.queue_id, (file.start + position) // UNIT_SIZE, size)
