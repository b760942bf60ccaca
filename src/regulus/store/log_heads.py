"""Recognize records of the log by their heads alone, in files that may be damaged.

Source: see record.layout.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from regulus.model.message_properties import PROPERTIES_SIZE_MAX
from regulus.model.message_properties import parse as parse_properties
from regulus.model.sys_flag import BORN_HOST_V6, INNER_BATCH, STORE_HOST_V6
from regulus.model.topics import RETRY_TOPIC_SIZE_MAX as TOPIC_SIZE_MAX
from regulus.record import layout
from regulus.record.dispatch_request import inner_count
from regulus.record.layout import MAGIC_V1, MAGIC_V2
from regulus.record.synced_mark import HEAD_SIZE
from regulus.store import disk
from regulus.store.mapped_file import MappedFile

SEARCH_WINDOW = 8 << 20
TIME_SIZE = 8

_MAGICS = (MAGIC_V1 & 0xFFFFFFFF, MAGIC_V2 & 0xFFFFFFFF)
_MAGIC_START = (MAGIC_V1 & 0xFFFFFFFF).to_bytes(4, "big")[:3]
_HEAD = Struct(">iI20xq")
_TIME = Struct(">q")
_QUEUE = Struct(">i4xq")         # the user's flag is in between
_IPV6_MORE = layout.HOST_V6_SIZE - layout.HOST_V4_SIZE
_BORN_END = layout.BORN_HOST + layout.HOST_V4_SIZE


class LogHead(NamedTuple):
    physical_offset: int
    size: int
    store_timestamp: int
    time_at: int
    """The position of the store time within the record."""


def head_at(data: bytes | memoryview, position: int, physical_offset: int) -> LogHead | None:
    """The head of the record at `position`, if there is one and it states `physical_offset` as its position."""
    if position + HEAD_SIZE > len(data):
        return None
    size, magic, place = _HEAD.unpack_from(data, position)
    if magic not in _MAGICS or place != physical_offset or size <= HEAD_SIZE:
        return None
    is_v6 = int.from_bytes(data[position + layout.SYS_FLAG:position + layout.SYS_FLAG + 4], "big") & BORN_HOST_V6
    time_at = _BORN_END + (_IPV6_MORE if is_v6 else 0)
    return LogHead(place, size, _TIME.unpack_from(data, position + time_at)[0], time_at)


def head_in(file: MappedFile, physical_offset: int) -> LogHead | None:
    """Like `head_at`, but reads from `file`."""
    return head_at(disk.read_at(file.path, physical_offset - file.start, HEAD_SIZE), 0, physical_offset)


def find_heads(file: MappedFile, position: int) -> Iterator[LogHead]:
    """All records after `position` of a file whose heads are whole, whatever is between them."""
    while position + HEAD_SIZE <= file.size:
        data = disk.read_at(file.path, position, SEARCH_WINDOW)
        found = first_head(data, file.start + position)
        if found is not None:
            yield found
            position = max(found.physical_offset - file.start + found.size, position + 1)
        elif len(data) < SEARCH_WINDOW:
            return
        else:
            position += len(data) - HEAD_SIZE


def first_head(data: bytes, physical_offset: int) -> LogHead | None:
    """The first whole head in a piece of the log that begins at `physical_offset`."""
    at = data.find(_MAGIC_START, 4)
    while at >= 0:
        found = head_at(data, at - 4, physical_offset + at - 4)
        if found is not None:
            return found
        at = data.find(_MAGIC_START, at + 1)
    return None


class _Named(NamedTuple):
    size: int
    data: bytes
    """The bytes before the body."""
    flags: int
    topic: bytes
    topic_end: int


def _named_in(file: MappedFile, physical_offset: int) -> _Named | None:
    position = physical_offset - file.start
    data = disk.read_at(file.path, position, HEAD_SIZE + 2 * _IPV6_MORE)
    head = head_at(data, 0, physical_offset)
    if head is None:
        return None
    flags = int.from_bytes(data[layout.SYS_FLAG:layout.SYS_FLAG + 4], "big")
    body_start = layout.BODY_START_V4 + _IPV6_MORE * (bool(flags & BORN_HOST_V6) + bool(flags & STORE_HOST_V6))
    topic_at = body_start + int.from_bytes(data[body_start - 4:body_start], "big")
    text = disk.read_at(file.path, position + topic_at, 2 + TOPIC_SIZE_MAX) if topic_at < head.size else b""
    length_size = 2 if int.from_bytes(data[4:8], "big") == _MAGICS[1] else 1
    topic = text[length_size:length_size + int.from_bytes(text[:length_size], "big")]
    return _Named(head.size, data, flags, topic, topic_at + length_size + len(topic))


def owner_in(file: MappedFile, physical_offset: int) -> tuple[str, int, int, int] | None:
    """Topic, queue id, queue offset and size of a record of `file`; None when no record begins there."""
    named = _named_in(file, physical_offset)
    if named is None:
        return None
    queue_id, queue_offset = _QUEUE.unpack_from(named.data, layout.QUEUE_ID)
    return named.topic.decode("utf-8", "replace"), queue_id, queue_offset, named.size


def inner_count_in(file: MappedFile, physical_offset: int) -> int:
    """The number of messages that a record of `file` states; 1 when it states none, or no record begins there."""
    named = _named_in(file, physical_offset)
    if named is None or not named.flags & INNER_BATCH:
        return 1
    begin = named.topic_end + layout.PROPERTIES_LENGTH_SIZE
    size = min(named.size - begin, PROPERTIES_SIZE_MAX)
    text = disk.read_at(file.path, physical_offset - file.start + begin, size) if size > 0 else b""
    return inner_count(parse_properties(text.decode("utf-8", "replace")))
