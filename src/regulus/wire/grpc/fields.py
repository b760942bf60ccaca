"""Walks over the fields of a serialized message, to check it before it is parsed and takes forty times its size.

    tag     varint: the field's number << 3 | the wire type of its value
    value   0 varint, 1 eight bytes, 2 a size as varint and that number of bytes, 5 four bytes

Source: Protocol Buffers, Encoding.
"""

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.message import DecodeError

_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5
_VARINT_SIZE_MAX = 10
"""Bytes of the longest varint, which has 64 bits."""


class Field(NamedTuple):
    """The number of a field, and where its value is: `data[start:end]`."""

    number: int
    start: int
    end: int


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """The fields of the message `data[start:end]`, without those of messages inside it. Raises DecodeError."""
    position, end = start, len(data) if end is None else end
    while position < end:
        tag, position = _varint(data, position, end)
        kind = tag & 7
        if kind == _VARINT:
            size = _varint(data, position, end)[1] - position
        elif kind == _SIZED:
            size, position = _varint(data, position, end)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise DecodeError(f"a field has the unknown wire type {kind}")
        if position + size > end:
            raise DecodeError("a field is cut short")
        yield Field(tag >> 3, position, position + size)
        position += size


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A varint at a position, and the position after it. Raises DecodeError."""
    number = 0
    for place in range(position, min(end, position + _VARINT_SIZE_MAX)):
        byte = data[place]
        number |= (byte & 0x7F) << 7 * (place - position)
        if byte < 0x80:
            return number, place + 1
    raise DecodeError("a number is cut short or has no end")
