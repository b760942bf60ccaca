"""Assembles store, broker, name server, loops and listeners from the configuration.

This is the only module that knows all of them. A server is started once and stopped once.
"""

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from socket import socket

from regulus.access.credentials import made_credentials
from regulus.access.decision import Rules
from regulus.access.guard import Guard
from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.groups.consumer_offsets import Ahead
from regulus.broker.metrics.broker_metrics import BrokerMetrics
from regulus.broker.metrics.server_facts import ServerFacts
from regulus.broker.request_latencies import RequestLatencies
from regulus.broker.state import (
    CONSUMER_OFFSET_DOCUMENT,
    DELAY_OFFSET_DOCUMENT,
    SUBSCRIPTION_GROUP_DOCUMENT,
    TOPICS_DOCUMENT,
    BrokerState,
)
from regulus.broker.topics import batch_topics_in
from regulus.errors import ConfigError, HeaderError, RegulusError, StoreDamaged, StoreError
from regulus.model.metrics_config import MetricsConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.record.timer_units import TimerCheck
from regulus.server.access_files import AccessFiles, accounts_of
from regulus.server.clock import Clock, steady_clock_ms, wall_clock_ms
from regulus.server.deep_check_loop import DeepCheckLoop
from regulus.server.dispatch_loop import DispatchLoop
from regulus.server.documents import DocumentKeeper
from regulus.server.door import Door, Handle
from regulus.server.durability import Durability
from regulus.server.event_log import EventLog
from regulus.server.fact_finder import FactFinder
from regulus.server.flush_loop import FlushLoop
from regulus.server.ha_client import HA_PORT_OFFSET
from regulus.server.health import Health
from regulus.server.in_process import InProcessConnection, OnBrokerRequest
from regulus.server.left_out import left_out
from regulus.server.metrics_page import MetricsPageServer, bind_page
from regulus.server.name_server import NameServer
from regulus.server.nameserver_link import EmbeddedLink, NameServerDoor, NameserverLink
from regulus.server.ports import Bind, make_listener, take_vip_port
from regulus.server.readiness import Readiness
from regulus.server.replication import Replication, be_slave, longest_wait, ports_for_slaves
from regulus.server.request_server import RequestServer
from regulus.server.retention_loop import RetentionLoop
from regulus.server.route_asks import RouteAsks
from regulus.server.start_progress import StartProgress
from regulus.server.store_care import StoreCare
from regulus.server.tick_loop import TickLoop
from regulus.server.watchdog import Watchdog
from regulus.server.workers import Line, ThreadWorkers, Workers
from regulus.store import disk
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.transport.config import TransportConfig
from regulus.transport.connector import split_address
from regulus.transport.listener import bind, reachable
from regulus.wire.metrics_text import MetricsPage

_log = logging.getLogger(__name__)

_DEFAULT_TRANSPORT = TransportConfig()
_DEFAULT_METRICS = MetricsConfig()
_EXPECTED_DOCUMENTS = {
    TOPICS_DOCUMENT: "a topic is unknown until it is made anew or sent to (autoCreateTopicEnable), with the default "
                     "number of queues, and its messages cannot be pulled until then.",
    SUBSCRIPTION_GROUP_DOCUMENT: "Groups have the default settings.",
    CONSUMER_OFFSET_DOCUMENT: "Groups begin where a new one does, and pass over or repeat messages.",
    DELAY_OFFSET_DOCUMENT: "Delayed messages that the log still has are delivered once more."}
"""Documents that a broker with messages has, and the consequence if one is lost."""
_OTHER_OPEN_FILES = 256         # besides connections and mapped files


def _name_servers(text: str) -> list[tuple[str, int]]:
    """Parse `host:port;host:port`; blanks and empty entries are ignored."""
    try:
        return [split_address(address) for address in text.split(";") if address.strip()]
    except ValueError as error:
        raise ConfigError(f"namesrvAddr: {error}") from error


