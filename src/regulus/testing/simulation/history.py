"""The promises and results of a run, in the order in which they happened."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from regulus.model.message_queue import MessageQueue
from regulus.testing.simulation.loop import Node

OPERATOR = "operator"
SPOILED = b"this is no zlib"
"""The body of a message that cannot be read."""


class SendOutcome(StrEnum):
    """The outcome of a send, as its caller knows it."""

    UNKNOWN = "unknown"
    """It may be stored: no answer arrived, or none is requested."""
    STORED = "stored"
    """The broker acknowledged it, and promised that it stays."""


class Fate(StrEnum):
    """The fate of a transaction."""

    NONE = "none"
    COMMIT = "commit"
    ROLLBACK = "rollback"


class Ending(StrEnum):
    """The ending of a listener call."""

    RUNS = "runs"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DIED = "died"
    """Ended with its process."""


@dataclass(slots=True)
class Sent:
    """A message, under the key in its body."""

    key: str
    topic: str
    outcome: SendOutcome = SendOutcome.UNKNOWN
    fate: Fate = Fate.NONE
    queue: MessageQueue | None = None
    queue_offset: int = -1
    stored_s: float = -1.0
    not_before_s: float = 0.0
    """Its delivery time, or the earliest time at which it may be delivered."""
    is_excused: bool = False
    """The promise to keep it no longer holds: a broker that does not sync lost its power."""


@dataclass(slots=True)
class Call:
    """One call of a listener."""

    group: str
    member: str
    node: Node
    queue: MessageQueue
    keys: list[str]
    offsets: list[int]
    tries: int
    """`reconsume_times` of the first message."""
    begin_s: float
    end_s: float = -1.0
    ending: Ending = Ending.RUNS
    suspend_ms: int = -1
    own_until_s: float = -1.0
    """The end of the invisible time of a popped message: until then no other consumer may get it."""
    acked_s: float = -1.0
    """When the broker confirmed that it is done."""

    def __str__(self) -> str:
        return (f"{self.queue.topic}/{self.queue.broker_name}/{self.queue.queue_id}@{self.offsets[0]} "
                f"{','.join(self.keys)} try {self.tries}")


@dataclass(frozen=True, slots=True)
class Began:
    at: float
    call: Call


@dataclass(frozen=True, slots=True)
class Ended:
    at: float
    call: Call


@dataclass(frozen=True, slots=True)
class Committed:
    """A broker took an offset for a group."""

    at: float
    group: str
    queue: MessageQueue
    offset: int
    by: str
    """The sender: a member, as long as it lives under this name, or another client."""
    end: int
    """The end of the queue, as the broker had it."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """A member asked for the messages of a queue."""

    at: float
    group: str
    queue: MessageQueue
    by: str


@dataclass(frozen=True, slots=True)
class Reset:
    """An operator asked for an offset."""

    at: float
    group: str
    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class Restarted:
    """A broker returned without its unsaved state: locks, members, late offsets."""

    at: float
    broker: str


@dataclass(frozen=True, slots=True)
class Killed:
    """A broker ended in the middle of what it did."""

    at: float
    broker: str


Event = Began | Ended | Committed | Pulled | Reset | Restarted | Killed


def key_of(body: bytes) -> str:
    """The key of a message: its body, without its padding."""
    return body.rstrip(b" ").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Stored:
    """A message that is in a log at the end."""

    key: str
    queue: MessageQueue
    queue_offset: int
    is_spoiled: bool = False
    """It cannot be read: it need not be consumed, and nothing may wait for it."""
    is_put_back: bool = False
    """A copy of an earlier message among those that wait for a delivery time."""


@dataclass(slots=True)
class GroupFacts:
    """The configuration of a group, and what happened to it."""

    name: str
    topics: list[str]
    orderly: bool = False
    broadcasting: bool = False
    max_reconsume_times: int = 16
    suspend_ms: int = 1000
    consume_timeout_s: float = 900.0
    pops: bool = False
    at_once: int = 4
    failures: "defaultdict[str, int]" = field(default_factory=lambda: defaultdict(int))
    """The number of failures of its listeners so far, by key, over all members."""
    members: set[str] = field(default_factory=set)
    """The members of a broadcasting group from the beginning to the end."""
    wanted: range | None = None
    """Numbers of the messages that the condition of its subscriptions selects from each sender."""

    def wants(self, key: str) -> bool:
        return self.wanted is None or int(key.rpartition("-")[2]) in self.wanted


@dataclass(frozen=True, slots=True)
class Promises:
    """What a story promises besides what always holds."""

    no_misses: bool = False
    """No send and no start fails: faults end before their time is over."""
    clocks_wrong_s: float = 0.0
    """The largest deviation of brokers' clocks."""
    exact_counts: bool = False
    """A popped message states its number of deliveries exactly: no answer is lost."""
    timed_again: int = 0
    """The number of additional times that a message with a delivery time may be delivered."""
    popped_again: int = 0
    """The number of additional times that a popped message may be delivered: a promoted slave does not know recent
    acknowledgements."""
    delivery_max_s: float = 0.0
    """How long a message waits at most for its first call, once it is stored and has a consumer; 0: forever."""


