"""Dispatch from the log to the queues and the index, which makes a stored message visible.

`position` is the physical offset up to which everything is dispatched. A full disk stops dispatch before the record
that found no room; the next run continues there.

Source: DefaultMessageStore.ReputMessageService, CommitLogDispatcherBuildConsumeQueue, CommitLogDispatcherBuildIndex.
"""

from collections import deque
from collections.abc import Container
from typing import cast

from regulus.errors import CorruptRecord, MessageIllegal, RecordError, StoreDamaged, StoreNotWritable, TruncatedRecord
from regulus.model.delay_level import UNKNOWN_LEVEL_DELAY_MS
from regulus.model.store_result import Arrival
from regulus.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT, TRANSACTION_ROLLBACK
from regulus.model.topics import SCHEDULE_TOPIC
from regulus.record.dispatch_request import DispatchRequest, request_in_view
from regulus.store.batch_consume_queue import BatchConsumeQueue
from regulus.store.commit_log import CommitLog
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.consume_queues import ConsumeQueues
from regulus.store.index import Index
from regulus.store.numbering import Numbering

_TRANSACTION_MASK = TRANSACTION_MASK
_TRANSACTION_NOT = TRANSACTION_NOT
_TRANSACTION_COMMIT = TRANSACTION_COMMIT
_TRANSACTION_ROLLBACK = TRANSACTION_ROLLBACK
_SCHEDULE_TOPIC = SCHEDULE_TOPIC
_NEVER = 0x7FFFFFFFFFFFFFFF


class ScanStop:
    """Where a walk over a piece of the log ended: `position` in the piece, and why it stopped."""

    def __init__(self, position: int, error: RecordError | None = None, is_blank: bool = False) -> None:
        self.position = position
        self.error = error
        self.is_blank = is_blank


