"""gRPC messages in the bytes of a stream, statuses and timeouts.

    offset  size  field
         0     1  is_compressed
         1     4  size
         5        message

A compressed message is returned unchanged: the caller limits its size and inflates it in steps.

Source: PROTOCOL-HTTP2 of gRPC.
"""

import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct

from regulus.errors import GrpcRefused

PREFIX_SIZE = 5
_PREFIX = Struct(">BI")
_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT_DIGITS_MAX = 8
_PREFIX_SIZE = PREFIX_SIZE
STEP_SIZE = 64 << 10
"""The maximum number of bytes made by one step of inflating: it takes a tenth of a millisecond."""
_PIECE_SIZE = 16 << 10
"""The maximum number of bytes that it reads."""


class GrpcStatus(IntEnum):
    """The result of a call, by gRPC's own codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class Packed:
    """A message as its sender compressed it."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def inflated(self, size_max: int) -> Iterator[bytes]:
        """The inflated message, in parts of at most STEP_SIZE; one may be empty. Raises GrpcRefused."""
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)      # zlib or gzip, detected by the first bytes
        size = position = 0
        piece = b""
        while not inflater.eof:
            if not piece:
                piece = self._data[position:position + _PIECE_SIZE]
                position += len(piece)
            try:
                part = inflater.decompress(piece, min(STEP_SIZE, size_max + 1 - size))
            except zlib.error as error:
                raise GrpcRefused(GrpcStatus.INTERNAL, f"a message cannot be inflated: {error}") from error
            if not piece and not part:
                raise GrpcRefused(GrpcStatus.INTERNAL, "a compressed message is cut short")
            piece = inflater.unconsumed_tail
            size += len(part)
            if size > size_max:
                raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED, f"a message inflates to more than {size_max} bytes")
            yield part


Message = bytes | Packed


class MessageReader:
    """Splits the data of one request into messages. `encoding` is the value of its header grpc-encoding."""

    def __init__(self, size_max: int, encoding: str = "identity") -> None:
        self._size_max = size_max
        self._encoding = encoding
        self._data: bytes | bytearray = b""     # a bytearray while a message arrives in many small portions
        self._wanted = _PREFIX_SIZE

    @property
    def held(self) -> int:
        """Bytes that were received and not yet returned in a message."""
        return len(self._data)

    def feed(self, data: bytes) -> list[Message]:
        """The messages completed by `data`. Raises GrpcRefused."""
        if self._data:
            self._data = bytearray(self._data) if isinstance(self._data, bytes) else self._data
            self._data += data
        else:
            self._data = data
        found: list[Message] = []
        if len(self._data) < self._wanted:
            return found
        whole = bytes(self._data)
        position, end = 0, len(whole)
        self._wanted = _PREFIX_SIZE
        while end - position >= _PREFIX_SIZE:
            flag, size = _PREFIX.unpack_from(whole, position)
            if size > self._size_max:
                raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED,
                                  f"message of {size} bytes; {self._size_max} are the most (grpcMaxInboundMessageSize)")
            if end - position < _PREFIX_SIZE + size:
                self._wanted = _PREFIX_SIZE + size
                break
            start = position + _PREFIX_SIZE
            message = whole[start:start + size]
            found.append(self._packed(message) if flag else message)
            position = start + size
        self._data = whole[position:]
        return found

    def _packed(self, message: bytes) -> Packed:
        if self._encoding not in ("gzip", "deflate"):
            raise GrpcRefused(GrpcStatus.UNIMPLEMENTED,
                              f"messages in the encoding {self._encoding[:32]} are not read: gzip and deflate are")
        return Packed(message)


def framed(message: bytes) -> bytes:
    return _PREFIX.pack(0, len(message)) + message


def timeout_s(text: str) -> float | None:
    """The seconds in a header grpc-timeout; None if it is malformed."""
    digits, unit = text[:-1], _UNITS_S.get(text[-1:])
    if unit is None or not 1 <= len(digits) <= _TIMEOUT_DIGITS_MAX or not (digits.isascii() and digits.isdecimal()):
        return None
    return int(digits) * unit
