"""Where records of a commit log begin, and about where they end."""

from typing import Any

from regulus.errors import RecordError
from regulus.record import big_endian
from regulus.record.dispatch_request import request_at
from regulus.record.layout import MAGIC_V1, PHYSICAL_OFFSET
from regulus.spark.store.files import CommitLogFiles

PROBE_SIZE = 1 << 16
"""Where this many zeros lie the log is taken to end, if that is only an estimate."""

MAGIC_START = MAGIC_V1.to_bytes(4, "big", signed=True)[:3]


def next_record(data: Any, start: int, limit: int, base: int) -> int:
    """Where the first record at `start` or behind begins; `limit` when there is none.

    A record tells its own place in the log, and so cannot be mistaken for bytes within a body, which do not.
    """
    while (found := data.find(MAGIC_START, start + 4, limit)) >= 0:
        position = int(found) - 4
        tells_its_place = big_endian.int8(data, position + PHYSICAL_OFFSET) == base + position
        if tells_its_place and whole_record_size(data, position, limit, check_crc=False):
            return position
        start = position + 1
    return limit


def whole_record_size(data: Any, position: int, limit: int, *, check_crc: bool) -> int:
    """0 when there is no record, or not all of it before `limit`."""
    try:
        return int(request_at(data, position, limit, check_crc).size)
    except RecordError:
        return 0


def filled_end(log: CommitLogFiles) -> int:
    """About where the records end, good enough to divide work by: found without a walk, by what is not zeros."""
    for piece in reversed(log.pieces):
        low, high = -PROBE_SIZE, piece.size
        while high - low > PROBE_SIZE:
            middle = max((low + high) // 2, 0)
            window = log.window(piece.start + middle, PROBE_SIZE)
            within = piece.start + middle - window.start
            if window.data[within:within + PROBE_SIZE].strip(b"\0"):
                low = middle
            else:
                high = middle
        if high > 0:
            return piece.start + high
    return log.start
