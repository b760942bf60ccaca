"""A gRPC port: it detects TLS or plain text by the first byte of a connection, and passes calls to their methods.

Everything here is bounded: connections, calls of a connection, bytes of unfinished requests, bytes that wait for
clients which do not read, and the duration of each step of a client.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

from regulus.errors import GrpcRefused
from regulus.model.peer import Origin
from regulus.transport.config import TransportConfig
from regulus.transport.connection import stored_host
from regulus.transport.http2.connection import Account, Http2Connection, Http2Limits
from regulus.transport.http2.grpc_call import GrpcCall, Method
from regulus.transport.http2.stream import Carrier
from regulus.transport.listener import bind
from regulus.transport.tls import ServerTls, handshake_failure, take_over
from regulus.wire.http2.grpc_messages import GrpcStatus
from regulus.wire.http2.header_block import RequestHeaders

_log = logging.getLogger(__name__)

_TLS_HANDSHAKE = 0x16
FIRST_BYTES_S_MAX = 10.0
"""The time until a peer must have sent its first bytes."""
REQUEST_S_MAX = 60.0
"""The time until a request must be complete."""
LOOK_S = 5.0
"""The time between two checks of all connections."""
_LOOKS_PER_TURN = 500


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """Limits of a server.

    `connections_max`: concurrent connections. `message_size_max`: bytes of a request's message. `held_max`: bytes of
    all requests in progress. `waiting_max`: bytes of answers that wait for clients, and of unfinished frames.
    `metadata_size_max`: bytes of a request's headers.
    """

    connections_max: int
    message_size_max: int
    held_max: int
    waiting_max: int
    metadata_size_max: int


class GrpcServer:
    """A gRPC server; `methods` are by path, `tls` configures TLS. Raises ConfigError when the certificate cannot be
    used."""

    def __init__(self, methods: Mapping[str, Method], tls: TransportConfig, limits: GrpcLimits) -> None:
        self.port = 0
        self.held = 0
        """the connection that gave way last, and its calls, the largest last,"""
        self.message_size_max = limits.message_size_max
        self._largest: Carrier | None = None    # the connection whose requests hold most, and their bytes
        self._largest_size = 0
        self._giving_of: Carrier | None = None  # the connection that gave way last, its calls, the largest last,
        self._giving: list[GrpcCall] = []       # as they were when they were sorted
        self._giving_size = 0                   # and the size of the largest
        self.unfinished: dict[GrpcCall, float] = {}
        """Calls with incomplete requests, the oldest first, and when they began."""
        self.connections: dict[Http2Connection, None] = {}
        self._methods = methods
        self.tls = ServerTls(tls)
        self._accept_backlog = tls.accept_backlog
        self._limits = limits
        self._http2_limits = Http2Limits(limits.metadata_size_max)
        self._account = Account(limits.waiting_max, self.connections)
        self._opening: dict[_Opening, None] = {}
        self._tasks: set[asyncio.Future[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_full = False
        self._left: asyncio.Event | None = None     # set when a stopping server has no more connections

    def bind(self, host: str, port: int) -> socket.socket:
        """Raises OSError."""
        bound = bind(host, port)
        self.port = bound.getsockname()[1]
        return bound

    async def accept(self, bound: socket.socket) -> None:
        self.loop = asyncio.get_running_loop()
        self._server = await self.loop.create_server(lambda: _Opening(self), sock=bound, backlog=self._accept_backlog)
        self.tls.start()

    async def watch(self) -> None:
        """Check connections and incomplete requests, forever."""
        while True:
            await asyncio.sleep(LOOK_S)
            now = self.loop.time()
            late = 0
            while self.unfinished:
                call, began = next(iter(self.unfinished.items()))
                if now - began <= REQUEST_S_MAX:
                    break
                call.expire(f"the request was not whole within {REQUEST_S_MAX:.0f} s")
                late += 1
                if not late % _LOOKS_PER_TURN:
                    await asyncio.sleep(0)
            for count, connection in enumerate(list(self.connections), 1):
                connection.look(now)
                if not count % _LOOKS_PER_TURN:
                    await asyncio.sleep(0)

    async def stop(self, within_s: float) -> None:
        """Accept nothing new; current calls have `within_s` seconds to end, and clients to read the last answers."""
        self.tls.stop()
        if self._server is not None:
            self._server.close()
        for opening in list(self._opening):
            opening.abort()
        self._left = asyncio.Event()
        for connection in list(self.connections):
            connection.leave()
        if self.connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), within_s)
        for connection in list(self.connections):
            connection.abort()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    # --- called by connections and calls -----------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def hold(self, call: GrpcCall, size: int) -> None:
        """Change the number of bytes held by a request. Raises GrpcRefused.

        Above the limit the connection that holds most must end its largest calls, so that no client blocks the others.
        The call is refused if it is this connection's turn, or if no call may be ended.
        """
        connection = call.connection
        self.held += size
        connection.requests_size += size
        if connection.requests_size > self._largest_size:
            self._largest, self._largest_size = connection, connection.requests_size
        while size > 0 and self.held > self._limits.held_max:
            refusal = GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED,
                                  f"requests of {self._limits.held_max} bytes are under way (callsSizeMax)")
            giving = self._next_to_give(self._holds_most(connection))
            if giving is None or giving is call:
                raise refusal
            giving.give_up(refusal)

    def _next_to_give(self, connection: Carrier) -> GrpcCall | None:
        """A call of the connection that may be ended: its largest, or one at least half as large.

        The calls are sorted again only after those that were largest last time were ended, because a client may begin
        thousands at once.
        """
        if connection is self._giving_of:
            while self._giving:
                giving = self._giving.pop()
                if giving.may_give_way and giving.held >= self._giving_size // 2:
                    return giving
        self._giving_of = connection
        self._giving = sorted((each for each in connection.streams.values()
                               if isinstance(each, GrpcCall) and each.may_give_way), key=attrgetter("held"))
        self._giving_size = self._giving[-1].held if self._giving else 0
        return self._giving.pop() if self._giving else None

    def _holds_most(self, asking: Carrier) -> Carrier:
        """The connection that holds most, or at least half as much: all are compared only when that much was freed
        since the last time."""
        if self._largest is None or self._largest.requests_size < self._largest_size // 2:
            self._largest = max(self.connections, key=attrgetter("requests_size"), default=asking)
            self._largest_size = self._largest.requests_size
        return self._largest

    def opened(self, opening: "_Opening") -> bool:
        if self._left is not None:
            return False
        if len(self._opening) + len(self.connections) < self._limits.connections_max:
            self._is_full = False
            self._opening[opening] = None
            return True
        if not self._is_full:
            self._is_full = True
            _log.warning("port %d has its %d connections; later ones are closed at once", self.port,
                         self._limits.connections_max)
        return False

    def ended(self, opening: "_Opening") -> None:
        self._opening.pop(opening, None)

    def connection(self, peer: str, origin: Origin) -> Http2Connection:
        return Http2Connection(self._open_stream, self._closed, self._account, self._http2_limits, peer, self.loop,
                               origin)

    def joined(self, connection: Http2Connection, transport: asyncio.Transport) -> None:
        """Add a connection whose protocol is known now."""
        self.connections[connection] = None
        connection.connection_made(transport)

    def _closed(self, connection: Http2Connection) -> None:
        self.connections.pop(connection, None)
        if self._left is not None and not self.connections:
            self._left.set()

    def _open_stream(self, connection: Http2Connection, stream_id: int, request: RequestHeaders) -> GrpcCall:
        call = GrpcCall(connection, stream_id, request, self)
        call.admit(request, self._methods.get(request.path))
        return call

    def tls_context(self, is_tls: bool) -> ssl.SSLContext | None:
        """The TLS context; None for plain text. Raises ConnectionError for a connection of the wrong kind."""
        if not is_tls:
            if self.tls.is_enforced:
                raise ConnectionError("plain text, and tls.server.mode is enforcing here")
            return None
        context = self.tls.context
        if context is None:
            raise ConnectionError(f"TLS, and {self.tls.missing}; or let the client speak plain text (Java: "
                                  "enableSsl(false), Go: EnableSsl = false)")
        context.set_alpn_protocols(["h2"])      # also for a certificate that was read again
        return context


class _Opening(asyncio.Protocol):
    """A connection until its protocol is known."""

    def __init__(self, server: GrpcServer) -> None:
        self._server = server
        self._peer, self._remote = "", b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._joining: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        if address is None or not self._server.opened(self):
            self._transport.abort()
            return
        host = str(address[0]).removeprefix("::ffff:")
        self._peer = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
        self._remote = stored_host(address)
        self._timer = self._server.loop.call_later(FIRST_BYTES_S_MAX, self.abort)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            context = self._server.tls_context(data[0] == _TLS_HANDSHAKE)
        except ConnectionError as error:
            self._refuse(str(error))
            return
        self._disarm()
        origin = Origin(self._remote, stored_host(self._transport.get_extra_info("sockname")))
        connection = self._server.connection(self._peer, origin)
        if context is not None:
            self._transport.pause_reading()
            self._joining = self._server.loop.create_task(self._encrypt(self._transport, connection, context, data))
            return
        self._server.ended(self)
        self._transport.set_protocol(connection)
        self._server.joined(connection, self._transport)
        connection.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._disarm()
        self._server.ended(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _encrypt(self, transport: asyncio.Transport, connection: Http2Connection, context: ssl.SSLContext,
                       first: bytes) -> None:
        try:
            await take_over(transport, connection, context, first,
                            lambda encrypted: self._server.joined(connection, encrypted))
        except OSError as error:
            self._refuse(f"its TLS handshake failed: {handshake_failure(error)}")
        finally:
            self._server.ended(self)

    def _refuse(self, cause: str) -> None:
        self._server.tls.refused(self._peer, cause)
        self.abort()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
