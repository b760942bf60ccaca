"""The commit log: all messages of the broker, in the order of their arrival.

A record never spans two files. The end of a file that is too short for the next record, or would leave less than 8
bytes, becomes a blank. Another thread runs `allocate_ahead`, which reserves blocks a window ahead of the writer and
makes the next file before it is needed; the writer does this itself only when that thread is too slow.

Threads: one thread appends and reads. `flush` and `allocate_ahead` may run at the same time, in one other thread each.
They share no lock: each field has one writer, and fields written by two threads only grow.

Source: CommitLog.
"""

from collections.abc import Iterable
from pathlib import Path

from regulus.errors import MessageIllegal, StoreDamaged, StoreNotWritable
from regulus.model.message import MessageExt
from regulus.model.message_filter import LOOKED_MAX, Filter
from regulus.model.message_properties import INNER_BASE
from regulus.model.store_result import Appended, GetResult, GetStatus, PutStatus, appended_one
from regulus.model.sys_flag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from regulus.record import big_endian, byte_runs, layout
from regulus.record.consume_queue_unit import FILLER, UNIT_SIZE
from regulus.record.dispatch_request import DispatchRequest, inner_count, request_of
from regulus.record.message_record import blank, encode_view, record_size
from regulus.record.named_properties import read_named
from regulus.store import disk
from regulus.store.consume_queue import ConsumeQueue
from regulus.store.consume_queues import ConsumeQueues
from regulus.store.mapped_file import MappedFile
from regulus.store.mapped_file_queue import MappedFileQueue, file_name

RESERVE_WINDOW = 4 << 20
"""Blocks are reserved at least this far ahead, and at most twice as far."""
RECENT_MAX = 4096
"""Records remembered for dispatch; if there are more, dispatch reads them from the log again."""
KEEP_MAPPED = 32 << 20
"""Bytes before the writer's position that stay mapped; older ones are mapped again when they are read."""
GATHERED_RUN_MAX = 4096
"""Runs of records up to this size are copied together, which is faster than sending one more slice."""
GATHERED_MAX = 256 << 10
"""The maximum number of bytes copied together; further ones begin another buffer."""
_LOOKED_MAX = LOOKED_MAX
LOOK_COST = 100                 # of reading one record's properties, in bytes
_LOOK_COST = LOOK_COST
_BLANK_SIZE_MIN = 8
_GATHERED_RUN_MAX = GATHERED_RUN_MAX
_GATHERED_MAX = GATHERED_MAX
_RECENT_MAX = RECENT_MAX
_UNIT = UNIT_SIZE
_AHEAD = 6 * UNIT_SIZE          # units ahead whose records are prefetched while others are copied
_LINE_SIZE = 64                 # bytes that a processor fetches at once
_COMPILED = not __file__.endswith(".py")
_FILLER_SIZE = FILLER.size
_HEAD_SIZE = layout.PHYSICAL_OFFSET + 8
_TRANSACTION_MASK = TRANSACTION_MASK
_TRANSACTION_NOT = TRANSACTION_NOT
_TRANSACTION_COMMIT = TRANSACTION_COMMIT
_INNER_BATCH = INNER_BATCH
_PUT_OK = PutStatus.PUT_OK


