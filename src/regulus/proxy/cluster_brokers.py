"""The brokers behind a front that stands alone: over connections, found through name servers."""

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
ADDRESSES_AGE_MAX_S = 10.0
"""The brokers are looked up anew after so long, and when one cannot be reached."""
LOOK_S_MIN = 1.0
"""Between two looks: whoever names brokers that are not there does not ask the name server each time."""


class ClusterBrokers:
    """Raises ConfigError for an address that is none."""

    def __init__(self, config: ProxyConfig) -> None:
        client = ClientConfig(tls=config.broker_tls, back_pressure_for_async_send_num=0)
        self._credentials = Credentials(config.access_key, config.secret_key) if config.access_key else None
        self._connections = Connections(client, self._on_requests, self._sign if self._credentials else None)
        self._name_servers = NameServers(parse_addresses(config.namesrv_addr), self._connections)
        self._addresses: dict[str, str] = {}
        self._looked_at = -ADDRESSES_AGE_MAX_S
        self._is_doubted = False        # perhaps another one is master now
        self._looking: asyncio.Task[None] | None = None
        self._tasks = TaskGroup()
        self.on_request: OnRequest | None = None

    async def start(self) -> None:
        """Waits for nobody. That no name server answers is in the log before a client asks."""
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
        """RocketMQ's protocol has no word for it: the answer comes."""

    def is_ready(self) -> bool:
        """By what the name servers told last; they are asked anew when that is old."""
        if self._should_look(next(iter(self._addresses), NAME_SERVER)):
            self._begin_look()
        return bool(self._addresses)

    async def _address(self, broker: str) -> str:
        """Of its master. One that is known is used while the brokers are looked up anew: a name server that is slow or
        gone holds up nobody whose broker is there."""
        if self._should_look(broker):
            self._begin_look()
        if broker not in self._addresses and self._looking is not None:
            await asyncio.shield(self._looking)
        address = self._addresses.get(broker)
        if address is None:
            raise CallRefused(Code.PROXY_TIMEOUT, f"no broker {broker[:80]!r} has a master here")
        return address

    def _should_look(self, broker: str) -> bool:
        """Once for all that ask at the same time."""
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
            _log.info("request %d of %s, which is no master any more, is passed over", command.code,
                      connection.peer.remote_text)
            return
        answer = await self.on_request(broker, command)
        if answer is not None and not command.is_oneway:
            connection.send_soon(answer)

    def _broker_at(self, connection: Connection) -> str | None:
        """By its connection, as brokers may be known by names of hosts."""
        return next((name for name, address in self._addresses.items()
                     if self._connections.current(address) is connection), None)


def _hear(looking: "asyncio.Task[None]") -> None:
    """Who waits for it hears, too; others go on with what is known."""
    if not looking.cancelled() and (error := looking.exception()) is not None:
        _log.warning("the brokers are not looked up, until a call needs them: %s", error)
