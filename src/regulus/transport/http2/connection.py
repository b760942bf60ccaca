"""One HTTP/2 connection, on the server side.

Frames in, streams out. Everything written in one turn of the loop leaves in one system call, and is bounded, as is the
input handled in one turn: other connections get their turns. If a peer does not read, it is not read either: the bytes
for it stay in our streams, one message each, and in its own socket; both are counted.

Frames that cost us more than the peer are counted between two calls of `look`: pings, settings, streams cancelled or
reset because of the peer, frames without content, oversized headers.

Source: RFC 9113; the floods are those of CVE-2019-9511 to 9518, 2023-44487, 2024-27316 and 2025-8671.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import cast

from regulus.errors import Http2Error
from regulus.model.peer import Origin
from regulus.transport.http2.stream import STREAM_WINDOW, Stream
from regulus.wire.http2 import frames
from regulus.wire.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_DEFAULT,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HAS_PRIORITY,
    HEADERS,
    NO_ERROR,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_MAX,
    WINDOW_UPDATE,
)
from regulus.wire.http2.header_block import LIST_SIZE_FACTOR, HeaderDecoder, RequestHeaders

_log = logging.getLogger(__name__)

CONNECTION_WINDOW = 4 << 20
"""The window of all streams of a connection together. Bytes read count as consumed at once; the owners of streams limit
what they keep."""
STREAMS_MAX = 2_048
"""Concurrent calls of one connection; a client delays further ones."""
PUMP_SIZE = 1 << 16
"""Bytes that one stream sends before other streams have their turn."""
TURN_SIZE = 256 << 10
"""Bytes of answers that leave in one turn of the loop; the next turn sends more when the socket has accepted them."""
BUFFER_HIGH, BUFFER_LOW = 128 << 10, 32 << 10
"""Bytes in the socket's buffer for a slow reader. Above the first value its input is not read, and the bytes count."""
FULL_READ = 64 << 10
"""Bytes of one read after which others are served."""
FRAMES_PER_TURN = 256
"""Frames handled in one turn of the loop: others are served in between."""
FLOOD_MAX = 2_000
"""The maximum number of flood points between two calls of `look`, about five seconds: frames that cause work without
content."""
TOO_LARGE_FLOODS = 100
"""Flood points charged for an oversized header list: it must be read, and no real client sends one."""
SETTINGS_MAX = 100
"""The maximum number of frames between two calls of `look` that affect all streams."""
FRAGMENTS_MAX = 64
"""The maximum number of frames in one header list."""
ENDED_EARLY_MAX = 256
"""Streams that we ended and about which the peer may not know yet."""
PING_AFTER_S, PONG_S_MAX = 60.0, 20.0
"""How long a peer may be silent before it is pinged, and how long it may take to answer."""
IDLE_S_MAX = 120.0
"""How long a connection without calls is kept."""
CLOSE_S_MAX = 10.0
"""How long the peer has to read the last frames of a connection that we closed."""
_GOODBYE = b"leaving."
"""A ping after our GOAWAY: a peer that answers it knows that no more calls are accepted."""


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """Limits of a connection. `metadata_size_max`: bytes of one request's headers."""

    metadata_size_max: int = 16 << 10


OpenStream = Callable[["Http2Connection", int, RequestHeaders], Stream]


