"""The log of another broker, appended to this one byte by byte.

What comes knows no records: a piece may end anywhere. Only whole records and blanks are appended, after a look at each,
so that this log never ends within a record, and nothing comes into it that is none. What is left of a piece waits in
memory; after an interruption whoever sends it sends it once more.

Source: HAService.HAClient.dispatchReadRequest.
"""

from regulus.errors import RecordError, StoreDamaged, StoreError, StoreNotWritable
from regulus.record import layout
from regulus.record.dispatch_request import DispatchRequest, request_in_view
from regulus.store.commit_log import CommitLog
from regulus.store.dispatch import Dispatcher

_HEAD_SIZE = layout.BLANK_SIZE_MIN     # of a record or blank: its size and magic number
_MAGICS = (layout.MAGIC_V1 & 0xFFFFFFFF, layout.MAGIC_V2 & 0xFFFFFFFF)
_MAGIC_BLANK = layout.MAGIC_BLANK & 0xFFFFFFFF


class LogCopy:
    def __init__(self, log: CommitLog, dispatcher: Dispatcher) -> None:
        self.fault = ""
        """Why nothing may be written to the log; empty when something may."""
        self._log = log
        self._dispatcher = dispatcher
        self._record_size_max = 0
        self._rest = bytearray()
        self._wanted = _HEAD_SIZE
        self._topics: set[str] = set()

    def begin(self, record_size_max: int) -> None:
        """Before the log is loaded. A record of more bytes is not waited for."""
        self._record_size_max = record_size_max
        self._log.begins_anywhere = True

    @property
    def end(self) -> int:
        """Where the next byte belongs."""
        return self._log.end + len(self._rest)

    def take_topics(self) -> set[str]:
        """Of what was appended since the last time; with delayed messages and halves, the topics that these wait in."""
        topics, self._topics = self._topics, set()
        return topics

    def interrupt(self) -> None:
        """The next piece goes on behind the last whole record: what was not appended comes once more."""
        self._rest = bytearray()
        self._wanted = _HEAD_SIZE

    def take(self, offset: int, piece: bytes) -> None:
        """Append what is whole of a piece and of what waited for it. A log that is empty may begin where any of the
        other's files does.

        Raises StoreDamaged when the piece does not go on where this log ends, or has bytes that are no record;
        StoreNotWritable when there is no room. Records before that stay; the rest is forgotten.
        """
        if self.fault:
            raise StoreNotWritable(self.fault)
        if offset != self.end:
            self._begin(offset)
        self._rest += piece
        if len(self._rest) < self._wanted:
            return
        before = self._log.end
        try:
            with memoryview(self._rest) as view:
                self._append_whole(view)
        except StoreError:
            self.interrupt()
            raise
        del self._rest[:self._log.end - before]

    def _begin(self, offset: int) -> None:
        if self.end:
            raise StoreDamaged(f"the master goes on at {offset}, and the log here ends at {self.end}: they are not "
                               "copies of one log")
        if offset % self._log.files.file_size:
            raise StoreDamaged(f"the master begins at {offset}, where no file of {self._log.files.file_size} bytes "
                               "begins: set mappedFileSizeCommitLog to what the master has")
        self._log.begin_at(offset)
        self._dispatcher.position = offset

    def _append_whole(self, view: memoryview) -> None:
        """What lies in one file is appended at once."""
        run = position = 0
        requests: list[DispatchRequest] = []
        self._wanted = _HEAD_SIZE
        try:
            while len(view) - position >= _HEAD_SIZE:
                size, is_blank = self._unit(view, position, self._log.end + position - run)
                if position + size > len(view):
                    self._wanted = size
                    break
                if not is_blank:
                    requests.append(self._request(view, position, size, self._log.end + position - run))
                position += size
                if is_blank:
                    self._log.append_copied(view[run:position], requests)
                    run, requests = position, []
        finally:
            if position > run:
                self._log.append_copied(view[run:position], requests)

    def _unit(self, view: memoryview, position: int, offset: int) -> tuple[int, bool]:
        """The size of the record or blank whose head is there, and whether it is a blank. Raises StoreDamaged."""
        room = self._log.files.file_size - offset % self._log.files.file_size
        size = int.from_bytes(view[position:position + 4], "big", signed=True)
        magic = int.from_bytes(view[position + 4:position + 8], "big")
        if magic == _MAGIC_BLANK:
            if size != room:
                raise StoreDamaged(f"the master's file ends {size} bytes behind {offset}, and the one here {room}: set "
                                   "mappedFileSizeCommitLog to what the master has")
            return size, True
        if magic not in _MAGICS:
            raise StoreDamaged(f"the master sent what is no record for {offset}: its magic number is {magic:#010x}")
        # A file keeps room for a blank behind each record.
        if not layout.FIXED_SIZE_V1 <= size <= room - layout.BLANK_SIZE_MIN:
            raise StoreDamaged(f"the master sent a record of {size} bytes for {offset}, where a file of "
                               f"{self._log.files.file_size} has {room} left: set mappedFileSizeCommitLog to what the "
                               "master has")
        if size > self._record_size_max:
            raise StoreDamaged(f"the master sent a record of {size} bytes for {offset}: set maxMessageSize to what the "
                               "master has")
        return size, False

    def _request(self, view: memoryview, position: int, size: int, offset: int) -> DispatchRequest:
        """Raises StoreDamaged."""
        try:
            request = request_in_view(view, view, position, position + size, True)
        except RecordError as error:
            raise StoreDamaged(f"the master sent a damaged record for {offset}: {error}") from error
        self._topics.add(request.topic)
        if request.physical_offset != offset:
            raise StoreDamaged(f"the master sent a record for {offset} that says it is at {request.physical_offset}")
        return request
