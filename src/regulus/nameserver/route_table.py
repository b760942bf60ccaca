"""Which broker serves which topic, and which brokers are alive.

A broker name has a row of addresses (id -> address, 0 is the master) and, in each of its topics, one row of queues. A
row of addresses exists as long as one of its addresses is registered. When the last one is removed, because its
connection closed, its registration lapsed or it unregistered, the name leaves its cluster and all topics. Further
tables keep the topics in which a name has rows, and the addresses that a connection registered: registering or removing
a broker costs time proportional to that broker, not to the tables.

Source: RouteInfoManager.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from regulus.model import permission
from regulus.model.happenings import Happenings
from regulus.model.topics import DataVersion, TopicConfig

MASTER_ID = 0
DEFAULT_BROKER_TIMEOUT_MS = 120_000
TOPIC_SYS_FLAG_UNIT = 1
TOPIC_SYS_FLAG_UNIT_SUB = 2
SYNC_BROKER_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


class QueueRow(NamedTuple):
    """The queues of one topic on one broker name."""

    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int


@dataclass(slots=True)
class BrokerRow:
    """The addresses of one broker name."""

    cluster_name: str
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False
    zone_name: str | None = None


@dataclass(slots=True)
class BrokerLiveInfo:
    """One registered address. Its registration lapses `timeout_ms` after `heard_ms`, in steady time."""

    broker_name: str
    broker_id: int
    channel: int
    data_version: DataVersion
    ha_server_addr: str
    heard_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The content of a broker's registration; `topics` is None if it sent no topic table."""

    cluster_name: str
    broker_name: str
    broker_id: int
    broker_addr: str
    ha_server_addr: str
    channel: int
    data_version: DataVersion
    topics: Mapping[str, TopicConfig] | None = None
    gone_topics: tuple[str, ...] = ()
    """Topics that the broker deleted without a request to do so."""
    filter_servers: tuple[str, ...] | None = None
    timeout_ms: int | None = None
    enable_acting_master: bool | None = None
    """None for a broker that does not support acting masters."""
    zone_name: str | None = None


class Registered(NamedTuple):
    """Answer to a registration; the addresses are set for a slave whose master is alive."""

    accepted: bool
    master_addr: str | None = None
    ha_server_addr: str | None = None
    min_broker_id_changed: bool = False


