"""Keeps a broker registered with its name servers.

Each name server has its own task and connection, so that one that is down or slow delays neither the broker nor the
others. A registration is sent at the start, at each change of the topics, and every `registerNameServerPeriod`;
`registration` decides its content. A name server forgets the broker when its connection ends, so the link connects
again at once.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from regulus.access.credentials import Credentials, parse_credentials, sign_as
from regulus.broker.state import BrokerState
from regulus.errors import BrokerRefused, ClientError
from regulus.server.kept_task import KeptTask
from regulus.server.registration import Talk, Told, talk
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect, ignore_requests, split_address
from regulus.wire.acl_signature import DENIAL
from regulus.wire.codes import RequestCode
from regulus.wire.headers import UnregisterBrokerRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

RETRY_INTERVAL_MIN_S = 0.2
RETRY_INTERVAL_MAX_S = 5.0
UNREGISTER_TIMEOUT_MS = 1_000
ASK_TIMEOUT_MS = 3_000
ANY_HOST = "0.0.0.0"            # the name server replaces it by the address at which it is reached itself
_DEFAULT_TRANSPORT = TransportConfig()
REQUESTS_PER_TURN = 1
"""Requests to the name server in this process, or parts of one, before others have a turn of the loop."""


class NameServerDoor(Protocol):
    """A link to the name servers: over the network, or to the one in this process."""

    async def start(self) -> None:
        """Begin to register. Returns when the name server in this process has everything; does not wait for others."""

    def topics_changed(self) -> None:
        """Register again, soon."""

    async def ask(self, request: RemotingCommand) -> RemotingCommand | None:
        """The answer of a name server; None when none is reached."""

    async def stop(self) -> None:
        """Unregister."""

    @property
    def registrations(self) -> int:
        """The number of completed registrations with any name server."""

    @property
    def is_registered(self) -> bool:
        """Whether a name server knows the broker, as far as the link can see."""


class NameserverLink:
    """The link over the network."""

    def __init__(self, broker: BrokerState, port: int, ha_port: int, targets: Sequence[tuple[str, int]],
                 on_master: Callable[[str, str], None], transport_config: TransportConfig = _DEFAULT_TRANSPORT) -> None:
        """`targets`: host and port of each name server. `on_master` is called with the addresses of the master for
        clients and for slaves."""
        self._transport_config = transport_config
        self._inner = parse_credentials(broker.config.inner_client_authentication_credentials)
        self._broker = broker
        self._port = port
        self._ha_port = ha_port
        self._on_master = on_master
        self._targets = targets
        self._changed = [asyncio.Event() for _ in targets]
        self._tasks = [KeptTask(f"registration with name server {host}:{port}", partial(self._keep_registered, number),
                                RETRY_INTERVAL_MAX_S) for number, (host, port) in enumerate(targets)]
        self._connections: dict[int, tuple[Connection, str]] = {}
        self._told: dict[int, Told] = {}
        self._registrations = 0
        self._has_master = False

    @property
    def registrations(self) -> int:
        return self._registrations

    @property
    def is_registered(self) -> bool:
        return self._registrations > 0 and bool(self._connections)

    async def start(self) -> None:
        for task in self._tasks:
            task.start()

    def topics_changed(self) -> None:
        for changed in self._changed:
            changed.set()

    async def ask(self, request: RemotingCommand) -> RemotingCommand | None:
        sign_as(request, self._inner)
        for connection, _ in list(self._connections.values()):
            try:
                return await connection.request(request, ASK_TIMEOUT_MS)
            except ClientError as error:
                _log.info("a name server did not say: %s", error)
        return None

    async def stop(self) -> None:
        for task in self._tasks:
            await task.stop()
        goodbyes = [self._unregister(connection, address) for connection, address in self._connections.values()]
        await asyncio.gather(*goodbyes)

    async def _keep_registered(self, number: int) -> None:
        """Register repeatedly until cancelled; a fault is logged once, and so is its end."""
        host, port = self._targets[number]
        retry_s = RETRY_INTERVAL_MIN_S
        is_reached: bool | None = None
        while True:
            try:
                await self._register(number)
            except ClientError as error:
                if is_reached is not False:
                    _log.warning("name server %s:%d does not know this broker: %s%s; trying on", host, port, error,
                                 _mend(error))
                is_reached = False
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, RETRY_INTERVAL_MAX_S)
                continue
            if not is_reached:
                _log.info("registered with name server %s:%d", host, port)
            is_reached, retry_s = True, RETRY_INTERVAL_MIN_S
            await self._wait(number, self._pause_s())

    def _pause_s(self) -> float:
        """The time until the next registration. A slave that knows no master yet asks again soon: both may have been
        started at the same time."""
        period_s = self._broker.config.register_name_server_period / 1000
        knows_enough = self._has_master or not self._broker.config.is_slave or self._broker.config.ha_master_address
        return period_s if knows_enough else min(period_s, RETRY_INTERVAL_MAX_S)

    async def _register(self, number: int) -> None:
        connection, address = await self._connection(number)
        self._changed[number].clear()
        timeout_ms = self._broker.config.register_broker_timeout_mills
        talking = talk(self._broker, address, _ha_address(address, self._ha_port), self._told.pop(number, None))
        request = next(talking)
        while True:
            if request is None:
                await asyncio.sleep(0)
            if request is not None:
                sign_as(request, self._inner)
            answer = None if request is None else await connection.request(request, timeout_ms)
            try:
                request = talking.send(answer)
            except StopIteration as end:
                told: Told = end.value
                break
        self._registrations += 1
        if (connection, address) == self._connections.get(number):
            self._told[number] = told
        if told.master.master_addr:
            self._has_master = True
            self._on_master(told.master.master_addr, told.master.ha_server_addr or "")

    async def _connection(self, number: int) -> tuple[Connection, str]:
        """The open connection, and our address as that name server's clients reach us."""
        if number not in self._connections:
            host, port = self._targets[number]
            connection = await connect(host, port, ignore_requests, on_closed=lambda _: self._lost(number),
                                       config=self._transport_config)
            own_host = self._broker.config.broker_ip1 or connection.peer.local_address
            self._connections[number] = connection, _address(own_host, self._port)
        return self._connections[number]

    def _lost(self, number: int) -> None:
        self._told.pop(number, None)
        if self._connections.pop(number, None) is not None:
            self._changed[number].set()

    async def _wait(self, number: int, seconds: float) -> None:
        """Wait until there is news to register, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed[number].wait()
        except TimeoutError:
            return

    async def _unregister(self, connection: Connection, address: str) -> None:
        request = unregister_request(self._broker, address)
        sign_as(request, self._inner)
        try:
            await connection.request(request, UNREGISTER_TIMEOUT_MS)
        except ClientError as error:
            _log.warning("could not unregister: %s", error)
        connection.close()


class EmbeddedLink:
    """The link to the name server in this process: a call. Its routes name the address at which they were requested."""

    def __init__(self, broker: BrokerState, port: int, ha_port: int,
                 ask: Callable[[RemotingCommand], RemotingCommand | None]) -> None:
        self._broker = broker
        self._address = _address(broker.config.broker_ip1 or ANY_HOST, port)
        self._ha_port = ha_port
        self._ask = _signing(ask, parse_credentials(broker.config.inner_client_authentication_credentials))
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._told: Told | None = None
        self._talk: Talk | None = None
        self._request: RemotingCommand | None = None
        self._is_outdated = False
        self._is_stopped = False
        self._is_told = asyncio.Event()
        self._registrations = 0

    @property
    def registrations(self) -> int:
        return self._registrations

    @property
    def is_registered(self) -> bool:
        return self._registrations > 0

    async def start(self) -> None:
        self._register()
        await self._is_told.wait()

    def topics_changed(self) -> None:
        self._register()

    async def ask(self, request: RemotingCommand) -> RemotingCommand | None:
        return self._ask(request)

    async def stop(self) -> None:
        self._is_stopped = True
        self._is_told.set()
        if self._timer is not None:
            self._timer.cancel()
        self._ask(unregister_request(self._broker, self._address))

    def _register(self) -> None:
        """Begin a talk, or let the running one be followed by another."""
        if self._is_stopped:
            return
        if self._talk is not None:
            self._is_outdated = True
            return
        self._talk = talk(self._broker, self._address, _ha_address(self._address, self._ha_port), self._told)
        self._told, self._is_outdated = None, False
        self._request = next(self._talk)
        self._go_on()

    def _go_on(self) -> None:
        """Continue as far as one turn of the loop allows, which is to the end unless there are many topics."""
        registered = 0
        is_over = True
        assert self._talk is not None
        try:
            while registered < REQUESTS_PER_TURN:
                request = self._request
                registered += request is None or request.code == RequestCode.REGISTER_BROKER
                self._request = self._talk.send(None if request is None else self._ask(request))
            is_over = False
        except StopIteration as end:
            self._told = end.value
            self._registrations += 1
        except BrokerRefused as error:
            _log.error("the name server in this process refused the broker: %s", error.remark)
        finally:
            # Also after a fault, which the loop logs: callers that wait for the end continue, and everything is
            # registered again soon.
            if is_over:
                self._end()
            else:
                self._call(0.0, self._go_on)

    def _end(self) -> None:
        self._talk = None
        self._is_told.set()
        wait_s = self._broker.config.register_name_server_period / 1000
        if self._told is None:
            wait_s = min(wait_s, RETRY_INTERVAL_MAX_S)
        self._call(0.0 if self._is_outdated else wait_s, self._register)

    def _call(self, delay_s: float, deed: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, deed)


def _signing(ask: Callable[[RemotingCommand], RemotingCommand | None],
             inner: Credentials | None) -> Callable[[RemotingCommand], RemotingCommand | None]:
    """The link to a name server, with each request signed."""
    def ask_signed(request: RemotingCommand) -> RemotingCommand | None:
        sign_as(request, inner)
        return ask(request)
    return ask if inner is None else ask_signed


def unregister_request(broker: BrokerState, address: str) -> RemotingCommand:
    config = broker.config
    header = UnregisterBrokerRequest(broker_name=config.broker_name, broker_addr=address,
                                     cluster_name=config.broker_cluster_name, broker_id=config.broker_id)
    return RemotingCommand.request(RequestCode.UNREGISTER_BROKER, header.ext())


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _ha_address(address: str, ha_port: int) -> str:
    return _address(split_address(address)[0], ha_port)


def _mend(error: ClientError) -> str:
    if isinstance(error, BrokerRefused) and error.remark.startswith(DENIAL):
        return " (innerClientAuthenticationCredentials is to be the same here and there)"
    return ""
