"""The brokers behind `regulus proxy`, which finds them through name servers and asks them over connections."""

import asyncio
import logging

from regulus.access.credentials import Credentials, sign_as
from regulus.client.config import ClientConfig
from regulus.client.connecting.connections import Connections
from regulus.client.connecting.name_servers import NameServers, parse_addresses
from regulus.client.tasks import TaskGroup
from regulus.errors import CallRefused, ClientError, ConnectFailed, ConnectionLost, HeaderError, RequestTimeout
from regulus.model.peer import Origin
from regulus.proxy.brokers import NAME_SERVER, OnRequest
from regulus.proxy.config import ProxyConfig
from regulus.transport.connection import Connection
from regulus.wire.bodies import ClusterInfo
from regulus.wire.codes import RequestCode
from regulus.wire.grpc.codes import Code
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

_ASK_TIMEOUT_MS = 3_000
"""How long a name server may take to list the brokers."""
ADDRESSES_AGE_MAX_S = 10.0
"""Age at which the addresses of the brokers are looked up again. It also happens when a broker cannot be reached."""
LOOK_S_MIN = 1.0
"""Shortest pause between two lookups, so that calls that name unknown brokers do not each ask the name server."""


class ClusterBrokers:
    """Asks brokers over connections. Raises ConfigError for an invalid address of a name server."""

    def __init__(self, config: ProxyConfig) -> None:
        client = ClientConfig(tls=config.broker_tls, back_pressure_for_async_send_num=0)
        self._credentials = Credentials(config.access_key, config.secret_key) if config.access_key else None
        self._connections = Connections(client, self._on_requests, self._sign if self._credentials else None)
        self._name_servers = NameServers(parse_addresses(config.namesrv_addr), self._connections)
        self._addresses: dict[str, str] = {}
        self._looked_at = -ADDRESSES_AGE_MAX_S
        self._is_doubted = False        # a broker could not be reached, so perhaps it has another master now
        self._looking: asyncio.Task[None] | None = None
        self._tasks = TaskGroup()
        self.on_request: OnRequest | None = None

    async def start(self) -> None:
        """Begin to look up the brokers, without waiting. If no name server answers, the log says so before a client
        calls."""
        self._begin_look()

    async def stop(self) -> None:
        await self._tasks.cancel()
        await self._connections.close()

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int,
                  origin: Origin | None = None) -> RemotingCommand:
        try:
            if broker == NAME_SERVER:
                return await self._name_servers.request(command, timeout_ms)
            return await self._connections.request(await self._address(broker), command, timeout_ms)
        except RequestTimeout as error:
            raise CallRefused(Code.PROXY_TIMEOUT, str(error)) from error
        except (ConnectFailed, ConnectionLost) as error:
            self._is_doubted = True
            raise CallRefused(Code.PROXY_TIMEOUT, str(error)) from error
        except (ClientError, HeaderError) as error:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, str(error)) from error

    def withdraw(self, broker: str, command: RemotingCommand) -> None:
        """Nothing: the remoting protocol has no request for it, and the answer comes when the poll ends."""

    def is_ready(self) -> bool:
        """Whether the name servers listed a master in their last answer. If that is old, they are asked again."""
        if self._should_look(next(iter(self._addresses), NAME_SERVER)):
            self._begin_look()
        return bool(self._addresses)

    async def _address(self, broker: str) -> str:
        """The address of the broker's master. Raises CallRefused if it is unknown.

        A known address is used while the brokers are looked up again, so that a slow or unreachable name server delays
        no call to a broker that works."""
        if self._should_look(broker):
            self._begin_look()
        if broker not in self._addresses and self._looking is not None:
            await asyncio.shield(self._looking)
        address = self._addresses.get(broker)
        if address is None:
            raise CallRefused(Code.PROXY_TIMEOUT, f"no master of broker {broker[:80]!r} is known here")
        return address

    def _should_look(self, broker: str) -> bool:
        """Whether to look up the brokers now. Calls at the same time share one lookup."""
        age_s = asyncio.get_running_loop().time() - self._looked_at
        if age_s < LOOK_S_MIN or (self._looking is not None and not self._looking.done()):
            return False
        return self._is_doubted or broker not in self._addresses or age_s > ADDRESSES_AGE_MAX_S

    def _begin_look(self) -> None:
        self._looking = self._tasks.spawn_with(self._look(), "looks up the brokers", _hear)

    async def _look(self) -> None:
        self._looked_at = asyncio.get_running_loop().time()
        answer = await self._name_servers.request(
            RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO), _ASK_TIMEOUT_MS)
        table = ClusterInfo.decode(answer.body).broker_addr_table
        self._addresses = {name: data.broker_addrs[0] for name, data in table.items() if 0 in data.broker_addrs}
        self._is_doubted = False

    def _sign(self, command: RemotingCommand) -> None:
        sign_as(command, self._credentials)

    def _on_requests(self, connection: Connection, commands: list[RemotingCommand]) -> None:
        for command in commands:
            self._tasks.spawn(self._answer(connection, command), f"request {command.code} of a broker")

    async def _answer(self, connection: Connection, command: RemotingCommand) -> None:
        broker = self._broker_at(connection)
        if self.on_request is None or broker is None:
            _log.info("request %d of %s is ignored: it is not a master any more", command.code,
                      connection.peer.remote_text)
            return
        answer = await self.on_request(broker, command)
        if answer is not None and not command.is_oneway:
            connection.send_soon(answer)

    def _broker_at(self, connection: Connection) -> str | None:
        """The broker at the other end. Connections are compared, because the address of a broker may have a host
        name."""
        return next((name for name, address in self._addresses.items()
                     if self._connections.current(address) is connection), None)


def _hear(looking: "asyncio.Task[None]") -> None:
    """Log a failed lookup. A call that waits for it gets the error, too; others use the addresses that are known."""
    if not looking.cancelled() and (error := looking.exception()) is not None:
        _log.warning("the brokers cannot be looked up now: %s", error)
