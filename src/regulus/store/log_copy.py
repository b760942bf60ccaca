"""The log of another broker, appended to this one byte by byte.

What comes knows no records: a piece may end anywhere. Only whole records and blanks are appended, after a look at each,
so that this log never ends within a record, and nothing comes into it that is none. What is left of a piece waits in
memory; after an interruption whoever sends it sends it once more.

Source: HAService.HAClient.dispatchReadRequest.
"""

from regulus.errors import RecordError, StoreDamaged, StoreError
from regulus.record import layout
from regulus.record.dispatch_request import DispatchRequest, request_in_view
from regulus.store.commit_log import CommitLog

_HEAD_SIZE = layout.BLANK_SIZE_MIN     # of a record or blank: its size and magic number
_MAGICS = (layout.MAGIC_V1 & 0xFFFFFFFF, layout.MAGIC_V2 & 0xFFFFFFFF)
_MAGIC_BLANK = layout.MAGIC_BLANK & 0xFFFFFFFF


class LogCopy:
    """`record_size_max`, in bytes: a longer record is not waited for."""

    def __init__(self, log: CommitLog, record_size_max: int) -> None:
        self._log = log
        self._record_size_max = record_size_max
        self._rest = bytearray()
        self._wanted = _HEAD_SIZE
        self.topics: set[str] = set()
        """Those of what was appended; whoever looks at them takes them out."""

    @property
    def end(self) -> int:
        """Where the next byte belongs."""
        return self._log.end + len(self._rest)

    def forget_rest(self) -> None:
        """What was not appended comes once more."""
        self._rest = bytearray()
        self._wanted = _HEAD_SIZE

    def take(self, offset: int, piece: bytes) -> None:
        """Append what is whole. A log that is empty may begin where any of the other's files does.

        Raises StoreDamaged when the piece does not go on where this log ends, or has bytes that are no record;
        StoreNotWritable when there is no room. Records before that stay; the rest is forgotten.
        """
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
            self.forget_rest()
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
        self.topics.add(request.topic)
        if request.physical_offset != offset:
            raise StoreDamaged(f"the master sent a record for {offset} that says it is at {request.physical_offset}")
        return request
