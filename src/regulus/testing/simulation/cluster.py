"""Name servers and brokers that start, stop, are killed, lose their power, and return on this or another host."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any, cast

from regulus.broker.config import BrokerConfig
from regulus.model import message_properties as names
from regulus.model.broker_role import BrokerRole
from regulus.model.message import MessageExt
from regulus.model.message_filter import EVERYTHING
from regulus.model.message_queue import MessageQueue
from regulus.model.store_rules import FlushDiskType
from regulus.nameserver.config import NamesrvConfig
from regulus.record import message_record
from regulus.server.assembly import BrokerServer
from regulus.server.name_server import NameServer
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.store.log_parting import RestingLog, find_parting
from regulus.store.wanted_cut import WantedCut, WantedCutFile
from regulus.testing.forgetful_disk import ForgetfulDisk
from regulus.testing.simulation.history import SPOILED, History, SendOutcome, Stored, key_of
from regulus.testing.simulation.loop import Node, SimulatedLoop, SimulatedWorkers
from regulus.testing.simulation.network import SimulatedNetwork
from regulus.testing.simulation.trace import Trace

NAME_SERVER_PORT = 9876
BROKER_PORT = 10911
DELAY_LADDER = "300ms 500ms 1s 2s 3s 5s"
STORE_SETTINGS: dict[str, Any] = {"mapped_file_size_commit_log": 64 << 10, "mapped_file_size_consume_queue": 4000,
                                  "mapped_file_size_timer_log": 4096,
                                  "message_index_enable": False, "mapped_files_max": 256,
                                  "flush_interval_commit_log": 1_000, "flush_interval_consume_queue": 3_000}
BROKER_SETTINGS: dict[str, Any] = {"message_delay_level": DELAY_LADDER, "transaction_time_out": 2_000,
                                   "transaction_check_interval": 3_000, "default_topic_queue_nums": 2,
                                   "register_name_server_period": 10_000}
UNSYNCED_MAX_S = 3.0
"""The longest time that an acknowledged message is only in memory: two intervals of the flush, and twice a slow
sync."""
_HOSTS_PER_REPLICA = 50
_READ_COUNT = 32
_READ_BYTES = 1 << 20


class Machines:
    """What all servers of a run share."""

    def __init__(self, loop: SimulatedLoop, network: SimulatedNetwork, home: Path, trace: Trace, history: History,
                 disk: ForgetfulDisk | None) -> None:
        self.loop = loop
        self.network = network
        self.home = home
        self.trace = trace
        self.history = history
        self.disk = disk
        """The disk on which power cuts are simulated; None: everything written stays."""

    @property
    def sender(self) -> str:
        """The sender of the request that a server is handling."""
        node = self.network.sender
        return node.name if node is not None else "the broker"

    def bind(self, node: Node, port: int) -> socket:
        return cast(socket, self.network.bind(node, port))

    def kill(self, node: Node, *, is_silent: bool) -> None:
        """End a node in the middle of what it does."""
        node.is_alive = False
        self.loop.drop(node)
        self.network.drop(node, is_silent=is_silent)
        self.history.died(node)


class SimulatedNameServer:
    def __init__(self, machines: Machines, number: int) -> None:
        self.name = f"ns{number}"
        self.host = f"10.1.0.{number}"
        self._machines = machines
        self._node: Node | None = None
        self._server: NameServer | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{NAME_SERVER_PORT}"

    @property
    def is_up(self) -> bool:
        return self._node is not None

    async def start(self) -> None:
        node = self._node = Node(self.name, self.host)
        self._server = NameServer(NamesrvConfig(listen_port=NAME_SERVER_PORT),
                                  workers=SimulatedWorkers(self._machines.loop),
                                  bind=lambda _, port: self._machines.bind(node, port))
        await self._machines.loop.create_task(self._server.start(), context=node.context)
        self._machines.trace.say(self.name, "is up")

    def kill(self) -> None:
        if self._node is not None:
            self._machines.kill(self._node, is_silent=False)
            self._node = None
            self._machines.trace.say(self.name, "is killed")

    async def stop(self) -> None:
        if self._node is not None and self._server is not None:
            self._node.is_closing = True
            await self._machines.loop.create_task(self._server.stop(), context=self._node.context)
            self._node = None


class SimulatedBroker:
    """A broker. `settings` are the broker's; those of its store are small, unless it has `log_file_size`, because a
    message has to fit into a file. Brokers of one name differ in their `replica`, which is 0 for the first master."""

    def __init__(self, machines: Machines, name: str, number: int, name_servers: str, *, syncs: bool,
                 replica: int = 0, role: BrokerRole = BrokerRole.ALONE, log_file_size: int = 0,
                 **settings: Any) -> None:
        self.name = f"{name}+{replica}" if replica else name
        self.broker_name = name
        self.host = f"10.2.{number}.{1 + _HOSTS_PER_REPLICA * replica}"
        self.syncs = syncs
        self.server: BrokerServer | None = None
        self.role = role
        self._node: Node | None = None
        self._replica = replica
        self._store_settings = {**STORE_SETTINGS, **(
            {"mapped_file_size_commit_log": log_file_size} if log_file_size else {})}
        self._settings: dict[str, Any] = {**BROKER_SETTINGS, "broker_name": name, "listen_port": BROKER_PORT,
                                          "namesrv_addr": name_servers, **settings}
        self.become(role)
        if syncs:
            self._settings["flush_disk_type"] = FlushDiskType.SYNC_FLUSH
        self._machines = machines
        self._number = number
        self._starts = 0
        self._boots = 1
        self._moves = 1 + _HOSTS_PER_REPLICA * replica
        self._workers = SimulatedWorkers(machines.loop)
        self._clock_s = 0.0
        self._is_busy = False
        self._up_since_s = 0.0
        self._root = machines.home / f"{self.name}-0"

    @property
    def is_up(self) -> bool:
        """Whether it serves: it is neither down nor starting or stopping."""
        return self._node is not None and not self._is_busy

    @property
    def up_for_s(self) -> float:
        """How long it has served; 0 when it does not."""
        return self._machines.loop.now - self._up_since_s if self.is_up else 0.0

    @property
    def is_master(self) -> bool:
        return self.role is not BrokerRole.SLAVE

    @property
    def store(self) -> FileMessageStore:
        """The store of the last start."""
        assert self.server is not None
        return self.server.store

    def topics(self) -> set[str]:
        """The topics that it knows, without those of the broker itself."""
        assert self.server is not None
        topics = self.server.broker.topics
        return {name for name in topics.names() if not topics.is_system(name)}

    def become(self, role: BrokerRole) -> None:
        """Set the role from the next start on."""
        assert self._node is None
        self.role = role
        self._settings |= {"broker_role": role, "broker_id": self._replica + 1 if role is BrokerRole.SLAVE else 0}

    def begin_empty(self) -> None:
        """Remove its folder before the next start."""
        assert self._node is None
        self._root = self._machines.home / f"{self.name}-{self._starts}-empty"

    def resync(self, master: "SimulatedBroker") -> str:
        """Do what `regulus store resync` does, before the next start, with all of the master's log; returns its output.
        Raises StoreDamaged when the two have no common record."""
        assert self._node is None
        config = MessageStoreConfig(store_path_root_dir=str(self._root), **STORE_SETTINGS)
        log = RestingLog(config.commit_log_directory)
        theirs = master.store
        finding = find_parting(log, theirs.commit_log_min_offset(), theirs.commit_log_max_offset())
        try:
            look = next(finding)
            while True:
                look = finding.send(_bytes_of(theirs, *look))
        except StopIteration as end:
            begin = end.value
        if begin is None:
            return "is cut nowhere: its master has all that it has"
        tail = log.behind(begin)
        WantedCutFile(config.root, config.commit_log_directory).save(
            WantedCut(begin=begin, end=tail.end, records=tail.records, reason="its master has another log"))
        return f"is cut at {begin}, where its log parts from its master's, and loses {tail.records} messages"

    def set_clock(self, ahead_s: float) -> None:
        """Set its time of day, apart from that of all others."""
        self._clock_s = ahead_s
        if self._node is not None:
            self._node.clock_s = ahead_s

    def slow_disk(self, slowness: float) -> None:
        """Make blocking work take that many times as long."""
        self._workers.slowness = slowness

    def has_root(self, path: Path) -> bool:
        """Whether a file belongs to this broker."""
        return path.is_relative_to(self._root)

    async def start(self) -> None:
        node = self._node = Node(self.name, self.host, self._boots)
        node.clock_s = self._clock_s
        self._is_busy = True
        machines = self._machines
        machines.network.lighten(self.host)
        self._workers = SimulatedWorkers(machines.loop)
        server = self.server = BrokerServer(
            BrokerConfig(**self._settings),
            MessageStoreConfig(store_path_root_dir=str(self._root), **self._store_settings),
            workers=self._workers, bind=lambda _, port: machines.bind(node, port))
        await machines.loop.create_task(server.start(), context=node.context)
        self._is_busy = False
        self._up_since_s = machines.loop.now
        if self.is_master:
            self._watch_offsets(server)
        end = server.store.commit_log_max_offset()
        machines.trace.say(self.name, f"is up at {self.host}, with the log up to {end}")
        if self.is_master and (self._starts or self._replica):
            machines.history.restarted(self.broker_name)
        self._starts += 1

    def kill(self) -> None:
        """End the process; everything that it wrote stays."""
        if self._node is not None and self.is_up:
            self._machines.trace.say(self.name, "is killed")
            self._machines.history.killed(self.broker_name)
            self._machines.kill(self._node, is_silent=False)
            root = self._next_root()
            if self._machines.disk is None:
                shutil.copytree(self._root, root)
            else:
                self._machines.disk.hand_over(self._root, root)
            self._root, self._node = root, None

    def cut_power(self, seed: int | None = None) -> None:
        """End the machine; its disk keeps what the seed, or chance, leaves of unsynced data."""
        assert self._machines.disk is not None
        if seed is None:
            seed = self._machines.loop.chance.randrange(1 << 30)
        if self._node is not None and self.server is not None and self.is_up:
            self._machines.trace.say(self.name, "loses its power")
            self._machines.history.killed(self.broker_name)
            self._machines.kill(self._node, is_silent=True)
            self._machines.network.darken(self.host)
            root = self._next_root()
            self._machines.disk.hand_over(self._root, root, seed)
            self._root, self._node = root, None
            self._boots += 1
            if not self.syncs and self.role is BrokerRole.ALONE:
                self.excuse(self._machines.history.now() - UNSYNCED_MAX_S)

    def move(self) -> None:
        """Use another host at the next start."""
        self._moves += 1
        self.host = f"10.2.{self._number}.{self._moves}"

    async def stop(self) -> None:
        if self._node is not None and self.server is not None:
            self._node.is_closing = self._is_busy = True
            await self._machines.loop.create_task(self.server.stop(), context=self._node.context)
            self._node, self._is_busy = None, False
            self._machines.trace.say(self.name, "is stopped")

    def _next_root(self) -> Path:
        return self._machines.home / f"{self.name}-{self._starts}"

    def excuse(self, since_s: float) -> None:
        """Excuse the loss of messages acknowledged here since then: this fault exceeds what was promised."""
        self._machines.history.lost_tails.add(self.broker_name)
        for sent in self._machines.history.sent.values():
            if sent.outcome is SendOutcome.STORED and sent.stored_s >= since_s and sent.queue is not None \
                    and sent.queue.broker_name == self.broker_name:
                sent.is_excused = True

    def _watch_offsets(self, server: BrokerServer) -> None:
        """Record each offset that the broker accepts, and each pull, in the history."""
        offsets = server.broker.consumer_offsets
        commit, note_pull = offsets.commit, offsets.pulls.note
        machines = self._machines

        def committed(group: str, topic: str, queue_id: int, consumer_offset: int, now_ms: int = 0) -> None:
            by = machines.sender
            if offsets.query(group, topic, queue_id) != consumer_offset:
                machines.trace.say(self.name, f"{group} is at {consumer_offset} of {topic} {queue_id}, says {by}")
            machines.history.committed(group, MessageQueue(topic, self.broker_name, queue_id), consumer_offset, by,
                                       server.store.max_offset(topic, queue_id))
            commit(group, topic, queue_id, consumer_offset, now_ms)

        def pulled(group: str, topic: str, queue_id: int, queue_offset: int) -> None:
            machines.history.pulled(group, MessageQueue(topic, self.broker_name, queue_id), machines.sender)
            note_pull(group, topic, queue_id, queue_offset)

        offsets.commit, offsets.pulls.note = committed, pulled   # type: ignore[method-assign]

    def stored(self) -> Iterator[Stored]:
        """All messages in all queues, as they are in the log now."""
        assert self.server is not None
        store = self.server.store
        for topic, queue_id in store.queues():
            for message in _messages(store, topic, queue_id):
                yield Stored(key_of(message.body), MessageQueue(topic, self.broker_name, queue_id),
                             message.queue_offset, message.body == SPOILED,
                             names.TIMER_ROLL_TIMES in message.properties)


def _messages(store: FileMessageStore, topic: str, queue_id: int) -> Iterator[MessageExt]:
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        found = store.get_message(topic, queue_id, offset, _READ_COUNT, _READ_BYTES, EVERYTHING)
        for buffer in found.buffers:
            yield from message_record.decode_all(buffer)
        if found.next_begin_offset <= offset:
            return
        offset = found.next_begin_offset


async def start_all(*servers: SimulatedNameServer | SimulatedBroker) -> None:
    await asyncio.gather(*(server.start() for server in servers if not server.is_up))


def _bytes_of(store: FileMessageStore, offset: int, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = store.log_bytes(offset + len(found), size - len(found))
        assert piece is not None
        found += piece
    return bytes(found)


def first_difference(one: SimulatedBroker, other: SimulatedBroker) -> int | None:
    """The first byte at which two logs differ, within the range that both have."""
    here, there = one.store, other.store
    offset = max(here.commit_log_min_offset(), there.commit_log_min_offset())
    end = min(here.commit_log_max_offset(), there.commit_log_max_offset())
    while offset < end:
        size = min(_READ_BYTES, end - offset)
        mine, others = here.log_bytes(offset, size), there.log_bytes(offset, size)
        assert mine is not None
        assert others is not None
        size = min(len(mine), len(others))
        if mine[:size] != others[:size]:
            return offset + next(place for place in range(size) if mine[place] != others[place])
        offset += size
    return None
