"""Assembles the proxy: the gRPC server with its port, the clocks and the loops."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from regulus.client.tasks import TaskGroup
from regulus.errors import CallRefused, RegulusError
from regulus.model.happenings import Happenings
from regulus.model.metrics_config import MetricsConfig
from regulus.proxy.access import CallAccess
from regulus.proxy.brokers import Brokers
from regulus.proxy.caller import ClientKey
from regulus.proxy.calls import UnaryCalls
from regulus.proxy.catalog import Catalog
from regulus.proxy.clients import Clients
from regulus.proxy.config import ProxyConfig
from regulus.proxy.group_places import GroupPlaces
from regulus.proxy.health import Health
from regulus.proxy.metrics import CLUSTER_MODE, ProxyNumbers, proxy_families
from regulus.proxy.receive_call import ReceiveCall
from regulus.proxy.reflection import Reflection
from regulus.proxy.renewing import Renewing
from regulus.proxy.service import Service
from regulus.proxy.telemetry import Telemetry
from regulus.server.metrics_page import MetricsPageServer, bind_page
from regulus.server.watchdog import Watchdog
from regulus.transport.config import TransportConfig
from regulus.transport.http2.grpc_server import GrpcLimits, GrpcServer
from regulus.transport.listener import bind
from regulus.wire.bodies.heartbeat_data import HeartbeatData, ProducerData
from regulus.wire.codes import RequestCode
from regulus.wire.metrics_text import MetricsPage
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

TICK_S = 1.0
"""Pause between two looks at renewals, expired clients and changed accounts. Each is noticed at most this much
later."""
HEARTBEAT_S = 20.0
"""Pause between two heartbeats to a broker, which forgets producers after two minutes of silence."""
TELL_AGAIN_S = 5.0
"""Pause before the next heartbeat to a broker at which the last one failed."""
GROUPS_OF_HEARTBEAT_MAX = 200
"""Producer groups in one heartbeat; further ones go into another."""
STOP_S = 2.0
"""How long calls under way may still take when the server stops; then their connections are closed."""
_TIMEOUT_MS = 3_000
"""How long a broker may take to answer a heartbeat."""
_DEFAULT_METRICS = MetricsConfig()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class ProxyServer:
    """The proxy; it is started once and stopped once.

    `transport` has the settings of TLS, among others. `keep_accounts` runs as long as the server, and keeps the
    accounts of `access` up to date. Raises ConfigError if the certificate cannot be used.
    """

    def __init__(self, config: ProxyConfig, brokers: Brokers, transport: TransportConfig,
                 access: CallAccess | None = None,
                 keep_accounts: Callable[[], Coroutine[Any, Any, None]] | None = None,
                 metrics_config: MetricsConfig = _DEFAULT_METRICS, mode: str = CLUSTER_MODE) -> None:
        self._config = config
        self._metrics_config = metrics_config
        self._mode = mode
        self.metrics: MetricsPageServer | None = None
        self._brokers = brokers
        self._access = access
        self._keep_accounts = keep_accounts
        self._clients = Clients(config, steady_ms)
        self._catalog = catalog = Catalog(brokers, config)
        self._renewing = Renewing(brokers, config, now_ms, self._clients.knows)
        self._calls = UnaryCalls(brokers, catalog, self._clients, self._renewing, config, now_ms)
        self._receive = ReceiveCall(brokers, catalog, self._clients, self._renewing, config, now_ms)
        self._telemetry = Telemetry(catalog, GroupPlaces(brokers, catalog), self._clients, config, access)
        self._service = Service(self._calls, self._receive, self._telemetry, self._clients, access, config, now_ms,
                                self._let_go)
        self._health = Health(brokers.is_ready)
        methods = {**self._service.methods, **self._health.methods, **Reflection().methods}
        self._server = GrpcServer(methods, transport, GrpcLimits(
            connections_max=config.connections_max, message_size_max=config.grpc_max_inbound_message_size,
            held_max=config.calls_size_max, waiting_max=config.answers_size_max,
            metadata_size_max=config.metadata_size_max))
        self._is_running = False
        self._tasks = TaskGroup()
        self._told: set[str] = set()
        self._tell_at_s: dict[str, float] = {}

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self) -> None:
        """Start to serve. Raises OSError if another program has the port."""
        bound = self._server.bind(self._config.bind_address, self._config.grpc_server_port)
        try:
            if self._metrics_config.is_served:
                page = bind_page(bind, self._metrics_config, self._config.bind_address)
                self.metrics = MetricsPageServer(self._metrics_config, page, Watchdog())
                self.metrics.sources.append(self.fill)
                self.metrics.reasons.append(self.reasons)
                await self.metrics.start()
            self._brokers.on_request = self._telemetry.hear
            await self._brokers.start()
            self._calls.own_port = self._server.port
            await self._server.accept(bound)
        except (OSError, RegulusError):
            bound.close()
            if self.metrics is not None:
                await self.metrics.stop()
            raise
        self._is_running = True
        self._tasks.supervise(self._server.watch, "watch of the gRPC connections")
        self._tasks.supervise(self._tick, "tick of the gRPC proxy")
        self._tasks.supervise(self._tell, "heartbeats of the gRPC proxy")
        if self._keep_accounts is not None:
            self._tasks.supervise(self._keep_accounts, "accounts of the gRPC proxy")

    def fill(self, page: MetricsPage) -> Iterator[None]:
        """Add the families of a proxy."""
        calls, receives, streams = self._service.under_way
        return proxy_families(page, self._metrics_config.labels, self._mode, ProxyNumbers(
            clients=len(self._clients), renewals=len(self._renewing), calls=calls, receives=receives, streams=streams))

    def reasons(self) -> list[str]:
        """Why this proxy does not serve; empty when it does."""
        if not self._is_running:
            return ["the proxy is starting or stopping"]
        return [] if self._brokers.is_ready() else ["the proxy reaches no broker"]

    async def stop(self) -> None:
        """Stop within some seconds. Clients repeat unanswered calls at another server."""
        self._is_running = False
        if self.metrics is not None:
            await self.metrics.stop()
        await self._tasks.cancel()
        self._health.stop()
        self._service.end_streams()
        await self._server.stop(STOP_S)
        self._renewing.give_up()
        await self._renewing.finish()
        # Until here brokers may hold polls; messages that come with them meanwhile are given back.
        await self._brokers.stop()
        await self._receive.stop()

    async def _tick(self) -> None:
        while True:
            while self._renewing.begin_due():
                await asyncio.sleep(0)
            for key in self._clients.expired():
                self._let_go(key)
            if self._access is not None:
                if self._access.has_changed():
                    await self._service.decide_anew()
                self._tell_happenings(self._access.happenings)
            self._tell_happenings(self._clients.happenings)
            self._health.look()
            await asyncio.sleep(TICK_S)

    def _tell_happenings(self, happenings: Happenings) -> None:
        for kind, names in happenings.take().items():
            _log.warning("%s: %s", kind, names)

    def _let_go(self, key: ClientKey) -> None:
        """Forget a client that is gone, and release the messages that it holds."""
        self._clients.forget(key)
        self._renewing.release_client(key)

    async def _tell(self) -> None:
        """Send heartbeats to brokers. A task of its own, because the tick must not wait for brokers."""
        while True:
            await self._tell_brokers()
            await asyncio.sleep(TICK_S)

    async def _tell_brokers(self) -> None:
        """Register this proxy at all brokers as a producer of each topic to which a client sends.

        Brokers then ask it for the outcome of transactions, and it asks a client."""
        topics = self._clients.producer_topics()
        if not topics:
            return
        if not self._told.issuperset(topics):
            self._tell_at_s.clear()
        self._told = set(topics)
        try:
            names = await self._catalog.masters()
        except CallRefused as error:
            _log.info("no heartbeats are sent, so brokers cannot ask about transactions: %s", error)
            return
        now_s = time.monotonic()
        self._tell_at_s = {name: self._tell_at_s.get(name, 0.0) for name in names}
        await asyncio.gather(*[self._tell_broker(name, topics) for name in names if self._tell_at_s[name] <= now_s])

    async def _tell_broker(self, name: str, topics: list[str]) -> None:
        """Send the heartbeats of one broker. If one fails, only this broker gets another one soon."""
        self._tell_at_s[name] = time.monotonic() + HEARTBEAT_S
        for start in range(0, len(topics), GROUPS_OF_HEARTBEAT_MAX):
            groups = topics[start:start + GROUPS_OF_HEARTBEAT_MAX]
            data = HeartbeatData(client_id=f"regulus-proxy@{self.port}@{start}",
                                 producer_data_set=[ProducerData(group_name=each) for each in groups])
            try:
                await self._brokers.ask(name, RemotingCommand.request(RequestCode.HEART_BEAT, body=data.encode()),
                                        _TIMEOUT_MS)
            except CallRefused as error:
                self._tell_at_s[name] = time.monotonic() + TELL_AGAIN_S
                _log.info("broker %s did not accept a heartbeat: %s", name, error)
                return
