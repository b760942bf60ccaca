"""The clients of a broker: which connections produce for which group, and which consume in which group.

A client lives as long as its connection, and at most CLIENT_EXPIRY_MS after its last heartbeat. Several clients share
no connection, but one connection may be in many groups: what each connection is in stands beside the groups, so that
its end costs as much as it was in.

Source: ClientChannelInfo, ConsumerGroupInfo, ConsumerManager, ProducerManager.
"""

from collections.abc import Sequence

from regulus.model.happenings import Happenings
from regulus.wire.bodies import GetConsumerListByGroupResponseBody, SubscriptionData

CLIENT_EXPIRY_MS = 120_000
EXPIRY_SCAN_MS = 10_000
BROADCASTING = "BROADCASTING"
CLUSTERING = "CLUSTERING"
NAMESAKES = ("two consumers with one client id, so that both get the same messages; give each an instance name of "
             "its own, or none")


class Client:
    """One client process on one connection. `language` is RocketMQ's number of it; `remote_text` its `host:port`.

    `heard_ms` is when it was heard, of the steady clock; `last_update_timestamp` the time of day, for show.
    """

    __slots__ = ("channel", "client_id", "heard_ms", "language", "last_update_timestamp", "remote_text", "version")

    def __init__(self, channel: int, client_id: str, language: int, version: int, remote_text: str,
                 now_ms: int, heard_ms: int) -> None:
        self.channel = channel
        self.client_id = client_id
        self.language = language
        self.version = version
        self.remote_text = remote_text
        self.last_update_timestamp = now_ms
        self.heard_ms = heard_ms


