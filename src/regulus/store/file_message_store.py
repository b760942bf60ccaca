"""The message store in files: the interface of this package.

Life
    store = FileMessageStore(config)
    report = store.open(time.monotonic)     lock, load, recover; raises a StoreError if it must not continue
    ...
    store.close()                           all dispatched and flushed, `abort` removed, maps and lock released

One thread, the event loop's, calls the MessageStore protocol, `dispatch` and `copy`. Worker threads may call these
at the same time, each function in one thread at a time; none of them takes a lock:
    flush_commit_log, flush_consume_queues, flush_checkpoint, flush_mark, flush_queue_table,
    allocate_ahead, save_config,
    old_files.look, .queue_starts, .delete_hanging, .delete_all
    the steps of deep_check.log_steps, of .index_steps and of a rebuild
Do not queue flush_commit_log after flush_consume_queues, which may take seconds with thousands of queues.

What the server does, and when
    after each batch of appends        dispatch(count_max) until nothing is behind; wake held pulls with the arrivals
                                       if wants_allocation: allocate_ahead() in the worker thread
    SYNC_FLUSH                         flush_commit_log() in the worker thread, then answer the sends whose
                                       `Appended.end` is not above the offset it returned
    ASYNC_FLUSH                        flush_commit_log() each flush_interval_commit_log ms
    flush_interval_consume_queue       flush_consume_queues(config.flush_consume_queue_least_pages), flush_mark()
    ..._queue_thorough_interval        flush_queue_table(), then flush_checkpoint(); sooner if wants_queue_table
    each second                        finish_start(), for a start on a full disk
    each second while something is     dispatch(...): a full disk stops it until there is room
    behind (dispatch_behind_bytes)

Faults. An append never raises: an invalid message gives MESSAGE_ILLEGAL, and a full or read-only disk gives
SERVICE_NOT_AVAILABLE with a `remark` that names it. Reads continue, and the first append that finds room again
succeeds. A queue that does not agree with the log gives QUEUE_DAMAGED, and reads of it raise StoreDamaged, until it is
rebuilt. `is_writable` tries whether there is room, `fault` says why not. Slices that were returned stay valid while
they are referenced, whatever happens to the files.

`dispatch(count_max, wanted)` makes an Arrival for each record, or only for each (topic, queue_id) in `wanted`: given
the keys of the table of held requests, it makes no object for a message for which no request waits.

`get_message` returns at most what one consume queue file refers to; ask again from `next_begin_offset`.
"""

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from regulus.errors import RecordError, StoreDamaged, StoreError, StoreNewer, StoreNotWritable
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import MessageExt
from regulus.model.message_filter import Filter
from regulus.model.steps import run_to_end
from regulus.model.store_result import (
    Appended,
    Arrival,
    GetResult,
    GetStatus,
    LogRead,
    PutStatus,
    QueryResult,
    QueueUnit,
)
from regulus.model.store_rules import StoreRules
from regulus.record import layout, message_record, synced_mark
from regulus.record.checksum import crc32
from regulus.record.index_entry import index_key, key_hash
from regulus.record.synced_mark import SyncedMark
from regulus.store import disk
from regulus.store.batch_consume_queue import BatchConsumeQueue
from regulus.store.batch_reads import read_batches
from regulus.store.checkpoint_file import MARK_NAME, CheckpointFile, SyncedMarkFile
from regulus.store.commit_log import CommitLog
from regulus.store.config import MessageStoreConfig
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.consume_queues import ConsumeQueues
from regulus.store.deep_check import DeepCheck
from regulus.store.dispatch import Dispatcher
from regulus.store.index import Index
from regulus.store.json_file import JsonFiles
from regulus.store.later_formats import refuse_later_formats
from regulus.store.log_copy import LogCopy
from regulus.store.log_heads import head_at, head_in
from regulus.store.log_walk import whole_records
from regulus.store.mapped_file import MappedFile, MappedFilePool
from regulus.store.mapped_file_queue import MappedFileQueue
from regulus.store.old_files import OldFiles
from regulus.store.queue_table_file import NAME as TABLE_NAME
from regulus.store.queue_table_file import QueueTableFile
from regulus.store.recovery import NO_GAP, Recovery, RecoveryReport, Tell, tell_nobody
from regulus.store.timers import TimerFiles
from regulus.store.wanted_cut import WantedCut, WantedCutFile

