"""gRPC's messages in the bytes of a stream, its statuses and time-outs.

    offset  size  field
         0     1  is_compressed
         1     4  size
         5        message

Source: PROTOCOL-HTTP2 of gRPC.
"""

import zlib
from enum import IntEnum
from struct import Struct

from regulus.errors import GrpcRefused

PREFIX_SIZE = 5
_PREFIX = Struct(">BI")
_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT_DIGITS_MAX = 8
_PREFIX_SIZE = PREFIX_SIZE


class GrpcStatus(IntEnum):
    """How a call ended in gRPC's own sense."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class MessageReader:
    """The messages of one request. `encoding` is what its header grpc-encoding says."""

    def __init__(self, size_max: int, encoding: str = "identity") -> None:
        self._size_max = size_max
        self._encoding = encoding
        self._data: bytes | bytearray = b""     # the latter grows, however small what comes
        self._wanted = _PREFIX_SIZE

    @property
    def held(self) -> int:
        """Bytes that came and are not returned yet."""
        return len(self._data)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now. Raises GrpcRefused."""
        if self._data:
            self._data = bytearray(self._data) if isinstance(self._data, bytes) else self._data
            self._data += data
        else:
            self._data = data
        found: list[bytes] = []
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
            found.append(self._inflated(message) if flag else message)
            position = start + size
        self._data = whole[position:]
        return found

    def _inflated(self, message: bytes) -> bytes:
        if self._encoding not in ("gzip", "deflate"):
            raise GrpcRefused(GrpcStatus.UNIMPLEMENTED,
                              f"messages in the encoding {self._encoding[:32]} are not read: gzip and deflate are")
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)      # either, told apart by the first bytes
        try:
            whole = inflater.decompress(message, self._size_max + 1)
        except zlib.error as error:
            raise GrpcRefused(GrpcStatus.INTERNAL, f"a message cannot be inflated: {error}") from error
        if len(whole) > self._size_max:
            raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED, f"a message inflates to more than {self._size_max} bytes")
        if not inflater.eof:
            raise GrpcRefused(GrpcStatus.INTERNAL, "a compressed message is cut short")
        return whole


def framed(message: bytes) -> bytes:
    return _PREFIX.pack(0, len(message)) + message


def timeout_s(text: str) -> float | None:
    """Of the header grpc-timeout. None for what is none."""
    digits, unit = text[:-1], _UNITS_S.get(text[-1:])
    if unit is None or not 1 <= len(digits) <= _TIMEOUT_DIGITS_MAX or not (digits.isascii() and digits.isdecimal()):
        return None
    return int(digits) * unit
