"""The oldest files of the log, the consume queues and the index: looked at, taken out of use, deleted.

Each deletion has two steps, because the log has two kinds of users. The thread that appends and reads takes a file out
of use (`take_log_file`, `trim_queues`, `take_index_files`): from then on nobody finds it, and the log's first offset is
that of the next file. A worker thread deletes it (`delete`, `delete_all`). What a crash leaves is in any case a log
without a gap: files go one by one, oldest first, queues and index follow the log, and a start puts right what did not
follow any more.

Slices of the log that were given out stay valid whatever becomes of the file. RocketMQ counts them, keeps a file until
they are given back, or for `destroyMapedFileIntervalForcibly` ms at most, and lets no younger file go before. The same
holds here; the count is the interpreter's own, of who refers to the mapping. A file that is kept so is called hanging.

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
"""Bytes of units read at a time where fillers must be passed over."""


class HangingFile:
    """A file of the log that is out of use and not deleted yet, because slices of it are held."""

    def __init__(self, file: MappedFile, steady_ms: int) -> None:
        self.file = file
        self.since_ms = steady_ms
        self.tried_ms = steady_ms
        self.left = ""
        """Once it is deleted: the file that stays, where it was a symbolic link."""


@dataclass(frozen=True, slots=True)
class QueueStart:
    """Where a consume queue begins now that the log begins later; a position in bytes."""

    queue: ConsumeQueue
    start: int


class OldFiles:
    """`hanging` is the one file that could not be deleted yet, if there is one."""

    def __init__(self, config: MessageStoreConfig, log: CommitLog, queues: ConsumeQueues, index: Index | None,
                 dispatcher: Dispatcher, note_log_start: Callable[[int], None]) -> None:
        self.hanging: HangingFile | None = None
        self._config = config
        self._log = log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._note_log_start = note_log_start

    # --- looking: worker thread --------------------------------------------------------------------------------------

    def look(self, count_max: int) -> RetentionFacts:
        """The disks, and the first `count_max` files of the log but for the last. Never raises: what cannot be looked
        at is unknown."""
        settled_offset = min(self._log.flushed_offset, self._dispatcher.position)
        files = []
        with suppress(StoreError):      # from a file that does not tell its age on, none goes
            for file in self._log.files.files[:-1][:count_max]:
                files.append(LogFile(file.start, file.start + file.size, disk.modified_ms(file.path)))
        return RetentionFacts(log_ratio=_used_ratio(self._config.commit_log_directory, self._config.root),
                              queue_ratio=_used_ratio(self._config.consume_queue_directory, self._config.root),
                              files=files, settled_offset=settled_offset)

    def queue_starts(self) -> list[QueueStart]:
        """The queues that begin before the log does, and where they should. They are read and not mapped."""
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
        """Those that rest are read and rest on."""
        yield from self._queues.all()
        for topic, queue_id in self._queues.resting_names():
            with suppress(StoreError):
                queue = self._queues.peek(topic, queue_id)
                if queue is not None:
                    yield queue

    # --- taking out of use: the thread that appends ------------------------------------------------------------------

    def take_log_file(self, start: int, steady_ms: int) -> bool:
        """Let the log begin behind its first file, which begins at `start`; the file hangs until `delete` deletes it.
        False when there is no such file to take, or another one hangs."""
        files = self._log.files.files
        if self.hanging is not None or len(files) < 2 or files[0].start != start:
            return False
        self.hanging = HangingFile(files[0], steady_ms)
        del files[0]
        self._note_log_start(files[0].start)
        return True

    def trim_queue(self, trimmed: QueueStart) -> list[MappedFile]:
        """Let a queue begin later; the files that it does not need any more, never the last."""
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
        """Index files, never the last, all of whose messages are gone."""
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
        """Delete the file that hangs, unless slices of it are held and it has not hung for `forcibly_after_ms` yet;
        whether none hangs any more. Raises StoreNotWritable, and the file hangs on."""
        hanging = self.hanging
        if hanging is None:
            return True
        hanging.tried_ms = steady_ms
        file = hanging.file
        mapping = file.mapping
        if mapping is not None:
            # Takes the pages out while other threads run; unmapping would stop them.
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
        """Files of one consume queue or of the index, in their order; nobody holds slices of those. Those that were
        symbolic links, each with the file that stays. Raises StoreNotWritable."""
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
    """Whether the first file of a queue has no unit that may be served, and is not the only one."""
    files = queue.files.files
    return len(files) > 1 and files[0].start + files[0].size <= queue.start


def first_position(queue: ConsumeQueue, physical_offset_min: int) -> int:
    """Position of the first unit whose record begins at `physical_offset_min` or later; the queue's end when none does.

    Fillers belong to no record and are passed over. Raises StoreError when a file cannot be read.
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
    """Queue offset and physical offset of the first unit from `queue_offset` on that is no filler."""
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
