"""HTTP/2 frames: bytes in, frames out.

    offset  size  field
         0     3  length         of the payload
         3     1  type
         4     1  flags
         5     4  stream_id      the highest bit is ignored
         9        payload

    reader.feed(data)
    for kind, flags, stream_id, payload in reader.frames():     # raises Http2Error

Source: RFC 9113, sections 3.4, 4 and 6.
"""

from struct import Struct

from regulus.errors import Http2Error

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = range(4)
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR = range(5, 10)
ENHANCE_YOUR_CALM = 11

ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(2, 7)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The bytes with which a client begins a connection."""
HEAD_SIZE = 9
FRAME_SIZE_DEFAULT = 16_384
"""The largest payload in bytes, until a peer allows more."""
WINDOW_DEFAULT = 65_535
WINDOW_MAX = (1 << 31) - 1

# Private names allow these to be typed constants in the compiled form.
_HEAD_SIZE = HEAD_SIZE
_PREFACE_SIZE = len(PREFACE)

_HEAD = Struct(">HBBBI")
_SETTING = Struct(">HI")
_NUMBER = Struct(">I")

Frame = tuple[int, int, int, bytes]
"""Type, flags, stream id, payload."""


class FrameReader:
    """Splits a stream of bytes into frames and keeps the bytes of an unfinished one. After an Http2Error nothing more
    can be read."""

    def __init__(self, frame_size_max: int) -> None:
        self._frame_size_max = frame_size_max
        self._data: bytes | bytearray = b""     # a bytearray while a frame arrives in many small portions
        self._wanted = _PREFACE_SIZE
        self._has_preface = False
        self._error: Http2Error | None = None

    @property
    def held(self) -> int:
        """Bytes that were fed and not yet returned in a frame."""
        return len(self._data)

    def feed(self, data: bytes) -> None:
        if self._data:
            self._data = bytearray(self._data) if isinstance(self._data, bytes) else self._data
            self._data += data
        else:
            self._data = data

    def frames(self) -> list[Frame]:
        """All whole frames so far. The good ones before a bad one are returned first, and the next call raises."""
        if self._error is not None:
            raise self._error
        found: list[Frame] = []
        position, end = 0, len(self._data)
        if not self._has_preface and not PREFACE.startswith(self._data[:_PREFACE_SIZE]):
            raise Http2Error(PROTOCOL_ERROR, "what came is not HTTP/2")
        if end < self._wanted:
            return found
        data = bytes(self._data)
        if not self._has_preface:
            self._has_preface = True
            position = _PREFACE_SIZE
        self._wanted = _HEAD_SIZE
        while end - position >= _HEAD_SIZE:
            size = data[position] << 16 | data[position + 1] << 8 | data[position + 2]
            if size > self._frame_size_max:
                self._error = Http2Error(FRAME_SIZE_ERROR,
                                         f"frame of {size} bytes; {self._frame_size_max} are the most")
                if not found:
                    raise self._error
                break
            if end - position < _HEAD_SIZE + size:
                self._wanted = _HEAD_SIZE + size
                break
            stream_id = ((data[position + 5] & 0x7F) << 24 | data[position + 6] << 16 | data[position + 7] << 8
                         | data[position + 8])
            start = position + _HEAD_SIZE
            found.append((data[position + 3], data[position + 4], stream_id, data[start:start + size]))
            position = start + size
        self._data = data[position:]
        return found


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    return head(kind, flags, stream_id, len(payload)) + payload


def head(kind: int, flags: int, stream_id: int, size: int) -> bytes:
    """The frame header of a payload of `size` bytes."""
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream_id)


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*each) for each in values.items()))


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """The settings of a peer, in its order, including unknown ones. Raises Http2Error."""
    if len(payload) % _SETTING.size:
        raise Http2Error(FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes; each takes {_SETTING.size}")
    values = list(_SETTING.iter_unpack(payload))
    for name, value in values:
        if name == INITIAL_WINDOW_SIZE and value > WINDOW_MAX:
            raise Http2Error(FLOW_CONTROL_ERROR, f"SETTINGS_INITIAL_WINDOW_SIZE is {value}; {WINDOW_MAX} is the most")
        if ((name == MAX_FRAME_SIZE and not FRAME_SIZE_DEFAULT <= value < 1 << 24)
                or (name == ENABLE_PUSH and value > 1)):
            raise Http2Error(PROTOCOL_ERROR, f"setting {name} is {value}")
    return values


def window_update(stream_id: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, _NUMBER.pack(size))


def rst_stream(stream_id: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream_id, _NUMBER.pack(code))


def goaway(last_stream_id: int, code: int, text: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, _NUMBER.pack(last_stream_id) + _NUMBER.pack(code) + text.encode()[:256])


def number(payload: bytes, kind: str) -> int:
    """The value of a frame that is a single 32-bit number. Raises Http2Error."""
    if len(payload) != 4:
        raise Http2Error(FRAME_SIZE_ERROR, f"{kind} of {len(payload)} bytes; it has 4")
    return int.from_bytes(payload, "big")


def unpadded(flags: int, payload: bytes) -> bytes:
    """The payload of HEADERS or DATA without its padding. Raises Http2Error."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(PROTOCOL_ERROR, "more padding than the frame has bytes")
    return payload[1:len(payload) - payload[0]]
