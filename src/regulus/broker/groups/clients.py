"""The clients of a broker: which connections produce for a group, and which consume in it.

A client lives as long as its connection, and at most CLIENT_EXPIRY_MS after its last heartbeat. Clients do not share a
connection, but one connection may be in many groups. The groups of each connection are kept in a table of their own, so
that closing it costs no more than its groups.

A client id is not part of a signature, and other clients see it, so anyone can use another's. An id belongs to the
first user that brought it, as long as one of that user's connections has it, and CLIENT_EXPIRY_MS longer, so that a
client can reconnect. Messages to an id go to its owner only. Another user with the same id is reported as a fault, and
is a client otherwise: using an id first locks no other user out.

Source: ClientChannelInfo, ConsumerGroupInfo, ConsumerManager, ProducerManager.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import NamedTuple

from regulus.model.happenings import Happenings
from regulus.model.topics import is_retry_topic
from regulus.wire.bodies import GetConsumerListByGroupResponseBody, SubscriptionData

CLIENT_EXPIRY_MS = 120_000      # four heartbeats of RocketMQ's clients, which send one each 30 s
EXPIRY_SCAN_MS = 10_000         # between two searches for silent clients
PRODUCER_GROUPS_MAX = 256
"""Producer groups of one connection, besides those named after topics to which it may send: a proxy has one of these
for each topic."""
LEFT_AT_ONCE = 256
"""Groups that closed connections leave in one step."""
IDS_KEPT_MAX = 256
"""Client ids without a connection that are kept for one user; beyond the limit the oldest become free."""
BROADCASTING = "BROADCASTING"
CLUSTERING = "CLUSTERING"
STRANGERS = ("a client id that belongs to another user, so replies to it are not sent here; give each client "
             "an id of its own")
UNLIKE = ("members of a group that subscribe to other topics or expressions than its other members, so messages "
          "are missed; have all members of a group subscribe alike")
NAMESAKES = ("two consumers with one client id, so both get the same messages; give each an instance name of "
             "its own, or none")


class Client:
    """One client process on one connection. `language` is RocketMQ's number for it; `remote_text` is `host:port`.

    `heard_ms` is the time of its last heartbeat by the steady clock; `last_update_timestamp` is the time of day, for
    display. `user` is its authenticated user, empty without authentication.
    """

    __slots__ = ("channel", "client_id", "heard_ms", "language", "last_update_timestamp", "remote_text", "user",
                 "version")

    def __init__(self, channel: int, client_id: str, language: int, version: int, remote_text: str,
                 now_ms: int, heard_ms: int, user: str = "") -> None:
        self.channel = channel
        self.client_id = client_id
        self.language = language
        self.version = version
        self.remote_text = remote_text
        self.last_update_timestamp = now_ms
        self.heard_ms = heard_ms
        self.user = user


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
        self._channels: dict[str, dict[int, int]] = {}      # by client id: channels since when, the newest last
        self._encoded_ids: bytes | None = None
        self._wishes: dict[int, int] = {}                   # by channel: hash of the subscriptions
        self._told_twice: set[str] = set()

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """Each id once, even if a client reconnected and its old connection is not closed yet."""
        return list(self._channels)

    def encoded_ids(self) -> bytes:
        """The ids as the body of an answer. Cached, because each member asks when one joins or leaves."""
        if self._encoded_ids is None:
            self._encoded_ids = GetConsumerListByGroupResponseBody(consumer_id_list=self.client_ids()).encode()
        return self._encoded_ids

    def find(self, client_id: str) -> Client | None:
        """The newest connection of the client."""
        channels = self._channels.get(client_id)
        return self.clients[next(reversed(channels))] if channels else None

    def add(self, client: Client) -> bool:
        """Add or update a client. True when its connection is new to the group."""
        before = self.clients.get(client.channel)
        self.clients[client.channel] = client
        if before is None or before.client_id != client.client_id:
            if before is not None:
                self._forget_id(before)
            self._channels.setdefault(client.client_id, {})[client.channel] = client.heard_ms
            self._encoded_ids = None
        return before is None

    def namesake(self, client: Client) -> Client | None:
        """Another client with the same id as this one, which just sent a heartbeat; reported once for each id.

        A client that reconnected does not count, because its old connection sends nothing any more.
        """
        channels = self._channels[client.client_id]
        if len(channels) == 1 or client.client_id in self._told_twice:
            return None
        other = next(self.clients[channel] for channel in reversed(channels) if channel != client.channel)
        both_since_ms = max(channels[client.channel], channels[other.channel])
        if min(client.heard_ms, other.heard_ms) <= both_since_ms:
            return None
        self._told_twice.add(client.client_id)
        return other

    def becomes_unlike(self, channel: int, subscriptions: Sequence[SubscriptionData]) -> bool:
        """Whether the client changed its subscriptions, and another client has different ones. Retry topics do not
        count, because only pull consumers have them."""
        wishes = hash(frozenset((each.topic, each.expression_type, each.sub_string) for each in subscriptions
                                if not is_retry_topic(each.topic)))
        if self._wishes.get(channel) == wishes:
            return False
        self._wishes[channel] = wishes
        return any(each != wishes for each in self._wishes.values())

    def remove(self, channel: int) -> Client | None:
        """Remove the client of the connection; None when it was not in the group."""
        self._wishes.pop(channel, None)
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


class LostMember(NamedTuple):
    """A consumer whose connection was closed. `is_gone` is false if the client has connected again."""

    group: str
    client_id: str
    channel: int
    is_gone: bool


class _Memberships:
    """The groups of one connection. `client` is its last heartbeat.

    In `producers`, True means that the group has the name of a topic to which the client may send; `others` counts the
    groups without such a name.
    """

    __slots__ = ("client", "consumers", "others", "producers")

    def __init__(self) -> None:
        self.client: Client | None = None
        self.others = 0
        self.producers: dict[str, bool] = {}
        self.consumers: dict[str, None] = {}


class _Ids:
    """The owners of client ids, and the owner's connections for each."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}                    # by client id
        self._channels: dict[str, dict[int, None]] = {}     # by client id, the newest last; empty: kept for its user
        self._kept: dict[str, dict[str, int]] = {}          # by user and client id: until when, the earliest first

    def channels(self, client_id: str) -> list[int]:
        """Channels of the id's owner, the newest first."""
        return list(reversed(self._channels.get(client_id, {})))

    def enter(self, client: Client) -> bool:
        """Whether the id belongs to the client's user, from now on or as before."""
        client_id, user = client.client_id, client.user
        if self._users.setdefault(client_id, user) != user:
            return False
        self._keep_no_more(client_id, user)
        self._channels.setdefault(client_id, {})[client.channel] = None
        return True

    def leave(self, client: Client, kept_until_ms: int) -> None:
        """Remove a connection from its id. `kept_until_ms` 0: the id is not kept for its user."""
        client_id, user = client.client_id, client.user
        channels = self._channels.get(client_id)
        if channels is None or client.channel not in channels:
            return
        del channels[client.channel]
        if channels:
            return
        if not user or not kept_until_ms:
            self._forget(client_id)
            return
        kept = self._kept.setdefault(user, {})
        kept[client_id] = kept_until_ms
        if len(kept) > IDS_KEPT_MAX:
            self._let_go(user, next(iter(kept)))

    def tick(self, steady_ms: int) -> None:
        """Drop ids whose time is over. Looks at each user with kept ids."""
        for user, kept in list(self._kept.items()):
            for client_id in [each for each, until_ms in kept.items() if until_ms <= steady_ms]:
                self._let_go(user, client_id)

    def _let_go(self, user: str, client_id: str) -> None:
        self._keep_no_more(client_id, user)
        self._forget(client_id)

    def _keep_no_more(self, client_id: str, user: str) -> None:
        kept = self._kept.get(user)
        if kept is not None and kept.pop(client_id, None) is not None and not kept:
            del self._kept[user]

    def _forget(self, client_id: str) -> None:
        del self._users[client_id], self._channels[client_id]


