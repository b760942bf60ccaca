"""The brokers behind a front that stands alone: over connections, found through name servers."""

import asyncio
import logging

from regulus.access.credentials import Credentials, sign_as
from regulus.client.config import ClientConfig
from regulus.client.connections import Connections
from regulus.client.name_servers import NameServers, parse_addresses
from regulus.client.tasks import TaskGroup
from regulus.errors import CallRefused, ClientClosed, ConnectFailed, ConnectionLost, NoNameServer, RequestTimeout
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
"""A broker that nobody knows is looked for anew after so long."""


class ClusterBrokers:
    """Raises ConfigError for an address that is none."""

    def __init__(self, config: ProxyConfig) -> None:
        client = ClientConfig(tls=config.broker_tls, back_pressure_for_async_send_num=0)
        self._credentials = Credentials(config.access_key, config.secret_key) if config.access_key else None
        self._connections = Connections(client, self._on_requests, self._sign if self._credentials else None)
        self._name_servers = NameServers(parse_addresses(config.namesrv_addr), self._connections)
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._looked_at = -ADDRESSES_AGE_MAX_S
        self._looking: asyncio.Lock = asyncio.Lock()
        self._tasks = TaskGroup()
        self.on_request: OnRequest | None = None

    async def start(self) -> None:
        """Connects to nothing yet."""

    async def stop(self) -> None:
        await self._tasks.cancel()
        await self._connections.close()

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        try:
            if broker == NAME_SERVER:
                return await self._name_servers.request(command, timeout_ms)
            return await self._connections.request(await self._address(broker), command, timeout_ms)
        except RequestTimeout as error:
            raise CallRefused(Code.PROXY_TIMEOUT, str(error)) from error
        except (ConnectFailed, ConnectionLost) as error:
            self._looked_at = -ADDRESSES_AGE_MAX_S      # perhaps another has become its master
            raise CallRefused(Code.PROXY_TIMEOUT, str(error)) from error
        except (NoNameServer, ClientClosed) as error:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, str(error)) from error

    async def _address(self, broker: str) -> str:
        """Of its master. One question to a name server for all that ask at the same time."""
        loop = asyncio.get_running_loop()
        async with self._looking:
            if broker not in self._addresses or loop.time() - self._looked_at > ADDRESSES_AGE_MAX_S:
                await self._look(loop.time())
        address = self._addresses.get(broker)
        if address is None:
            raise CallRefused(Code.BAD_REQUEST, f"no broker {broker[:80]!r} has a master here")
        return address

    async def _look(self, now_s: float) -> None:
        if now_s - self._looked_at < 1.0:
            return      # whoever names brokers that are not there does not ask the name server each time
        self._looked_at = now_s
        answer = await self._name_servers.request(
            RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO), _ASK_TIMEOUT_MS)
        table = ClusterInfo.decode(answer.body).broker_addr_table
        self._addresses = {name: data.broker_addrs[0] for name, data in table.items() if 0 in data.broker_addrs}
        self._names = {address: name for name, address in self._addresses.items()}

    def _sign(self, command: RemotingCommand) -> None:
        sign_as(command, self._credentials)

    def _on_requests(self, connection: Connection, commands: list[RemotingCommand]) -> None:
        for command in commands:
            self._tasks.spawn(self._answer(connection, command), f"request {command.code} of a broker")

    async def _answer(self, connection: Connection, command: RemotingCommand) -> None:
        broker = self._names.get(connection.peer.remote_text)
        if self.on_request is None or broker is None:
            return
        answer = await self.on_request(broker, command)
        if answer is not None and not command.is_oneway:
            connection.send_soon(answer)