class History:
    def __init__(self, now: Callable[[], float]) -> None:
        self.sent: dict[str, Sent] = {}
        self.calls: list[Call] = []
        self.events: list[Event] = []
        self.groups: dict[str, GroupFacts] = {}
        self.stored: list[Stored] = []
        """All messages in all topics at the end."""
        self.faults: list[str] = []
        """Faults found during the run: unhandled errors, tasks that died."""
        self.lost_tails: set[str] = set()
        """Brokers that lost unsynced messages: offsets of their queues were assigned twice."""
        self.expected: list[str] = []
        """Parts of expected errors: a fault made a disk fail."""
        self.told: list[tuple[str, str]] = []
        """Warnings of servers, by the name of the server."""
        self.unlike: list[str] = []
        """Logs that should be copies, and are not, or do not become copies."""
        self.misses: list[str] = []
        """Sends and starts that failed."""
        self.promises = Promises()
        self.broke_off = ""
        """Why the run was not completed."""
        self.failures_wanted: dict[str, int] = {}
        """How often the listeners must fail for a key."""
        self.joined: dict[tuple[str, str], float] = {}
        """When a member of a group last began to consume."""
        self.now = now

    def missed(self, text: str) -> None:
        self.misses.append(f"at {self.now():.3f} {text}")

    def fault(self, text: str) -> None:
        if any(part in text for part in self.expected):
            return
        self.faults.append(f"at {self.now():.3f}: {text}")

    def began(self, call: Call) -> None:
        self.calls.append(call)
        self.events.append(Began(self.now(), call))

    def ended(self, call: Call, ending: Ending) -> None:
        if call.ending is not Ending.RUNS:
            return
        call.ending = ending
        call.end_s = self.now()
        self.events.append(Ended(call.end_s, call))

    def died(self, node: Node) -> None:
        for call in self.calls:
            if call.node is node:
                self.ended(call, Ending.DIED)

    def committed(self, group: str, queue: MessageQueue, offset: int, by: str, end: int) -> None:
        self.events.append(Committed(self.now(), group, queue, offset, by, end))

    def pulled(self, group: str, queue: MessageQueue, by: str) -> None:
        self.events.append(Pulled(self.now(), group, queue, by))

    def reset(self, group: str, queue: MessageQueue, offset: int) -> None:
        self.events.append(Reset(self.now(), group, queue, offset))

    def begun_anew(self, queues: list[MessageQueue]) -> None:
        """Note queues whose topic is about to be deleted, with its offsets."""
        for group in self.groups:
            for queue in queues:
                self.reset(group, queue, 0)

    def deleted(self, topic: str) -> None:
        """Note a deleted topic, and what was acknowledged in it."""
        for sent in self.sent.values():
            sent.is_excused |= sent.topic == topic

    def killed(self, broker: str) -> None:
        self.events.append(Killed(self.now(), broker))

    def restarted(self, broker: str) -> None:
        self.events.append(Restarted(self.now(), broker))
