"""The rules by which dead letters are sent again, for the Spark job and for `regulus dead`.

A message that is sent again has in REDRIVE_OF the place of its dead letter. So the log of its topic shows what was sent
before, and a further run, also one after a crash, sends only what is missing. A topic that was deleted and created
again no longer shows that, nor does one from which retention has removed the beginning: a dead letter that is older
than what is left is not sent, unless the user names another topic, and so is responsible for what that topic had.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from regulus.model import message_properties as names
from regulus.model.failure_causes import is_cause
from regulus.model.receipt_handle import normal_topic
from regulus.model.topics import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)

REDRIVE_OF = "REDRIVE_OF"
"""The place of the dead letter, or of the retry message, that was sent again."""
REPLAY_OF = "REPLAY_OF"
REPLAY_ID = "REPLAY_ID"
"""The place of a message that a replay sent again, and the name of the replay."""
RESEND_OF = "RESEND_OF"
"""The key of a row whose message was missing and was sent again."""

NOT_KEPT = (
    names.RETRY_TOPIC, names.REAL_TOPIC, names.REAL_QUEUE_ID, names.DELAY_TIME_LEVEL, names.ORIGIN_MESSAGE_ID,
    names.DLQ_ORIGIN_TOPIC, names.DLQ_ORIGIN_MESSAGE_ID, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES,
    names.TRANSACTION_PREPARED, names.TRANSACTION_PREPARED_QUEUE_OFFSET, names.TRANSACTION_CHECK_TIMES,
    names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.TIMER_OUT_MS,
    names.TIMER_ENQUEUE_MS, names.TIMER_DEQUEUE_MS, names.TIMER_ROLL_TIMES, names.TIMER_DEL_UNIQUE_KEY,
    names.UNIQUE_KEY, names.SINK, names.SEQUENCE, "DEDUP_KEY", REDRIVE_OF, REPLAY_OF, REPLAY_ID, RESEND_OF)
"""Properties of a message that are no longer true when it is sent again. Its causes are not either."""

ORIGIN_TOPICS = (names.DLQ_ORIGIN_TOPIC, names.RETRY_TOPIC, names.REAL_TOPIC)
"""Properties that name the topic from which a copy came; the first one present counts."""

COPY_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)
COPY_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
"""Topics whose messages are copies that brokers made, by prefix and by name."""

CLOCKS_APART_MAX_MS = 3_600_000
"""The largest expected difference between clocks of brokers: a message sent again to one may seem older than its dead
letter at another."""

TO_SEND, SENT, SENT_BEFORE, NO_TOPIC = "to send", "sent", "sent before", "no such topic"
BEYOND_CAP, TOPIC_IS_NEWER, LOG_IS_NEWER = "beyond the cap", "topic is newer", "log is newer"

REASONS_NOT_TO_SEND = (SENT_BEFORE, NO_TOPIC, TOPIC_IS_NEWER, LOG_IS_NEWER)
"""A dead letter has the first status of these that applies, and otherwise TO_SEND. The cap applies to those to send."""


def place_text(topic: str, queue_id: int, queue_offset: int, offset_message_id: str) -> str:
    """The permanent name of a message's place, by its position in the log, because a queue may be created again.

    It has the broker's address, because the log has the address and not the broker's name. So the text is the same if
    the message is read from the broker, from its files or from an archive.
    """
    return f"{topic}/{queue_id}/{queue_offset}/{offset_message_id}"


def is_of_first_copies(topic: str) -> bool:
    """Whether messages of the topic are as their producers sent them, and not copies that brokers made."""
    return not topic.startswith(COPY_PREFIXES) and topic not in COPY_TOPICS


def origin_topic(properties: Mapping[str, str], group: str) -> str:
    """The topic from which a dead letter or a retry message of the group came; empty if it is not known. A message that
    was popped again names the retry topic from which it was popped."""
    return normal_topic(next((properties[name] for name in ORIGIN_TOPICS if name in properties), ""), group)


def kept_properties(properties: Mapping[str, str], place: str) -> dict[str, str]:
    """The properties of the message that is sent again for the dead letter at `place`."""
    kept = {name: value for name, value in properties.items() if name not in _NOT_KEPT and not is_cause(name)}
    return kept | {REDRIVE_OF: place}


def status_of(reasons: Collection[str]) -> str:
    """The status of a dead letter to which these of REASONS_NOT_TO_SEND apply."""
    return next((reason for reason in REASONS_NOT_TO_SEND if reason in reasons), TO_SEND)


def is_older(store_ms: int, since_ms: Mapping[str, int | None], topic: str) -> bool:
    """Whether a dead letter is older than what its topic has. `since_ms`: the time from which on a topic is complete;
    None: no dead letter is newer; topics that are not in it are complete."""
    if topic not in since_ms:
        return False
    since = since_ms[topic]
    return since is None or store_ms < since


class QueueBounds(NamedTuple):
    """`first_store_ms`: the store time of the first message that is left; None without one. `made_ms`: when the topic
    was created, 0 if the broker does not report it."""

    topic: str
    broker_name: str
    min_offset: int
    first_store_ms: int | None
    made_ms: int


def topics_made(bounds: Iterable[QueueBounds]) -> dict[str, int]:
    """The time when each topic was created, the latest of all its brokers, if they report it. Earlier messages, of a
    former topic of the name, are gone."""
    made: dict[str, int] = {}
    for queue in bounds:
        if queue.made_ms:
            made[queue.topic] = max(made.get(queue.topic, 0), queue.made_ms)
    return made


def shortened_logs(bounds: Sequence[QueueBounds], topics: Collection[str]) -> dict[str, int | None]:
    """The shortened topics among these: the time from which on the logs of their brokers are complete.

    None if no message is left that shows the time.

    Retention removes the beginning of a log, with all queues, so the log begins no later than the first remaining
    message of any queue of the broker.
    """
    begins: dict[str, int] = {}
    for queue in bounds:
        if queue.first_store_ms is not None:
            begins[queue.broker_name] = min(begins.get(queue.broker_name, queue.first_store_ms), queue.first_store_ms)
    shortened: dict[str, int | None] = {}
    for topic, broker_name in {(queue.topic, queue.broker_name) for queue in bounds
                               if queue.topic in topics and queue.min_offset > 0}:
        begin, before = begins.get(broker_name), shortened.get(topic, 0)
        shortened[topic] = None if begin is None or before is None else max(before, begin)
    return shortened


def sentence(counts: Mapping[str, int], *, is_dry_run: bool, brokers: Sequence[str], other_topic: str) -> str:
    """A run in one sentence. `counts`: by status; `other_topic`: how a user names another topic to send to."""
    what = f"{counts.get(TO_SEND, 0)} to send" if is_dry_run else f"{counts.get(SENT, 0)} sent"
    why = {NO_TOPIC: "whose topic is gone or not known", BEYOND_CAP: "not sent: beyond the cap of a run",
           TOPIC_IS_NEWER: "not sent: older than the topic, which was created again and may have had them (with "
                           f"{other_topic} they are sent)",
           LOG_IS_NEWER: "not sent: older than what is left of the log of the topic, which may have had them (with "
                         f"{other_topic} they are sent)"}
    left = "".join(f", {counts[status]} {text}" for status, text in why.items() if counts.get(status))
    return f"{what}, {counts.get(SENT_BEFORE, 0)} sent before{left}{names_of(brokers)}"


def names_of(brokers: Sequence[str]) -> str:
    """The end of a report's sentence, which names the brokers."""
    return f"; brokers: {', '.join(brokers)}" if brokers else ""


_NOT_KEPT = frozenset(NOT_KEPT)
