"""What record.message_columns does, once more, with numpy and Arrow: for installations without compiled modules.

Same functions, same arguments, same results. Fixed fields and gathering take all records at once, about half as fast as
the compiled form; properties are split message by message, which makes a row of all columns five times as slow. numpy
stays out of `record`, which a broker loads too.

Source: see record.layout.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from regulus.errors import CorruptRecord
from regulus.model import sys_flag
from regulus.record import layout
from regulus.record.byte_runs import Buffer
from regulus.record.message_record import check_start

Int64s: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"

_HEX = np.frombuffer(bytes(range(256)).hex().upper().encode(), dtype=np.uint16)
"""The two digits of each byte."""


def read_fields(data: Buffer, positions: memoryview, table: memoryview) -> None:
    """Raises CorruptRecord for the first that is not a record."""
    if len(positions):
        _read_fields(data, np.asarray(positions), np.asarray(table).reshape(-1, len(positions)))


def find_records(data: Buffer, positions: memoryview) -> int:
    limit = len(data)
    position = count = 0
    while position < limit and count < len(positions):
        positions[count] = position
        position += check_start(data, position, limit)
        count += 1
    return count


def _read_fields(data: Buffer, positions: Int64s, table: Int64s) -> None:
    whole = np.frombuffer(data, dtype=np.uint8)
    end = len(whole)
    _check(positions, positions + layout.FIXED_SIZE_V1 <= end, "record cut short")
    size = numbers_at(whole, positions, 4)
    magic = numbers_at(whole, positions + layout.MAGIC, 4)
    _check(positions, (magic == layout.MAGIC_V1) | (magic == layout.MAGIC_V2), "no record")
    flags = numbers_at(whole, positions + layout.SYS_FLAG, 4)
    sizes = layout.HOST_V6_SIZE, layout.HOST_V4_SIZE
    born_end = positions + layout.BORN_HOST + np.where(flags & sys_flag.BORN_HOST_V6, *sizes)
    store_end = born_end + layout.STORE_HOST + np.where(flags & sys_flag.STORE_HOST_V6, *sizes)
    record_end = positions + size
    body_start = store_end + layout.BODY
    is_whole = (size >= layout.FIXED_SIZE_V1) & (record_end <= end) & (body_start + 3 <= record_end)
    _check(positions, is_whole, "record cut short")
    body_length = numbers_at(whole, store_end + layout.BODY_LENGTH, 4)
    body_end = body_start + body_length
    _check(positions, (body_length >= 0) & (body_end + 3 <= record_end), "body does not fit the record")
    is_v2 = magic == layout.MAGIC_V2
    topic_start = body_end + np.where(is_v2, 2, 1)
    long_length = numbers_at(whole, body_end, 2) & 0xFFFF
    topic_end = topic_start + np.where(is_v2, long_length, long_length >> 8)
    properties_start = topic_end + layout.PROPERTIES_LENGTH_SIZE
    _check(positions, properties_start <= record_end, "topic does not fit the record")
    properties_length = numbers_at(whole, topic_end, 2) & 0xFFFF
    _check(positions, properties_start + properties_length == record_end, "properties do not end with the record")
    columns = (
        size, numbers_at(whole, positions + layout.BODY_CRC, 4), numbers_at(whole, positions + layout.QUEUE_ID, 4),
        numbers_at(whole, positions + layout.FLAG, 4), numbers_at(whole, positions + layout.QUEUE_OFFSET, 8),
        numbers_at(whole, positions + layout.PHYSICAL_OFFSET, 8), flags,
        numbers_at(whole, positions + layout.BORN_TIMESTAMP, 8),
        numbers_at(whole, born_end + layout.STORE_TIMESTAMP, 8),
        numbers_at(whole, store_end + layout.RECONSUME_TIMES, 4),
        numbers_at(whole, store_end + layout.PREPARED_TRANSACTION_OFFSET, 8), positions + layout.BORN_HOST,
        born_end + layout.STORE_HOST, body_start, body_end, topic_start, topic_end, properties_start, record_end)
    for number, column in enumerate(columns):
        table[number] = column


def numbers_at(whole: Bytes, positions: Int64s, size: int) -> Int64s:
    """The signed big-endian numbers of `size` bytes at the positions."""
    raw = np.ascontiguousarray(whole[positions[:, None] + np.arange(size)])
    numbers: Int64s = raw.view(f">i{size}")[:, 0].astype(np.int64)
    return numbers


def _check(positions: Int64s, is_good: Any, text: str) -> None:
    if not is_good.all():
        raise CorruptRecord(text, int(positions[int(np.argmin(is_good))]))


def properties_max(starts: memoryview, ends: memoryview) -> int:
    return int(((np.asarray(ends) - np.asarray(starts) + 1) >> 2).sum())


def read_properties(data: Buffer, starts: memoryview, ends: memoryview, names: tuple[bytes, ...], counts: memoryview,
                    places: memoryview, offsets: memoryview, entries: memoryview) -> int:
    rows = len(starts)
    np.asarray(places)[:] = -1
    numbers = {name: number for number, name in enumerate(names)}
    listed = np.asarray(entries).reshape(4, -1)
    total = 0
    offsets[0] = 0
    for row in range(rows):
        found = {name: place for name, *place in _entries(data, starts[row], ends[row])}
        for name in found.keys() & numbers.keys():
            number = numbers[name]
            places[2 * number * rows + row], places[(2 * number + 1) * rows + row] = found[name]
        if listed.size:
            for name, (value_start, value_end) in found.items():
                listed[:, total] = value_start - 1 - len(name), value_start - 1, value_start, value_end
                total += 1
        offsets[row + 1] = total
    np.asarray(counts)[:] = (np.asarray(places).reshape(len(names), 2, rows)[:, 0] >= 0).sum(axis=1)
    return total


def _entries(data: Buffer, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, and start and end of the value, of each property that counts."""
    for entry in bytes(data[start:end]).split(b"\x02"):
        size = entry.find(b"\x01")
        if 0 < size < len(entry) - 1:
            yield entry[:size], start + size + 1, start + len(entry)
        start += len(entry) + 1


