"""What a diagnosis can find: the causes, in the order in which they are checked, and findings of them."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Level(IntEnum):
    """How a finding explains that a message does not arrive. Lower levels are shown first."""

    CAUSE = 0
    """It keeps messages from arriving until somebody acts."""
    WAITS = 1
    """The message arrives by itself, later."""
    NOTE = 2
    """It explains nothing by itself, and is worth knowing."""


class Cause(StrEnum):
    """The codes of all causes, in the order of their checks. docs/why.md has the same table."""

    NAME_SERVERS_DIFFER = "name_servers_differ"
    NAME_SERVER_SILENT = "name_server_silent"
    NO_ROUTE = "no_route"
    BROKER_SILENT = "broker_silent"
    MASTER_AWAY = "master_away"
    TOPIC_NOT_READABLE = "topic_not_readable"
    TOPIC_NOT_WRITABLE = "topic_not_writable"
    QUEUE_NOT_READ = "queue_not_read"
    ACCESS_DENIED = "access_denied"
    GROUP_UNKNOWN = "group_unknown"
    CONSUMPTION_DISABLED = "consumption_disabled"
    NO_MEMBER_ONLINE = "no_member_online"
    ACCESS_MAY_REFUSE = "access_may_refuse"
    NOT_SUBSCRIBED = "not_subscribed"
    SUBSCRIPTIONS_DIFFER = "subscriptions_differ"
    GROUP_SHARED = "group_shared"
    FILTERED_OUT = "filtered_out"
    MESSAGE_UNKNOWN = "message_unknown"
    MESSAGE_EXPIRED = "message_expired"
    PASSED = "passed"
    NO_OFFSET = "no_offset"
    QUEUE_NOT_OWNED = "queue_not_owned"
    QUEUE_NOT_LOCKED = "queue_not_locked"
    FLOW_CONTROL = "flow_control"
    LISTENER_STUCK = "listener_stuck"
    QUEUE_BLOCKED = "queue_blocked"
    IN_FLIGHT = "in_flight"
    RETRY_WAITING = "retry_waiting"
    DELIVERY_WAITING = "delivery_waiting"
    DELIVERY_OVERDUE = "delivery_overdue"
    DEAD_LETTER = "dead_letter"
    TRANSACTION_OPEN = "transaction_open"
    TRANSACTION_ROLLED_BACK = "transaction_rolled_back"
    TRANSACTION_GIVEN_UP = "transaction_given_up"
    SLAVE_BEHIND = "slave_behind"
    DISK_FULL = "disk_full"
    STORE_ILL = "store_ill"
    ARCHIVE_GATE = "archive_gate"
    LAG = "lag"


MEANINGS: dict[Cause, str] = {
    Cause.NAME_SERVERS_DIFFER: "Name servers disagree about the topic's route",
    Cause.NAME_SERVER_SILENT: "A name server does not answer, and another one does",
    Cause.NO_ROUTE: "The topic does not exist, or no broker that serves it is up",
    Cause.BROKER_SILENT: "A broker of the topic does not answer; its messages wait there",
    Cause.MASTER_AWAY: "A broker has only slaves left, which take no messages",
    Cause.TOPIC_NOT_READABLE: "The topic or the broker permits no reads",
    Cause.TOPIC_NOT_WRITABLE: "The topic or the broker permits no sends",
    Cause.QUEUE_NOT_READ: "The message is in a queue beyond the topic's read queues",
    Cause.ACCESS_DENIED: "Servers deny requests to the credentials of this command",
    Cause.GROUP_UNKNOWN: "No broker knows the group: it has never connected, or its name is misspelt",
    Cause.CONSUMPTION_DISABLED: "The group's settings forbid it to consume",
    Cause.NO_MEMBER_ONLINE: "No member of the group is connected",
    Cause.ACCESS_MAY_REFUSE: "Access control is on and no member is connected: brokers may refuse them",
    Cause.NOT_SUBSCRIBED: "No member subscribes to the topic",
    Cause.SUBSCRIPTIONS_DIFFER: "Members subscribe to the topic by different expressions",
    Cause.GROUP_SHARED: "Members of the group subscribe to different topics",
    Cause.FILTERED_OUT: "The group's tags or SQL92 condition do not take the message",
    Cause.MESSAGE_UNKNOWN: "No broker that answers has the message, and nothing says that it was stored",
    Cause.MESSAGE_EXPIRED: "The message is older than what the brokers keep: retention has removed it",
    Cause.PASSED: "The group continues after the message: it was consumed, or skipped",
    Cause.NO_OFFSET: "The group has no offset in a queue yet",
    Cause.QUEUE_NOT_OWNED: "No member has the queue",
    Cause.QUEUE_NOT_LOCKED: "The queue's owner consumes in order and does not have the broker's lock",
    Cause.FLOW_CONTROL: "A member has so many cached messages that it does not pull",
    Cause.LISTENER_STUCK: "A member has cached messages and has finished none for a while",
    Cause.QUEUE_BLOCKED: "The first message of a queue cannot be consumed, and the ones after it wait",
    Cause.IN_FLIGHT: "A member has the message now and has not finished it",
    Cause.RETRY_WAITING: "The message failed and waits for its next try",
    Cause.DELIVERY_WAITING: "The message has a delay or a delivery time that is not over",
    Cause.DELIVERY_OVERDUE: "The delay of the message or of its next try is over, and the broker has not delivered it",
    Cause.DEAD_LETTER: "The message failed for the last time and is a dead letter",
    Cause.TRANSACTION_OPEN: "The producer has not decided about the transaction",
    Cause.TRANSACTION_ROLLED_BACK: "The producer rolled the transaction back",
    Cause.TRANSACTION_GIVEN_UP: "The broker asked for the transaction to no avail and gave it up",
    Cause.SLAVE_BEHIND: "Consumers may read from a slave that does not have the message yet",
    Cause.DISK_FULL: "The broker's disk is full, and it refuses messages",
    Cause.STORE_ILL: "The broker reports that it is not healthy",
    Cause.ARCHIVE_GATE: "The broker keeps files for an archive that is behind, and needs their room",
    Cause.LAG: "The group consumes, and has not reached the newest messages",
}
"""One sentence for each cause."""

ORDER = {cause: place for place, cause in enumerate(Cause)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause that holds. `evidence` has the facts behind it, one sentence each; `remedy` says what to do."""

    cause: Cause
    sentence: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    level: Level = Level.CAUSE
