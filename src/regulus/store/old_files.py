"""The oldest files of the log, the consume queues and the index: found, taken out of use, deleted.

Each deletion has two steps, because the log is used by two kinds of threads. The thread that appends and reads takes a
file out of use (`take_log_file`, `trim_queues`, `take_index_files`): from then on no read finds it, and the log's first
offset is that of the next file. A worker thread deletes it (`delete`, `delete_all`). A crash always leaves a log
without a gap: files are deleted one by one, oldest first, queues and index follow the log, and a start corrects those
that did not follow yet.

Slices of the log that were returned stay valid whatever happens to the file. RocketMQ counts them, and keeps a file
until they are given back, or for at most `destroyMapedFileIntervalForcibly` ms; until then it deletes no younger file.
This is the same here, except that the interpreter counts the references to the mapping. A file that is kept for this
reason is called hanging.

Source: MappedFileQueue.deleteExpiredFileByTime, ReferenceResource, ConsumeQueue.correctMinOffset, IndexService.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regulus.errors import StoreError
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE, unpack_all
from regulus.store import disk
from regulus.store.batch_consume_queue import BatchConsumeQueue
from regulus.store.commit_log import CommitLog
from regulus.store.config import MessageStoreConfig
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.consume_queues import ConsumeQueues
from regulus.store.dispatch import Dispatcher
from regulus.store.index import Index
from regulus.store.mapped_file import MappedFile
from regulus.store.retention import UNKNOWN_RATIO, LogFile, RetentionFacts

_FILLERS_READ = 819 * UNIT_SIZE
"""Bytes of units read at a time when skipping fillers."""


class HangingFile:
    """A file of the log that is out of use and not deleted yet, because slices of it are referenced."""

    def __init__(self, file: MappedFile, steady_ms: int) -> None:
        self.file = file
        self.since_ms = steady_ms
        self.tried_ms = steady_ms
        self.left = ""
        """Once it is deleted: the target that remains, if it was a symbolic link."""


@dataclass(frozen=True, slots=True)
class QueueStart:
    """Where a consume queue begins after the beginning of the log was removed; a position in bytes."""

    queue: ConsumeQueue
    start: int


class OldFiles:
    """Finds and deletes old files; `hanging` is the one file that could not be deleted yet, if there is one."""

    def __init__(self, config: MessageStoreConfig, log: CommitLog, queues: ConsumeQueues, index: Index | None,
                 dispatcher: Dispatcher, note_log_start: Callable[[int], None]) -> None:
        self.hanging: HangingFile | None = None
        self._config = config
        self._log = log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._note_log_start = note_log_start

    # --- finding: worker thread --------------------------------------------------------------------------------------

    def look(self, count_max: int) -> RetentionFacts:
        """The state of the disks and of the first `count_max` files of the log except the last. Never raises: what
        cannot be read is unknown."""
        settled_offset = min(self._log.flushed_offset, self._dispatcher.position)
        files = []
        with suppress(StoreError):      # from a file of unknown age on, none is deleted
            for file in self._log.files.files[:-1][:count_max]:
                files.append(LogFile(file.start, file.start + file.size, disk.modified_ms(file.path)))
        return RetentionFacts(log_ratio=_used_ratio(self._config.commit_log_directory, self._config.root),
                              queue_ratio=_used_ratio(self._config.consume_queue_directory, self._config.root),
                              files=files, settled_offset=settled_offset)

    def queue_starts(self) -> list[QueueStart]:
        """The queues that begin before the log does, and where they should begin. They are read and not mapped."""
        physical_offset_min = self._log.start
        starts: list[QueueStart] = []
        if physical_offset_min == 0:
            return starts
        for queue in self._all_queues():
            with suppress(StoreError):  # of a topic that was deleted meanwhile
                start = first_position(queue, physical_offset_min)
                if start > queue.start or has_old_files(queue):
                    starts.append(QueueStart(queue, start))
        return starts

    def _all_queues(self) -> Iterator[ConsumeQueue]:
        """All queues; resting ones are read without opening them."""
        yield from self._queues.all()
        for topic, queue_id in self._queues.resting_names():
            with suppress(StoreError):
                queue = self._queues.peek(topic, queue_id)
                if queue is not None:
                    yield queue

    # --- taking out of use: the thread that appends ------------------------------------------------------------------

    def take_log_file(self, start: int, steady_ms: int) -> bool:
        """Let the log begin after its first file, which begins at `start`; the file hangs until `delete` deletes it.
        False when there is no such file, or another one hangs."""
        files = self._log.files.files
        if self.hanging is not None or len(files) < 2 or files[0].start != start:
            return False
        self.hanging = HangingFile(files[0], steady_ms)
        del files[0]
        self._note_log_start(files[0].start)
        self._queues.forget_births_before(files[0].start)
        return True

    def trim_queue(self, trimmed: QueueStart) -> list[MappedFile]:
        """Let a queue begin later; returns the files that it no longer needs, never the last."""
        queue = None
        if not trimmed.queue.is_deleted:
            with suppress(StoreError):  # one that does not agree with the log is left for the next start
                queue = self._queues.find(trimmed.queue.topic, trimmed.queue.queue_id)
        if queue is None:
            return []
        queue.start = max(queue.start, min(trimmed.start, queue.end))
        files = queue.files.files
        taken = []
        while has_old_files(queue):
            taken.append(files[0])
            del files[0]
        return taken

    def take_index_files(self) -> list[MappedFile]:
        """Index files, never the last, whose messages were all deleted."""
        if self._index is None:
            return []
        files = self._index.files
        taken = []
        while len(files) > 1 and files[0].end_physical_offset < self._log.start:
            taken.append(files[0].file)
            del files[0]
        return taken

    # --- deleting: worker thread -------------------------------------------------------------------------------------

    def delete_hanging(self, steady_ms: int, forcibly_after_ms: int) -> bool:
        """Delete the file that hangs, unless slices of it are referenced and it has not hung for `forcibly_after_ms`
        yet; returns whether none hangs any more. Raises StoreNotWritable, and the file keeps hanging."""
        hanging = self.hanging
        if hanging is None:
            return True
        hanging.tried_ms = steady_ms
        file = hanging.file
        mapping = file.mapping
        if mapping is not None:
            # Removes the pages while other threads run; unmapping would stop them.
            disk.release(mapping, 0, file.size)
        del mapping
        file.unmap()
        if file.is_held and steady_ms - hanging.since_ms < forcibly_after_ms:
            return False
        hanging.left = disk.link_target(Path(file.path))
        disk.remove_file(Path(file.path))
        disk.sync_directory(self._log.files.directory)
        self.hanging = None
        return True

    def delete_all(self, files: Sequence[MappedFile]) -> list[tuple[str, str]]:
        """Delete files of one consume queue or of the index, in order; there are no references to slices of those.
        Returns symbolic links, each with its target, which remains. Raises StoreNotWritable."""
        links = []
        for file in files:
            file.unmap()
            if left := disk.link_target(Path(file.path)):
                links.append((file.path, left))
            disk.remove_file(Path(file.path))
        if files:
            disk.sync_directory(Path(files[0].path).parent)
        return links


def has_old_files(queue: ConsumeQueue) -> bool:
    """Whether the first file of a queue has no unit that may be served, and is not its only file."""
    files = queue.files.files
    return len(files) > 1 and files[0].start + files[0].size <= queue.start


def first_position(queue: ConsumeQueue, physical_offset_min: int) -> int:
    """Position of the first unit whose record begins at `physical_offset_min` or later; the queue's end when none does.

    Fillers belong to no record and are skipped. Raises StoreError when a file cannot be read.
    """
    if isinstance(queue, BatchConsumeQueue):
        return queue.first_position(physical_offset_min)
    low, high = queue.start // UNIT_SIZE, queue.end // UNIT_SIZE
    end = high
    first = _next_record(queue, low, high) if low < high else None
    if first is None or first[1] >= physical_offset_min:
        return (first[0] if first is not None else high) * UNIT_SIZE
    low = first[0] + 1
    while low < high:
        middle = (low + high) // 2
        found = _next_record(queue, middle, high)
        if found is not None and found[1] < physical_offset_min:
            low = found[0] + 1
        else:
            high = middle
    found = _next_record(queue, low, end)
    return (found[0] if found is not None else end) * UNIT_SIZE


def _next_record(queue: ConsumeQueue, queue_offset: int, upto: int) -> tuple[int, int] | None:
    """Queue offset and physical offset of the first unit from `queue_offset` on that is not a filler."""
    size = UNIT_SIZE
    while queue_offset < upto:
        position = queue_offset * UNIT_SIZE
        file = queue.files.find(position)
        if file is None:
            return None
        size_max = min(size, file.start + file.size - position, (upto - queue_offset) * UNIT_SIZE)
        units = unpack_all(disk.read_at(file.path, position - file.start, size_max))
        for number, unit in enumerate(units):
            if unit[1] != FILLER.size:
                return queue_offset + number, unit[0]
        queue_offset += size_max // UNIT_SIZE
        size = _FILLERS_READ
    return None


def _used_ratio(directory: Path, root: Path) -> float:
    try:
        return disk.used_ratio(directory if disk.exists(directory) else root)
    except StoreError:
        return UNKNOWN_RATIO
