"""The results of a message store."""

from enum import IntEnum
from typing import NamedTuple


class PutStatus(IntEnum):
    PUT_OK = 0
    MESSAGE_ILLEGAL = 1
    SERVICE_NOT_AVAILABLE = 2
    CREATE_MAPPED_FILE_FAILED = 3
    QUEUE_DAMAGED = 4
    """This queue accepts no messages; others do."""


class GetStatus(IntEnum):
    """Names as in GetMessageStatus; the name is the remark of a pull answer."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8


_PUT_OK = PutStatus.PUT_OK


class Appended:
    """Where a message or batch was appended.

    Physical offsets: `start` of the (first) record, `end` after the (last) one. `starts` only for a batch.
    """

    def __init__(self, status: PutStatus, start: int = 0, end: int = 0, queue_offset: int = 0,
                 remark: str = "", starts: tuple[int, ...] = ()) -> None:
        self.status = status
        self.start = start
        self.end = end
        self.queue_offset = queue_offset
        self.remark = remark
        self.starts = starts


def appended_one(start: int, end: int, queue_offset: int) -> Appended:
    """The result for one appended record; set field by field, because calling the constructor is slow in compiled
    code."""
    appended = Appended.__new__(Appended)
    appended.status = _PUT_OK
    appended.start = start
    appended.end = end
    appended.queue_offset = queue_offset
    appended.remark = ""
    appended.starts = ()
    return appended


class GetResult(NamedTuple):
    """The messages that a read found.

    `buffers` contain whole records, as slices of the log or copied: `size` bytes and `message_count` messages in total.
    `looked`: the bytes of properties that a filter examined, each counted `weight` times.
    """

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    buffers: list[bytes | memoryview]
    message_count: int
    size: int
    looked: int = 0


class QueueUnit(NamedTuple):
    """One unit of a consume queue, with its position."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int


class Arrival(NamedTuple):
    """A message became visible; it wakes pulls of the queue that wait at or below `queue_offset`."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int
    store_timestamp: int
    properties: dict[str, str] | None = None


class LogRead(NamedTuple):
    """Whole records of the log, without gaps; the next ones begin at `next_offset`."""

    data: memoryview
    next_offset: int


class QueryResult(NamedTuple):
    """Records whose key hash matches; the caller compares the real key."""

    buffers: list[memoryview]
    index_last_update_timestamp: int
    index_last_update_physical_offset: int
    unreadable: frozenset[int] = frozenset()
    """Positions at which the index has more such records that cannot be read."""