class CommitLog:
    def __init__(self, files: MappedFileQueue, queues: ConsumeQueues) -> None:
        self.files = files
        self.queues = queues
        self.tail: MappedFile | None = None
        self.end = 0
        """Physical offset after the last record."""
        self.flushed_offset = 0
        self.last_store_timestamp = 0
        self.fault = ""
        """Why the disk made the last append fail; empty while appends succeed."""
        self.recent: list[DispatchRequest] = []
        """What to dispatch for the last records appended, in their order, perhaps with gaps."""
        self.recent_taken = 0
        """The number of them that the dispatcher has taken."""
        self.rotten: set[int] = set()
        """Where records begin that are known to be damaged; none of them is served."""
        self.begins_anywhere = False
        """Whether the first record appended determines where an empty log begins; no file is made before."""
        self._flush_fault = ""
        self._next: MappedFile | None = None
        self._window = RESERVE_WINDOW
        self._gathered = memoryview(bytearray(GATHERED_MAX))

    @property
    def start(self) -> int:
        return self.files.start

    # --- appending ---------------------------------------------------------------------------------------------------

    def append(self, message: MessageExt, now_ms: int) -> Appended:
        transaction = message.sys_flag & _TRANSACTION_MASK
        has_offset = transaction in (_TRANSACTION_NOT, _TRANSACTION_COMMIT)
        message.store_timestamp = now_ms
        count = 1
        try:
            queue = self.queues.have(message.topic, message.queue_id)
            message.queue_offset = queue.next_offset if has_offset else 0
            if message.sys_flag & _INNER_BATCH:
                count = _number_inner(message, queue)
            size = self._write(message)
        except MessageIllegal as error:
            return _illegal(str(error))
        except StoreNotWritable as error:
            return self._refuse(str(error))
        if has_offset:
            queue.next_offset += count
        if self.fault:
            self.fault = ""
        return appended_one(self.end - size, self.end, message.queue_offset)

    def append_batch(self, messages: Iterable[MessageExt], now_ms: int) -> Appended:
        """Append all records to one file, or none."""
        try:
            queue = self._have_room_for(messages)
        except MessageIllegal as error:
            return _illegal(str(error))
        except StoreNotWritable as error:
            return self._refuse(str(error))
        first = queue.next_offset
        starts = []
        for message in messages:
            message.queue_offset = queue.next_offset
            message.store_timestamp = now_ms
            starts.append(self.end)
            self._write(message)
            queue.next_offset += 1
        if self.fault:
            self.fault = ""
        return Appended(_PUT_OK, starts[0], self.end, first, "", tuple(starts))

    def _have_room_for(self, messages: Iterable[MessageExt]) -> ConsumeQueue:
        """Make room for a batch; returns its queue. Raises MessageIllegal, StoreNotWritable."""
        topic = ""
        queue_id = -1
        size = 0
        for message in messages:
            if size == 0:
                topic = message.topic
                queue_id = message.queue_id
            elif message.queue_id != queue_id or message.topic != topic:
                raise MessageIllegal("a batch belongs to one queue")
            if message.sys_flag & _TRANSACTION_MASK:
                raise MessageIllegal("a batch cannot be part of a transaction")
            size += record_size(message)
        if size == 0:
            raise MessageIllegal("the batch is empty")
        queue = self.queues.have(topic, queue_id)
        self._have_room(size)
        return queue

    def _write(self, message: MessageExt) -> int:
        """Write the record at the end of the log; returns its size. Raises MessageIllegal, StoreNotWritable."""
        while True:
            file = self.tail
            if file is None:
                file = self._roll()
            position = file.wrote_position
            room = min(file.reserved_position, file.size - _BLANK_SIZE_MIN) - position
            if file.mapping is None:
                file.map()
            file.is_used = True
            mapping = file.mapping
            assert mapping is not None
            assert file.cells is not None
            message.physical_offset = file.start + position
            size = encode_view(mapping, file.cells, position, message, room if room > 0 else 0)
            if size <= room:
                file.wrote_position = position + size
                self.end = file.start + position + size
                self.last_store_timestamp = message.store_timestamp
                if len(self.recent) >= _RECENT_MAX:
                    self.recent = []
                    self.recent_taken = 0
                self.recent.append(request_of(message))
                return size
            self._have_room(size)

    def begin_at(self, offset: int) -> None:
        """Let an empty log begin at `offset`, with a new file. Raises StoreNotWritable."""
        self.drop_next()
        self.tail = self.files.extend(offset)
        self.end = self.flushed_offset = offset

    def append_copied(self, data: memoryview, requests: list[DispatchRequest]) -> None:
        """Append records, described by `requests`, and perhaps a blank, exactly as in one file of another log. Raises
        StoreNotWritable."""
        file = self.tail
        if file is None or file.wrote_position == file.size:
            file = self._roll()
        end = file.wrote_position + len(data)
        if end > file.reserved_position:
            self._reserve_more(file, end)
        file.write(file.wrote_position, data)
        file.wrote_position = end
        self.end = file.start + end
        if requests:
            self.last_store_timestamp = requests[len(requests) - 1].store_timestamp
        if len(self.recent) + len(requests) > _RECENT_MAX:
            self.recent = []
            self.recent_taken = 0
        self.recent.extend(requests)

    def _have_room(self, size: int) -> None:
        """Make sure that the tail is mapped, with reserved room for `size` bytes and a blank. Raises MessageIllegal,
        StoreNotWritable."""
        file = self.tail
        if file is None:
            file = self._roll()
        if size + _BLANK_SIZE_MIN > file.size:
            raise MessageIllegal(f"record has {size} bytes, more than fit a file of {file.size} "
                                 "(mappedFileSizeCommitLog)")
        if file.wrote_position + size + _BLANK_SIZE_MIN > file.size:
            if file.wrote_position < file.size:
                file.write(file.wrote_position, blank(file.size - file.wrote_position))
                file.wrote_position = file.size
                self.end = file.start + file.size
            file = self._roll()
        end = file.wrote_position + size
        if end > file.reserved_position:
            self._reserve_more(file, end)
        if file.mapping is None:
            file.map()

    def _reserve_more(self, file: MappedFile, end: int) -> None:
        """Reserve up to `end` and a window beyond. Raises StoreNotWritable.

        On a nearly full disk the windows shrink, so that all of it is used without a failed attempt for each message;
        they grow again when there is room.
        """
        try:
            file.reserve(end + self._window)
            self._window = min(2 * self._window + disk.PAGE_SIZE, RESERVE_WINDOW)
        except StoreNotWritable:
            if self._window == 0:
                raise
            self._window = self._window // 16 if self._window > disk.PAGE_SIZE else 0
            self._reserve_more(file, end)

    def _roll(self) -> MappedFile:
        """Continue with the next file."""
        made, self._next = self._next, None
        start = self.tail.start + self.tail.size if self.tail is not None else 0
        if made is None or made.start != start:
            made = self.files.make(start)
        else:
            made.take_up()
        self.files.files.append(made)
        self.tail = made
        return made

    def _refuse(self, remark: str) -> Appended:
        self.fault = remark
        return Appended(PutStatus.SERVICE_NOT_AVAILABLE, remark=remark)

    def probe(self) -> bool:
        """Whether an append would find room now; if so, clears `fault`."""
        if self.fault:
            try:
                self._have_room(1)
                self.fault = ""
            except StoreNotWritable as error:
                self.fault = str(error)
        return not self.fault

    # --- ahead of the writer, in another thread ----------------------------------------------------------------------

    @property
    def wants_allocation(self) -> bool:
        """Whether `allocate_ahead` has work to do, and has not found the disk too full for it before."""
        tail = self.tail
        if self._window < RESERVE_WINDOW:
            return False
        if tail is None:
            return self._next is None and not self.begins_anywhere
        if tail.reserved_position < min(tail.wrote_position + RESERVE_WINDOW, tail.size):
            return True
        return self._next is None and tail.size - tail.wrote_position < RESERVE_WINDOW

    def allocate_ahead(self) -> None:
        """Reserve and warm the next window, and make the next file. Raises StoreNotWritable, after which appends still
        work."""
        try:
            self._allocate_ahead()
        except StoreNotWritable:
            self._window = RESERVE_WINDOW // 16
            raise

    def _allocate_ahead(self) -> None:
        tail = self.tail
        if tail is not None:
            self._reserve_window(tail, tail.wrote_position)
            self._release_behind(tail)
        start = tail.start + tail.size if tail is not None else 0
        if self._next is None and (tail is None or tail.size - tail.wrote_position < RESERVE_WINDOW):
            made = self.files.make(start)
            made.map_ahead()
            self._reserve_window(made, 0)
            self._sync_names([made])
            self._next = made

    def _reserve_window(self, file: MappedFile, wrote: int) -> None:
        begin = file.reserved_position
        end = min(disk.page_ceiling(wrote + 2 * RESERVE_WINDOW), file.size)
        if begin >= end:
            return
        file.reserve(end)
        mapping = file.mapping
        if mapping is not None:
            disk.populate(mapping, begin, end - begin)

    def _release_behind(self, file: MappedFile) -> None:
        mapping = file.mapping
        end = disk.page_floor(file.wrote_position - KEEP_MAPPED)
        if mapping is not None and end - file.released_position >= RESERVE_WINDOW:
            disk.release(mapping, file.released_position, end - file.released_position)
            file.released_position = end

    def release_cold(self) -> None:
        """Release the memory of older files that were read since the last call, so that catching up does not keep
        gigabytes."""
        for file in self.files.files[:]:
            mapping = file.mapping
            if file is not self.tail and file.is_used and mapping is not None:
                file.is_used = False
                disk.release(mapping, 0, file.size)

    def drop_next(self) -> None:
        """Remove the file that was made ahead and not used."""
        made, self._next = self._next, None
        if made is not None and made.start >= self.end:
            made.unmap()
            disk.remove_file(self.files.directory / made.path.rpartition("/")[2])

    # --- flushing, in another thread ---------------------------------------------------------------------------------

    def flush(self) -> int:
        """Bring everything written so far to disk; returns the physical offset up to which it is there.

        Raises StoreNotWritable, from then on at each call: the system reports a failed sync once, and the next sync
        succeeds without the lost bytes.
        """
        if self._flush_fault:
            raise StoreNotWritable(self._flush_fault)
        end = self.end
        if end > self.flushed_offset:
            try:
                self._flush_files()
            except StoreNotWritable as error:
                self._flush_fault = str(error)
                raise
            self.flushed_offset = max(end, self.flushed_offset)
        return self.flushed_offset

    def _flush_files(self) -> None:
        files = self._files_from(self.flushed_offset)
        for file in files:
            file.flush_appended()
        self._sync_names(files)

    def _sync_names(self, files: list[MappedFile]) -> None:
        """Sync the folder of new files. Otherwise a power cut may leave an empty file at the end of the log."""
        new = [file for file in files if file.is_new]
        if new:
            disk.sync_directory(self.files.directory)
        for file in new:
            file.is_new = False

    def _files_from(self, offset: int) -> list[MappedFile]:
        """The files from the one that holds `offset` on. There are few, so the search starts at the end."""
        found = []
        for file in reversed(self.files.files[:]):
            found.append(file)
            if file.start <= offset:
                break
        return found[::-1]

    # --- reading -----------------------------------------------------------------------------------------------------

    def find(self, physical_offset: int) -> MappedFile | None:
        """The file that contains the written byte at `physical_offset`."""
        tail = self.tail
        if tail is None or not 0 <= physical_offset < self.end:
            return None
        return tail if physical_offset >= tail.start else self.files.find(physical_offset)

    def behind(self, physical_offset: int) -> int:
        """The offset after the record that begins at `physical_offset`; the log's end when there is no record."""
        head = self.slice(physical_offset, 4)
        return min(physical_offset + int.from_bytes(head, "big"), self.end) if head is not None else self.end

    def slice(self, physical_offset: int, size: int) -> memoryview | None:
        """`size` written bytes, if they are all in one file; otherwise None."""
        file = self.find(physical_offset)
        if file is None:
            return None
        position = physical_offset - file.start
        if position + size > file.wrote_position:
            return None
        return file.slice(position, size)

    def read_queue(self, queue: ConsumeQueue, queue_offset: int, count_max: int, bytes_max: int,
                   message_filter: Filter, scan_max: int) -> GetResult:
        """Records of `queue` from `queue_offset` on that the filter accepts.

        A read passes over at most `scan_max` bytes of the queue, and examines at most LOOKED_MAX bytes of properties.
        Neighbours in the log become one slice, and short runs are copied together. The first record is returned
        whatever its size. Raises StoreDamaged if the first record does not belong to its unit; if a later one does not,
        the result ends before it.
        """
        low, high = queue.min_offset, queue.max_offset
        status, offset = judge(queue_offset, low, high)
        if status is not GetStatus.FOUND:
            return GetResult(status, offset, low, high, [], 0, 0)
        units = queue.readable(offset * _UNIT, max(scan_max, count_max * _UNIT))
        if not len(units):
            return GetResult(GetStatus.OFFSET_FOUND_NULL, self._next_file_offset(queue, offset), low, high, [], 0, 0)
        status = GetStatus.NO_MATCHED_MESSAGE
        buffers: list[bytes | memoryview] = []
        count = size_sum = gathered = 0
        file = run_file = None
        start = end = -1
        tags_codes = message_filter.tags_codes
        reads_properties = message_filter.reads_properties
        names = message_filter.names
        values: list[str | None] = [None] * len(names)
        looked = 0
        is_rot_known = bool(self.rotten)
        for position in range(0, len(units), _UNIT):
            physical_offset = big_endian.int8(units, position)
            size = big_endian.int4(units, position + 8)
            if _COMPILED and file is not None and position + _AHEAD < len(units):
                _fetch_ahead(file, big_endian.int8(units, position + _AHEAD),
                             big_endian.int4(units, position + _AHEAD + 8))
            if size != _FILLER_SIZE and (tags_codes is None or big_endian.int8(units, position + 12) in tags_codes):
                if count and (count >= count_max or size_sum + size > bytes_max):
                    break
                if file is None or not file.start <= physical_offset < file.start + file.size:
                    file = self.find(physical_offset)
                if file is not None and 0 < size <= file.start + file.wrote_position - physical_offset:
                    if not _is_own(file, physical_offset, size, queue, offset) \
                            or (is_rot_known and physical_offset in self.rotten):
                        if count:
                            break
                        raise StoreDamaged(damage(file, physical_offset, queue, offset, offset + 1))
                    if reads_properties:
                        if looked >= _LOOKED_MAX:
                            break
                        length = _read_named(file, physical_offset, size, names, values)
                        if length >= 0:
                            looked += message_filter.weight * (_LOOK_COST + length)
                        if length < 0 or not message_filter.matches(values):
                            offset += 1
                            continue
                    # No run extends past its file, because a blank separates two files.
                    if physical_offset != end:
                        if run_file is not None:
                            gathered = self._take_run(run_file, start - run_file.start, end - start, gathered, buffers)
                        run_file = file
                        start = physical_offset
                    end = physical_offset + size
                    count += 1
                    size_sum += size
                elif file is not None or not 0 <= physical_offset < self.start:
                    # The deletion of old files does not explain such a unit: files are deleted from the first on.
                    if count:
                        break
                    if file is None and 0 <= physical_offset < self.end:
                        raise StoreDamaged(self.lack(physical_offset, queue, offset))
                    raise StoreDamaged(damage(file, physical_offset, queue, offset, offset + 1))
                elif not count:
                    status = GetStatus.MESSAGE_WAS_REMOVING
            offset += 1
            if count >= count_max:
                break
        if run_file is not None:
            gathered = self._take_run(run_file, start - run_file.start, end - start, gathered, buffers)
        if gathered:
            buffers.append(byte_runs.bytes_of_run(self._gathered, 0, gathered))
        return GetResult(GetStatus.FOUND if count else status, offset, low, high, buffers, count, size_sum, looked)

    def _take_run(self, file: MappedFile, position: int, size: int, gathered: int,
                  buffers: list[bytes | memoryview]) -> int:
        """Add one run to `buffers`, or to the `gathered` bytes of short runs that are still to be added; returns how
        many bytes are still to be added."""
        is_short = size <= _GATHERED_RUN_MAX
        if gathered and not (is_short and gathered + size <= _GATHERED_MAX):
            buffers.append(byte_runs.bytes_of_run(self._gathered, 0, gathered))
            gathered = 0
        if not is_short:
            buffers.append(file.slice(position, size))
            return 0
        if file.mapping is None:
            file.map()
        file.is_used = True
        assert file.cells is not None
        byte_runs.copy_run(file.cells, position, self._gathered, gathered, size)
        return gathered + size

    def lacks(self, physical_offset: int) -> str:
        """The name of the missing file in the middle of the log that contained this offset; empty when none is
        missing."""
        if not self.start <= physical_offset < self.end or self.find(physical_offset) is not None:
            return ""
        return file_name(physical_offset - physical_offset % self.files.file_size)

    def lack(self, physical_offset: int, queue: ConsumeQueue, queue_offset: int) -> str:
        behind = min([file.start for file in self.files.files if file.start > physical_offset], default=self.end)
        return (f"message {queue_offset} of queue {queue.queue_id} of {queue.topic} is in the log's file "
                f"{self.lacks(physical_offset)}, which is missing. Stop the broker and bring it back from a backup or "
                f"replica. A group that goes on without it is set to {queue.first_from(behind)}")

    def _next_file_offset(self, queue: ConsumeQueue, offset: int) -> int:
        per_file = queue.files.file_size // _UNIT
        return min(offset - offset % per_file + per_file, queue.max_offset)