class Http2Connection(asyncio.Protocol):
    """A connection. `open_stream` makes the owner of a request that begins; `on_closed` is called when the socket is
    closed.

    `peer` is `host:port`, and `origin` both ends in stored form. `account` is shared by all connections.
    """

    def __init__(self, open_stream: OpenStream, on_closed: Callable[["Http2Connection"], None], account: "Account",
                 limits: Http2Limits, peer: str, loop: asyncio.AbstractEventLoop, origin: Origin) -> None:
        self.peer = peer
        self.origin = origin
        self.initial_window = frames.WINDOW_DEFAULT     # of the streams that it opens, for our data
        self.streams: dict[int, Stream] = {}
        self.held = 0               # bytes that wait for the peer to read, or to finish a frame
        self.requests_size = 0      # bytes of requests in progress, as their owners count them
        self._open_stream = open_stream
        self._on_closed = on_closed
        self._account = account
        self._loop = loop
        self._reader = frames.FrameReader(FRAME_SIZE_DEFAULT)
        self._decoder = HeaderDecoder(limits.metadata_size_max)
        self._block_size_max = limits.metadata_size_max * LIST_SIZE_FACTOR
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._outbox: list[bytes] = []
        self._outbox_size = 0       # of it, bytes of data
        self._is_open = False
        self._is_paused = False     # the socket accepts no more
        self._is_reading = True
        self._is_leaving = False
        self._is_left = False       # the peer knows that we leave
        self._left_at = 0.0
        self._ended_at = 0.0
        self._has_settings = False
        self._send_window = frames.WINDOW_DEFAULT
        self._frame_size_max = FRAME_SIZE_DEFAULT
        self._received = 0          # bytes for which the peer has no new window yet
        self._last_id = 0
        self._ready: dict[Stream, None] = {}            # streams with waiting bytes and an open window
        self._promised: dict[int, int] = {}             # bytes still to arrive by the content-length, by stream
        self._ended_early: deque[int] = deque(maxlen=ENDED_EARLY_MAX)
        self._came: list[frames.Frame] = []             # frames that wait for the next turn of the loop
        self._rests = False                             # nothing is read until the next turn of the loop
        self._has_answered = False                      # since we last pinged the peer
        self._fragments: list[bytes] = []               # of an unfinished header list
        self._fragments_size = 0
        self._unread = 0            # the part of `held` in unfinished frames of the peer
        self._unsent = 0            # and the part that the socket does not accept
        self._block_stream = 0
        self._block_ends_stream = False
        self._floods = self._settings_came = 0
        self._read_at = self._busy_at = loop.time()
        self._asked_at: float | None = None

    # --- called by the event loop ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(BUFFER_HIGH, BUFFER_LOW)
        self._is_open = True
        self.put(frames.settings({frames.MAX_CONCURRENT_STREAMS: STREAMS_MAX, frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                                  frames.MAX_HEADER_LIST_SIZE: self._block_size_max // LIST_SIZE_FACTOR})
                 + frames.window_update(0, CONNECTION_WINDOW - frames.WINDOW_DEFAULT))

    def data_received(self, data: bytes) -> None:
        if not self._is_open:
            return
        self._read_at = self._loop.time()
        self._asked_at = None
        self._reader.feed(data)
        if self._came:          # its turn comes
            return
        if len(data) >= FULL_READ and not self._rests:      # uvloop keeps reading, up to 32 times, while reads are full
            self._rests = True
            self._loop.call_soon(self._end_rest)
        self._take_some()

    def pause_writing(self) -> None:
        self._is_paused = True
        self._read_or_not()
        self._count_unsent(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._is_paused = False
        self._count_unsent(0)
        self._read_or_not()
        self._pump()

    def eof_received(self) -> None:
        """A client that has ended its side waits for nothing."""
        self._flush()
        self._end()

    def connection_lost(self, error: Exception | None) -> None:
        self._end()
        self._count_unsent(0)
        self._on_closed(self)

    # --- called by the owner -----------------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Called every few seconds: ping a silent peer, close a connection without calls."""
        self._floods = self._settings_came = 0
        if not self._is_open:
            if now - self._ended_at > CLOSE_S_MAX:
                self.abort()
            return
        if self.streams:
            self._busy_at = now
        if self._asked_at is not None and now - self._asked_at > PONG_S_MAX:
            self.abort()
        elif self._is_leaving:
            if not self.streams and now - self._left_at > CLOSE_S_MAX:
                self.abort()
        elif not self.streams and now - self._busy_at > IDLE_S_MAX:
            self.leave()
        elif self._asked_at is None and now - self._read_at > PING_AFTER_S:
            self._asked_at = now
            self.put(frames.frame(PING, 0, 0, bytes(8)))

    def leave(self) -> None:
        """Accept no new calls; close when current calls are done and the peer knows. If the socket were closed while
        calls arrive, our last frames would be lost, and the client could not tell whether the calls were begun."""
        if self._is_open and not self._is_leaving:
            self._is_leaving = True
            self._left_at = self._loop.time()
            self.put(frames.goaway(self._last_id, NO_ERROR) + frames.frame(PING, 0, 0, _GOODBYE))

    def abort(self) -> None:
        self._transport.abort()
        self._end()

    # --- called by streams -------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Bytes that the next frame of data may have."""
        if self._is_paused or self._outbox_size >= TURN_SIZE:
            return 0
        return min(self._send_window, self._frame_size_max)

    def put(self, frame: bytes) -> None:
        """Send a frame at the end of this turn of the loop, together with all others."""
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(frame)

    def put_data(self, frame: bytes, size: int) -> None:
        self._send_window -= size
        self._outbox_size += size
        self._has_answered = True
        self.put(frame)

    def wait(self, stream: Stream, size: int) -> None:
        """Note that `size` more bytes of the stream wait."""
        self.hold(size)
        if self._is_open and stream.send_window > 0:
            self._ready[stream] = None
            self._pump()

    def sent(self, size: int) -> None:
        """Note that `size` bytes of a stream left."""
        self.hold(-size)

    def hold(self, size: int) -> None:
        """Change the number of bytes that wait for the peer. This may close the connection, so the caller updates its
        counts before."""
        self.held += size
        self._account.add(self, size)

    def _count_unread(self, size: int) -> None:
        if size != self._unread:
            more, self._unread = size - self._unread, size
            self.hold(more)

    def _count_unsent(self, size: int) -> None:
        if size != self._unsent:
            more, self._unsent = size - self._unsent, size
            self.hold(more)

    def closed(self, stream: Stream) -> None:
        self.streams.pop(stream.id, None)
        self._ready.pop(stream, None)
        self._promised.pop(stream.id, None)
        if not stream.has_peer_ended:
            self._ended_early.append(stream.id)
        if not self.streams:
            self._busy_at = self._loop.time()
            self._close_if_done()

    # --- frames ------------------------------------------------------------------------------------------------------

    def _take_some(self) -> None:
        """Handle as many frames as one turn of the loop may; the next turn continues, and nothing is read until
        then."""
        try:
            found = self._came or self._reader.frames()
            while found:
                self._came = found[FRAMES_PER_TURN:]
                for kind, flags, stream_id, payload in found[:FRAMES_PER_TURN]:
                    if not self._is_open:
                        return
                    try:
                        self._take(kind, flags, stream_id, payload)
                    except Http2Error as error:
                        if not error.stream_id:
                            raise
                        self._count_flood()     # CVE-2025-8671: causing us to reset costs as much as a reset
                        self._reset(error.stream_id, error.code)
                if self._came:
                    self._loop.call_soon(self._take_some)
                    break
                found = self._reader.frames()
        except Http2Error as error:
            self._refuse(error.code, str(error))
            return
        self._read_or_not()
        self._count_unread(self._reader.held + self._fragments_size)
        self._pump()

    def _end_rest(self) -> None:
        self._rests = False
        self._read_or_not()

    def _read_or_not(self) -> None:
        wants = not self._is_paused and not self._came and not self._rests
        if wants != self._is_reading and not self._transport.is_closing():
            self._is_reading = wants
            if wants:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _take(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """Raises Http2Error."""
        if self._block_stream and (kind != CONTINUATION or stream_id != self._block_stream):
            raise Http2Error(PROTOCOL_ERROR, "another frame between those of one list of headers")
        if not self._has_settings:
            if kind != SETTINGS or flags & ACK:
                raise Http2Error(PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self._has_settings = True
        if kind == DATA:
            self._take_data(flags, stream_id, payload)
        elif kind == HEADERS:
            self._take_headers(flags, stream_id, payload)
        elif kind == CONTINUATION:
            if not self._block_stream:
                raise Http2Error(PROTOCOL_ERROR, "CONTINUATION of nothing")
            self._take_fragment(flags, payload)
        elif kind == WINDOW_UPDATE:
            self._take_window(stream_id, payload)
        elif kind == RST_STREAM:
            self._take_reset(stream_id, payload)
        elif kind == SETTINGS:
            self._take_settings(flags, stream_id, payload)
        elif kind == PING:
            self._take_ping(flags, stream_id, payload)
        elif kind == PRIORITY:
            self._take_priority(stream_id, payload)
        elif kind == GOAWAY:
            if stream_id:
                raise Http2Error(PROTOCOL_ERROR, "GOAWAY on a stream")
            if len(payload) < 8:
                raise Http2Error(FRAME_SIZE_ERROR, f"GOAWAY of {len(payload)} bytes; it has 8 or more")
        elif kind == frames.PUSH_PROMISE:
            raise Http2Error(PROTOCOL_ERROR, "PUSH_PROMISE of a client")
        else:
            self._count_flood()     # unknown kinds of frames are ignored

    def _take_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._received += size
        if self._received >= CONNECTION_WINDOW // 2:
            self.put(frames.window_update(0, self._received))
            self._received = 0
        stream = self.streams.get(stream_id)
        if stream is None or stream.has_peer_ended:
            self._check_begun(stream_id, "DATA")
            if not payload:
                self._count_flood()
            if stream is not None or stream_id not in self._ended_early:
                raise Http2Error(STREAM_CLOSED, "DATA on a stream that has ended", stream_id)
            return
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise Http2Error(FLOW_CONTROL_ERROR, "more than the window of the stream", stream_id)
        data = frames.unpadded(flags, payload)
        if len(data) < size:
            stream.took(size - len(data))
        if not data and not flags & END_STREAM:
            self._count_flood()
        if self._promised:
            self._check_promise(stream_id, len(data), flags & END_STREAM)
        if flags & END_STREAM:
            stream.has_peer_ended = True
        if data:
            stream.data_came(data)
        if flags & END_STREAM and not stream.is_closed:
            stream.peer_ended()

    def _take_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise Http2Error(PROTOCOL_ERROR, f"HEADERS on stream {stream_id}")
        block = frames.unpadded(flags, payload)
        if flags & HAS_PRIORITY:
            if len(block) < 5:
                raise Http2Error(FRAME_SIZE_ERROR, "HEADERS without room for their priority")
            if int.from_bytes(block[:4], "big") & WINDOW_MAX == stream_id:
                raise Http2Error(PROTOCOL_ERROR, "a stream that depends on itself")
            block = block[5:]
        self._block_stream = stream_id
        self._block_ends_stream = bool(flags & END_STREAM)
        self._take_fragment(flags, block)

    def _take_fragment(self, flags: int, fragment: bytes) -> None:
        self._fragments.append(fragment)
        self._fragments_size += len(fragment)
        if self._fragments_size > self._block_size_max or len(self._fragments) > FRAGMENTS_MAX:
            raise Http2Error(ENHANCE_YOUR_CALM, f"headers of more than {self._block_size_max} bytes, or "
                                                f"{FRAGMENTS_MAX} frames")
        if flags & END_HEADERS:
            block = fragment if len(self._fragments) == 1 else b"".join(self._fragments)
            stream_id, self._block_stream = self._block_stream, 0
            self._fragments, self._fragments_size = [], 0
            self._take_block(stream_id, block)

    def _take_block(self, stream_id: int, block: bytes) -> None:
        """Decode a header block. This is done even for refused streams, because later blocks depend on it."""
        if stream_id <= self._last_id:
            self._take_trailers(stream_id, block)
            return
        self._last_id = stream_id
        request = self._decoder.request(block, stream_id)
        if request.is_too_large:
            self._count_flood(TOO_LARGE_FLOODS)
        if self._is_leaving or len(self.streams) >= STREAMS_MAX:
            raise Http2Error(REFUSED_STREAM, f"{STREAMS_MAX} streams are open, or we leave", stream_id)
        stream = self._open_stream(self, stream_id, request)
        if not stream.is_closed:
            self.streams[stream_id] = stream
            if request.content_length is not None:
                self._promised[stream_id] = request.content_length
                self._check_promise(stream_id, 0, self._block_ends_stream)
        if self._block_ends_stream:
            stream.has_peer_ended = True
            if not stream.is_closed:
                stream.peer_ended()

    def _take_trailers(self, stream_id: int, block: bytes) -> None:
        stream = self.streams.get(stream_id)
        if stream is None and stream_id in self._ended_early:
            self._count_flood()
            self._decoder.trailers(block, stream_id)
            return
        if stream is None or stream.has_peer_ended:
            raise Http2Error(STREAM_CLOSED, "HEADERS on a stream that has ended")
        self._decoder.trailers(block, stream_id)
        if not self._block_ends_stream:
            raise Http2Error(PROTOCOL_ERROR, "headers between the messages", stream_id)
        self._check_promise(stream_id, 0, True)
        stream.has_peer_ended = True
        stream.peer_ended()

    def _check_promise(self, stream_id: int, size: int, is_end: int) -> None:
        """Raises Http2Error when more or fewer bytes arrive than the content-length says."""
        left = self._promised.get(stream_id)
        if left is not None:
            self._promised[stream_id] = left - size
            if left < size or (is_end and left > size):
                raise Http2Error(PROTOCOL_ERROR, "more or less data than the content-length says", stream_id)

    def _take_window(self, stream_id: int, payload: bytes) -> None:
        size = frames.number(payload, "WINDOW_UPDATE") & WINDOW_MAX
        if not stream_id:
            if not size or self._send_window + size > WINDOW_MAX:
                raise Http2Error(FLOW_CONTROL_ERROR if size else PROTOCOL_ERROR, f"window of {size} bytes more")
            self._send_window += size
            return
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_begun(stream_id, "WINDOW_UPDATE")
            return
        if not size or stream.send_window + size > WINDOW_MAX:
            raise Http2Error(FLOW_CONTROL_ERROR if size else PROTOCOL_ERROR, f"window of {size} bytes more", stream_id)
        stream.send_window += size
        if stream.waiting_size:
            self._ready[stream] = None

    def _take_reset(self, stream_id: int, payload: bytes) -> None:
        frames.number(payload, "RST_STREAM")
        self._check_begun(stream_id, "RST_STREAM")
        self._count_flood()
        stream = self.streams.get(stream_id)
        if stream is not None:
            stream.has_peer_ended = True
            stream.drop()
            stream.lost()

    def _take_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & ACK:
            if payload:
                raise Http2Error(FRAME_SIZE_ERROR, "SETTINGS that acknowledge and set")
            return
        self._settings_came += 1
        if self._settings_came > SETTINGS_MAX:
            raise Http2Error(ENHANCE_YOUR_CALM, f"more than {SETTINGS_MAX} SETTINGS within seconds")
        window = self.initial_window
        for name, value in frames.read_settings(payload):
            if name == frames.INITIAL_WINDOW_SIZE:
                window = value
            elif name == frames.MAX_FRAME_SIZE:
                self._frame_size_max = min(value, PUMP_SIZE)
        self._move_windows(window - self.initial_window)
        self.initial_window = window
        self.put(frames.frame(SETTINGS, ACK, 0, b""))

    def _move_windows(self, change: int) -> None:
        if not change:
            return
        for stream in self.streams.values():
            stream.send_window += change
            if stream.send_window > WINDOW_MAX:
                raise Http2Error(FLOW_CONTROL_ERROR, "the settings make a window too large")
            if stream.waiting_size and stream.send_window > 0:
                self._ready[stream] = None

    def _take_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Error(PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise Http2Error(FRAME_SIZE_ERROR, f"PING of {len(payload)} bytes; it has 8")
        if not flags & ACK:
            if not self._has_answered:      # clients measure the latency by pings
                self._count_flood()
            self._has_answered = False
            self.put(frames.frame(PING, ACK, 0, payload))
        elif payload == _GOODBYE and self._is_leaving:
            self._is_left = True
            self._close_if_done()

    def _take_priority(self, stream_id: int, payload: bytes) -> None:
        if not stream_id:
            raise Http2Error(PROTOCOL_ERROR, "PRIORITY on no stream")
        if len(payload) != 5:
            raise Http2Error(FRAME_SIZE_ERROR, f"PRIORITY of {len(payload)} bytes; it has 5", stream_id)
        if int.from_bytes(payload[:4], "big") & WINDOW_MAX == stream_id:
            raise Http2Error(PROTOCOL_ERROR, "a stream that depends on itself", stream_id)
        self._count_flood()

    def _check_begun(self, stream_id: int, kind: str) -> None:
        """Raises Http2Error for a stream that was never opened."""
        if not stream_id & 1 or stream_id > self._last_id:
            raise Http2Error(PROTOCOL_ERROR, f"{kind} on stream {stream_id}, which has not begun")

    def _count_flood(self, count: int = 1) -> None:
        self._floods += count
        if self._floods > FLOOD_MAX:
            raise Http2Error(ENHANCE_YOUR_CALM, f"more than {FLOOD_MAX} frames within seconds that bring nothing")

    # --- what leaves -------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Let waiting streams send in turn, until the connection accepts no more."""
        while self._ready and self.room > 0:
            stream = next(iter(self._ready))
            del self._ready[stream]
            stream.pump(PUMP_SIZE)
            if stream.waiting_size and stream.send_window > 0:
                self._ready[stream] = None

    def _flush(self) -> None:
        outbox, self._outbox, self._outbox_size = self._outbox, [], 0
        if self._is_open and outbox:
            self._transport.write(outbox[0] if len(outbox) == 1 else b"".join(outbox))
            self._pump()

    def _reset(self, stream_id: int, code: int) -> None:
        """Reset one stream because of what the peer did on it."""
        stream = self.streams.get(stream_id)
        if stream is None:
            self._ended_early.append(stream_id)
            self.put(frames.rst_stream(stream_id, code))
            return
        stream.reset(code)
        stream.lost()

    def _refuse(self, code: int, text: str) -> None:
        """Close the connection because of what the peer did on it."""
        _log.info("connection of %s closed: %s", self.peer, text)
        self.put(frames.goaway(self._last_id, code, text))
        self._flush()
        self._transport.close()
        self._end()

    def _close_if_done(self) -> None:
        if self._is_left and self._is_open and not self.streams:
            self._flush()
            self._transport.close()
            self._end()

    def _end(self) -> None:
        """End all calls, once."""
        if not self._is_open:
            return
        self._is_open = False
        self._ended_at = self._loop.time()
        self._outbox.clear()
        self._count_unread(0)
        for stream in list(self.streams.values()):
            stream.drop()
            stream.lost()


class Account:
    """Bytes in memory for slow peers, over all connections."""

    def __init__(self, size_max: int, connections: "dict[Http2Connection, None]") -> None:
        self.size = 0
        self._size_max = size_max
        self._connections = connections
        self._largest: Http2Connection | None = None    # the connection with the most waiting bytes, and their number
        self._largest_size = 0

    def add(self, connection: Http2Connection, size: int) -> None:
        """Change the number of bytes that wait for a connection. Above the limit the connection with the most is
        closed."""
        self.size += size
        if connection.held > self._largest_size:
            self._largest, self._largest_size = connection, connection.held
        if self.size > self._size_max and size > 0:
            largest = self._holds_most(connection)
            _log.warning("connection of %s closed: %d bytes wait for it to read, or to end what it says", largest.peer,
                         largest.held)
            largest.abort()

    def _holds_most(self, asking: Http2Connection) -> Http2Connection:
        """The connection with the most waiting bytes, or one with at least half as many: all are compared only when
        that much was freed since the last time."""
        if self._largest is None or self._largest.held < self._largest_size // 2:
            self._largest = max(self._connections, key=attrgetter("held"), default=asking)
            self._largest_size = self._largest.held
        return self._largest
