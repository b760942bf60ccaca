"""The body of SEND_BATCH_MESSAGE: records back to back.

    size   field
       4   size of the record, itself included
       4   magic, 0
       4   body CRC, 0
       4   flag
    4 + n  body
    2 + n  properties, name 0x01 value 0x02 ...

Source: MessageDecoder.encodeMessages, MessageDecoder.decodeMessages.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from regulus.errors import HeaderError, MessageIllegal
from regulus.model import message_properties
from regulus.model.message import Message
from regulus.model.message_properties import parse as parse_properties
from regulus.wire import big_endian
from regulus.wire.row_digest import digest_on, properties_sum

_FRONT = Struct(">iiiii")
_SHORT = Struct(">h")
RECORD_SIZE_MIN = 22
"""Bytes of a record without body and properties."""

# A private name allows this to be a typed constant in the compiled form.
_SIZE_MIN = RECORD_SIZE_MIN
_SUM_MASK = 0x7FFFFFFF
_COMPILED = not __file__.endswith(".py")


class BatchedMessage(NamedTuple):
    flag: int
    body: bytes
    properties: dict[str, str]
    properties_text: bytes
    """Unchanged: a name may occur twice, and the last separator may be missing."""


def encode(messages: Sequence[Message]) -> bytes:
    """Raises MessageIllegal when a message's properties are too long."""
    parts: list[bytes] = []
    for message in messages:
        properties = message_properties.format(message.properties).encode("utf-8", "replace")
        if len(properties) > message_properties.PROPERTIES_SIZE_MAX:
            raise MessageIllegal(f"properties of {len(properties)} bytes; "
                                 f"{message_properties.PROPERTIES_SIZE_MAX} are the most")
        size = RECORD_SIZE_MIN + len(message.body) + len(properties)
        parts += (_FRONT.pack(size, 0, 0, message.flag, len(message.body)), message.body,
                  _SHORT.pack(len(properties)), properties)
    return b"".join(parts)


class ColumnBatch:
    """Messages whose bodies and properties are in columns, from which a batch is made without an object for each
    message.

    Body n is bodies[body_ends[n]:body_ends[n + 1]]; property strings work alike; `flags` has one number for each
    message. The first `unique_size` bytes of each property string are its unique key.
    """

    def __init__(self, bodies: memoryview, body_ends: memoryview, properties: memoryview, property_ends: memoryview,
                 flags: memoryview, unique_size: int = 0) -> None:
        self._body_view = bodies
        self._property_view = properties
        self._unique_size = unique_size
        self._bodies = bodies
        self._body_ends = body_ends
        self._properties = properties
        self._property_ends = property_ends
        self._flags = flags

    def encode(self, start: int, end: int) -> bytearray:
        """The batch of messages `start` to `end`; none has more than PROPERTIES_SIZE_MAX bytes of properties."""
        size = (self._body_ends[end] - self._body_ends[start] + self._property_ends[end] - self._property_ends[start]
                + (end - start) * _SIZE_MIN)
        batch = bytearray(size)
        position = 0
        for row in range(start, end):
            position = self._encode_one(batch, position, row)
        return batch

    def digest(self, start: int, end: int, digest: int) -> int:
        """Continue a digest over the messages `start` to `end`, as defined by `row_digest`."""
        for row in range(start, end):
            body = self._body_view[self._body_ends[row]:self._body_ends[row + 1]]
            counted = self._property_view[self._property_ends[row] + self._unique_size:self._property_ends[row + 1]]
            digest = digest_on(digest, crc32(body) & _SUM_MASK)
            digest = digest_on(digest, properties_sum(counted, self._flags[row]))
        return digest

    def _encode_one(self, batch: bytearray, position: int, row: int) -> int:
        body_start = self._body_ends[row]
        body_end = self._body_ends[row + 1]
        properties_start = self._property_ends[row]
        properties_end = self._property_ends[row + 1]
        body_size = body_end - body_start
        properties_size = properties_end - properties_start
        big_endian.put4(batch, position, _SIZE_MIN + body_size + properties_size)
        big_endian.put4(batch, position + 12, self._flags[row])
        big_endian.put4(batch, position + 16, body_size)
        position = _copy(batch, position + 20, self._bodies, body_start, body_end)
        batch[position] = properties_size >> 8 & 0xFF
        batch[position + 1] = properties_size & 0xFF
        return _copy(batch, position + 2, self._properties, properties_start, properties_end)


def _copy(batch: bytearray, position: int, data: memoryview, start: int, end: int) -> int:
    """Write data[start:end]; returns the position after it. Compiled, a loop is as fast as a slice."""
    if not _COMPILED:
        batch[position:position + end - start] = data[start:end]
        return position + end - start
    octets = batch
    for index in range(start, end):
        octets[position] = data[index]
        position += 1
    return position


def decode(body: bytes) -> list[BatchedMessage]:
    """Raises HeaderError when the body is not whole records."""
    messages: list[BatchedMessage] = []
    position = 0
    while position < len(body):
        position = _decode_one(body, position, messages)
    return messages


def _decode_one(data: bytes, start: int, messages: list[BatchedMessage]) -> int:
    """Append the message whose record begins at `start`; returns the start of the next one."""
    if len(data) - start < _SIZE_MIN:
        raise HeaderError(f"batch is cut short at {start}")
    octets = data
    size = big_endian.int4(octets, start)
    end = start + size
    if size < _SIZE_MIN or end > len(data):
        raise HeaderError(f"batch record of {size} bytes at {start} does not fit")
    body_size = big_endian.int4(octets, start + 16)
    body_start = start + 20
    properties_start = body_start + body_size + 2
    if body_size < 0 or properties_start > end:
        raise HeaderError(f"batch record's body of {body_size} bytes at {start} does not fit")
    properties_end = properties_start + big_endian.int2(octets, properties_start - 2)
    if not properties_start <= properties_end <= end:
        raise HeaderError(f"batch record's properties at {start} do not fit")
    try:
        properties_text = data[properties_start:properties_end]
        text = properties_text.decode()
    except UnicodeDecodeError as cause:
        raise HeaderError(f"batch record's properties at {start} are not UTF-8") from cause
    flag = big_endian.int4(octets, start + 12)
    body = data[body_start:properties_start - 2]
    messages.append(BatchedMessage(flag, body, parse_properties(text), properties_text))
    return end