class BrokerServer:
    """A broker on its port, with its store.

    `name_server` is the one in this process, if there is one. `workers` do what blocks, and end with the broker. `bind`
    takes the port. Raises ConfigError when an entry of `namesrvAddr` is not an address.
    """

    def __init__(self, config: BrokerConfig, store_config: MessageStoreConfig, *,
                 name_server: NameServer | None = None, transport_config: TransportConfig = _DEFAULT_TRANSPORT,
                 clock: Clock = wall_clock_ms, steady_clock: Clock = steady_clock_ms,
                 workers: Workers | None = None, bind: Bind = bind,
                 metrics_config: MetricsConfig = _DEFAULT_METRICS) -> None:
        self._config = config
        self._metrics_config = metrics_config
        self.metrics: MetricsPageServer | None = None
        self._is_running = False
        self._bind = bind
        self._workers = workers or ThreadWorkers()
        self._store_config = store_config
        self._name_server = name_server
        self._transport_config = transport_config
        self._clock = clock
        self._steady_clock = steady_clock
        self._name_servers = _name_servers(config.namesrv_addr)
        self._watchdog = Watchdog()
        self._registered_changes = -1
        self._settings_changes = 0
        self._accounts: AccessFiles | None = None
        self.store = FileMessageStore(store_config, config, self._batch_topics)
        if config.is_slave:
            if name_server is not None:
                raise ConfigError("brokerRole is SLAVE, and a name server in the same process knows no master: start a "
                                  "slave by `regulus broker`, with the namesrvAddr of its master")
            be_slave(self.store, config)

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def is_guarded(self) -> bool:
        return bool(self._config.guard)

    @property
    def access_rules(self) -> Rules:
        """The rules in force, of a broker that has access control and is started."""
        return self._accounts.rules if self._accounts is not None else self.broker.users.rules

    def connect(self, on_request: OnBrokerRequest) -> InProcessConnection:
        """Connect a client in this process to the started broker; the caller also closes the connection."""
        connection = InProcessConnection(self._requests, reachable(self._transport_config.bind_address), self.port,
                                         on_request, self.broker.held_requests.withdraw)
        connection.open()
        return connection

    async def start(self) -> None:
        """Raises StoreError when the store cannot be opened, OSError when the port is taken, ConfigError when the
        accounts cannot be read."""
        disk.raise_open_files_limit(self._transport_config.connections_max + self._store_config.mapped_files_max
                                    + _OTHER_OPEN_FILES)
        if self._config.acl_enable:
            self._accounts = accounts_of(self._config.rocketmq_home,
                                         self._config.inner_client_authentication_credentials,
                                         self._workers.line(Line.ACCOUNTS))
        address = self._transport_config.bind_address
        for_clients = [self._bind(address, self._config.listen_port)]
        for_slaves: list[socket] = []
        for_metrics: list[socket] = []
        try:
            if self._metrics_config.is_served:
                for_metrics.append(bind_page(self._bind, self._metrics_config, self._config.broker_ip1 or address))
            port = for_clients[0].getsockname()[1]
            for_clients += take_vip_port(self._bind, address, port, self._config)
            for_slaves += [self._bind(address, each) for each in ports_for_slaves(self._config, port)]
            report = self.store.open(time.monotonic, StartProgress())
            _log.log(logging.WARNING if report.is_warning else logging.INFO, "store %s: %s", self._store_config.root,
                     report)
            self._make_parts(for_clients, *for_slaves)
            self._load_documents()
            if for_metrics:
                self._make_metrics(for_metrics[0])
        except (RegulusError, OSError):
            for taken in (*for_clients, *for_slaves, *for_metrics):
                taken.close()
            self.store.close()
            raise
        try:
            await self._start_parts()
            await self._listener.accept()
            if self.metrics is not None:
                await self.metrics.start()
        except (StoreError, OSError):
            await self._end_parts()
            raise
        # Only now, because a client that finds the broker through a name server connects at once.
        await self._door.start()
        self._health.start()
        self._settle(self._clock())
        self._is_running = True

    async def stop(self) -> None:
        """Stop cleanly: no request is accepted any more, answers leave, everything is on disk, the store is closed.

        Requests are refused from the first moment on, and all connections are closed before the workers end, because
        closing them may need the workers.
        """
        self._is_running = False
        self._listener.ignore_input()
        await self._door.stop()
        await self._end_parts()
        _log.info("broker stopped; %s is closed", self._store_config.root)

    async def _end_parts(self) -> None:
        self._health.stop()
        self._ticks.stop()
        self._route_asks.stop()
        if self.metrics is not None:
            await self.metrics.stop()
        await self._replication.end_copying()
        await self._end_deeds()
        self._dispatch.stop()
        self._requests.stop()
        await self._keeper.stop()
        await self._flush.stop()
        self._durability.stop()
        await self._replication.stop()
        await self._listener.close()
        await self._retention.stop()
        await self._deep_check.stop()
        await self._care.stop()
        await self._keeper.save_all()
        now_ms = self._clock()
        if not self.broker.config.is_slave:
            self.broker.pop_flights.stop(self.broker.own_host, now_ms)
        self.broker.timers.stop(now_ms)
        self._events.tell()
        self._requests.refusals.tell()
        self._workers.shutdown()
        try:
            self.store.close()
        except StoreError as error:
            raise type(error)(f"the broker has stopped, but {self._store_config.root} could not be closed as it "
                              f"should: {error}. The next start checks its log as after a kill") from error

    async def _end_deeds(self) -> None:
        """Finish and answer a deletion that has begun, before the last documents are saved."""
        while self.broker.long_answers.end_deed():
            self._requests.settle_safely(self._clock())
            await asyncio.sleep(0)

    # --- start -------------------------------------------------------------------------------------------------------

    def _make_parts(self, for_clients: Sequence[socket], ha_bound: socket | None = None) -> None:
        config = replace(self._config, listen_port=for_clients[0].getsockname()[1])
        seed = int.from_bytes(os.urandom(8), "big")
        self.broker = BrokerState(config, self.store, now_ms=self._clock(), steady_ms=self._steady_clock(), seed=seed)
        if self._metrics_config.is_served:
            self.broker.latencies = RequestLatencies()
        line, watched = self._workers.line, self._watchdog.watched
        self._durability = Durability(longest_wait(config, self._store_config) / 1000,
                                      watched("making visible what was flushed", self._make_visible))
        self._replication = Replication(config, self.store, ha_bound, self._durability, self._follow_master,
                                        self.broker.consumer_offsets.told, self._follow_timers,
                                        watched("making visible what was copied", self._copied),
                                        self.broker.log_compared, self._clock, self._transport_config)
        self.broker.ha_status = self._replication.status
        self._flush = FlushLoop(self.store, self._store_config, line(Line.FLUSH), self._durability,
                                is_awaited=config.sync_flush, on_flushed=self._replication.flushed,
                                on_failed=self._hide_what_failed)
        self._facts = FactFinder(self.broker, self.store, self._store_config)
        self._care = StoreCare(self.store, self._store_config, self._steady_clock, line(Line.ROOM), line(Line.QUEUES))
        self._deep_check = DeepCheckLoop(self.store, line(Line.CHECK))
        self._retention = RetentionLoop(self.store, self.broker, self._clock, line(Line.RETENTION),
                                        self._replication.copied_offset, self._replication.forcible_offset)
        self._keeper = DocumentKeeper(self.store, self.broker, line(Line.FLUSH), line(Line.DOCUMENTS),
                                      self._save_interval_ms)
        clients, filters = self.broker.clients, self.broker.consumer_filters
        self._events = EventLog([self._keeper.happenings, clients.happenings], [clients.faults, filters.faults])
        self._events.add_faults(self.broker.pop_revival.happenings)
        self._events.add_faults(self.broker.timers.happenings)
        self._events.add_faults(self.broker.storing.happenings)
        self._events.add_texts(self.broker.dead_letters)
        self._events.add_texts(self.broker.pop_revival.dead_letters)
        self._dispatch = DispatchLoop(self.store, lambda: self.broker.held_requests.queues,
                                      watched("waking held pulls", self.broker.message_arrived), self._clock)
        self._ticks = TickLoop(watched("tick of the broker", self._tick), self._tell_time)
        handle: Handle = request_table.handle_as_slave if config.is_slave else request_table.handle
        door = self._make_access()
        if door is not None:
            handle = door.guard(handle)
        self._requests = RequestServer(handle, self.broker, self._settle, self._durability.answer_when_durable,
                                       self._keeper.when_saved, self.broker.channel_closed, self._tell_time,
                                       self.broker.latencies)
        self._listener = make_listener(for_clients, self._requests, self._transport_config, self._watchdog)
        self._door = self._make_door(self._replication.port or config.listen_port + HA_PORT_OFFSET)
        self._route_asks = RouteAsks(self.broker, self._door, self._send_notices)
        self._health = self._make_health()

    def _make_metrics(self, bound: socket) -> None:
        """The page of this process; other servers of it add what they have."""
        self.metrics = MetricsPageServer(self._metrics_config, bound, self._watchdog)
        families = BrokerMetrics(self.broker, self._metrics_config.labels,
                                 has_exporter_names=self._metrics_config.metrics_exporter_names_enable)
        readiness = Readiness(self.broker, self.store, self._door, self._replication,
                              bool(self._name_servers) or self._name_server is not None, lambda: self._is_running)

        def fill(page: MetricsPage) -> Iterator[None]:
            facts = ServerFacts(
                connections=len(self._listener.connections), longest_step_ms=self._watchdog.longest_ms(),
                is_ready=not readiness.reasons(), complaints=len(self.broker.complaints),
                refused=self._requests.refusals.total)
            return families.fill(page, facts, self._tell_time())

        self.metrics.sources.append(fill)
        self.metrics.reasons.append(readiness.reasons)
        if self._name_server is not None:
            self.metrics.sources.append(self._name_server.fill)
            self.metrics.reasons.append(self._name_server.reasons)

    def _make_health(self) -> Health:
        health, store, config = Health(self._take_complaints), self.store, self.broker.config
        store_config = self._store_config
        health.watch("flushing the commit log", lambda: store.flushed_offset,
                     lambda: store.flushed_offset < store.commit_log_max_offset(),
                     lambda: store_config.flush_interval_commit_log / 1000)
        health.watch("making messages visible", lambda: store.commit_log_max_offset() - store.dispatch_behind_bytes(),
                     lambda: store.dispatch_behind_bytes() > 0)
        health.watch("the tick of the broker", lambda: self._ticks.ticks)
        health.watch("saving documents", lambda: self._keeper.rounds, pause_s=lambda: self._save_interval_ms() / 1000)
        health.watch("bringing queues and checkpoint to disk", lambda: self._care.rounds,
                     pause_s=lambda: store_config.flush_interval_consume_queue / 1000)
        health.watch("looking after old files", lambda: self._retention.passes,
                     pause_s=lambda: self.broker.config.clean_resource_interval / 1000)
        if self._name_servers or self._name_server is not None:
            health.watch("registration with a name server", lambda: self._door.registrations,
                         pause_s=lambda: self.broker.config.register_name_server_period / 1000, level=logging.WARNING)
        if config.is_slave:
            health.watch("the link to the master", lambda: 0, lambda: not self._replication.is_linked,
                         level=logging.WARNING)
        health.watch_fault(lambda: self.broker.parted)
        health.watch_fault(lambda: self._keeper.fault)
        health.watch_fault(lambda: self._care.faults)
        return health

    def _take_complaints(self, complaints: Sequence[str]) -> None:
        self.broker.complaints = complaints

    def _make_access(self) -> Door | None:
        """Access control by accounts, or by users; None when everything is allowed."""
        accounts, users = self._accounts, self.broker.users
        if accounts is not None:
            door = Door(lambda: accounts.rules, request_table.needs_of)
        elif users.is_kept:
            door = Door(lambda: users.rules, request_table.needs_of)
        else:
            return None
        self.broker.access_documents = accounts
        self.broker.guard = Guard(lambda: self.access_rules, door.denial, door.note)
        self._events.add_faults(door.happenings)
        return door

    def _make_door(self, ha_port: int) -> NameServerDoor:
        if self._name_server is not None:
            return EmbeddedLink(self.broker, self.port, ha_port, self._name_server.ask)
        if not self._name_servers:
            _log.warning("no name server is configured (namesrvAddr): clients will find no route to this broker")
        return NameserverLink(self.broker, self.port, ha_port, self._name_servers, self._replication.master_at,
                              self._transport_config)

    def _batch_topics(self) -> list[str]:
        """Raises StoreDamaged when a document is not whole; an unreadable one is reported later."""
        with suppress(HeaderError):
            return batch_topics_in(self.store.load_config(TOPICS_DOCUMENT) or "{}")
        return []

    def _load_documents(self) -> None:
        documents = {name: self.store.load_config(name) for name in [kept.name for kept in self.broker.kept_parts]}
        for warning in (*self.store.configs.warnings, *self._missing_documents(documents),
                        *self._config.warnings()):
            _log.warning("%s", warning)
        try:
            self.broker.load_documents({name: text for name, text in documents.items() if text is not None})
        except HeaderError as error:
            raise StoreDamaged(f"a document in {self._store_config.root / 'config'} is damaged: {error}; put its .bak "
                               "in its place, or move it away to start without it") from error
        self.broker.users.begin()
        self.broker.lower_offsets(self._clock())
        self.broker.timers.open(self._clock())
        told = (left_out(self.store, self.broker.timers, self._clock()) if self._store_config.take_what_is_readable
                else "")
        for warning in (*([told] if told else []), *self.broker.unserved_attributes(),
                        *([] if self._config.is_slave else self.broker.users.warnings()),
                        *self.broker.delay_schedule.warnings()):
            _log.warning("%s", warning)

    def _missing_documents(self, documents: Mapping[str, str | None]) -> Iterator[str]:
        """A sentence if the log has messages whose topics are unknown."""
        if documents[TOPICS_DOCUMENT] is not None or not self.store.commit_log_max_offset():
            return
        missing = [name for name, text in documents.items() if text is None and name in _EXPECTED_DOCUMENTS]
        what_follows = " ".join([_EXPECTED_DOCUMENTS[name] for name in missing])
        yield (f"the log has messages, and {self._store_config.root / 'config'} has no "
               f"{' nor '.join([f'{name}.json' for name in missing])}: {what_follows} Where it was not meant so, stop "
               "the broker and bring the folder back from a backup or replica")

    async def _start_parts(self) -> None:
        await self._keeper.start()
        self._dispatch.run(self._clock())
        self._flush.start()
        self._care.start()
        self._deep_check.start()
        self._retention.start()
        self._ticks.start()
        await self._replication.start()

    # --- while running -----------------------------------------------------------------------------------------------

    def _tell_time(self) -> int:
        """Returns the time of day, and passes the steady time to the broker."""
        self.broker.steady_ms = self._steady_clock()
        return self._clock()

    def _tick(self, now_ms: int) -> int | None:
        wait_ms = self.broker.tick(now_ms)
        self._facts.tick(self.broker.steady_ms)
        if self._accounts is not None:
            self._accounts.tick(self.broker.steady_ms)
        self._settle(now_ms)
        self._events.tick(self.broker.steady_ms)
        self._requests.refusals.tick(self.broker.steady_ms)
        return wait_ms

    def _settle(self, now_ms: int) -> None:
        """Called after each batch: save and register changes, dispatch what was appended, send notices."""
        broker = self.broker
        if broker.settings.count != self._settings_changes:
            self._settings_changed()
        self._replication.appended()
        if not self._durability.is_awaited:
            self._dispatch.run(now_ms)
        self._care.make_room()
        self._route_asks.take()
        if broker.is_retention_wanted or broker.is_queue_cleaning_wanted:
            self._retention.take_orders()
        self._send_notices()

    def _make_visible(self) -> None:
        """With SYNC_FLUSH, dispatch what is on disk, after its senders were answered. Otherwise the flush comes
        first."""
        self._dispatch.run(self._clock())
        self._send_notices()

    def _hide_what_failed(self) -> None:
        """With SYNC_FLUSH, do not serve messages that may not be on disk: after a power cut, other messages get their
        numbers."""
        if self._config.sync_flush:
            self._dispatch.stop()

    def _copied(self) -> None:
        """Called when a slave's log has grown."""
        if any(topic not in self.broker.topics for topic in self.store.copy.take_topics()):
            self._replication.hurry_documents()
        if self.broker.config.sync_flush:
            self._flush.hasten()
        self._care.make_room()
        self._make_visible()

    def _follow_master(self, documents: Mapping[str, str], log_end: int) -> list[Ahead]:
        """Raises HeaderError."""
        now_ms = self._tell_time()
        ahead = self.broker.follow(documents, log_end, now_ms, is_copy=self._replication.is_copy)
        self._settle(now_ms)
        return ahead

    def _follow_timers(self, told: TimerCheck, log_end: int, counts: str) -> None:
        """Raises HeaderError."""
        if self._replication.is_copy:
            self.broker.timers.follow(told, log_end)
            self.broker.timers.counts.follow(counts)

    def _send_notices(self) -> None:
        while self.broker.notices:
            self._requests.tell(self.broker.notices.popleft())
        self._requests.tell_faults(self.broker.long_answers.faults)
        if self.broker.wants_tick:
            self._ticks.hurry()

    def _settings_changed(self) -> None:
        self._keeper.settings_changed()
        self._settings_changes = self.broker.settings.count
        if self.broker.registration_changed != self._registered_changes:
            self._registered_changes = self.broker.registration_changed
            self._door.topics_changed()

    def _save_interval_ms(self) -> int:
        config = self.broker.config
        return max(1, min(config.flush_consumer_offset_interval, config.flush_delay_offset_interval))