class Dispatcher:
    def __init__(self, log: CommitLog, queues: ConsumeQueues, index: Index | None, delays_ms: tuple[int, ...]) -> None:
        self.log = log
        self.queues = queues
        self.index = index
        self.position = 0
        self.fault = ""
        """Why the last run stopped early; empty when it did not."""
        self.last_store_timestamp = 0
        self.last_physical_offset = -1
        """The offset of the last record that was dispatched or seen by `scan`; -1 before the first."""
        self.dirty: deque[ConsumeQueue] = deque()
        """Queues that were written since they were last flushed."""
        self.record_count = 0
        """Records seen by `scan`."""
        self.dispatched_count = 0
        """Records that had no unit yet."""
        self.unplaced_count = 0
        """Records that can have no queue, and therefore are not served."""
        self.unplaced_reason = ""
        """Why the last one of them cannot."""
        self.numbering: Numbering | None = None
        """Receives the records that `scan` would dispatch, and dispatches those of queues that are being rebuilt;
        nothing is indexed meanwhile."""
        self.behind_from = _NEVER
        """The offset of the first record that `scan` could not dispatch for lack of room."""
        self.index_from = _NEVER
        """`scan` adds index entries for records from this offset on, including those that it does not dispatch."""
        self._delays_ms = delays_ms

    def run(self, count_max: int, wanted: Container[tuple[str, int]] | None = None,
            with_properties: bool = False) -> list[Arrival]:
        """Dispatch up to `count_max` records; returns the arrivals, only those of `wanted` queues if given.

        Raises StoreDamaged when the log has other bytes than were written to it.
        """
        arrivals: list[Arrival] = []
        self.fault = ""
        is_any_wanted = wanted is None or bool(wanted)
        while count_max > 0 and self.position < self.log.end:
            count_max -= 1
            request = None if with_properties else self._recent()
            if request is None:
                request = self._read()
            if request is None:
                continue
            try:
                is_visible = self.dispatch(request)
            except StoreNotWritable as error:
                self.fault = str(error)
                break
            self.position += request.size
            if is_any_wanted and is_visible and (wanted is None or (request.topic, request.queue_id) in wanted):
                arrivals.append(Arrival(request.topic, request.queue_id, request.queue_offset, request.tags_code,
                                        request.store_timestamp, request.properties() if with_properties else None))
        return arrivals

    def _recent(self) -> DispatchRequest | None:
        """The next record from the log's memory; None when it must be read."""
        log = self.log
        recent = log.recent
        while log.recent_taken < len(recent):
            request = recent[log.recent_taken]
            if request.physical_offset > self.position:
                return None
            log.recent_taken += 1
            if log.recent_taken == len(recent):
                recent = log.recent = []
                log.recent_taken = 0
            if request.physical_offset == self.position:
                return request
        return None

    def _read(self) -> DispatchRequest | None:
        """The next record; None where the log continues in another file, to which `position` is moved."""
        file = self.log.find(self.position)
        if file is None:
            # Its file no longer exists: it was deleted, or never written in a log with a gap.
            self.position = self._next_start()
            return None
        if file.mapping is None:
            file.map()
        mapping = file.mapping
        assert mapping is not None
        assert file.cells is not None
        try:
            request = request_in_view(mapping, file.cells, self.position - file.start, file.wrote_position, False)
        except RecordError as error:
            raise StoreDamaged(f"{file.path} changed under the running broker: {error}; stop it and start it again "
                               "so that recovery looks at the log") from error
        if request.is_blank:
            self.position = file.start + file.size
            return None
        return request

    def _next_start(self) -> int:
        for file in self.log.files.files:
            if file.start > self.position:
                return file.start
        return self.log.end

    def dispatch(self, request: DispatchRequest) -> bool:
        """Add the unit and the index entries of one record, if they are missing; returns whether it has a unit.

        Sets the delivery time of a delayed message as its `tags_code`. Raises StoreNotWritable.
        """
        transaction = request.sys_flag & _TRANSACTION_MASK
        is_visible = transaction in (_TRANSACTION_NOT, _TRANSACTION_COMMIT)
        if is_visible:
            if request.delay_level > 0 and request.topic == _SCHEDULE_TOPIC:
                request.tags_code = self._deliver_time(request)
            try:
                queue = self.queues.find(request.topic, request.queue_id)
                if queue is None:
                    queue = self._queue_of(request)
                    if queue is None:
                        return False
            except StoreDamaged:
                if (request.topic, request.queue_id) not in self.queues.faulty:
                    raise
                queue = None        # it gets this unit when it is rebuilt
                self.queues.missed_end = request.physical_offset + request.size
            if queue is None:
                is_visible = False
            elif cast(BatchConsumeQueue, queue).put_record(request) if queue.is_batch else \
                    queue.put(request.physical_offset, request.size, request.tags_code, request.queue_offset):
                self.dispatched_count += 1
                if not queue.is_dirty:
                    queue.is_dirty = True
                    self.dirty.append(queue)
        if self.index is not None and self.numbering is None and transaction != _TRANSACTION_ROLLBACK:
            self.index.put(request)
        self.last_store_timestamp = request.store_timestamp
        self.last_physical_offset = request.physical_offset
        return is_visible

    def _queue_of(self, request: DispatchRequest) -> ConsumeQueue | None:
        """None for a record with an invalid topic name: no append makes one, but a log may come from elsewhere."""
        try:
            return self.queues.have(request.topic, request.queue_id)
        except MessageIllegal as error:
            self.unplaced_count += 1
            self.unplaced_reason = f"{error} (record at {request.physical_offset})"
            return None

    def mark_dirty(self, queues: list[ConsumeQueue]) -> None:
        """Mark queues as dirty again, because their flush failed. Another thread may dispatch at the same time."""
        for queue in queues:
            if not queue.is_dirty:
                queue.is_dirty = True
                self.dirty.append(queue)

    def _deliver_time(self, request: DispatchRequest) -> int:
        if not self._delays_ms:
            return request.store_timestamp + UNKNOWN_LEVEL_DELAY_MS
        return request.store_timestamp + self._delays_ms[min(request.delay_level, len(self._delays_ms)) - 1]

    def _dispatch_scanned(self, request: DispatchRequest, has_unit: bool) -> int:
        """Dispatch one record, or only index one that `has_unit`; without room for it, remember its offset."""
        if not self.fault:
            try:
                if self.numbering is not None:
                    self.numbering.take(request)
                elif not has_unit:
                    self.dispatch(request)
                elif self.index is not None and request.sys_flag & _TRANSACTION_MASK != _TRANSACTION_ROLLBACK:
                    self.index.put(request)
                return 0
            except StoreNotWritable as error:
                self.fault = str(error)
        self.behind_from = min(self.behind_from, request.physical_offset)
        if request.sys_flag & _TRANSACTION_MASK in (_TRANSACTION_NOT, _TRANSACTION_COMMIT):
            queue = self._queue_of(request)
            if queue is not None:
                # No other message may get this number.
                queue.next_offset = max(queue.next_offset, request.queue_offset + request.message_count)
        return 0

    def scan(self, data: memoryview, view: memoryview, size: int, physical_offset: int, check_crc: bool,
             dispatch_from: int) -> ScanStop:
        """Walk the records in the first `size` bytes of `data`, which are at `physical_offset` in the log.

        Records from `dispatch_from` on are dispatched. `view` is `data` again. A record that states a position other
        than its own is not accepted. On a full disk the walk continues, and what it could not dispatch is left for
        `run`.
        """
        position = 0
        while position < size:
            try:
                request = request_in_view(data, view, position, size, check_crc)
            except TruncatedRecord as error:
                return ScanStop(position, error)
            except CorruptRecord as error:
                return ScanStop(position, error)
            if request.is_blank:
                return ScanStop(position, None, True)
            if request.physical_offset != physical_offset + position:
                return ScanStop(position, CorruptRecord(f"record says it is at {request.physical_offset}", position))
            self.record_count += 1
            if request.physical_offset >= dispatch_from:
                self._dispatch_scanned(request, False)
            elif request.physical_offset >= self.index_from:
                self._dispatch_scanned(request, True)
            self.last_store_timestamp = request.store_timestamp
            self.last_physical_offset = request.physical_offset
            position += request.size
        return ScanStop(position)