class ConsumerGroup:
    """The live consumers of one group. `clients` is by channel, `subscriptions` by topic; `add` and `remove` change the
    clients."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.consume_type = ""
        self.message_model = ""
        self.consume_from_where = ""
        self.clients: dict[int, Client] = {}
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.last_update_timestamp = 0
        self.heartbeat_fingerprint = 0
        self._channels: dict[str, dict[int, int]] = {}      # by client id, and since when; the newest last
        self._encoded_ids: bytes | None = None
        self._told_twice: set[str] = set()

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """Each once, though a client that connects anew stands beside its old connection until that is closed."""
        return list(self._channels)

    def encoded_ids(self) -> bytes:
        """The same as the body of an answer; made once, for each member asks when one comes or goes."""
        if self._encoded_ids is None:
            self._encoded_ids = GetConsumerListByGroupResponseBody(consumer_id_list=self.client_ids()).encode()
        return self._encoded_ids

    def find(self, client_id: str) -> Client | None:
        """The newest connection of the client."""
        channels = self._channels.get(client_id)
        return self.clients[next(reversed(channels))] if channels else None

    def add(self, client: Client) -> bool:
        """Whether its connection is new to the group."""
        before = self.clients.get(client.channel)
        self.clients[client.channel] = client
        if before is None or before.client_id != client.client_id:
            if before is not None:
                self._forget_id(before)
            self._channels.setdefault(client.client_id, {})[client.channel] = client.heard_ms
            self._encoded_ids = None
        return before is None

    def namesake(self, client: Client) -> Client | None:
        """Another client with the id of this one, which was just heard; once for each id. A client that connected anew
        is none: over its old connection it says nothing any more."""
        channels = self._channels[client.client_id]
        if len(channels) == 1 or client.client_id in self._told_twice:
            return None
        other = next(self.clients[channel] for channel in reversed(channels) if channel != client.channel)
        both_since_ms = max(channels[client.channel], channels[other.channel])
        if min(client.heard_ms, other.heard_ms) <= both_since_ms:
            return None
        self._told_twice.add(client.client_id)
        return other

    def remove(self, channel: int) -> Client | None:
        """The client of the connection; None when it was not in the group."""
        client = self.clients.pop(channel, None)
        if client is not None:
            self._forget_id(client)
        return client

    def _forget_id(self, client: Client) -> None:
        channels = self._channels[client.client_id]
        del channels[client.channel]
        if not channels:
            del self._channels[client.client_id]
            self._told_twice.discard(client.client_id)
            self._encoded_ids = None


class _Memberships:
    """The groups of one connection, those of producers and those of consumers. `client_id` is what it said last."""

    __slots__ = ("client_id", "consumers", "producers")

    def __init__(self) -> None:
        self.client_id: str | None = None
        self.producers: dict[str, None] = {}
        self.consumers: dict[str, None] = {}


class Clients:
    """`happenings` has who joined and left which group, `faults` what somebody should mend."""

    def __init__(self) -> None:
        self.happenings = Happenings()
        self.faults = Happenings()
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[int, Client]] = {}
        self._memberships: dict[int, _Memberships] = {}
        self._channels: dict[str, dict[int, None]] = {}     # by client id, the newest last
        self._refiltered: set[str] = set()
        self._next_scan_ms = 0

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """None when no consumer of the group is connected."""
        return self._consumers.get(group)

    def consumer_groups(self) -> list[ConsumerGroup]:
        return list(self._consumers.values())

    def producer_group(self, group: str) -> list[Client]:
        return list(self._producers.get(group, {}).values())

    def producer_groups(self) -> dict[str, list[Client]]:
        return {group: list(clients.values()) for group, clients in self._producers.items()}

    def groups_subscribing(self, topic: str) -> list[str]:
        """Groups with a live consumer that subscribes to the topic."""
        return [group.group for group in self._consumers.values() if topic in group.subscriptions]

    def find_client(self, client_id: str) -> Client | None:
        """A connection of this client: as a producer first, then as a consumer, the newest first."""
        consumer = None
        for channel in reversed(self._channels.get(client_id, {})):
            memberships = self._memberships[channel]
            for group in memberships.producers:
                return self._producers[group][channel]
            if consumer is None:
                consumer = next((self._consumers[group].clients[channel] for group in memberships.consumers), None)
        return consumer

    def register_producer(self, group: str, client: Client) -> None:
        clients = self._producers.setdefault(group, {})
        if client.channel not in clients:
            self.happenings.note("producers joined", _member(group, client))
        clients[client.channel] = client
        self._of(client).producers[group] = None

    def register_consumer(self, group: str, client: Client, consume_type: str, message_model: str,
                          consume_from_where: str, subscriptions: Sequence[SubscriptionData] | None) -> bool:
        """Whether the others of the group must hear: a consumer joined, or the set of topics changed.

        `subscriptions` replace those of the group; None keeps them.
        """
        entry = self._consumers.get(group)
        if entry is None:
            entry = self._consumers[group] = ConsumerGroup(group)
        entry.consume_type = consume_type
        entry.message_model = message_model
        entry.consume_from_where = consume_from_where
        entry.last_update_timestamp = client.last_update_timestamp
        joined = entry.add(client)
        if joined:
            self.happenings.note("consumers joined", _member(group, client))
        elif not entry.is_broadcasting and (other := entry.namesake(client)) is not None:
            self.faults.note(NAMESAKES, f"{client.client_id} at {other.remote_text} and {client.remote_text} in group "
                                        f"{group}")
        self._of(client).consumers[group] = None
        if subscriptions is None:
            return joined
        return self._replace_subscriptions(entry.subscriptions, subscriptions) or joined

    def _replace_subscriptions(self, table: dict[str, SubscriptionData], given: Sequence[SubscriptionData]) -> bool:
        """Whether the set of topics changed. An older version of a subscription does not replace a newer one."""
        before = set(table)
        for subscription in given:
            known = table.get(subscription.topic)
            if known is None or subscription.sub_version > known.sub_version:
                table[subscription.topic] = subscription
                if known is not None and (known.sub_string, known.expression_type) != (
                        subscription.sub_string, subscription.expression_type):
                    self._refiltered.add(subscription.topic)
        for topic in before.difference(subscription.topic for subscription in given):
            del table[topic]
        return set(table) != before

    def take_refiltered(self) -> set[str]:
        """Topics of which a group wants other messages than before, since the last call."""
        taken, self._refiltered = self._refiltered, set()
        return taken

    def unregister_producer(self, group: str, channel: int) -> None:
        clients = self._producers.get(group)
        client = None if clients is None else clients.pop(channel, None)
        if clients is None or client is None:
            return
        self.happenings.note("producers left", _member(group, client))
        if not clients:
            del self._producers[group]
        memberships = self._memberships[channel]
        del memberships.producers[group]
        self._forget_if_idle(channel, memberships)

    def unregister_consumer(self, group: str, channel: int) -> bool:
        """Whether the channel was in the group, so that the others must hear."""
        entry = self._consumers.get(group)
        client = None if entry is None else entry.remove(channel)
        if entry is None or client is None:
            return False
        self.happenings.note("consumers left", _member(group, client))
        if not entry.clients:
            del self._consumers[group]
        memberships = self._memberships[channel]
        del memberships.consumers[group]
        self._forget_if_idle(channel, memberships)
        return True

    def channel_closed(self, channel: int) -> list[str]:
        """The consumer groups that lost a member by it."""
        memberships = self._memberships.get(channel)
        if memberships is None:
            return []
        for group in list(memberships.producers):
            self.unregister_producer(group, channel)
        return [group for group in list(memberships.consumers) if self.unregister_consumer(group, channel)]

    def tick(self, steady_ms: int) -> tuple[list[str], int]:
        """Drop clients that went silent. The consumer groups that lost a member, and the ms until the next scan."""
        if steady_ms < self._next_scan_ms:
            return [], self._next_scan_ms - steady_ms
        self._next_scan_ms = steady_ms + EXPIRY_SCAN_MS
        oldest = steady_ms - CLIENT_EXPIRY_MS
        lost = []
        for group, clients in list(self._producers.items()):
            for channel in [c.channel for c in clients.values() if c.heard_ms < oldest]:
                self.unregister_producer(group, channel)
        for name, entry in list(self._consumers.items()):
            silent = [c.channel for c in entry.clients.values() if c.heard_ms < oldest]
            for channel in silent:
                self.unregister_consumer(name, channel)
            if silent:
                lost.append(name)
        return lost, EXPIRY_SCAN_MS

    def _of(self, client: Client) -> _Memberships:
        """What the client's connection is in, under the id that it gives now."""
        memberships = self._memberships.get(client.channel)
        if memberships is None:
            memberships = self._memberships[client.channel] = _Memberships()
        if client.client_id != memberships.client_id:
            self._forget_id(client.channel, memberships)
            memberships.client_id = client.client_id
            self._channels.setdefault(client.client_id, {})[client.channel] = None
        return memberships

    def _forget_if_idle(self, channel: int, memberships: _Memberships) -> None:
        if not memberships.producers and not memberships.consumers:
            del self._memberships[channel]
            self._forget_id(channel, memberships)

    def _forget_id(self, channel: int, memberships: _Memberships) -> None:
        if memberships.client_id is None:
            return
        channels = self._channels[memberships.client_id]
        del channels[channel]
        if not channels:
            del self._channels[memberships.client_id]


def _member(group: str, client: Client) -> str:
    return f"{client.client_id} at {client.remote_text} in group {group}"