class Clients:
    """All clients. `happenings` has joins and leaves by group, `faults` what operators should correct."""

    def __init__(self) -> None:
        self.happenings = Happenings()
        self.faults = Happenings()
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, OrderedDict[int, Client]] = {}
        self._memberships: dict[int, _Memberships] = {}
        self._leaving: deque[int] = deque()     # closed connections that are still in groups
        self._ids = _Ids()
        self._steady_ms = 0
        self._refiltered: set[str] = set()
        self._next_scan_ms = 0

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """None when no consumer of the group is connected."""
        return self._consumers.get(group)

    def consumer_groups(self) -> list[ConsumerGroup]:
        """Groups with a connected consumer."""
        return list(self._consumers.values())

    def producer_group(self, group: str) -> list[Client]:
        return list(self._producers.get(group, {}).values())

    def producer_count(self, group: str) -> int:
        return len(self._producers.get(group, ()))

    def next_producers(self, group: str, count_max: int) -> list[Client]:
        """Up to `count_max` producers of the group, which then move to the end of its order."""
        clients = self._producers.get(group, OrderedDict())
        taken = []
        for _ in range(min(len(clients), count_max)):
            # Ordered, because removing the first entry of a plain dict again and again visits all entries that were
            # removed before.
            channel = next(iter(clients))
            clients.move_to_end(channel)
            taken.append(clients[channel])
        return taken

    def producer(self, group: str, channel: int) -> Client | None:
        """The producer on that connection, which then moves to the end of the group's order."""
        clients = self._producers.get(group)
        if clients is None or channel not in clients:
            return None
        clients.move_to_end(channel)
        return clients[channel]

    def producer_groups(self) -> dict[str, list[Client]]:
        return {group: list(clients.values()) for group, clients in self._producers.items()}

    def groups_subscribing(self, topic: str) -> list[str]:
        """Groups with a live consumer that subscribes to the topic."""
        return [group.group for group in self._consumers.values() if topic in group.subscriptions]

    def find_client(self, client_id: str) -> Client | None:
        """A connection of the id's owner: one of a producer if there is one, otherwise of a consumer; the newest
        first."""
        consumer = None
        for channel in self._ids.channels(client_id):
            memberships = self._memberships[channel]
            for group in memberships.producers:
                return self._producers[group][channel]
            if consumer is None:
                consumer = next((self._consumers[group].clients[channel] for group in memberships.consumers), None)
        return consumer

    def register_producer(self, group: str, client: Client, *, is_own_topic: bool = False) -> bool:
        """Add a producer. False when its connection is in PRODUCER_GROUPS_MAX other groups.

        `is_own_topic`: the group has the name of a topic to which the client may send.
        """
        memberships = self._of(client)
        was_own = memberships.producers.get(group)
        if not is_own_topic and was_own is not False and memberships.others >= PRODUCER_GROUPS_MAX:
            return False        # after losing the permission for its topic, the group expires without heartbeats
        memberships.others += (not is_own_topic) - (was_own is False)
        clients = self._producers.setdefault(group, OrderedDict())
        if client.channel not in clients:
            self.happenings.note("producers joined", _member(group, client))
        clients[client.channel] = client
        memberships.producers[group] = is_own_topic
        return True

    def register_consumer(self, group: str, client: Client, consume_type: str, message_model: str,
                          consume_from_where: str, subscriptions: Sequence[SubscriptionData] | None) -> bool:
        """Add or update a consumer. True when the group must be notified: a consumer joined, or the set of topics
        changed.

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
        if entry.becomes_unlike(client.channel, subscriptions):
            self.faults.note(UNLIKE, _member(group, client))
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
        """Topics for which a group changed its filter since the last call."""
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
        memberships.others -= not memberships.producers.pop(group)
        self._forget_if_idle(channel, memberships)

    def unregister_consumer(self, group: str, channel: int) -> bool:
        """Whether the channel was in the group, so that the other members must be notified."""
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

    @property
    def is_leaving(self) -> bool:
        """Whether closed connections are still in groups."""
        return bool(self._leaving)

    def channel_closed(self, channel: int) -> list["LostMember"]:
        """Begin to remove a closed connection from its groups; returns lost members of consumer groups. `leave_some`
        does the rest."""
        if channel in self._memberships:
            self._leaving.append(channel)
        return self.leave_some()

    def leave_some(self) -> list["LostMember"]:
        """Remove closed connections from LEFT_AT_ONCE groups; returns lost members of consumer groups."""
        lost: list[LostMember] = []
        for _ in range(LEFT_AT_ONCE):
            while self._leaving and self._leaving[0] not in self._memberships:
                self._leaving.popleft()
            if not self._leaving:
                break
            channel = self._leaving[0]
            memberships = self._memberships[channel]
            if memberships.producers:
                self.unregister_producer(next(iter(memberships.producers)), channel)
            else:
                name = next(iter(memberships.consumers))
                client_id = self._consumers[name].clients[channel].client_id
                self.unregister_consumer(name, channel)
                entry = self._consumers.get(name)
                lost.append(LostMember(name, client_id, channel,
                                       is_gone=entry is None or entry.find(client_id) is None))
        return lost

    def tick(self, steady_ms: int) -> tuple[list[str], int]:
        """Drop silent clients. Returns the consumer groups that lost a member, and ms until the next scan."""
        self._steady_ms = steady_ms
        if steady_ms < self._next_scan_ms:
            return [], self._next_scan_ms - steady_ms
        self._next_scan_ms = steady_ms + EXPIRY_SCAN_MS
        self._ids.tick(steady_ms)
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
        """The memberships of the client's connection, under the id that it has now."""
        memberships = self._memberships.get(client.channel)
        if memberships is None:
            memberships = self._memberships[client.channel] = _Memberships()
        before = memberships.client
        if before is client:
            return memberships
        if before is not None and (before.client_id, before.user) != (client.client_id, client.user):
            self._ids.leave(before, 0)      # otherwise one connection could have any number of ids kept
        memberships.client = client
        if not self._ids.enter(client):
            self.faults.note(STRANGERS, f"{client.client_id} at {client.remote_text} of user {client.user or 'nobody'}")
        return memberships

    def _forget_if_idle(self, channel: int, memberships: _Memberships) -> None:
        if not memberships.producers and not memberships.consumers:
            del self._memberships[channel]
            if memberships.client is not None:
                self._ids.leave(memberships.client, self._steady_ms + CLIENT_EXPIRY_MS)


def _member(group: str, client: Client) -> str:
    return f"{client.client_id} at {client.remote_text} in group {group}"
