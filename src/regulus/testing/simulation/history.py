"""What was promised in a run, and what came of it, in the order in which it happened."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from regulus.model.message_queue import MessageQueue
from regulus.testing.simulation.loop import Node

OPERATOR = "operator"
SPOILED = b"this is no zlib"
"""The body of a message that cannot be read."""


class Outcome(StrEnum):
    """Of a send, as its caller knows it."""

    UNKNOWN = "unknown"
    """It may be stored: no answer came, or none is asked for."""
    STORED = "stored"
    """The broker said so, and promised that it stays."""


class Fate(StrEnum):
    """Of a transaction."""

    NONE = "none"
    COMMIT = "commit"
    ROLLBACK = "rollback"


class Ending(StrEnum):
    """Of a listener call."""

    RUNS = "runs"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DIED = "died"
    """With its process."""


@dataclass(slots=True)
class Sent:
    """A message, under the key that its body says."""

    key: str
    topic: str
    outcome: Outcome = Outcome.UNKNOWN
    fate: Fate = Fate.NONE
    queue: MessageQueue | None = None
    queue_offset: int = -1
    stored_s: float = -1.0
    not_before_s: float = 0.0
    """It waits for a time of its own, which is then or a little later."""
    is_excused: bool = False
    """What promised to keep it was taken away: a broker that does not sync lost its power."""


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
    """Of a message that was popped: until then it is nobody else's."""
    acked_s: float = -1.0
    """When the broker said that it is done."""

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
    """Who sent it: a member, as long as it lives under this name, or somebody else."""
    end: int
    """Of the queue, as the broker had it."""


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
    """A broker came back without what it had not saved: locks, members, late offsets."""

    at: float
    broker: str


@dataclass(frozen=True, slots=True)
class Killed:
    """A broker ended in the midst of what it did."""

    at: float
    broker: str


Event = Began | Ended | Committed | Pulled | Reset | Restarted | Killed


def key_of(body: bytes) -> str:
    """What a message is called: its body, but for what makes it large."""
    return body.rstrip(b" ").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Stored:
    """A message that lies in a log at the end."""

    key: str
    queue: MessageQueue
    queue_offset: int
    is_spoiled: bool = False
    """Nobody can read it: it need not be consumed, and nothing may wait for it."""
    is_put_back: bool = False
    """Among those that wait for a time of their own: a copy of one that was there before."""


@dataclass(slots=True)
class GroupFacts:
    """What a group was told to do."""

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
    """How often its listeners failed so far, by key, over all members."""
    members: set[str] = field(default_factory=set)
    """Of a broadcasting group: those that were there from the beginning to the end."""
    wanted: range | None = None
    """By the condition of its subscriptions, of what each sender sends, the messages with these numbers."""

    def wants(self, key: str) -> bool:
        return self.wanted is None or int(key.rpartition("-")[2]) in self.wanted


@dataclass(frozen=True, slots=True)
class Promises:
    """What a story promises beyond what always holds."""

    no_misses: bool = False
    """No send and no start fails: what fails is over before their time is."""
    clocks_wrong_s: float = 0.0
    """So far are clocks of brokers ahead at most."""
    exact_counts: bool = False
    """A popped message says how often it was delivered: no answer is lost on its way."""
    timed_again: int = 0
    """So many times more may a message come that waited for a time of its own."""
    popped_again: int = 0
    """So many times more may a popped message come: a promoted slave does not know what was just acknowledged."""
    delivery_max_s: float = 0.0
    """How long a message waits at most for its first call, once it is stored and somebody consumes; 0: for ever."""


class History:
    def __init__(self, now: Callable[[], float]) -> None:
        self.sent: dict[str, Sent] = {}
        self.calls: list[Call] = []
        self.events: list[Event] = []
        self.groups: dict[str, GroupFacts] = {}
        self.stored: list[Stored] = []
        """At the end, in all topics."""
        self.faults: list[str] = []
        """Seen at once: errors that nobody took, tasks that died."""
        self.lost_tails: set[str] = set()
        """Brokers that lost what they had not synced: numbers of their queues were given twice."""
        self.expected: list[str] = []
        """Parts of errors that are right to be told: somebody made a disk fail."""
        self.told: list[tuple[str, str]] = []
        """What servers warned of, by the name of who did."""
        self.unlike: list[str] = []
        """Logs that should be copies, and are not, or do not become so."""
        self.misses: list[str] = []
        """Sends and starts that failed."""
        self.promises = Promises()
        self.broke_off = ""
        """Why the run did not come to its end."""
        self.failures_wanted: dict[str, int] = {}
        """How often the listeners are to fail for a key."""
        self.joined: dict[tuple[str, str], float] = {}
        """When a member of a group began to consume, for the last time."""
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
        """Their topic is about to go, and its offsets with it."""
        for group in self.groups:
            for queue in queues:
                self.reset(group, queue, 0)

    def deleted(self, topic: str) -> None:
        """And what was acknowledged in it."""
        for sent in self.sent.values():
            sent.is_excused |= sent.topic == topic

    def killed(self, broker: str) -> None:
        self.events.append(Killed(self.now(), broker))

    def restarted(self, broker: str) -> None:
        self.events.append(Restarted(self.now(), broker))
