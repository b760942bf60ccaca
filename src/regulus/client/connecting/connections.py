"""Keeps one connection to each server, opened when first needed, and again after it was lost."""

import asyncio
import logging
import time
from collections.abc import Callable

from regulus.client.config import ClientConfig
from regulus.client.connecting.limited_room import LimitedRoom
from regulus.client.tasks import SharedTasks, elsewhere
from regulus.errors import ClientClosed, ConnectFailed, RequestTimeout
from regulus.transport.connection import Connection, OnRequests
from regulus.transport.connector import connect, split_address
from regulus.transport.tls import client_context
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

ADDRESSES_MAX = 1024
"""At this many known addresses, those without an open connection and without sends under way are forgotten."""

CLOSE_WAIT_MAX_S = 1.0
"""Seconds that closing waits until written data has left."""


class Connections:
    """Connections by address. Answers are returned whatever their code; errors mean that there is no answer."""

    def __init__(self, config: ClientConfig, on_requests: OnRequests,
                 sign: Callable[[RemotingCommand], None] | None) -> None:
        """Raises ConfigError when the files of `config.tls` cannot be used."""
        self._tls = client_context(config.tls) if config.tls.tls_enable else None
        self._connect_timeout_ms = config.connect_timeout
        self._on_requests = on_requests
        self._sign = sign
        self._open: dict[str, Connection] = {}
        self._opening: SharedTasks[Connection] = SharedTasks()
        self._places: dict[str, LimitedRoom] = {}
        self._places_max = config.back_pressure_for_async_send_num
        self._silent: set[str] = set()
        self._closed: str | None = None     # the reason, after closing
        self._loop: asyncio.AbstractEventLoop | None = None

    def places(self, address: str) -> LimitedRoom:
        """The room of the sends that are under way to `address`; its size counts requests."""
        places = self._places.get(address)
        if places is None:
            if len(self._places) >= ADDRESSES_MAX:
                self._forget_addresses()
            places = self._places[address] = LimitedRoom(self._places_max)
        return places

    async def get(self, address: str) -> Connection:
        """An open connection. Raises ConnectFailed, ClientClosed."""
        connection = self._open.get(address)
        if connection is not None and connection.is_open:
            return connection
        if self._closed is not None:
            raise ClientClosed(self._closed)
        return await self._opening.result(address, lambda: self._connect(address), f"connect {address}")

    async def request(self, address: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """The answer of the server at `address`, all within `timeout_ms`.

        If the server answers that it is going away, the request is sent once more over a new connection. Raises
        ConnectFailed, ConnectionLost, RequestTimeout, ClientClosed, RequestTooLarge; ClientError in another event loop
        than that of the first request.
        """
        if asyncio.get_running_loop() is not self._loop:
            self._begin_in_loop()
        if self._sign is not None:
            self._sign(command)
        connection = self._open.get(address)
        if connection is None or not connection.is_open:
            connection, timeout_ms = await self._get_within(address, timeout_ms)
        begun = time.monotonic()
        try:
            answer = await connection.request(command, timeout_ms)
            if answer.code == ResponseCode.GO_AWAY:
                self._drop(address, connection)
                connection, timeout_ms = await self._get_within(address, _left_ms(timeout_ms, begun))
                answer = await connection.request(command, timeout_ms)
        except RequestTimeout:
            self._note_silent(address)
            raise
        if self._silent:
            self._silent.discard(address)
        return answer

    def is_silent(self, address: str) -> bool:
        """Whether the last request to end at this address timed out: the server may hang though its connections are
        open."""
        return address in self._silent

    async def send_oneway(self, address: str, command: RemotingCommand, timeout_ms: int) -> None:
        """Write a request that is not answered. Raises ConnectFailed, ClientClosed, RequestTooLarge; ClientError like
        `request`."""
        if asyncio.get_running_loop() is not self._loop:
            self._begin_in_loop()
        if self._sign is not None:
            self._sign(command)
        connection = self._open.get(address)
        if connection is None or not connection.is_open:
            connection, _ = await self._get_within(address, timeout_ms)
        connection.ask_soon(command)
        await connection.drained()

    def current(self, address: str) -> object | None:
        """The connection that is open now, None without one. Compare two results to find out whether it was
        replaced."""
        connection = self._open.get(address)
        return connection if connection is not None and connection.is_open else None

    def open_addresses(self) -> list[str]:
        return [address for address, connection in self._open.items() if connection.is_open]

    async def close(self) -> None:
        """Close all connections after written data has left."""
        self._closed = "the client has been shut down"
        self._opening.cancel()
        connections = list(self._open.values())
        self._open.clear()
        for connection in connections:
            connection.close()
        if connections:
            await asyncio.wait([asyncio.ensure_future(connection.wait_closed()) for connection in connections],
                               timeout=CLOSE_WAIT_MAX_S)

    def leave_behind(self) -> None:
        """Forget all connections in a forked child, because the sockets belong to the parent."""
        self._closed = "the client was made before this process was forked: make one in each process"
        self._open.clear()
        self._opening = SharedTasks()
        self._loop = None

    def _begin_in_loop(self) -> None:
        if self._loop is not None:
            raise elsewhere()
        self._loop = asyncio.get_running_loop()

    async def _get_within(self, address: str, timeout_ms: int) -> tuple[Connection, int]:
        """A connection, and the ms that are left of `timeout_ms`. Raises ConnectFailed, ClientClosed."""
        # Thousands of callers may begin at once. The time of each starts only after all of them have begun.
        await asyncio.sleep(0)
        begun = time.monotonic()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.get(address), _left_ms(timeout_ms, begun)
        except TimeoutError:
            self._note_silent(address)
            raise ConnectFailed(f"no connection to {address} within {timeout_ms} ms") from None

    def _note_silent(self, address: str) -> None:
        if len(self._silent) >= ADDRESSES_MAX:
            self._silent.clear()
        self._silent.add(address)

    def _forget_addresses(self) -> None:
        """Forget unused addresses. They remain after brokers that come back at another address, as in containers."""
        self._open = {address: connection for address, connection in self._open.items() if connection.is_open}
        self._places = {address: places for address, places in self._places.items()
                        if address in self._open or not places.is_empty}

    async def _connect(self, address: str) -> Connection:
        try:
            host, port = split_address(address)
        except ValueError as error:
            raise ConnectFailed(str(error)) from error
        connection = await connect(host, port, self._on_requests, timeout_ms=self._connect_timeout_ms,
                                   tls=self._tls)
        if self._closed is not None:
            connection.close()
            raise ClientClosed(self._closed)
        _log.info("connected to %s", address)
        self._open[address] = connection
        return connection

    def _drop(self, address: str, connection: Connection) -> None:
        if self._open.get(address) is connection:
            del self._open[address]
        connection.close()


def _left_ms(timeout_ms: int, begun: float) -> int:
    """The ms that are left, at least 1, because the code that waits decides whether time is up."""
    return max(1, timeout_ms - int((time.monotonic() - begun) * 1000))
