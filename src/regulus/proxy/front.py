"""The port of the front: TLS and plain text by a connection's first byte, and all bytes on to gRPC's own port.

gRPC takes either TLS or plain text on a port, and only from a certificate that does not change. So it listens in plain
text at a port of this machine that takes nothing but what comes from here, and here TLS begins and ends. One thing is
left behind on the way: who the peer is; it is found again by the port from which we connect.
"""

import asyncio
import logging
import socket
import ssl
from typing import cast

from regulus.transport.config import TransportConfig
from regulus.transport.listener import bind
from regulus.transport.tls import ServerTls, take_over

_log = logging.getLogger(__name__)

_TLS_HANDSHAKE = 0x16
FIRST_BYTES_S_MAX = 10.0
"""Until a peer has said something."""
BUFFER_HIGH, BUFFER_LOW = 1 << 20, 256 << 10
"""Bytes that wait for a slow reader, on each side; above the first no more is read from the other side."""


class Front:
    """`tls` has how TLS is done; `connections_max` how many may be open. `target_port` is gRPC's own."""

    def __init__(self, tls: TransportConfig, connections_max: int) -> None:
        self._tls = ServerTls(tls)
        self._config = tls
        self._connections_max = connections_max
        self._peers: dict[int, str] = {}
        self._open: dict[_Outside, None] = {}
        self._server: asyncio.Server | None = None
        self._is_full = False
        self.target_port = 0
        self.port = 0

    def bind(self, host: str, port: int) -> socket.socket:
        """Raises OSError."""
        bound = bind(host, port)
        self.port = bound.getsockname()[1]
        return bound

    async def accept(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Outside(self), sock=bound, backlog=self._config.accept_backlog)
        self._tls.start()

    async def stop(self) -> None:
        self._tls.stop()
        if self._server is not None:
            self._server.close()
        for outside in list(self._open):
            outside.abort()

    def peer(self, own_port: int) -> str | None:
        """Who is behind a connection that we made from this port; None for one that is not ours."""
        return self._peers.get(own_port)

    # --- called by connections ---------------------------------------------------------------------------------------

    def opened(self, outside: "_Outside") -> bool:
        if len(self._open) < self._connections_max:
            self._is_full = False
            self._open[outside] = None
            return True
        if not self._is_full:
            self._is_full = True
            _log.warning("port %d has its %d connections; later ones are closed at once", self.port,
                         self._connections_max)
        return False

    def closed(self, outside: "_Outside", own_port: int) -> None:
        self._open.pop(outside, None)
        self._peers.pop(own_port, None)

    def joined(self, own_port: int, peer: str) -> None:
        self._peers[own_port] = peer

    def tls_context(self, is_tls: bool) -> ssl.SSLContext | None:
        """None for plain text. Raises ConnectionError for what is not served here."""
        if not is_tls:
            if self._tls.is_enforced:
                raise ConnectionError("plain text, and tls.server.mode is enforcing here")
            return None
        context = self._tls.context
        if context is None:
            raise ConnectionError(f"TLS, and {self._tls.missing}; or let the client speak plain text (Java: "
                                  "enableSsl(false), Go: EnableSsl = false)")
        context.set_alpn_protocols(["h2"])      # also of one that was read anew
        return context


class _Pipe(asyncio.Protocol):
    """One side. What is read goes to the other one, and reading rests while that one has not sent enough. When one
    side ends, the other one does too: HTTP/2 has no use for half a connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: asyncio.Transport | None = None

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.is_closing():
            self.other.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


class _Outside(_Pipe):
    """A client's connection."""

    def __init__(self, front: Front) -> None:
        super().__init__()
        self._front = front
        self._own_port = 0
        self._peer = ""
        self._raw: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._joining: asyncio.Task[None] | None = None
        self._early = bytearray()
        self._is_first = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = self._raw = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        if address is None or not self._front.opened(self):
            self.transport.abort()
            return
        host = str(address[0]).removeprefix("::ffff:")
        self._peer = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
        self._timer = asyncio.get_running_loop().call_later(FIRST_BYTES_S_MAX, self.abort)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)
        elif self._is_first and self.transport is not None:
            self._is_first = False
            self.transport.pause_reading()
            self._joining = asyncio.get_running_loop().create_task(self._join(data))
        else:
            self._early += data     # one read at most: it came with the end of the handshake

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._joining is not None:
            self._joining.cancel()
        self._front.closed(self, self._own_port)
        super().connection_lost(exc)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    async def _join(self, first: bytes) -> None:
        """TLS where it begins with that; then gRPC's port, and both are one."""
        try:
            context = self._front.tls_context(first[0] == _TLS_HANDSHAKE)
            if context is not None:
                await take_over(cast(asyncio.Transport, self.transport), self, context, first, self._be_encrypted)
                cast(asyncio.Transport, self.transport).pause_reading()
                first = b""
            inside = _Pipe()
            inside.other = self.transport       # gRPC speaks first, perhaps before we hear that we are connected
            other, _ = await asyncio.get_running_loop().create_connection(
                lambda: inside, "127.0.0.1", self._front.target_port)
        except OSError as error:
            _log.info("connection of %s closed: %s", self._peer, error or type(error).__name__)
            self.abort()
            self._front.closed(self, 0)
            return
        self._own_port = other.get_extra_info("sockname")[1]
        self._front.joined(self._own_port, self._peer)
        self._connect(other, inside, first)

    def _be_encrypted(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def _connect(self, other: asyncio.Transport, inside: _Pipe, first: bytes) -> None:
        mine = self.transport
        if mine is None or mine.is_closing():
            other.close()
            self._front.closed(self, self._own_port)
            return
        if self._timer is not None:
            self._timer.cancel()
        for transport in (mine, other):
            transport.set_write_buffer_limits(BUFFER_HIGH, BUFFER_LOW)
        inside.transport, self.other = other, other
        other.write(first + bytes(self._early))
        self._early.clear()
        mine.resume_reading()
