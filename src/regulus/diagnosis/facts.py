"""Facts about the servers, one consumer group, one topic and one message, as the servers reported them.

Where a server did not answer, the fact is missing and `Facts.unknown` says which one and why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig
from regulus.wire.bodies import ConsumerRunningInfo, SubscriptionData, TopicRouteData


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the operator asks. A message is named by its id, by a key, or by its place in a queue."""

    group: str = ""
    topic: str = ""
    message_id: str = ""
    key: str = ""
    broker_name: str = ""
    queue_id: int = -1
    queue_offset: int = -1

    @property
    def message_text(self) -> str:
        """How the question names the message; empty when it names none."""
        if self.queue_offset >= 0:
            return f"at offset {self.queue_offset} of {self.broker_name}/{self.queue_id}"
        return f"with key {self.key}" if self.key else self.message_id


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that is missing. `is_denied`: the server denied it to these credentials."""

    what: str
    why: str
    is_denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerFacts:
    """What one name server knows about the topic. `route` is None when it has none; `failure` says why it did not
    answer."""

    address: str
    route: TopicRouteData | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """One broker. `state` and `settings` have RocketMQ's keys and are empty when the broker did not answer.

    `group` is None when the broker does not know the group, or did not say; `knows_groups` tells the two apart.
    """

    name: str
    broker_id: int
    address: str
    failure: str = ""
    state: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    group: SubscriptionGroupConfig | None = None
    knows_groups: bool = False

    @property
    def text(self) -> str:
        return f"{self.name} ({self.address})" if self.broker_id == 0 else (
            f"slave {self.broker_id} of {self.name} ({self.address})")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts:
    """A member of the group. `info` is its own report; None when it gave none."""

    client_id: str
    address: str
    language: str
    brokers: tuple[str, ...]
    info: ConsumerRunningInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """The group as the brokers see it. `is_known`: a broker has its settings; None when no broker said.
    `are_members_known`: at least one broker said which members there are."""

    name: str
    is_known: bool | None = None
    near_names: tuple[str, ...] = ()
    are_members_known: bool = False
    members: tuple[MemberFacts, ...] = ()
    members_left_out: int = 0
    subscriptions: Mapping[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str = ""
    is_broadcast: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """A queue with messages [min_offset, max_offset), and where the group continues: None when it has no offset there.

    `waiting_ms`: age of the next message to consume; 0 when none waits.
    """

    queue: MessageQueue
    min_offset: int
    max_offset: int
    consumer_offset: int | None = None
    is_offset_known: bool = True
    waiting_ms: int = 0

    @property
    def text(self) -> str:
        return f"{self.queue.broker_name}/{self.queue.queue_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The topic as each name server knows it, and its queues. `put_tps` and `consume_tps`, what the group receives, are
    messages a second in the last minute; None when no broker says it."""

    name: str
    name_servers: tuple[NameServerFacts, ...] = ()
    route: TopicRouteData | None = None
    near_names: tuple[str, ...] = ()
    queues: tuple[QueueFacts, ...] = ()
    put_tps: float | None = None
    consume_tps: float | None = None

    def queue(self, queue: MessageQueue) -> QueueFacts | None:
        return next((each for each in self.queues if each.queue == queue), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """A pop of the message that is not acknowledged."""

    popped_ms: int
    visible_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """The message, and its copies: for a delay, a retry, a transaction, or among dead letters.

    `original` is the copy in its own topic; None when there is none (yet). `queue` is its queue, with id -1 when only
    the broker is known. `copies` has all records of the message that were found, oldest first, the original included.
    `gone`: why the message is not there any more, if it was stored; empty when nothing says it. `half_ended`: whether
    an op message ends the half message; None without a half message, or when the op messages could not be read.
    `retry_offsets`: where the group continues in the queues of retry topics that have a copy.
    """

    text: str
    original: MessageExt | None = None
    queue: MessageQueue | None = None
    copies: tuple[MessageExt, ...] = ()
    gone: str = ""
    searched: tuple[str, ...] = ()
    half_ended: bool | None = None
    flight: Flight | None = None
    retry_offsets: Mapping[MessageQueue, int | None] = field(default_factory=dict)
    retry_queues: Mapping[int, MessageQueue] = field(default_factory=dict)
    """The queue of each retry copy, by its physical offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about one group, one topic and, if the question names one, one message. `now_ms` is the time of the
    machine that asked."""

    now_ms: int
    brokers: tuple[BrokerFacts, ...] = ()
    group: GroupFacts
    topic: TopicFacts
    message: MessageFacts | None = None
    unknown: tuple[Unknown, ...] = ()

    def master(self, broker_name: str) -> BrokerFacts | None:
        return next((each for each in self.brokers if each.name == broker_name and each.broker_id == 0), None)

    def route_brokers(self) -> tuple[BrokerFacts, ...]:
        """The brokers of the topic's route, slaves included; all brokers when the topic has no route."""
        if self.topic.route is None:
            return self.brokers
        names = {each.broker_name for each in self.topic.route.broker_datas}
        return tuple(each for each in self.brokers if each.name in names)
