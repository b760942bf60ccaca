"""The front put together: gRPC's server, its port, the clock and the loops. Started once and stopped once."""

import asyncio
import logging
import time
from collections.abc import Callable

from regulus.client.tasks import TaskGroup
from regulus.errors import CallRefused, RegulusError
from regulus.proxy.access import CallAccess
from regulus.proxy.brokers import NAME_SERVER, Brokers
from regulus.proxy.calls import Calls
from regulus.proxy.catalog import Catalog
from regulus.proxy.clients import Clients
from regulus.proxy.config import ProxyConfig
from regulus.proxy.receive_call import ReceiveCall
from regulus.proxy.renewing import Renewing
from regulus.proxy.service import Service
from regulus.proxy.telemetry import Telemetry
from regulus.transport.config import TransportConfig
from regulus.transport.http2.grpc_server import GrpcLimits, GrpcServer
from regulus.wire.bodies import ClusterInfo
from regulus.wire.bodies.heartbeat_data import HeartbeatData, ProducerData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

TICK_S = 1.0
HEARTBEAT_S = 20.0
GROUPS_OF_HEARTBEAT_MAX = 200
"""Producer groups that one heartbeat names."""
STOP_S = 2.0
"""How long calls under way have to end."""
_TIMEOUT_MS = 3_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class ProxyServer:
    """`brokers` is what stands behind; `transport` has how TLS is done; `read_accounts` looks whether the accounts have
    changed, where nobody else does. Raises ConfigError when the certificate cannot be used."""

    def __init__(self, config: ProxyConfig, brokers: Brokers, transport: TransportConfig,
                 access: CallAccess | None = None, read_accounts: Callable[[int], None] | None = None) -> None:
        self._config = config
        self._brokers = brokers
        self._access = access
        self._read_accounts = read_accounts
        self._clients = Clients(config)
        catalog = Catalog(brokers, config)
        self._renewing = Renewing(brokers, config, now_ms, self._clients.knows)
        self._calls = Calls(brokers, catalog, self._clients, self._renewing, config, now_ms)
        self._receive = ReceiveCall(brokers, catalog, self._clients, self._renewing, config, now_ms)
        self._telemetry = Telemetry(catalog, self._clients, config, now_ms, access)
        self._service = Service(self._calls, self._receive, self._telemetry, self._clients, access, config, now_ms)
        self._server = GrpcServer(self._service.methods, transport, GrpcLimits(
            connections_max=config.connections_max, message_size_max=config.grpc_max_inbound_message_size,
            held_max=config.calls_size_max, waiting_max=config.answers_size_max,
            metadata_size_max=config.metadata_size_max))
        self._tasks = TaskGroup()
        self._told: set[str] = set()
        self._told_at = 0.0

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self) -> None:
        """Raises OSError when the port is taken."""
        bound = self._server.bind(self._config.bind_address, self._config.grpc_server_port)
        try:
            self._brokers.on_request = self._telemetry.hear
            await self._brokers.start()
            self._calls.own_port = self._server.port
            await self._server.accept(bound)
        except (OSError, RegulusError):
            bound.close()
            raise
        self._tasks.supervise(self._server.watch, "looks at the connections of the gRPC front")
        self._tasks.supervise(self._tick, "tick of the gRPC front")
        self._tasks.supervise(self._tell, "heartbeats of the gRPC front")

    async def stop(self) -> None:
        """What was not answered by then is asked again by its client, elsewhere."""
        await self._tasks.cancel()
        self._service.end_streams()
        await self._server.stop(STOP_S)
        await self._receive.stop()
        await self._renewing.finish()
        await self._brokers.stop()

    async def _tick(self) -> None:
        while True:
            while self._renewing.begin_due():
                await asyncio.sleep(0)
            for client_id in self._clients.expired(now_ms()):
                self._clients.forget(client_id)
                self._renewing.release_client(client_id)
            if self._read_accounts is not None:
                self._read_accounts(time.monotonic_ns() // 1_000_000)
            if self._access is not None:
                for kind, names in self._access.happenings.take().items():
                    _log.warning("%s: %s", kind, names)
            await asyncio.sleep(TICK_S)

    async def _tell(self) -> None:
        """Beside the tick, which waits for no broker."""
        while True:
            await self._tell_brokers()
            await asyncio.sleep(TICK_S)

    async def _tell_brokers(self) -> None:
        """Brokers ask producers for the outcome of transactions, and learn from heartbeats whom they may ask: us, for
        each topic to which a client sends."""
        topics = self._clients.producer_topics()
        now_s = time.monotonic()
        if not topics or (self._told.issuperset(topics) and now_s - self._told_at < HEARTBEAT_S):
            return
        self._told, self._told_at = set(topics), now_s
        try:
            answer = await self._brokers.ask(
                NAME_SERVER, RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO), _TIMEOUT_MS)
            table = ClusterInfo.decode(answer.body).broker_addr_table if answer.code == ResponseCode.SUCCESS else {}
            names = [name for name, data in table.items() if 0 in data.broker_addrs]
            await asyncio.gather(*[self._tell_broker(name, topics) for name in names])
        except RegulusError as error:
            self._told_at = 0.0
            _log.warning("the brokers do not hear who may be asked for transactions: %s", error)

    async def _tell_broker(self, name: str, topics: list[str]) -> None:
        for start in range(0, len(topics), GROUPS_OF_HEARTBEAT_MAX):
            groups = topics[start:start + GROUPS_OF_HEARTBEAT_MAX]
            data = HeartbeatData(client_id=f"regulus-proxy@{self.port}@{start}",
                                 producer_data_set=[ProducerData(group_name=each) for each in groups])
            try:
                await self._brokers.ask(name, RemotingCommand.request(RequestCode.HEART_BEAT, body=data.encode()),
                                        _TIMEOUT_MS)
            except CallRefused as error:
                self._told_at = 0.0
                _log.info("broker %s has no heartbeat of ours: %s", name, error)
                return