class Regulus:
    """A broker and a name server in one process, each with its own workers: the broker ends first. `bind` takes the
    ports. They have one page of metrics."""

    def __init__(self, config: BrokerConfig, store_config: MessageStoreConfig, namesrv_config: NamesrvConfig, *,
                 transport_config: TransportConfig = _DEFAULT_TRANSPORT, clock: Clock = wall_clock_ms,
                 steady_clock: Clock = steady_clock_ms, workers: Workers | None = None,
                 name_server_workers: Workers | None = None, bind: Bind = bind,
                 metrics_config: MetricsConfig = _DEFAULT_METRICS) -> None:
        is_guarded = bool(config.guard) or namesrv_config.acl_enable
        if is_guarded and not config.inner_client_authentication_credentials:
            # The two authenticate each other by a secret that exists only in this process.
            inner = made_credentials(os.urandom(32))
            config = replace(config, inner_client_authentication_credentials=inner)
            namesrv_config = replace(namesrv_config, inner_client_authentication_credentials=inner)
        # Users belong to the broker; the name server gets no requests before there is one.
        rules = self._user_rules if config.authentication_enabled else None
        self.name_server = NameServer(namesrv_config, transport_config, clock, steady_clock, name_server_workers, bind,
                                      rules)
        self.broker_server = BrokerServer(config, store_config, name_server=self.name_server,
                                          transport_config=transport_config, clock=clock, steady_clock=steady_clock,
                                          workers=workers, bind=bind, metrics_config=metrics_config)

    def _user_rules(self) -> Rules:
        return self.broker_server.broker.users.rules

    async def start(self) -> None:
        """Start both. The name server accepts connections only after the broker has registered: otherwise it would
        answer that its topics do not exist, and clients believe that."""
        await self.name_server.open()
        try:
            await self.broker_server.start()
        except (RegulusError, OSError):
            await self.name_server.stop()
            raise
        try:
            await self.name_server.accept()
        except OSError:
            await self.stop()
            raise

    async def stop(self) -> None:
        try:
            await self.broker_server.stop()
        finally:
            await self.name_server.stop()
