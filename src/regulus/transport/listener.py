"""Accepts connections, counts them, and closes those that have been idle too long."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from ipaddress import ip_address

from regulus.model.message_id import is_numeric_address
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection, OnConnection, OnRequests
from regulus.transport.read_buffer import ReadBuffer
from regulus.transport.tls import ServerTls
from regulus.transport.unfinished_frames import UnfinishedFrames

_log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
_IDLE_CHECKS_PER_LIMIT = 4      # a connection is closed at the latest after 5/4 of the idle limit
_FRAME_CHECKS_PER_LIMIT = 4     # and likewise after 5/4 of the limit for a frame


class Listener:
    """Accepts connections, made by `listen` or from sockets of `bind`; they share all limits. `port` is the port of the
    first socket, `unfinished` the account of frames.

    Raises ConfigError when the certificate of `config` cannot be used.
    """

    def __init__(self, bound: Sequence[socket.socket], on_requests: OnRequests, on_opened: OnConnection,
                 on_closed: OnConnection, config: TransportConfig, loop: asyncio.AbstractEventLoop,
                 unfinished: UnfinishedFrames | None = None) -> None:
        self.connections: dict[Connection, None] = {}      # in the order in which they were accepted
        self.port: int = bound[0].getsockname()[1]
        self._on_requests = on_requests
        self._on_opened = on_opened
        self._on_closed = on_closed
        self._config = config
        self._loop = loop
        self._buffer = ReadBuffer()
        self._unfinished = unfinished or UnfinishedFrames(config)
        self._tls = ServerTls(config)
        self._bound = list(bound)
        self._servers: list[asyncio.Server] = []
        self._idle_timer: asyncio.TimerHandle | None = None
        self._frame_timer: asyncio.TimerHandle | None = None
        self._is_full = False

    async def accept(self) -> None:
        """Accept connections from now on."""
        assert self._bound, "accept is called once"
        while self._bound:
            self._servers.append(await self._loop.create_server(self._make_connection, sock=self._bound[0],
                                                                backlog=self._config.accept_backlog))
            del self._bound[0]
        self._tls.start()
        self._check_idle()
        self._check_frames()

    def stop_accepting(self) -> None:
        for server in self._servers:
            server.close()
        for bound in self._bound:
            bound.close()
        self._servers, self._bound = [], []

    def ignore_input(self) -> None:
        """Accept no more connections, and no more requests of existing ones; answers still leave."""
        self.stop_accepting()
        for connection in self.connections:
            connection.ignore_input()

    async def close(self) -> None:
        """Accept no more, close all connections; written bytes get `close_wait_max_ms` to leave."""
        self.stop_accepting()
        self._tls.stop()
        for timer in (self._idle_timer, self._frame_timer):
            if timer is not None:
                timer.cancel()
        leaving = list(self.connections)
        for connection in leaving:
            connection.close()
        tasks = [self._loop.create_task(connection.wait_closed()) for connection in leaving]
        if tasks:
            await asyncio.wait(tasks, timeout=self._config.close_wait_max_ms / 1000)
        for connection in leaving:
            connection.abort()
        if tasks:
            await asyncio.wait(tasks)

    def _make_connection(self) -> Connection:
        return Connection(self._on_requests, self._opened, self._closed, self._config, self._loop,
                          self._buffer, unfinished=self._unfinished, tls=self._tls)

    def _opened(self, connection: Connection) -> None:
        if len(self.connections) < self._config.connections_max:
            self._is_full = False
            self.connections[connection] = None
            self._on_opened(connection)
            return
        if not self._is_full:
            self._is_full = True
            _log.warning("port %d has its %d connections; %s and later ones are closed at once", self.port,
                         self._config.connections_max, connection.peer.remote_text)
        connection.abort()

    def _closed(self, connection: Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self._on_closed(connection)

    def _check_idle(self) -> None:
        idle_max = self._config.idle_time_max_ms / 1000
        if not idle_max:
            return
        limit = self._loop.time() - idle_max
        for connection in [each for each in self.connections if each.is_idle_since(limit)]:
            if connection.is_open:
                _log.info("connection of %s closed: idle for %d s", connection.peer.remote_text, idle_max)
                connection.close()
            else:       # since the last check the peer has not read what was written before
                connection.abort()
        self._idle_timer = self._loop.call_later(idle_max / _IDLE_CHECKS_PER_LIMIT, self._check_idle)

    def _check_frames(self) -> None:
        self._unfinished.close_overdue(self._loop.time())
        self._frame_timer = self._loop.call_later(
            self._config.frame_time_max_ms / 1000 / _FRAME_CHECKS_PER_LIMIT, self._check_frames)


async def listen(host: str, port: int, on_requests: OnRequests, on_opened: OnConnection, on_closed: OnConnection,
                 config: TransportConfig) -> Listener:
    """Listen on an address. Port 0 takes a free port, which `Listener.port` returns. Raises OSError when the address
    cannot be bound."""
    listener = Listener([bind(host, port)], on_requests, on_opened, on_closed, config, asyncio.get_running_loop())
    await listener.accept()
    return listener


def reachable(bind_address: str) -> str:
    """A numeric address at which a client on this machine reaches a server bound to `bind_address`."""
    if is_numeric_address(bind_address) and not ip_address(bind_address).is_unspecified:
        return bind_address
    return _LOOPBACK    # also of ::, which takes both kinds


def bind(host: str, port: int) -> socket.socket:
    """Take the address; nothing is accepted yet. Raises OSError."""
    # asyncio switches off Nagle's algorithm, which delays answers by 40 ms, only if the protocol is named.
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error
    return bound
