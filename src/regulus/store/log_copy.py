"""The log of another broker, appended to this one byte by byte.

A piece from the other log may end anywhere. Only whole records and blanks are appended, after each was checked, so that
this log never ends within a record, and contains nothing else. The rest of a piece waits in memory; after an
interruption the sender sends it again.

Two logs that end at the same offset need not be copies: records of the same size are at the same offsets in any two.
Therefore each link begins with the last record that is already here, and nothing is appended before that record was
found to be equal in the other log.

Source: HAService.HAClient.dispatchReadRequest.
"""

from regulus.errors import LogsDiffer, RecordError, StoreDamaged, StoreError, StoreNotWritable
from regulus.record import big_endian, layout
from regulus.record.dispatch_request import DispatchRequest, request_in_view
from regulus.store.commit_log import CommitLog
from regulus.store.dispatch import Dispatcher

_HEAD_SIZE = layout.BLANK_SIZE_MIN     # of a record or blank: its size and magic number
_RESYNC = ("stop this slave and run `regulus store resync`, which cuts its log where the two part and keeps what it "
           "cuts, or give it an empty folder")


class LogCopy:
    def __init__(self, log: CommitLog, dispatcher: Dispatcher) -> None:
        self.fault = ""
        """Why nothing may be written to the log; empty when it may."""
        self._log = log
        self._dispatcher = dispatcher
        self._record_size_max = 0
        self._rest = bytearray()
        self._wanted = _HEAD_SIZE
        self._topics: set[str] = set()
        self._asked = 0
        self._compared = -1
        """Up to where existing bytes were received again and found equal; -1 when the whole comparison is done."""
        self._silent_at = -1

    def begin(self, record_size_max: int) -> None:
        """Configure the copy, before the log is loaded. A record of more than `record_size_max` bytes is refused."""
        self._record_size_max = record_size_max
        self._log.begins_anywhere = True

    def ask_from(self) -> int:
        """Where a new link begins: at the last record here, or at the end if that is not known. A master takes 0 as a
        request to begin with its last file: for a record at 0, all but the first byte is sent."""
        last = self._dispatcher.last_physical_offset
        self._compared = max(last, 1) if self._log.start <= last < self._log.end else -1
        self._asked = self._log.end if self._compared < 0 else self._compared
        self._silent_at = -1
        return self._asked

    @property
    def asked(self) -> int | None:
        """Where the link began, until it is certain that the other log continues this one."""
        return self._asked if self._compared >= 0 else None

    @property
    def newest_ms(self) -> int:
        """The store time of the last record, by the clock of the broker that stored it."""
        return self._log.last_store_timestamp

    def hear_nothing(self, offset: int) -> None:
        """Note that the other log has nothing after `offset` yet. Raises LogsDiffer when it ends before this one."""
        if self._compared < 0:
            return
        # The first time may be before anything was sent.
        if offset == self._silent_at:
            raise LogsDiffer(f"the master's log ends at {offset}, and the log here at {self._log.end}: {_RESYNC}")
        self._silent_at = offset

    @property
    def end(self) -> int:
        """The offset of the next byte to append."""
        return self._log.end + len(self._rest)

    def take_topics(self) -> set[str]:
        """Topics of the records appended since the last call, including the topics in which delayed messages and halves
        wait."""
        topics, self._topics = self._topics, set()
        return topics

    def interrupt(self) -> None:
        """Note that the link ended. The next piece continues after the last whole record: bytes that were not appended
        are sent again."""
        self._rest = bytearray()
        self._wanted = _HEAD_SIZE
        self._compared = -1

    def take(self, offset: int, piece: bytes) -> None:
        """Append the whole records of a piece and of the bytes that waited for it. An empty log may begin where any of
        the other's files does.

        Raises LogsDiffer when the piece does not continue this log; StoreDamaged when it has bytes that are not a
        record; StoreNotWritable when there is no room. The records before stay; the rest is forgotten.
        """
        if self.fault:
            raise StoreNotWritable(self.fault)
        if self._compared >= 0:
            known = self._compare(offset, piece)
            offset, piece = offset + known, piece[known:]
            if not piece:
                return
        if offset != self.end:
            self._begin(offset)
        self._rest += piece
        if len(self._rest) < self._wanted:
            return
        before = self._log.end
        try:
            with memoryview(self._rest) as view:
                self._append_whole(view, view)
        except StoreError:
            self.interrupt()
            raise
        del self._rest[:self._log.end - before]

    def _compare(self, offset: int, piece: bytes) -> int:
        """How many bytes of the piece are here already. Raises LogsDiffer when they are different."""
        here = self._log.slice(offset, min(len(piece), self._log.end - offset)) if offset == self._compared else None
        if here is None or here != memoryview(piece)[:len(here)]:
            raise LogsDiffer(f"the log here and the master's are not copies of one another: the record at "
                             f"{self._asked} differs: {_RESYNC}")
        end = offset + len(here)
        self._compared = end if end < self._log.end else -1
        return len(here)

    def _begin(self, offset: int) -> None:
        if self.end:
            raise LogsDiffer(f"the master continues at {offset}, and the log here ends at {self.end}: they are not "
                             f"copies of one another: {_RESYNC}")
        if offset % self._log.files.file_size:
            raise StoreDamaged(f"the master begins at {offset}, where no file of {self._log.files.file_size} bytes "
                               "begins: set mappedFileSizeCommitLog to what the master has")
        self._log.begin_at(offset)
        self._dispatcher.position = offset

    def _append_whole(self, data: memoryview, view: memoryview) -> None:
        """Append whole records, each file's at once. `view` is `data` again."""
        run = position = 0
        end = self._log.end
        requests: list[DispatchRequest] = []
        self._wanted = _HEAD_SIZE
        try:
            while len(view) - position >= _HEAD_SIZE:
                size = self._size_at(view, position, end + position)
                if position + size > len(view):
                    self._wanted = size
                    break
                if big_endian.int4(view, position + layout.MAGIC) == layout.MAGIC_BLANK:
                    position += size
                    self._log.append_copied(data[run:position], requests)
                    run, requests = position, []
                    continue
                requests.append(self._request(data, view, position, size, end + position))
                position += size
        finally:
            if position > run:
                self._log.append_copied(data[run:position], requests)

    def _size_at(self, view: memoryview, position: int, offset: int) -> int:
        """The size of the record or blank whose head is there. Raises StoreDamaged."""
        file_size = self._log.files.file_size
        room = file_size - offset % file_size
        size = big_endian.int4(view, position)
        magic = big_endian.int4(view, position + layout.MAGIC)
        if magic == layout.MAGIC_BLANK:
            if size != room:
                raise StoreDamaged(f"the master's file ends {size} bytes behind {offset}, and the one here {room}: set "
                                   "mappedFileSizeCommitLog to what the master has")
            return size
        if magic not in (layout.MAGIC_V1, layout.MAGIC_V2):
            raise StoreDamaged(f"the master sent what is not a record for {offset}: its magic number is "
                               f"{magic & 0xFFFFFFFF:#010x}")
        # A file keeps room for a blank after each record.
        if not layout.FIXED_SIZE_V1 <= size <= room - layout.BLANK_SIZE_MIN:
            raise StoreDamaged(f"the master sent a record of {size} bytes for {offset}, where a file of {file_size} "
                               f"has {room} left: set mappedFileSizeCommitLog to what the master has")
        if size > self._record_size_max:
            raise StoreDamaged(f"the master sent a record of {size} bytes for {offset}: set maxMessageSize to what the "
                               "master has")
        return size

    def _request(self, data: memoryview, view: memoryview, position: int, size: int, offset: int) -> DispatchRequest:
        """Raises StoreDamaged."""
        try:
            request = request_in_view(data, view, position, position + size, True)
        except RecordError as error:
            raise StoreDamaged(f"the master sent a damaged record for {offset}: {error}") from error
        self._topics.add(request.topic)
        if request.physical_offset != offset:
            raise StoreDamaged(f"the master sent a record for {offset} that says it is at {request.physical_offset}")
        return request
