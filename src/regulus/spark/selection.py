"""Selects the topics and queues of a read."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from regulus.errors import OptionError, TopicUnknown
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from regulus.spark.kafka_partitions import queue_of
from regulus.spark.option_values import Values, json_object

SELECTIONS = ("topic", "subscribe", "subscribePattern", "assign")
ANY_BROKER = ""
"""Stands for a broker that the user did not write, which is the only one that has the topic."""

_ASSIGN_EXAMPLE = 'write {"topic":{"broker-a":[0,1]}}'


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The queues to read: those of named topics, of topics whose whole name matches a pattern, or single queues.

    `by_partition`: a number without a broker is Kafka's number of a partition, if there is such a partition.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: tuple[MessageQueue, ...] = ()
    by_partition: bool = False

    def topics_of(self, known: set[str], place: str = "the store") -> list[str]:
        """The topics of `known` to read, sorted. Raises TopicUnknown when a named one is not there."""
        if self == EVERYTHING:
            return sorted(known)
        if self.pattern is not None:
            return sorted(topic for topic in known if self._matches(topic))
        named = self.named_topics
        missing = sorted(named - known)
        if missing:
            raise TopicUnknown(f"{place} has no topic {', '.join(map(repr, missing))}; {_listing(known, missing[0])}")
        return sorted(named)

    @property
    def named_topics(self) -> set[str]:
        """The topics that are named; none if a pattern selects."""
        return set(self.topics) | {queue.topic for queue in self.queues}

    def names(self, topic: str) -> bool:
        """Whether the topic is one of those to read, whether it exists or not."""
        if self.pattern is not None:
            return self._matches(topic)
        return topic in self.named_topics

    def queues_of(self, there: Iterable[MessageQueue], place: str = "the store") -> list[MessageQueue]:
        """The queues to read of those that are there, sorted. Raises OptionError when a named one is not there."""
        queues = sorted(there)
        if not self.queues:
            return queues
        chosen = [queue_of(wanted, queues) if self.by_partition else wanted for wanted in self.queues]
        for wanted in chosen:
            if not any(_is_meant(wanted, queue) for queue in queues):
                listed = ", ".join(map(queue_text, queues)) or "none of them"
                raise OptionError(f"option 'assign' names {queue_text(wanted)}, which {place} does not have: it has "
                                  f"{listed}")
        return [queue for queue in queues if any(_is_meant(wanted, queue) for wanted in chosen)]

    def _matches(self, topic: str) -> bool:
        # Retries, dead letters and the broker's own topics must not be read by accident: a pattern has to spell the
        # prefix.
        if self.pattern is None or not re.fullmatch(self.pattern, topic):
            return False
        return not is_special(topic) or self.pattern.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX))


EVERYTHING = TopicSelection(pattern="")
"""All topics, including retry, dead-letter and system topics: for the tables that list what there is."""


def parse_selection(values: Values) -> TopicSelection:
    """Raises OptionError unless exactly one of SELECTIONS says what to read."""
    given = [name for name in SELECTIONS if name in values]
    if len(given) != 1:
        found = f"there are {' and '.join(given)}" if given else "there is none"
        raise OptionError(f"exactly one of {', '.join(SELECTIONS)} must say what to read: {found}")
    name = given[0]
    text = values[name].strip()
    if not text:
        raise OptionError(f"option {name!r} is empty")
    if name == "topic":
        return TopicSelection(topics=(text,))
    if name == "subscribe":
        return TopicSelection(topics=tuple(part for part in (piece.strip() for piece in text.split(",")) if part))
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"option 'subscribePattern' is not a regular expression: {error}") from error
        return TopicSelection(pattern=text)
    return TopicSelection(queues=_assigned(text))


def is_special(topic: str) -> bool:
    """Whether `topic` is a retry, dead-letter or system topic."""
    return topic in SYSTEM_TOPICS or topic.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX))


def queue_text(queue: MessageQueue) -> str:
    """The text of a queue for errors: topic/broker/number."""
    return "/".join(str(part) for part in queue if part != ANY_BROKER)


def _is_meant(wanted: MessageQueue, queue: MessageQueue) -> bool:
    return wanted == queue or wanted == queue._replace(broker_name=ANY_BROKER)


def _assigned(text: str) -> tuple[MessageQueue, ...]:
    queues = []
    for topic, brokers in json_object(text, "assign", _ASSIGN_EXAMPLE).items():
        by_broker: Mapping[str, Any] = {ANY_BROKER: brokers} if isinstance(brokers, list) else brokers
        if not isinstance(by_broker, dict) or not all(_are_queue_ids(ids) for ids in by_broker.values()):
            raise OptionError(f"option 'assign' has {brokers!r} for topic {topic!r}: {_ASSIGN_EXAMPLE}")
        queues += [MessageQueue(topic, broker, queue_id) for broker, ids in by_broker.items() for queue_id in ids]
    if not queues:
        raise OptionError(f"option 'assign' names no queue: {_ASSIGN_EXAMPLE}")
    return tuple(queues)


def _are_queue_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _listing(known: set[str], missing: str) -> str:
    ordinary = sorted(topic for topic in known if not is_special(topic))
    near = get_close_matches(missing, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"it has {', '.join(ordinary)}" if ordinary else "it has none"
