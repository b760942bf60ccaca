"""Finds the beginnings of records in a commit log, and estimates where the last one ends."""

from typing import Any

from regulus.errors import RecordError
from regulus.record import big_endian
from regulus.record.dispatch_request import request_at
from regulus.record.layout import MAGIC_V1, PHYSICAL_OFFSET
from regulus.spark.store.files import CommitLogFiles

PROBE_SIZE = 1 << 16
"""An estimate takes this many zero bytes for the end of the log."""

_MAGIC_END = 7
"""Bytes of a record up to the end of MAGIC_START."""

MAGIC_START = MAGIC_V1.to_bytes(4, "big", signed=True)[:3]


def next_record(data: Any, start: int, limit: int, base: int) -> int:
    """The position of the first record from `start` on; `limit` when there is none.

    A record holds its own place in the log, so bytes within a body are not mistaken for one.
    """
    while (found := data.find(MAGIC_START, start + 4, limit)) >= 0:
        position = int(found) - 4
        tells_its_place = big_endian.int8(data, position + PHYSICAL_OFFSET) == base + position
        if tells_its_place and whole_record_size(data, position, limit, check_crc=False):
            return position
        start = position + 1
    return limit


def next_record_in(log: CommitLogFiles, start: int, end: int) -> int:
    """Like `next_record`, by physical offsets within one file of the log, of which windows are mapped."""
    while start < end:
        window = log.window(start, _MAGIC_END)
        found = window.data.find(MAGIC_START, start + 4 - window.start, min(end, window.end) - window.start)
        if found < 0:
            # A magic number that the window's end cuts is whole in the next window.
            start = max(start + 1, window.end - _MAGIC_END + 1)
            continue
        start = window.start + found - 4
        del window
        if _is_record(log, start, end):
            return start
        start += 1
    return end


def _is_record(log: CommitLogFiles, place: int, end: int) -> bool:
    """Whether a whole record that tells this place starts there and ends before `end`."""
    window = log.record_window(place)
    position, limit = place - window.start, min(end, window.end) - window.start
    return (position + PHYSICAL_OFFSET + 8 <= limit
            and big_endian.int8(window.data, position + PHYSICAL_OFFSET) == place
            and whole_record_size(window.data, position, limit, check_crc=False) > 0)


def whole_record_size(data: Any, position: int, limit: int, *, check_crc: bool) -> int:
    """The size of the record; 0 when there is no record, or not all of it before `limit`."""
    try:
        return int(request_at(data, position, limit, check_crc).size)
    except RecordError:
        return 0


def filled_end(log: CommitLogFiles) -> int:
    """An estimate of where the records end, good enough to divide work by. It looks for zeros instead of walking."""
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
