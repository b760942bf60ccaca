"""record.message_columns.read_fields once more, with numpy: for installations without compiled modules.

All records at once, field by field; about half as fast as the compiled form and fifty times as fast as that one
interpreted. numpy stays out of `record`, which a broker loads too.

Source: see message_record.
"""

from typing import Any, TypeAlias

import numpy as np

from regulus.errors import CorruptRecord
from regulus.model import sys_flag
from regulus.record.message_record import FIXED_SIZE_V1, MAGIC_V1, MAGIC_V2, Buffer

Int64s: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"


def read_fields(data: Buffer, positions: Int64s, table: Int64s) -> None:
    """Fill `table`, a row for each of message_columns.FIELDS. Raises CorruptRecord for the first that is no record."""
    whole = np.frombuffer(data, dtype=np.uint8)
    end = len(whole)
    _check(positions, positions + FIXED_SIZE_V1 <= end, "record cut short")
    size = _numbers(whole, positions, 4)
    magic = _numbers(whole, positions + 4, 4)
    _check(positions, (magic == MAGIC_V1) | (magic == MAGIC_V2), "no record")
    flags = _numbers(whole, positions + 36, 4)
    born_end = positions + np.where(flags & sys_flag.BORN_HOST_V6, 68, 56)
    store_end = born_end + np.where(flags & sys_flag.STORE_HOST_V6, 28, 16)
    record_end = positions + size
    body_start = store_end + 16
    is_whole = (size >= FIXED_SIZE_V1) & (record_end <= end) & (body_start + 3 <= record_end)
    _check(positions, is_whole, "record cut short")
    body_length = _numbers(whole, body_start - 4, 4)
    body_end = body_start + body_length
    _check(positions, (body_length >= 0) & (body_end + 3 <= record_end), "body does not fit the record")
    is_v2 = magic == MAGIC_V2
    topic_start = body_end + np.where(is_v2, 2, 1)
    long_length = _numbers(whole, body_end, 2) & 0xFFFF
    topic_end = topic_start + np.where(is_v2, long_length, long_length >> 8)
    _check(positions, topic_end + 2 <= record_end, "topic does not fit the record")
    properties_length = _numbers(whole, topic_end, 2) & 0xFFFF
    _check(positions, topic_end + 2 + properties_length == record_end, "properties do not end with the record")
    columns = (
        size, _numbers(whole, positions + 8, 4), _numbers(whole, positions + 12, 4),
        _numbers(whole, positions + 16, 4), _numbers(whole, positions + 20, 8), _numbers(whole, positions + 28, 8),
        flags, _numbers(whole, positions + 40, 8), _numbers(whole, born_end, 8), _numbers(whole, store_end, 4),
        _numbers(whole, store_end + 4, 8), positions + 48, born_end + 8, body_start, body_end, topic_start, topic_end,
        topic_end + 2, record_end)
    for number, column in enumerate(columns):
        table[number] = column


def _numbers(whole: Bytes, positions: Int64s, size: int) -> Int64s:
    """The signed big-endian numbers of `size` bytes at the positions."""
    raw = np.ascontiguousarray(whole[positions[:, None] + np.arange(size)])
    numbers: Int64s = raw.view(f">i{size}")[:, 0].astype(np.int64)
    return numbers


def _check(positions: Int64s, is_good: Any, text: str) -> None:
    if not is_good.all():
        raise CorruptRecord(text, int(positions[int(np.argmin(is_good))]))