class MinBrokerIdChange(NamedTuple):
    """The lowest id of `broker_name` changed; `channels` are the connections of the brokers to notify."""

    broker_name: str
    min_broker_id: int
    min_broker_addr: str
    offline_broker_addr: str | None
    ha_broker_addr: str | None
    channels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The rows of one topic by broker name, and the addresses of these brokers."""

    queues: dict[str, QueueRow]
    brokers: dict[str, BrokerRow]
    filter_servers: dict[str, list[str]]


class RouteTable:
    """The routes of all topics.

    `happenings` collects which brokers came and went, and which routes were changed other than by a first registration.
    `faults` collects pairs of brokers with the same name and id, each time that one of them registers.
    """

    def __init__(self) -> None:
        self.happenings = Happenings()
        self.faults = Happenings()
        self.topics: dict[str, dict[str, QueueRow]] = {}
        self.brokers: dict[str, BrokerRow] = {}
        self.clusters: dict[str, set[str]] = {}
        self._topics_of: dict[str, dict[str, None]] = {}    # by broker name, topics in which it has a row
        self._channels: dict[int, dict[tuple[str, str], None]] = {}
        self._live: dict[tuple[str, str], BrokerLiveInfo] = {}
        self._filter_servers: dict[tuple[str, str], tuple[str, ...]] = {}

    # --- brokers arrive------------------------------------------------------------------------------------------------

    @property
    def live_count(self) -> int:
        """Registered addresses of brokers."""
        return len(self._live)

    def silences(self, steady_ms: int) -> list[tuple[str, str, str, int]]:
        """Cluster, name and address of each registered broker, and for how many ms it has been silent."""
        return [(cluster, live.broker_name, address, max(0, steady_ms - live.heard_ms))
                for (cluster, address), live in self._live.items()]

    def register(self, registration: Registration, steady_ms: int, delete_missing_topics: bool = False) -> Registered:
        """Register a broker in one step, so that no other change sees half of it.

        An unknown broker that sends only one topic is not accepted, because that is an update without its base.
        """
        known = self.brokers.get(registration.broker_name)
        if len(registration.topics or ()) == 1 and (known is None or registration.broker_id not in known.broker_addrs):
            return Registered(accepted=False)
        self.clusters.setdefault(registration.cluster_name, set()).add(registration.broker_name)
        first = known is None
        row = self.brokers.setdefault(registration.broker_name,
                                      BrokerRow(registration.cluster_name, registration.broker_name))
        row.enable_acting_master = bool(registration.enable_acting_master)
        row.zone_name = registration.zone_name
        min_changed = bool(row.broker_addrs) and registration.broker_id < min(row.broker_addrs)
        _forget_other_ids(row, registration)
        holder = row.broker_addrs.get(registration.broker_id)
        if self._is_outdated(row, registration):
            self._note_twins(row, registration, holder, "is not taken")
            self._take_live((registration.cluster_name, registration.broker_addr))
            return Registered(accepted=True)
        first = first or not holder
        is_new = holder != registration.broker_addr
        row.broker_addrs[registration.broker_id] = registration.broker_addr
        self._take_topics(row, registration, first, delete_missing_topics)
        self._note_broker(row, registration, is_new)
        if is_new:
            self._note_twins(row, registration, holder, "took its place")
        self._enter_live(registration, steady_ms)
        master_addr, ha_server_addr = self._master_of(row, registration)
        return Registered(True, master_addr, ha_server_addr, min_changed)

    def _note_twins(self, row: BrokerRow, registration: Registration, holder: str | None, what: str) -> None:
        """Two brokers of different clusters conflict too: a route does not distinguish clusters, so the messages of one
        of them would not be found."""
        places = [f"{holder} in cluster {cluster}" for cluster in self.clusters if (cluster, holder) in self._live]
        if places:
            self.faults.note("brokers of one name and id, of which clients find one alone",
                             f"{row.broker_name} (id {registration.broker_id}) at {registration.broker_addr} in "
                             f"cluster {registration.cluster_name} {what} where {places[0]} is registered: it has "
                             "moved, or one of both needs another name")

    def _note_broker(self, row: BrokerRow, registration: Registration, is_new: bool) -> None:
        """Note the arrival of a broker, which may send the rest of its topics in later requests."""
        live = self._live.get((registration.cluster_name, registration.broker_addr))
        described = self._described(row, registration.broker_addr, " so far")
        if is_new:
            self.happenings.note("brokers registered", described)
        elif live is not None and live.channel != registration.channel:
            self.happenings.note("brokers registered over another connection", described)

    def _described(self, row: BrokerRow, address: str, so_far: str = "") -> str:
        broker_id = next(key for key, value in row.broker_addrs.items() if value == address)
        topics = len(self._topics_of.get(row.broker_name, ()))
        # A broker on the name server's machine has whatever address clients use for the name server.
        host, _, port = address.rpartition(":")
        place = f"beside this name server, at port {port}" if host == "0.0.0.0" else f"at {address}"
        return f"{row.broker_name} {place} (id {broker_id}, {topics} topics{so_far})"

    def heartbeat(self, cluster_name: str, broker_addr: str, steady_ms: int) -> None:
        """Renew a registration; an unknown one is ignored."""
        live = self._live.get((cluster_name, broker_addr))
        if live is not None:
            live.heard_ms = steady_ms

    def has_place(self, broker_name: str, broker_id: int) -> bool:
        """Whether routes name a broker of this name and id, at any address."""
        row = self.brokers.get(broker_name)
        return row is not None and broker_id in row.broker_addrs

    def data_version(self, cluster_name: str, broker_addr: str) -> DataVersion | None:
        """The data version in the last registration of the broker at this address."""
        live = self._live.get((cluster_name, broker_addr))
        return None if live is None else live.data_version

    def _is_outdated(self, row: BrokerRow, registration: Registration) -> bool:
        """Whether another address with this id has a later state: then the new broker is a deposed master."""
        holder = row.broker_addrs.get(registration.broker_id)
        if holder is None or holder == registration.broker_addr:
            return False
        live = self._live.get((registration.cluster_name, holder))
        return live is not None and live.data_version.state_version > registration.data_version.state_version

    def _take_topics(self, row: BrokerRow, registration: Registration, first: bool, delete_missing: bool) -> None:
        is_master = registration.broker_id == MASTER_ID
        is_prime_slave = (registration.enable_acting_master is not None and not is_master
                          and registration.broker_id == min(row.broker_addrs))
        if registration.topics is None or not (is_master or is_prime_slave):
            return
        if delete_missing:
            self._drop_noted(row.broker_name, [topic for topic in self._topics_of.get(row.broker_name, ())
                                               if topic not in registration.topics])
        of_broker = self._topics_of.get(row.broker_name, {})
        self._drop_noted(row.broker_name, [topic for topic in dict.fromkeys(registration.gone_topics)
                                           if topic in of_broker])
        known = self.data_version(registration.cluster_name, registration.broker_addr)
        changed = first or known != registration.data_version
        for topic, config in registration.topics.items():
            if changed or row.broker_name not in self.topics.get(topic, {}):
                perm = config.perm & ~permission.WRITE if is_prime_slave and row.enable_acting_master else config.perm
                self._enter_row(topic, row.broker_name, QueueRow(config.read_queue_nums, config.write_queue_nums, perm,
                                                                 config.topic_sys_flag), is_noted=not first)

    def _enter_row(self, topic: str, broker_name: str, row: QueueRow, *, is_noted: bool = True) -> None:
        rows = self.topics.setdefault(topic, {})
        if is_noted and rows.get(broker_name) != row:
            self.happenings.note("routes changed" if broker_name in rows else "routes added",
                                 f"{topic} on {broker_name}")
        rows[broker_name] = row
        self._topics_of.setdefault(broker_name, {})[topic] = None

    def _enter_live(self, registration: Registration, steady_ms: int) -> None:
        key = (registration.cluster_name, registration.broker_addr)
        timeout_ms = DEFAULT_BROKER_TIMEOUT_MS if registration.timeout_ms is None else registration.timeout_ms
        self._take_live(key)
        self._channels.setdefault(registration.channel, {})[key] = None
        self._live[key] = BrokerLiveInfo(
            broker_name=registration.broker_name, broker_id=registration.broker_id, channel=registration.channel,
            data_version=registration.data_version, ha_server_addr=registration.ha_server_addr,
            heard_ms=steady_ms, timeout_ms=timeout_ms)
        if registration.filter_servers:
            self._filter_servers[key] = registration.filter_servers
        elif registration.filter_servers is not None:
            self._filter_servers.pop(key, None)

    def _take_live(self, key: tuple[str, str]) -> BrokerLiveInfo | None:
        live = self._live.pop(key, None)
        if live is not None:
            of_channel = self._channels[live.channel]
            del of_channel[key]
            if not of_channel:
                del self._channels[live.channel]
        return live

    def _master_of(self, row: BrokerRow, registration: Registration) -> tuple[str | None, str | None]:
        master_addr = row.broker_addrs.get(MASTER_ID)
        if registration.broker_id == MASTER_ID or master_addr is None:
            return None, None
        live = self._live.get((registration.cluster_name, master_addr))
        return (None, None) if live is None else (master_addr, live.ha_server_addr)

    # --- brokers
    # leave--------------------------------------------------------------------------------------------------

    def unregister(self, cluster_name: str, broker_name: str, broker_addr: str, broker_id: int,
                   cause: str = "brokers unregistered") -> MinBrokerIdChange | None:
        """Drop one address; `cause` is the kind of the event noted. Returns the notice for the remaining brokers of
        that name if their lowest id changed."""
        live = self._take_live((cluster_name, broker_addr))
        self._filter_servers.pop((cluster_name, broker_addr), None)
        row = self.brokers.get(broker_name)
        if row is None:
            return None
        if broker_addr in row.broker_addrs.values():
            self.happenings.note(cause, self._described(row, broker_addr))
        min_leaves = bool(row.broker_addrs) and broker_id == min(row.broker_addrs)
        row.broker_addrs = {key: value for key, value in row.broker_addrs.items() if value != broker_addr}
        if not row.broker_addrs:
            self._drop_broker(cluster_name, broker_name)
            return None
        if row.enable_acting_master and MASTER_ID not in row.broker_addrs:
            self.wipe_write_perm(broker_name)
        return self.min_broker_id_change(broker_name, broker_addr, live.ha_server_addr if live else None) \
            if min_leaves else None

    def channel_closed(self, channel: int) -> list[MinBrokerIdChange]:
        """Drop all brokers registered over this connection."""
        return self._unregister_all(list(self._channels.get(channel, ())),
                                    "brokers forgotten whose connection closed")

    def expire(self, steady_ms: int) -> list[MinBrokerIdChange]:
        """Drop all brokers whose registration lapsed."""
        return self._unregister_all([key for key, live in self._live.items()
                                     if live.heard_ms + live.timeout_ms < steady_ms],
                                    "brokers forgotten that went silent")

    def min_broker_id_change(self, broker_name: str, offline_addr: str | None,
                             ha_addr: str | None) -> MinBrokerIdChange | None:
        """The notice: for all remaining brokers when one left, for all but the new one when one came."""
        row = self.brokers.get(broker_name)
        if row is None or not row.broker_addrs:
            return None
        lowest = min(row.broker_addrs)
        told = [address for broker_id, address in row.broker_addrs.items()
                if offline_addr is not None or len(row.broker_addrs) == 1 or broker_id != lowest]
        lives = [self._live.get((row.cluster_name, address)) for address in told]
        return MinBrokerIdChange(broker_name, lowest, row.broker_addrs[lowest], offline_addr, ha_addr,
                                 tuple(live.channel for live in lives if live is not None))

    def _unregister_all(self, keys: list[tuple[str, str]], cause: str) -> list[MinBrokerIdChange]:
        changes = []
        for cluster_name, broker_addr in keys:
            live = self._live[cluster_name, broker_addr]
            changes.append(self.unregister(cluster_name, live.broker_name, broker_addr, live.broker_id, cause))
        return [change for change in changes if change is not None]

    def _drop_broker(self, cluster_name: str, broker_name: str) -> None:
        del self.brokers[broker_name]
        names = self.clusters.get(cluster_name, set())
        names.discard(broker_name)
        if not names:
            self.clusters.pop(cluster_name, None)
        self._drop_rows(broker_name, list(self._topics_of.get(broker_name, ())))

    def _drop_noted(self, broker_name: str, topics: Sequence[str]) -> None:
        for topic in topics:
            self.happenings.note("routes deleted", f"{topic} on {broker_name}")
        self._drop_rows(broker_name, topics)

    def _drop_rows(self, broker_name: str, topics: Iterable[str]) -> None:
        """Remove the rows of a broker in these topics."""
        of_broker = self._topics_of.get(broker_name, {})
        for topic in topics:
            rows = self.topics[topic]
            del rows[broker_name], of_broker[topic]
            if not rows:
                del self.topics[topic]
        if not of_broker:
            self._topics_of.pop(broker_name, None)

    # --- topics -------------------------------------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRoute | None:
        """None when no broker serves the topic."""
        queues = self.topics.get(topic)
        if not queues:
            return None
        brokers = {name: self.brokers[name] for name in queues if name in self.brokers}
        if not brokers:
            return None
        filter_servers = {
            address: list(self._filter_servers.get((row.cluster_name, address), ()))
            for row in brokers.values() for address in row.broker_addrs.values()
            if (row.cluster_name, address) in self._filter_servers}
        return TopicRoute(dict(queues), brokers, filter_servers)

    def register_topic(self, topic: str, rows: Mapping[str, QueueRow]) -> None:
        """Add rows of known brokers; others are ignored."""
        for name, row in rows.items():
            if name in self.brokers:
                self._enter_row(topic, name, row)

    def delete_topic(self, topic: str, cluster_name: str | None = None) -> None:
        """Drop a topic, or only its rows of one cluster's brokers."""
        members = None if cluster_name is None else self.clusters.get(cluster_name, set())
        for broker_name in list(self.topics.get(topic, ())):
            if members is None or broker_name in members:
                self.happenings.note("routes deleted", f"{topic} on {broker_name}")
                self._drop_rows(broker_name, [topic])

    def topics_of_cluster(self, cluster_name: str) -> list[str]:
        names = self.clusters.get(cluster_name, set())
        return [topic for topic, rows in self.topics.items() if not names.isdisjoint(rows)]

    def topics_with_flag(self, wanted: int, unwanted: int = 0) -> list[str]:
        """Topics whose first row has the bits `wanted` of topicSysFlag and none of `unwanted`."""
        return [topic for topic, rows in self.topics.items()
                for flag in [next(iter(rows.values())).topic_sys_flag] if flag & wanted and not flag & unwanted]

    def wipe_write_perm(self, broker_name: str) -> int:
        """Clear WRITE in all rows of a broker until it registers a changed topic table. Returns the number of rows."""
        return self._set_perm(broker_name, lambda perm: perm & ~permission.WRITE)

    def add_write_perm(self, broker_name: str) -> int:
        """Set all rows of a broker to read and write. Returns the number of rows."""
        return self._set_perm(broker_name, lambda perm: permission.READ_WRITE)

    def _set_perm(self, broker_name: str, change: Callable[[int], int]) -> int:
        topics = self._topics_of.get(broker_name, {})
        for topic in topics:
            rows = self.topics[topic]
            changed = rows[broker_name]._replace(perm=change(rows[broker_name].perm))
            self._enter_row(topic, broker_name, changed)
        return len(topics)


