"""The pieces of an index file: header, slots, entries; all big-endian.

    header, 40 bytes
    offset  size  field
         0     8  begin_timestamp         store time of the first entry
         8     8  end_timestamp           store time of the last entry
        16     8  begin_physical_offset   of the first entry
        24     8  end_physical_offset     of the last entry
        32     4  hash_slot_count         slots that are not empty
        36     4  index_count             number of the next entry; entries are numbered from 1

    slot s at 40 + 4 * s: number of the newest entry of its chain, 0 when empty

    entry e at 40 + 4 * slots + 20 * e
    offset  size  field
         0     4  key_hash
         4     8  physical_offset
        12     4  time_difference         seconds since the file's begin_timestamp
        16     4  previous                number of the next older entry of the chain, 0 at its end

The name of a file is the local time of its first message, 17 digits.

Source: IndexHeader, IndexFile.putKey, IndexFile.indexKeyHashMethod, IndexService.getAndCreateLastIndexFile.
"""

from datetime import datetime
from struct import Struct
from typing import NamedTuple

from regulus.errors import TruncatedRecord
from regulus.model.java_hash import hash_on, java_hash
from regulus.model.timestamps import dated
from regulus.record import big_endian

NAME_SIZE = 17
HEADER_SIZE = 40
SLOT_SIZE = 4
ENTRY_SIZE = 20
TIME_DIFFERENCE_MAX = 0x7FFFFFFF

# These numbers again under private names, which become C constants in the compiled form.
_SLOTS_START = HEADER_SIZE
_SLOT = SLOT_SIZE
_SHARP = ord("#")
_MASK = 0xFFFFFFFF
_POSITIVE_MAX = 0x7FFFFFFF

_HEADER = Struct(">qqqqii")
_ENTRY = Struct(">iqii")


class IndexHeader(NamedTuple):
    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1


class IndexEntry(NamedTuple):
    key_hash: int
    physical_offset: int
    time_difference: int
    previous: int


def file_size(slots: int, entries: int) -> int:
    """Bytes of an index file; `entries` counts entry 0, which is never used."""
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * entries


def slot_position(slot: int) -> int:
    return HEADER_SIZE + SLOT_SIZE * slot


def entry_position(slots: int, entry: int) -> int:
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * entry


def index_key(topic: str, key: str) -> str:
    """The text that is hashed for a message key or unique key."""
    return f"{topic}#{key}"


def key_hash(key: str) -> int:
    """The hash in an entry, never negative: Java's abs of the hash, and 0 where that overflows."""
    value = abs(java_hash(key))
    return 0 if value > 0x7FFFFFFF else value


def key_hash_on(topic: bytes, text: bytes | bytearray, start: int, end: int) -> int:
    """Like `key_hash`, for the ASCII key text[start:end] of a message of an ASCII topic; -1 for an empty key."""
    if start >= end:
        return -1
    value = hash_on(hash_on(0, topic, 0, len(topic)) * 31 + _SHARP, text, start, end)
    if value > _POSITIVE_MAX:
        value = _MASK + 1 - value
    return 0 if value > _POSITIVE_MAX else value


def time_difference(store_timestamp: int, begin_timestamp: int) -> int:
    """Whole seconds between the two times, limited to 0 and 2**31 - 1; 0 while the file has no begin time."""
    if begin_timestamp <= 0 or store_timestamp <= begin_timestamp:
        return 0
    return min((store_timestamp - begin_timestamp) // 1000, TIME_DIFFERENCE_MAX)


def encode_header(header: IndexHeader) -> bytes:
    return _HEADER.pack(*header)


def decode_header(data: bytes | memoryview, position: int = 0) -> IndexHeader:
    """A fresh file's zeros read as `index_count` 1. Raises TruncatedRecord when fewer than 40 bytes remain."""
    if len(data) - position < HEADER_SIZE:
        raise TruncatedRecord("index header cut short", position)
    header = IndexHeader._make(_HEADER.unpack_from(data, position))
    return header if header.index_count > 0 else header._replace(index_count=1)


def encode_header_into(cells: memoryview, begin_timestamp: int, end_timestamp: int, begin_physical_offset: int,
                       end_physical_offset: int, hash_slot_count: int, index_count: int) -> None:
    big_endian.put8(cells, 0, begin_timestamp)
    big_endian.put8(cells, 8, end_timestamp)
    big_endian.put8(cells, 16, begin_physical_offset)
    big_endian.put8(cells, 24, end_physical_offset)
    big_endian.put4(cells, 32, hash_slot_count)
    big_endian.put4(cells, 36, index_count)


def encode_entry_into(cells: memoryview, position: int, key_hash: int, physical_offset: int, time_difference: int,
                      previous: int) -> None:
    big_endian.put4(cells, position, key_hash)
    big_endian.put8(cells, position + 4, physical_offset)
    big_endian.put4(cells, position + 12, time_difference)
    big_endian.put4(cells, position + 16, previous)


def read_slot(cells: memoryview, slot: int) -> int:
    return big_endian.int4(cells, _SLOTS_START + _SLOT * slot)


def write_slot(cells: memoryview, slot: int, entry: int) -> None:
    big_endian.put4(cells, _SLOTS_START + _SLOT * slot, entry)


def chain(hashes: memoryview, previous: memoryview, heads: memoryview, entry: int) -> None:
    """Insert entries, numbered from `entry` on, at the head of the chains of their key hashes.

    `heads` are the slots and `previous` is filled, both 32-bit numbers in the byte order of this machine; `hashes` are
    64-bit.
    """
    slots = len(heads)
    for index in range(len(hashes)):
        slot = hashes[index] % slots
        previous[index] = heads[slot]
        heads[slot] = entry + index


def encode_entry(entry: IndexEntry) -> bytes:
    return _ENTRY.pack(*entry)


def decode_entry(data: bytes | memoryview, position: int = 0) -> IndexEntry:
    """Raises TruncatedRecord when fewer than 20 bytes remain."""
    if len(data) - position < ENTRY_SIZE:
        raise TruncatedRecord("index entry cut short", position)
    return IndexEntry._make(_ENTRY.unpack_from(data, position))


def file_name(store_timestamp: int, before: str) -> str:
    """The name of a file that begins with a message of that time, increased until it sorts after the previous file."""
    timestamp = dated(store_timestamp)
    name = f"{datetime.fromtimestamp(timestamp // 1000):%Y%m%d%H%M%S}{timestamp % 1000:03d}"
    return name if name > before else f"{int(before) + 1:0{NAME_SIZE}d}"
