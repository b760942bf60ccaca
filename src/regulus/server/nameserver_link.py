"""Keeps a broker registered with its name servers.

Each name server has a task and a connection of its own, so that one that is down or slow holds up neither the broker
nor the others. A registration goes out at the start, on each change of the topics, and every
`registerNameServerPeriod`. The end of the connection makes a name server forget us, so it is opened again at once.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from regulus.broker.state import BrokerState
from regulus.errors import BrokerRefused, ClientError
from regulus.transport.connection import Connection
from regulus.transport.connector import connect, ignore_requests, split_address
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import RegisterBrokerRequest, UnregisterBrokerRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

RETRY_INTERVAL_MIN_S = 0.2
RETRY_INTERVAL_MAX_S = 5.0
UNREGISTER_TIMEOUT_MS = 1_000
ANY_HOST = "0.0.0.0"            # the name server puts the address there at which it is asked itself
_HA_PORT_OFFSET = 1


class NameServerDoor(Protocol):
    """A way to the name servers: over the network, or to the one in this process."""

    def start(self) -> None: ...

    def topics_changed(self) -> None:
        """Register anew, soon."""

    async def stop(self) -> None:
        """Unregister."""


class NameserverLink:
    """The way over the network."""

    def __init__(self, broker: BrokerState, port: int, targets: Sequence[tuple[str, int]]) -> None:
        """`targets`: host and port of each name server."""
        self._broker = broker
        self._port = port
        self._targets = targets
        self._changed = [asyncio.Event() for _ in targets]
        self._tasks: list[asyncio.Task[None]] = []
        self._connections: dict[int, tuple[Connection, str]] = {}

    def start(self) -> None:
        self._tasks = [asyncio.ensure_future(self._keep_registered(number)) for number in range(len(self._targets))]

    def topics_changed(self) -> None:
        for changed in self._changed:
            changed.set()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        goodbyes = [self._unregister(connection, address) for connection, address in self._connections.values()]
        await asyncio.gather(*goodbyes)

    async def _keep_registered(self, number: int) -> None:
        """Register over and over until cancelled; a fault is told once, and so is its end."""
        host, port = self._targets[number]
        retry_s = RETRY_INTERVAL_MIN_S
        is_reached: bool | None = None
        while True:
            try:
                await self._register(number)
            except ClientError as error:
                if is_reached is not False:
                    _log.warning("name server %s:%d does not know this broker: %s; trying on", host, port, error)
                is_reached = False
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, RETRY_INTERVAL_MAX_S)
                continue
            if not is_reached:
                _log.info("registered with name server %s:%d", host, port)
            is_reached, retry_s = True, RETRY_INTERVAL_MIN_S
            await self._wait(number, self._broker.config.register_name_server_period / 1000)

    async def _register(self, number: int) -> None:
        connection, address = await self._connection(number)
        self._changed[number].clear()
        request = register_request(self._broker, address)
        answer = await connection.request(request, self._broker.config.register_broker_timeout_mills)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark, connection.peer.remote_text)

    async def _connection(self, number: int) -> tuple[Connection, str]:
        """The open connection, and our address as that name server's clients reach us."""
        if number not in self._connections:
            host, port = self._targets[number]
            connection = await connect(host, port, ignore_requests, on_closed=lambda _: self._lost(number))
            own_host = self._broker.config.broker_ip1 or connection.peer.local_address
            self._connections[number] = connection, _address(own_host, self._port)
        return self._connections[number]

    def _lost(self, number: int) -> None:
        if self._connections.pop(number, None) is not None:
            self._changed[number].set()

    async def _wait(self, number: int, seconds: float) -> None:
        """Until there is news to register, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed[number].wait()
        except TimeoutError:
            return

    async def _unregister(self, connection: Connection, address: str) -> None:
        try:
            await connection.request(unregister_request(self._broker, address), UNREGISTER_TIMEOUT_MS)
        except ClientError as error:
            _log.warning("could not unregister: %s", error)
        connection.close()


class EmbeddedLink:
    """The way to the name server in this process: a call. Its routes name the address at which they were asked."""

    def __init__(self, broker: BrokerState, port: int,
                 ask: Callable[[RemotingCommand], RemotingCommand | None]) -> None:
        self._broker = broker
        self._address = _address(broker.config.broker_ip1 or ANY_HOST, port)
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._register()

    def topics_changed(self) -> None:
        self._register()

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._ask(unregister_request(self._broker, self._address))

    def _register(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._broker.config.register_name_server_period / 1000, self._register)
        answer = self._ask(register_request(self._broker, self._address))
        if answer is not None and answer.code != ResponseCode.SUCCESS:
            _log.error("the name server in this process refused the broker: %s", answer.remark)


def register_request(broker: BrokerState, address: str) -> RemotingCommand:
    config = broker.config
    header = RegisterBrokerRequest(broker_name=config.broker_name, broker_addr=address,
                                   cluster_name=config.broker_cluster_name, ha_server_addr=_ha_address(address),
                                   broker_id=config.broker_id)
    return RemotingCommand.request(RequestCode.REGISTER_BROKER, header.ext(), broker.register_body().encode())


def unregister_request(broker: BrokerState, address: str) -> RemotingCommand:
    config = broker.config
    header = UnregisterBrokerRequest(broker_name=config.broker_name, broker_addr=address,
                                     cluster_name=config.broker_cluster_name, broker_id=config.broker_id)
    return RemotingCommand.request(RequestCode.UNREGISTER_BROKER, header.ext())


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _ha_address(address: str) -> str:
    host, port = split_address(address)
    return _address(host, port + _HA_PORT_OFFSET)