def lay_out(starts: memoryview, ends: memoryview, offsets: memoryview) -> int:
    np.asarray(offsets)[0] = 0
    np.cumsum(np.asarray(ends) - np.asarray(starts), out=np.asarray(offsets)[1:])
    return int(offsets[-1])


def gather(data: Buffer, starts: memoryview, ends: memoryview, offsets: memoryview, target: memoryview) -> None:
    """The pieces are every second one of an Arrow array that cuts `data` at all starts and ends."""
    first, last = np.array(starts), np.array(ends)
    is_absent = first < 0
    last[is_absent] = 0
    last = np.maximum.accumulate(last)
    first[is_absent] = last[is_absent]
    cuts = np.stack((first, last), axis=1).reshape(-1).astype(np.int32)
    if not len(target):
        return
    if (np.diff(cuts) < 0).any():
        _gather_one_by_one(data, starts, ends, offsets, target)
        return
    whole = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(data)])
    chosen = np.arange(0, len(cuts), 2)
    gathered = whole.take(pa.Array.from_buffers(pa.int64(), len(chosen), [None, pa.py_buffer(chosen)]))
    np.asarray(target)[:] = np.frombuffer(gathered.buffers()[2], dtype=np.uint8)[:len(target)]


def _gather_one_by_one(data: Buffer, starts: memoryview, ends: memoryview, offsets: memoryview,
                       target: memoryview) -> None:
    for row in range(len(starts)):
        target[offsets[row]:offsets[row + 1]] = bytes(data[starts[row]:ends[row]])


def read_words(data: Buffer, starts: memoryview, words: memoryview) -> None:
    np.asarray(words)[:] = numbers_at(np.frombuffer(data, dtype=np.uint8), np.asarray(starts), 8)


def write_ids(hosts: memoryview, physical_offsets: memoryview, target: memoryview) -> None:
    raw = np.stack((np.asarray(hosts), np.asarray(physical_offsets)), axis=1).astype(">i8").view(np.uint8)
    np.asarray(target)[:] = _HEX[raw].view(np.uint8).reshape(-1)