def _number_inner(message: MessageExt, queue: ConsumeQueue) -> int:
    """Set the queue offset in an inner batch; returns its number of messages. Raises MessageIllegal if the queue is not
    for batches."""
    if not queue.is_batch:
        raise MessageIllegal(f"topic {message.topic} keeps no inner batches")
    message.properties[INNER_BASE] = str(message.queue_offset)
    return inner_count(message.properties)


def _fetch_ahead(file: MappedFile, physical_offset: int, size: int) -> None:
    """Prefetch a short record that is copied soon: most of the time of a copy is waiting for memory."""
    place = physical_offset - file.start
    end = place + size
    if size <= _GATHERED_RUN_MAX and place >= 0 and end <= file.size and file.mapping is not None:
        assert file.cells is not None
        while place < end:
            byte_runs.fetch_ahead(file.cells, place)
            place += _LINE_SIZE


def _is_own(file: MappedFile, physical_offset: int, size: int, queue: ConsumeQueue, queue_offset: int) -> bool:
    """Whether the record's head agrees with its unit. The records of a light queue are of other topics."""
    if size < _HEAD_SIZE:
        return False
    if file.mapping is None:
        file.map()
    file.is_used = True
    cells = file.cells
    assert cells is not None
    place = physical_offset - file.start
    magic = big_endian.int4(cells, place + layout.MAGIC)
    return (big_endian.int4(cells, place) == size and magic in (layout.MAGIC_V1, layout.MAGIC_V2)
            and big_endian.int8(cells, place + layout.PHYSICAL_OFFSET) == physical_offset
            and (queue.is_light or (big_endian.int8(cells, place + layout.QUEUE_OFFSET) == queue_offset
                                    and big_endian.int4(cells, place + layout.QUEUE_ID) == queue.queue_id)))