def with_acting_master(route: TopicRoute, topic: str) -> TopicRoute:
    """The route in which a broker without a master, whose topic is not writable, shows its lowest id as id 0, if it
    allows that."""
    if topic.startswith(SYNC_BROKER_MEMBER_PREFIX):
        return route
    brokers = {}
    for name, row in route.brokers.items():
        acts = (row.enable_acting_master and row.broker_addrs and MASTER_ID not in row.broker_addrs
                and not permission.is_writable(route.queues[name].perm))
        if acts:
            addresses = dict(row.broker_addrs)
            addresses[MASTER_ID] = addresses.pop(min(addresses))
            row = replace(row, broker_addrs=addresses)
        brokers[name] = row
    return TopicRoute(route.queues, brokers, route.filter_servers)


def in_zone(route: TopicRoute, zone_name: str) -> TopicRoute:
    """The route with only brokers of the zone, and those without a master."""
    brokers = {name: row for name, row in route.brokers.items()
               if MASTER_ID not in row.broker_addrs or (row.zone_name or "").lower() == zone_name.lower()}
    queues = {name: row for name, row in route.queues.items() if name in brokers or name not in route.brokers}
    return TopicRoute(queues, brokers, route.filter_servers)


def _forget_other_ids(row: BrokerRow, registration: Registration) -> None:
    """Remove the address from its other ids: a promoted slave leaves its old one."""
    row.broker_addrs = {broker_id: address for broker_id, address in row.broker_addrs.items()
                        if address != registration.broker_addr or broker_id == registration.broker_id}
