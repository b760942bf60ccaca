"""Assembles a name server from its state, its documents and its listener, according to the configuration."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from regulus.access.decision import Rules
from regulus.broker.long_answers import LongAnswers
from regulus.broker.outcome import NO_REPLY, Notice, Outcome, Reply, when_saved
from regulus.broker.settings_changes import SettingsChanges
from regulus.model.message_id import host_bytes
from regulus.model.metrics_config import MetricsConfig
from regulus.model.peer import Peer
from regulus.nameserver import access
from regulus.nameserver import handlers as name_server_table
from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.metrics import nameserver_families
from regulus.nameserver.state import NameServerState
from regulus.server.access_files import AccessFiles, accounts_of
from regulus.server.clock import Clock, steady_clock_ms, wall_clock_ms
from regulus.server.documents import DocumentKeeper
from regulus.server.door import Door
from regulus.server.durability import Writer
from regulus.server.event_log import EventLog
from regulus.server.kv_documents import KvDocuments
from regulus.server.metrics_page import MetricsPageServer, bind_page
from regulus.server.ports import Bind, make_listener
from regulus.server.request_server import RequestServer
from regulus.server.tick_loop import TickLoop
from regulus.server.watchdog import Watchdog
from regulus.server.workers import Line, ThreadWorkers, Workers
from regulus.transport.config import TransportConfig
from regulus.transport.listener import bind
from regulus.transport.unfinished_frames import UnfinishedFrames
from regulus.wire.codes import RequestCode
from regulus.wire.metrics_text import MetricsPage
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

_DEFAULT_TRANSPORT = TransportConfig()
_DEFAULT_METRICS = MetricsConfig()
_OWN_CHANNEL = 0                # of a broker in the same process; connections count from 1
_TICK_MAX_MS = 1_000
_QUERIES_MAX = 1_024            # in progress: after a start all clients ask at once
_ROUTES = "routes"
_NOTHING_SAVED_LATER_MS = 3_600_000


def _never_durable(end: int, writer: Writer, frames: bytes, is_firm: bool = False,
                   sent: Callable[[int], None] | None = None) -> None:
    raise AssertionError("a name server stores no messages")


def _never_saved(change: int, release: Callable[[str], None]) -> None:
    raise AssertionError("this name server keeps nothing")


class NameServer:
    """A name server on its port. `workers` do what blocks, and end with it. `bind` takes the port. `rules` control its
    changes if it has no accounts of its own.

    It has its own account of frames, even in the process of a broker: registrations may crowd out other registrations,
    but not messages.
    """

    def __init__(self, config: NamesrvConfig, transport_config: TransportConfig = _DEFAULT_TRANSPORT,
                 clock: Clock = wall_clock_ms, steady_clock: Clock = steady_clock_ms,
                 workers: Workers | None = None, bind: Bind = bind,
                 rules: Callable[[], Rules] | None = None, metrics_config: MetricsConfig = _DEFAULT_METRICS) -> None:
        self._config = config
        self._metrics_config = metrics_config
        self.metrics: MetricsPageServer | None = None
        self._watchdog = Watchdog()
        self._is_running = False
        self._rules = rules
        self._workers = workers or ThreadWorkers()
        self._bind = bind
        self._transport_config = transport_config
        self._clock = clock
        self._steady_clock = steady_clock
        self._unfinished = UnfinishedFrames(transport_config)
        self._documents: KvDocuments | None = None
        self._keeper: DocumentKeeper | None = None
        self.state = NameServerState(config, steady_clock())
        self._accounts: AccessFiles | None = None
        self._door: Door | None = None
        self._answers: deque[Notice] = deque()
        self._long_answers = LongAnswers(self._answers, SettingsChanges(), count_max=_QUERIES_MAX,
                                         bodies_size_max=transport_config.large_frames_size_max)

    @property
    def port(self) -> int:
        return self._listener.port

    async def start(self) -> None:
        """Start. Raises OSError when the port is taken."""
        await self.open()
        await self.accept()

    async def open(self) -> None:
        """Do everything for a start except accepting connections. Raises OSError when the port is taken, ConfigError
        when the accounts cannot be read."""
        self._make_door()
        self._make_keeper()
        watchdog = self._watchdog
        handle = self._door.guard(self._decide) if self._door is not None else self._decide
        self._requests = RequestServer(handle, self.state, self._settle, _never_durable,
                                       self._keeper.when_saved if self._keeper is not None else _never_saved,
                                       self._channel_closed, self._tell_time)
        bound = self._bind(self._config.bind_address, self._config.listen_port)
        if self._metrics_config.is_served:
            try:
                page = bind_page(self._bind, self._metrics_config, self._config.bind_address)
            except OSError:
                bound.close()
                raise
            self.metrics = MetricsPageServer(self._metrics_config, page, watchdog)
            self.metrics.sources.append(self.fill)
            self.metrics.reasons.append(self.reasons)
        self._listener = make_listener([bound], self._requests, self._transport_config, watchdog, self._unfinished)
        if self._keeper is not None:
            await self._keeper.start()
        self._events = EventLog([self.state.routes.happenings],
                                [self.state.routes.faults, *([self._door.happenings] if self._door else [])])
        self._ticks = TickLoop(watchdog.watched("tick of the name server", self._tick), self._tell_time,
                               _TICK_MAX_MS)
        self._ticks.start()

    async def accept(self) -> None:
        """Accept connections. Raises OSError."""
        await self._listener.accept()
        if self.metrics is not None:
            await self.metrics.start()
        self._is_running = True

    def fill(self, page: MetricsPage) -> Iterator[None]:
        """Add the families of a name server."""
        self._tell_time()
        return nameserver_families(self.state, page, self._metrics_config.labels, len(self._listener.connections),
                                   self._watchdog.longest_ms(), self._requests.refusals.total)

    def reasons(self) -> list[str]:
        """Why this name server does not serve; empty when it does."""
        if not self._is_running:
            return ["the name server is starting or stopping"]
        if self._config.need_wait_for_service and self.state.steady_ms - self.state.started_ms \
                < self._config.wait_seconds_for_service * 1000:
            return ["the name server waits for brokers to register (needWaitForService)"]
        return []

    async def stop(self) -> None:
        self._is_running = False
        if self.metrics is not None:
            await self.metrics.stop()
        self._listener.ignore_input()
        self._ticks.stop()
        if self._keeper is not None:
            await self._keeper.stop()
        await self._listener.close()
        self._events.tell()
        self._requests.refusals.tell()
        self._workers.shutdown()

    def ask(self, request: RemotingCommand) -> RemotingCommand | None:
        """The answer to a request of the broker in this process."""
        now_ms = self._tell_time()
        denied = self._door.denial(request, self._own_peer()) if self._door else None
        if denied is not None:
            return request.response(denied.code, denied.remark)
        answer = name_server_table.handle(request, self._own_peer(), self.state, now_ms)
        self._settle(now_ms)
        return answer

    def _own_peer(self) -> Peer:
        own = host_bytes("127.0.0.1", self.port)
        return Peer(_OWN_CHANNEL, own, own, "this process", "127.0.0.1")

    def _tell_time(self) -> int:
        """Returns the time of day, and passes the steady time to the state."""
        self.state.steady_ms = self._steady_clock()
        return self._clock()

    def _tick(self, now_ms: int) -> int | None:
        wait_ms = self.state.tick(now_ms)
        if self._accounts is not None:
            self._accounts.tick(self.state.steady_ms)
        if self._long_answers.tick() == 0:
            wait_ms = 0
        self._settle(now_ms)
        self._events.tick(self.state.steady_ms)
        self._requests.refusals.tick(self.state.steady_ms)
        return wait_ms

    def _settle(self, now_ms: int) -> None:
        while self.state.notices:
            notice = self.state.notices.popleft()
            self._requests.tell(Notice(notice.channel, Reply(notice.command)))
        while self._answers:
            self._requests.tell(self._answers.popleft())
        self._requests.tell_faults(self._long_answers.faults)
        self._unfinished.keep(self._long_answers.bodies_size)
        if len(self._long_answers):
            self._ticks.hurry()

    def _channel_closed(self, channel: int, now_ms: int) -> None:
        self.state.channel_closed(channel, now_ms)
        self._long_answers.drop_channel(channel)

    def _decide(self, request: RemotingCommand, peer: Peer, state: NameServerState, now_ms: int) -> Outcome:
        is_change = request.code in name_server_table.ROUTE_CHANGES
        outcome = self._long_answers.begin(
            request, peer, name_server_table.handle_in_steps(request, peer, state, now_ms),
            is_deed=is_change and request.code != RequestCode.REGISTER_BROKER, line=_ROUTES if is_change else None)
        if self._documents is not None and self._documents.note_changes() and self._keeper is not None:
            self._keeper.settings_changed()
        if request.is_oneway:
            return NO_REPLY
        is_kept = request.code in name_server_table.SETTINGS and self._documents is not None
        return when_saved(outcome, state.kv_config.changes) if is_kept else outcome

    def _make_door(self) -> None:
        """Raises ConfigError."""
        config = self._config
        if config.acl_enable:
            accounts = accounts_of(config.rocketmq_home, config.inner_client_authentication_credentials,
                                   self._workers.line(Line.ACCOUNTS))
            self._accounts = accounts
            self._door = Door(lambda: accounts.rules, access.needs_of, access.OPEN)
        elif self._rules is not None:
            self._door = Door(self._rules, access.needs_of, access.OPEN)

    def _make_keeper(self) -> None:
        """Raises StoreDamaged, HeaderError."""
        if self._config.kv_config_path:
            line = self._workers.line
            self._documents = KvDocuments(Path(self._config.kv_config_path).expanduser(), self.state.kv_config)
            self._keeper = DocumentKeeper(self._documents, self._documents, line(Line.FLUSH), line(Line.DOCUMENTS),
                                          lambda: _NOTHING_SAVED_LATER_MS)
            for warning in self._documents.warnings:
                _log.warning("%s", warning)