def damage(file: MappedFile | None, physical_offset: int, queue: ConsumeQueue, queue_offset: int, behind: int) -> str:
    """The text for a damaged record. `file` is the log file that contains it, None if it is missing; `behind` is the
    next offset to read."""
    place, mend = "which is not in the log", ""
    if file is not None:
        path = Path(file.path)
        place = f"byte {physical_offset - file.start} of {path}"
        mend = f"Bring {path.name} back from a backup or replica; or, where that is whole, "
    return (f"message {queue_offset} of queue {queue.queue_id} of {queue.topic} is damaged, or what leads to it: there "
            f"is no such record at {physical_offset}, {place}. {mend or 'To mend it, '}stop the broker, move "
            f"{queue.files.directory} away and start it, and the queue is built anew. A group that goes on without it "
            f"is set to {behind}")


def _read_named(file: MappedFile, physical_offset: int, size: int, names: list[bytes],
                values: list[str | None]) -> int:
    """See `read_named`; this maps the file."""
    cells = file.cells
    assert cells is not None
    place = physical_offset - file.start
    return read_named(cells, place, place + size, names, values)


def judge(queue_offset: int, low: int, high: int) -> tuple[GetStatus, int]:
    """Whether there is something to read at `queue_offset`, and the offset to read next."""
    if high == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if queue_offset < low:
        return GetStatus.OFFSET_TOO_SMALL, low
    if queue_offset == high:
        return GetStatus.OFFSET_OVERFLOW_ONE, queue_offset
    if queue_offset > high:
        return GetStatus.OFFSET_OVERFLOW_BADLY, high
    return GetStatus.FOUND, queue_offset


def _illegal(remark: str) -> Appended:
    return Appended(PutStatus.MESSAGE_ILLEGAL, remark=remark)