QUERY_ROUNDS_MAX = 3
"""An index query whose hits were all deleted is repeated for older ones, this often in total."""
DISPATCH_MAX = 1 << 20
"""Records dispatched in one step while closing."""
UNDISPATCHED_WALK_MAX = 4096
"""Records searched for one that is not dispatched yet; one further away is found once it is dispatched."""
RECORDS_PER_STEP = 16
"""Records that are searched in one step."""
SYNCED_DIRECTORIES_MAX = 64
"""Folders of new queues that are synced one by one; for more, syncing the whole file system is faster."""
OTHER_OPEN_FILES = 4096
"""Descriptors left for connections and the rest of the process besides mapped files."""

_DEFAULT_RULES = StoreRules()


class FileMessageStore:
    def __init__(self, config: MessageStoreConfig, rules: StoreRules = _DEFAULT_RULES,
                 batch_topics: Callable[[], Iterable[str]] = tuple) -> None:
        """`batch_topics` returns at a start the topics of `queue.type=BatchCQ`, in addition to those found by their
        folders."""
        self.config = config
        self.configs = JsonFiles(config.root / "config")
        pool = MappedFilePool(config.mapped_files_max)
        self._pool = pool
        self._queues = ConsumeQueues(config.consume_queue_directory, config.consume_queue_file_size, pool,
                                     config.batch_consume_queue_directory, config.batch_consume_queue_file_size)
        self._batch_topics = batch_topics
        log_files = MappedFileQueue(config.commit_log_directory, config.mapped_file_size_commit_log, pool,
                                    "mappedFileSizeCommitLog", is_sequential=True)
        self._log = CommitLog(log_files, self._queues)
        self._index = (Index(config.index_directory, config.max_hash_slot_num, config.max_index_num, pool)
                       if config.message_index_enable else None)
        self._dispatcher = Dispatcher(self._log, self._queues, self._index, rules.delay_ladder_ms)
        self._checkpoint = CheckpointFile(config.root / "checkpoint")
        self._mark_file = SyncedMarkFile(config.root / MARK_NAME)
        self._table_file = QueueTableFile(config.root / TABLE_NAME)
        self._tabled_record = -1
        """The last record covered by the table of queues."""
        self._synced_record = -1
        """The offset of a record that is on disk with all before it; -1 while none is known."""
        self._table_fault = ""
        """Why the table of queues on disk still refers to records that the log has lost; empty when it does not."""
        self._lock: disk.FileLock | None = None
        self.old_files = OldFiles(config, self._log, self._queues, self._index, self._dispatcher,
                                  self._table_file.note_log_start)
        self.deep_check = DeepCheck(self._log, self._queues, self._index, rules.delay_ladder_ms)
        self.timers = TimerFiles(config.root, config.mapped_file_size_timer_log, rules.timer_precision_ms)
        self.copy = LogCopy(self._log, self._dispatcher)
        self._stopped = ""
        self._unfinished = ""
        """Why the start could not do everything yet."""
        self._wish = ""
        """The reason given to `refuse_writes`."""
        self._copied = ""
        """Why a copied log takes no messages."""
        self._refusal = ""
        """Why messages are refused, whatever the state of the disk: one of these four reasons."""
        self._recovery: Recovery | None = None
        """The recovery of the start, while it has something left to finish."""
        self._cut_file = WantedCutFile(config.root, config.commit_log_directory)
        self._wanted_cut: WantedCut | None = None
        """The cut wanted at the start, until it is carried out."""

    # --- life --------------------------------------------------------------------------------------------------------

    def be_copy(self, reason: str, record_size_max: int) -> None:
        """Make this store a copy, before `open`: messages are refused for this reason, and `copy` fills the log, with
        records of at most `record_size_max` bytes."""
        self._copied = reason
        self._refuse_for()
        self.copy.begin(record_size_max)

    def open(self, clock: Callable[[], float] | None = None, tell: Tell = tell_nobody) -> RecoveryReport:
        """Lock, load and recover. `clock` returns seconds, for the report's duration; `tell` is called during steps
        that may take long.

        Raises StoreLocked, StoreDamaged, StoreNewer, StoreNotWritable; then nothing stays locked or open. A store that
        is refused is not marked as running: the next start sees it in its earlier state.
        """
        began = clock() if clock else 0.0
        disk.make_directory(self.config.root)
        self._lock = disk.FileLock(self.config.root / "lock")
        report = None
        try:
            left = disk.read_file(self.config.root / "abort")
            report = self._load_or_leave(tell, left)
        finally:
            if report is None:
                self._release()
        return replace(report, duration_ms=int((clock() - began) * 1000)) if clock else report

    def _load_or_leave(self, tell: Tell, left: bytes | None) -> RecoveryReport:
        """Load the store. `left` is the content of `abort`, None when there is no such file; if the store is refused,
        it is restored."""
        try:
            return self._load(tell, left)
        except (StoreDamaged, StoreNewer):
            # If this fails, the next start only checks more than it must; what matters is why this one was refused.
            with suppress(StoreNotWritable):
                self._mark_as(left)
                self._table_file.put_back()
            raise

    def _load(self, tell: Tell, left: bytes | None) -> RecoveryReport:
        assert self._lock is not None
        refuse_later_formats(self.config)
        self._lock.write(b"lock")
        limit = disk.raise_open_files_limit(self.config.mapped_files_max + OTHER_OPEN_FILES)
        self._pool.files_max = max(16, min(self.config.mapped_files_max, limit // 2))
        is_clean_stop = left is None
        self._wanted_cut = self._cut_file.load()
        self._log.files.load()
        self._checkpoint.load()
        checkpoint = self._checkpoint.checkpoint
        # From here on files change. If there is no room even for this, nothing is written before `finish_start` finds
        # some.
        with suppress(StoreNotWritable):
            disk.make_directory(self.config.commit_log_directory)
            self._mark_running()
        # Only an `abort` of ours, which has two lines, shows that no broker without a table ran since.
        is_ours = left is None or left.count(b"\n") > 1
        if not is_ours:
            with suppress(StoreNotWritable):
                self._table_file.remove()
                self._mark_file.remove()
        table = self._table_file.load(self._log.files, is_clean_stop)
        last = self._log.files.last
        self._queues.log_bound = last.start + last.size if last is not None else 0
        self._queues.batch_topics.update(self._batch_topics())
        self._queues.load(table.queues if table is not None else None, table.births if table is not None else None)
        index_end = NO_GAP
        if self._index is not None:
            # A killed process loses nothing that it wrote through a map; only a machine failure does.
            is_whole = is_clean_stop or (bool(disk.boot_id()) and disk.boot_id().encode() in (left or b""))
            is_gapless = self._index.load(None if is_whole else checkpoint.index_msg_timestamp,
                                          table.index if table is not None else None, self._log.start,
                                          self._queues.log_bound)
            if not is_gapless:
                index_end = max(self._index.last_update[1], self._log.start)
        self._recovery = recovery = Recovery(self._log, self._dispatcher, is_clean_stop=is_clean_stop,
                            check_crc=self.config.check_crc_on_recover, mark=self._mark_file.load(),
                            table=table, index_end=index_end, cut_at=self.config.cut_damaged_log,
                            end_at=self._wanted_cut.begin if self._wanted_cut is not None else LONG_MAX, tell=tell)
        complete_to = checkpoint.min_timestamp
        if self.config.message_index_safe and self._index is not None:
            # Records stored in the same millisecond as the last indexed one may not be indexed.
            complete_to = min(complete_to, self._index.last_update[0] - 1)
        report = recovery.run(complete_to, min(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp))
        is_earlier = self._queues.end_births_at(self._log.end)
        if table is not None and (is_earlier or self._log.end < table.position):
            self._table_fault = f"{self.config.root / TABLE_NAME} speaks of messages that the log has lost"
        if self._wanted_cut is not None:
            self._checkpoint.end_at(self._log.last_store_timestamp)
        if self._index is not None:
            self._index.end_at(self._log.end)
        if not is_clean_stop:
            tell("bringing to disk what the broker that was killed had written", 0, 0)
            self._sync_what_was_kept()
        if self.wants_queue_table:
            # Otherwise a power cut in the first minute would lose what was deleted in it.
            try:
                self.flush_queue_table()
            except StoreNotWritable as error:
                self._table_fault = self._table_fault and str(error)
        self.timers.open(self._log.end)
        self.finish_start()
        return replace(report, kept_aside=recovery.kept_aside, unfinished=report.unfinished or self._unfinished)

    def finish_start(self) -> None:
        """Do what a full disk prevented in `open`; until it is done, messages are refused. For the appending thread."""
        if self._recovery is None:
            return
        try:
            self._mark_running()
            if self._wanted_cut is not None and self._table_fault:
                raise StoreNotWritable(self._table_fault)
            self._recovery.finish()
            self._finish_cut()
            if self._table_fault:
                # Otherwise the next start would consider units written from now on as complete, and their queues as
                # created later.
                raise StoreNotWritable(self._table_fault)
        except StoreNotWritable as error:
            self._unfinished = str(error)
        else:
            self._recovery = None
            self._unfinished = ""
        self._refuse_for()

    def _finish_cut(self) -> None:
        """Raises StoreNotWritable."""
        if self._wanted_cut is not None:
            self.flush_checkpoint()
            self._cut_file.carried_out(self._wanted_cut)
            self._wanted_cut = None

    def _refuse_for(self) -> None:
        """Update the reason for refusing messages after one was set or cleared."""
        self.copy.fault = self._stopped or self._unfinished or self._wish
        self._refusal = self.copy.fault or self._copied

    def _mark_running(self) -> None:
        """Mark the store as running, so that a start after a crash does not trust the files."""
        self._mark_as(f"{disk.process_id()}\n{disk.boot_id()}\n".encode())

    def _mark_as(self, text: bytes | None) -> None:
        """Write `abort` with this content; None removes it."""
        abort = self.config.root / "abort"
        if disk.read_file(abort) == text:
            return
        if text is not None:
            disk.write_file(abort, text)
            return
        disk.remove_file(abort)
        disk.sync_directory(self.config.root)

    def _sync_what_was_kept(self) -> None:
        """Sync log, queues, index and names. A killed process leaves all that it wrote, but it is not known what of it
        is on disk. Raises StoreNotWritable."""
        for directory in (self.config.root, self.config.commit_log_directory):
            disk.sync_filesystem(directory)

    def close(self) -> None:
        """Dispatch and flush everything, and leave the store as after a clean stop.

        A step that fails does not prevent the others; then `abort` stays, so that the next start checks more, and the
        first StoreError is raised at the end. If a full disk prevents dispatching everything, `abort` stays without an
        error.
        """
        if self._lock is None:
            return
        failures: list[StoreError] = []
        try:
            for deed in (self._dispatch_all, self._log.drop_next, self.flush_commit_log, self._flush_timers,
                         self.flush_queue_table,
                         self._flush_index, self.flush_checkpoint, self.flush_mark):
                try:
                    deed()
                except StoreError as error:
                    failures.append(error)
            if not failures and self.dispatch_behind_bytes() == 0 and not self._unfinished:
                self._mark_as(None)
        finally:
            self._release()
        if failures:
            raise failures[0]

    def _dispatch_all(self) -> None:
        while self.dispatch_behind_bytes() > 0 and not self._dispatcher.fault:
            self.dispatch(DISPATCH_MAX, ())

    def _flush_index(self) -> None:
        if self._index is not None:
            self._index.flush()
            self._checkpoint.index_flushed(self._index.last_update[0])

    def _release(self) -> None:
        self._pool.unmap_all()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- appending ---------------------------------------------------------------------------------------------------

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        if self._dispatcher.fault or self._refusal:
            return self._refuse()
        try:
            return self._log.append(message, now_ms)
        except StoreDamaged as error:
            return Appended(PutStatus.QUEUE_DAMAGED, remark=str(error))

    def append_batch(self, messages: Iterable[MessageExt], now_ms: int) -> Appended:
        if self._dispatcher.fault or self._refusal:
            return self._refuse()
        try:
            return self._log.append_batch(messages, now_ms)
        except StoreDamaged as error:
            return Appended(PutStatus.QUEUE_DAMAGED, remark=str(error))

    def _refuse(self) -> Appended:
        """Refuse messages that could not become visible; dispatch is tried again elsewhere."""
        return Appended(PutStatus.SERVICE_NOT_AVAILABLE, remark=self.fault or self._copied)

    def stop_writes(self, reason: str) -> None:
        """Accept no more messages until the store is opened again: after a failed sync the content of the disk is
        unknown."""
        self._stopped = reason
        self._refuse_for()

    def refuse_writes(self, reason: str) -> None:
        """Accept no messages, not even copied ones, until this is called with an empty text: the disk is too full.
        Dispatch continues."""
        self._wish = reason
        self._refuse_for()

    def dispatch(self, count_max: int, wanted: Container[tuple[str, int]] | None = None,
                 with_properties: bool = False) -> list[Arrival]:
        """Make up to `count_max` appended records visible. Never raises for a full disk: see `fault`."""
        return self._dispatcher.run(count_max, wanted, with_properties)

    def dispatch_behind_bytes(self) -> int:
        return self._log.end - self._dispatcher.position

    # --- reading -----------------------------------------------------------------------------------------------------

    def get_message(self, topic: str, queue_id: int, queue_offset: int, count_max: int, bytes_max: int,
                    message_filter: Filter) -> GetResult:
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            # RocketMQ makes the queue when it is read, and finds it empty.
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [], 0, 0)
        if isinstance(queue, BatchConsumeQueue):
            return read_batches(self._log, queue, queue_offset, count_max, bytes_max, message_filter,
                                self.config.max_filter_message_size)
        return self._log.read_queue(queue, queue_offset, count_max, bytes_max, message_filter,
                                    self.config.max_filter_message_size)

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self._queues.find(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = self._queues.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def known_max_offset(self, topic: str, queue_id: int) -> int:
        return self._queues.known_max_offset(topic, queue_id)

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, upper: bool = False) -> int:
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        if isinstance(queue, BatchConsumeQueue):
            return queue.offset_by_time(timestamp, upper=upper)
        low, high = queue.min_offset, queue.max_offset
        first = low
        while low < high:
            middle = (low + high) // 2
            stored = self._store_timestamp(queue, middle)
            if stored < timestamp or (upper and stored == timestamp):
                low = middle + 1
            else:
                high = middle
        return low if not upper else max(low - 1, first) if low > first else 0

    def store_timestamp(self, topic: str, queue_id: int, queue_offset: int) -> int:
        queue = self._queues.find(topic, queue_id)
        return self._store_timestamp(queue, queue_offset) if queue is not None else -1

    def _store_timestamp(self, queue: ConsumeQueue, queue_offset: int) -> int:
        unit = queue.unit(queue_offset)
        message = self._decode(unit.physical_offset, False) if unit is not None else None
        return message.store_timestamp if message is not None else -1

    def queue_units(self, topic: str, queue_id: int, queue_offset: int, count_max: int) -> list[QueueUnit]:
        queue = self._queues.find(topic, queue_id)
        return queue.units(queue_offset, count_max) if queue is not None and queue_offset >= 0 else []

    def has_queue(self, topic: str, queue_id: int) -> bool:
        queue = self._queues.find(topic, queue_id)
        return queue is not None and queue.tail is not None

    def queues(self) -> list[tuple[str, int]]:
        return self._queues.names()

    def queue_ids(self, topic: str) -> list[int]:
        return self._queues.ids(topic)

    def look_message(self, physical_offset: int) -> MessageExt | None:
        message = self._decode(physical_offset, True)
        if message is None:
            self.deep_check.meet_missing(physical_offset)
            return None
        if not self._is_own_record(message):
            return None
        # The record must be checked before it is copied: the copy would confirm a damaged body with a checksum of its
        # own.
        if message.body and crc32(message.body) & 0x7FFFFFFF != message.body_crc:
            self.deep_check.meet(physical_offset)
            return None
        return message

    def look_head(self, physical_offset: int) -> MessageExt | None:
        message = self._decode(physical_offset, False)
        if message is None:
            self.deep_check.meet_missing(physical_offset)
        return message

    def is_missing(self, physical_offset: int) -> bool:
        return bool(self._log.lacks(physical_offset))

    def record_bytes(self, physical_offset: int) -> memoryview | None:
        message = self._decode(physical_offset, False)
        if message is None or physical_offset in self._log.rotten:
            return None
        is_queue_gone = self._queues.find(message.topic, message.queue_id) is None
        return self._bytes_at(physical_offset) if is_queue_gone or self._is_own_record(message) else None

    def _is_own_record(self, message: MessageExt) -> bool:
        """Whether the log itself begins a record at this position.

        A message's body may contain bytes that look like a record, in order to refer to them later; but no unit points
        at them, and no walk reaches them.
        """
        queue = self._queues.find(message.topic, message.queue_id)
        unit = queue.unit(message.queue_offset) if queue is not None else None
        if unit is not None and unit.physical_offset == message.physical_offset:
            return True
        return self._is_passed_undispatched(message.physical_offset)

    def _is_passed_undispatched(self, physical_offset: int) -> bool:
        """Whether the walk over records that are not dispatched yet reaches the offset; it checks UNDISPATCHED_WALK_MAX
        records."""
        position = self._dispatcher.position
        for _ in range(UNDISPATCHED_WALK_MAX):
            if position >= physical_offset:
                return position == physical_offset
            position = self._behind_record(position)
        return False

    def _behind_record(self, position: int) -> int:
        """Where the record after the one at `position` begins. The rest of a file may be a blank; then the next file
        begins with a record."""
        data = self._bytes_at(position)
        if data:
            return position + len(data)
        file_size = self.config.mapped_file_size_commit_log
        return position + file_size - position % file_size

    def _bytes_at(self, physical_offset: int) -> memoryview | None:
        """The bytes from this offset on, which are a record if one begins there."""
        head = self._log.slice(physical_offset, 8)
        if head is None or int.from_bytes(head[4:], "big") not in _MAGICS:
            return None
        return self._log.slice(physical_offset, int.from_bytes(head[:4], "big"))

    def read_log(self, physical_offset: int, size_max: int, end: int) -> LogRead | None:
        file = self._log.find(physical_offset)
        if file is None or physical_offset >= end:
            return LogRead(memoryview(b""), physical_offset) if physical_offset == end else None
        position = physical_offset - file.start
        data = file.slice(0, min(file.wrote_position, end - file.start))
        read_to, is_blank = whole_records(data, position, size_max, physical_offset)
        if is_blank and read_to == position:
            return self.read_log(file.start + file.size, size_max, end)
        if read_to == position:
            return None
        return LogRead(data[position:read_to], file.start + (file.size if is_blank else read_to))

    def log_bytes(self, offset: int, size_max: int) -> memoryview | None:
        """The bytes at `offset`, whatever they are, up to the end of their file at most; None when there are none."""
        file = self._log.find(offset)
        if file is None:
            return None
        position = offset - file.start
        return file.slice(position, min(size_max, file.wrote_position - position))

    def _decode(self, physical_offset: int, read_body: bool) -> MessageExt | None:
        data = self._bytes_at(physical_offset)
        if data is None:
            return None
        try:
            message = message_record.decode(data, 0, read_body)
        except RecordError:
            # The offset came from outside and is inside a record.
            return None
        return message if message.physical_offset == physical_offset else None

    def messages_holding(self, text: bytes, physical_offset: int) -> Iterator[MessageExt]:
        return (message for message in self.messages_holding_in_steps(text, physical_offset) if message is not None)

    def messages_holding_in_steps(self, text: bytes, physical_offset: int) -> Iterator[MessageExt | None]:
        position = max(physical_offset, self._log.start)
        passed = 0
        while position < self._log.end:
            data = self._bytes_at(position)
            if data and text in bytes(data):
                message = self._decode(position, False)
                if message is not None:
                    yield message
            position = self._behind_record(position)
            passed += 1
            if passed % RECORDS_PER_STEP == 0:
                yield None

    def query_message(self, topic: str, key: str, count_max: int, begin: int, end: int,
                      before: int = LONG_MAX) -> QueryResult:
        return run_to_end(self.query_message_in_steps(topic, key, count_max, begin, end, before))

    def query_message_in_steps(self, topic: str, key: str, count_max: int, begin: int, end: int,
                               before: int = LONG_MAX) -> Generator[None, None, QueryResult]:
        buffers: list[memoryview] = []
        unreadable: set[int] = set()
        if self._index is None:
            return QueryResult(buffers, 0, 0)
        count_max = min(count_max, self.config.max_msgs_num_batch)
        for _ in range(QUERY_ROUNDS_MAX):
            offsets = yield from self._index.query(topic, key, count_max, begin, end, before)
            offsets.sort()
            if not offsets:
                break
            found = self._records_under(key_hash(index_key(topic, key)), offsets)
            buffers = list(found.values())
            unreadable.update(offset for offset in offsets if offset >= self._log.start and offset not in found)
            before = offsets[0]
            if buffers or before < self._log.start:
                break
        return QueryResult(buffers, *self._index.last_update, frozenset(unreadable))

    def _records_under(self, hash_: int, offsets: list[int]) -> dict[int, memoryview]:
        """The records to which index entries with this hash may point, by their offsets.

        If there is no record, or one with other keys, although the log still has the position, then either the entry or
        the record is damaged.
        """
        assert self._index is not None
        found = {}
        for physical_offset in offsets:
            if physical_offset in self._log.rotten:
                continue
            data = self._bytes_at(physical_offset)
            if data is not None and self._has_key(physical_offset, hash_):
                found[physical_offset] = data
            elif physical_offset >= self._log.start:
                self._index.suspect(physical_offset, f"has an entry for {physical_offset}, where no such record begins")
        return found

    def _has_key(self, physical_offset: int, hash_: int) -> bool:
        message = self._decode(physical_offset, False)
        return message is not None and any(key_hash(index_key(message.topic, key)) == hash_
                                           for key in (message.message_id, *message.keys.split(" ")) if key)

    def keep_batches(self, topic: str) -> None:
        """Note that the topic is of `queue.type=BatchCQ`. Raises StoreError."""
        self._queues.keep_batches(topic)

    def delete_topic(self, topic: str) -> None:
        """Forget all queues of a topic and remove their files. None of their messages comes back, whatever happens,
        unless `deletion_fault` says so. Raises StoreNotWritable."""
        queue_ids = self._queues.ids(topic)
        self._table_file.note_gone(topic, queue_ids, self._log.end, is_durable=False)
        self._queues.delete(topic, self._log.end)
        # A table that was begun meanwhile lists them; and a full disk may have room now.
        self._table_file.note_gone(topic, queue_ids, self._log.end, is_durable=True)

    def delete_queue(self, topic: str, queue_id: int) -> None:
        """Forget one consume queue and remove its files; a power cut may bring it back. Raises StoreNotWritable."""
        self._table_file.note_gone(topic, [queue_id], self._log.end, is_durable=False)
        self._queues.delete_queue(topic, queue_id, self._log.end)
        self._table_file.note_gone(topic, [queue_id], self._log.end, is_durable=False)      # as above

    def commit_log_min_offset(self) -> int:
        return self._log.start

    def commit_log_max_offset(self) -> int:
        return self._log.end

    def log_position_before(self, timestamp: int) -> int:
        """The start of the first file with only newer records, or of the file before it."""
        for file in reversed(self._log.files.files):
            head = head_in(file, file.start)
            if head is None or head.store_timestamp < timestamp:
                return file.start
        return self._log.start

    def earliest_store_timestamp(self) -> int:
        message = self._decode(self._log.start, False)
        return message.store_timestamp if message is not None else -1

    # --- flushing: worker thread -------------------------------------------------------------------------------------

    @property
    def flushed_offset(self) -> int:
        """Physical offset up to which the log is on disk."""
        return self._log.flushed_offset

    def flush_commit_log(self) -> int:
        """Bring the log, as written so far, to disk; returns the offset up to which it is durable. Raises
        StoreNotWritable."""
        store_timestamp = self._log.last_store_timestamp
        dispatched_record = self._dispatcher.last_physical_offset
        flushed = self._log.flush()
        self._checkpoint.log_flushed(store_timestamp)
        self._synced_record = dispatched_record
        return flushed

    def flush_consume_queues(self, least_pages: int = 0) -> None:
        """Bring queues with at least `least_pages` dirty pages to disk, and full index files; release memory that was
        only read. Raises StoreNotWritable."""
        self._log.release_cold()
        store_timestamp = self._dispatcher.last_store_timestamp
        queues = self._take_dirty_queues(least_pages)
        try:
            self._flush_queues(queues)
        except StoreNotWritable:
            self._dispatcher.mark_dirty(queues)
            raise
        if not least_pages:
            self._checkpoint.queues_flushed(store_timestamp)
        if self._index is not None:
            self._checkpoint.index_flushed(self._index.flush_full())

    def _flush_queues(self, queues: list[ConsumeQueue]) -> None:
        for queue in queues:
            queue.start_flush()
        directories: set[Path] = set()
        new: list[MappedFile] = []
        for queue in queues:
            if files := queue.flush():
                new += files
                # The folders of the file, of the queue, of the topic and of all queues: each may have been made for
                # this file.
                directories.update((queue.files.directory, *queue.files.directory.parents[:3]))
        if len(directories) > SYNCED_DIRECTORIES_MAX:
            for place in (self.config.consume_queue_directory, self.config.batch_consume_queue_directory):
                if disk.exists(place):
                    disk.sync_filesystem(place)
        else:
            for directory in directories:
                disk.sync_directory(directory)
        for file in new:
            file.is_new = False

    def _take_dirty_queues(self, least_pages: int) -> list[ConsumeQueue]:
        taken = []
        dirty = self._dispatcher.dirty
        for _ in range(len(dirty)):
            queue = dirty.popleft()
            if queue.is_deleted:
                continue
            if least_pages and queue.dirty_pages() < least_pages:
                dirty.append(queue)
                continue
            # First clear the mark and then flush: a unit put in between marks the queue again.
            queue.is_dirty = False
            taken.append(queue)
        return taken

    def flush_checkpoint(self) -> None:
        """Raises StoreNotWritable."""
        self._checkpoint.save()

    def flush_mark(self) -> None:
        """Save the mark of the record up to which the log is on disk, so that the next start can distinguish damage
        from a torn tail. An old mark is less precise, but never wrong. Raises StoreNotWritable."""
        mark = self._mark_of(self._synced_record)
        if mark is not None:
            self._mark_file.save(mark)

    def resting_queues(self) -> list[tuple[str, int]]:
        """Queues that were not used since the start, and were not checked closely."""
        return self._queues.resting_names()

    def look_at_queues(self, queues: Sequence[tuple[str, int]]) -> list[tuple[str, int, str]]:
        """Check resting queues; returns those that do not agree with the log, and what is wrong with each. Worker
        thread."""
        looked = [(topic, queue_id, self._queues.check_resting(topic, queue_id)) for topic, queue_id in queues]
        return [each for each in looked if each[2]]

    def take_out_queue(self, topic: str, queue_id: int, fault: str) -> str:
        """Take a queue with a fault out of use until it is rebuilt; returns a sentence that says so. Empty when it was
        used meanwhile and found intact."""
        return self._queues.faulty[topic, queue_id].text if self._queues.rest_faulty(topic, queue_id, fault) else ""

    def _mark_of(self, physical_offset: int) -> SyncedMark | None:
        file = self._log.files.find(physical_offset) if physical_offset >= 0 else None
        if file is None:
            return None
        head = disk.read_at(file.path, physical_offset - file.start, synced_mark.HEAD_SIZE)
        found = head_at(head, 0, physical_offset)
        if found is None:
            return None
        return SyncedMark(found.physical_offset, found.size, found.store_timestamp, crc32(head))

    def begin_timers(self) -> Callable[[], None] | None:
        """The work that brings the timers to disk, for a worker, None when there is nothing; afterwards call
        `timers.end_flush`. For the appending thread."""
        with suppress(StoreNotWritable):
            self.timers.drop_before(self._log.start)
        return self.timers.begin_flush(self.flushed_offset)

    def _flush_timers(self) -> None:
        """While closing: finish the flush in progress, and then flush what was noted last."""
        for _ in range(2):
            flush = self.begin_timers()
            if flush is not None:
                flush()
                self.timers.end_flush(is_done=True)
            self.timers.take_last()

    def flush_queue_table(self) -> None:
        """Bring all queues to disk, and write the table of where each ends. Raises StoreNotWritable."""
        self._table_file.begin()
        last = self._dispatcher.last_physical_offset
        log_start = self._log.start
        ends = self._queues.bounds_of_all()
        births = self._queues.births_from(log_start)
        index = self._index.names() if self._index is not None else []
        self.flush_consume_queues(0)
        is_behind = self._dispatcher.position <= last
        is_known = last == self._tabled_record and not self._queues.faulty and not self._table_file.is_behind
        newest = self._mark_of(last) if not is_behind and not is_known else None
        if newest is not None:
            # A power cut may remove the newest record, and then the table would belong to another log.
            is_synced = newest.end <= self.flushed_offset
            mark = newest if is_synced else self._mark_of(self._synced_record)
            if mark is None:
                return
            self._table_file.save(mark, newest.end, log_start, index, ends, tuple(self._queues.faulty), births)
            # A table bound to an earlier record is written again, because the file of that record is deleted first.
            self._tabled_record = last if is_synced else -1
            self._table_fault = ""
        elif last < 0 and self._table_fault:
            # The log has no record to which a table could be bound.
            self._table_file.remove()
            disk.sync_directory(self.config.root)
            self._table_fault = ""

    @property
    def wants_queue_table(self) -> bool:
        """Whether a table should be written soon, because this log has none, or one that lacks a deletion or refers to
        records that the log has lost."""
        return bool(self._table_fault) or (self._table_file.is_behind and self.flushed_offset > self._log.start)

    @property
    def deletion_fault(self) -> str:
        """Why the messages of a topic that was deleted may come back after a power cut; empty when they cannot."""
        return self._table_file.fault

    # --- the disk ----------------------------------------------------------------------------------------------------

    @property
    def wants_allocation(self) -> bool:
        return self._log.wants_allocation

    def allocate_ahead(self) -> None:
        """Reserve, make and warm what appends need next. Worker thread. A full disk is reported by the append."""
        with suppress(StoreNotWritable):
            self._log.allocate_ahead()

    @property
    def fault(self) -> str:
        """Why appends are refused; empty when they are not. A copy always refuses them."""
        return (self._stopped or self._unfinished or self._wish or self._dispatcher.fault
                or self._log.fault)

    @property
    def is_writable(self) -> bool:
        """Whether appends find room; tries again after a fault."""
        self.finish_start()
        return self._lock is not None and not self._refusal and not self._dispatcher.fault and self._log.probe()

    # --- documents ---------------------------------------------------------------------------------------------------

    def load_config(self, name: str) -> str | None:
        """The text of config/<name>.json, or of its .bak when that is missing or damaged; None when there is
        neither."""
        return self.configs.load(name)

    def save_config(self, name: str, pieces: Iterable[bytes]) -> None:
        """Replace config/<name>.json; the earlier text becomes its .bak. Raises StoreNotWritable."""
        self.configs.save(name, pieces)


_MAGICS = (layout.MAGIC_V1 & 0xFFFFFFFF, layout.MAGIC_V2 & 0xFFFFFFFF)
