"""One request and its answer on a connection that carries many.

Written bytes leave as far as the peer and the connection allow; the rest waits here. A writer waits for `sent` between
two writes, so that a stream holds one message for a peer that does not read.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Protocol

from regulus.wire.http2 import frames
from regulus.wire.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS

STREAM_WINDOW = 1 << 20
"""Bytes that a peer may send on a stream before its owner has consumed them."""


class Carrier(Protocol):
    """What a stream needs from its connection."""

    initial_window: int
    requests_size: int
    streams: "dict[int, Stream]"

    @property
    def room(self) -> int: ...
    def put(self, frame: bytes) -> None: ...
    def put_data(self, frame: bytes, size: int) -> None: ...
    def wait(self, stream: "Stream", size: int) -> None: ...
    def sent(self, size: int) -> None: ...
    def hold(self, size: int) -> None: ...
    def closed(self, stream: "Stream") -> None: ...


class Stream(ABC):
    """A stream; its owner is a subclass, whose methods are called for what the peer does. `send_window` is the number
    of bytes that the peer still accepts."""

    __slots__ = ("_drained", "_last_block", "_pending", "connection", "has_peer_ended", "id", "is_closed",
                 "receive_window", "send_window", "taken", "waiting_size")

    def __init__(self, connection: Carrier, stream_id: int) -> None:
        self.connection = connection
        self.id = stream_id
        self.send_window = connection.initial_window
        self.receive_window = STREAM_WINDOW     # bytes that the peer may still send
        self.taken = 0              # consumed bytes for which the peer has no new window yet
        self.has_peer_ended = False
        self.is_closed = False
        self.waiting_size = 0       # bytes that wait for the peer
        self._pending: deque[memoryview] = deque()
        self._last_block: bytes | None = None
        self._drained: asyncio.Future[None] | None = None

    # --- what the peer does ------------------------------------------------------------------------------------------

    @abstractmethod
    def data_came(self, data: bytes) -> None:
        """More bytes of the request arrived; the owner calls `took` when it has consumed them."""

    @abstractmethod
    def peer_ended(self) -> None:
        """The request is complete."""

    @abstractmethod
    def lost(self) -> None:
        """The peer cancelled the request or disconnected: nothing written now can reach it."""

    # --- called by the owner -----------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether the answer has ended: it has its trailers, though they may still wait, or the stream is closed."""
        return self.is_closed or self._last_block is not None

    def begin(self, block: bytes) -> None:
        """Send the headers of the answer."""
        if not self.has_ended:
            self.connection.put(frames.head(HEADERS, END_HEADERS, self.id, len(block)) + block)

    def write(self, data: bytes) -> None:
        """Send more of the answer."""
        if self.has_ended:
            return
        connection, size = self.connection, len(data)
        if not self._pending and size <= connection.room and size <= self.send_window:
            self.send_window -= size
            connection.put_data(frames.head(DATA, 0, self.id, size) + data, size)
            return
        self._pending.append(memoryview(data))      # parts of it leave without a copy of the rest
        self.waiting_size += size
        connection.wait(self, size)

    def end(self, block: bytes) -> None:
        """Send the trailers of the answer, after all waiting bytes. Only the first call counts."""
        if self.has_ended:
            return
        if self._pending:
            self._last_block = block
        else:
            self._close(block)

    def reset(self, code: int) -> None:
        """End both directions; waiting bytes are dropped."""
        if not self.is_closed:
            self.connection.put(frames.rst_stream(self.id, code))
            self.drop()

    def took(self, size: int) -> None:
        """Note that `size` bytes of the request were consumed: the peer may send as many again."""
        self.taken += size
        if self.taken >= STREAM_WINDOW // 2 and not self.has_peer_ended and not self.is_closed:
            self.connection.put(frames.window_update(self.id, self.taken))
            self.receive_window += self.taken
            self.taken = 0

    async def sent(self) -> None:
        """Wait until all written bytes have left for the socket, or never can."""
        if self.is_closed:
            await asyncio.sleep(0)      # lets a writer that never waits be cancelled
        elif self._pending:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)     # others may wait for it, too

    # --- called by the connection ------------------------------------------------------------------------------------

    def pump(self, size_max: int) -> None:
        """Send at most `size_max` waiting bytes, as far as the windows allow."""
        connection = self.connection
        while self._pending:
            data = self._pending[0]
            size = min(len(data), connection.room, self.send_window, size_max)
            if size <= 0:
                return
            if size == len(data):
                self._pending.popleft()
            else:
                self._pending[0] = data[size:]
                data = data[:size]
            size_max -= size
            self.send_window -= size
            self.waiting_size -= size
            connection.sent(size)
            connection.put_data(frames.head(DATA, 0, self.id, size) + data, size)
        self._wake()
        if self._last_block is not None:
            self._close(self._last_block)

    def drop(self) -> None:
        """Drop the stream: nothing is sent or received any more."""
        self.is_closed = True
        self.connection.sent(self.waiting_size)
        self.waiting_size = 0
        self._pending.clear()
        self.connection.closed(self)
        self._wake()

    def _close(self, block: bytes) -> None:
        self.connection.put(frames.head(HEADERS, END_HEADERS | END_STREAM, self.id, len(block)) + block)
        if not self.has_peer_ended:     # it need not continue
            self.connection.put(frames.rst_stream(self.id, frames.NO_ERROR))
        self.drop()

    def _wake(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
