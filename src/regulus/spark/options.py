"""The options of the Spark table: typed, checked, and refused with the nearest known name where unknown.

Names follow Spark's Kafka source where it has the thing, RocketMQ otherwise. Spark hands all of them over as texts and
forgets their case.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from regulus.errors import OptionError
from regulus.model.topics import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from regulus.spark.offsets import QueueOffsets, parse_offsets

KNOWN_OPTIONS = (
    "storePath", "path", "topic", "subscribe", "subscribePattern", "assign", "tags", "columns",
    "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp", "failOnDataLoss", "brokerName",
    "batchRows", "minPartitions", "maxBytesPerPartition", "maxRecordsPerPartition", "decompress", "verifyBodies",
)
_SELECTIONS = ("topic", "subscribe", "subscribePattern", "assign")
DEFAULT_BROKER_NAME = "broker-a"
"""The log does not hold the broker's name; this is the name that brokers have by default."""

ALL_TAGS = "*"
_SIZE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which queues to read: named topics, or those whose name a pattern matches whole, or single queues."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: tuple[tuple[str, int], ...] = ()

    def topics_of(self, known: set[str]) -> list[str]:
        """The topics to read of `known`, sorted. Raises OptionError when one that is named is not there."""
        if self.pattern is not None:
            return sorted(topic for topic in known if self._matches(topic))
        named = set(self.topics) | {topic for topic, _ in self.queues}
        missing = sorted(named - known)
        if missing:
            raise OptionError(f"the store has no topic {', '.join(map(repr, missing))}; {_listing(known, missing[0])}")
        return sorted(named)

    def takes_queue(self, topic: str, queue_id: int) -> bool:
        return not self.queues or (topic, queue_id) in self.queues

    def _matches(self, topic: str) -> bool:
        # Retries, dead letters and the broker's own topics are read only on purpose: a pattern has to spell the prefix.
        if self.pattern is None or not re.fullmatch(self.pattern, topic):
            return False
        return not is_special(topic) or self.pattern.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a batch read was asked for. Times in ms; a time beats an offset option."""

    store_path: str
    selection: TopicSelection
    tags: frozenset[str] | None = None
    columns: tuple[str, ...] | None = None
    starting_offsets: QueueOffsets | None = None
    ending_offsets: QueueOffsets | None = None
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    fail_on_data_loss: bool = True
    broker_name: str = DEFAULT_BROKER_NAME
    batch_rows: int = 4096
    partitions_min: int | None = None
    partition_bytes_max: int = 256 << 20
    partition_records_max: int = 1_000_000      # what a task keeps in memory of each is some 100 bytes
    decompress: bool = False
    verify_bodies: bool = False


def is_special(topic: str) -> bool:
    """Whether `topic` is a retry, dead-letter or system topic."""
    return topic in SYSTEM_TOPICS or topic.startswith((RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX))


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Raises OptionError that names the option, its value and what is allowed."""
    values = _known_values(options)
    broker_name = values.get("brokerName", DEFAULT_BROKER_NAME)
    return ReadOptions(
        store_path=_store_path(values),
        selection=_selection(values, broker_name),
        tags=_tags(values.get("tags", ALL_TAGS)),
        columns=_columns(values.get("columns")),
        starting_offsets=_offsets(values, "startingOffsets", "earliest", broker_name),
        ending_offsets=_offsets(values, "endingOffsets", "latest", broker_name),
        starting_timestamp=_timestamp(values, "startingTimestamp"),
        ending_timestamp=_timestamp(values, "endingTimestamp"),
        fail_on_data_loss=_flag(values, "failOnDataLoss", True),
        broker_name=broker_name,
        batch_rows=_number(values, "batchRows", 4096, 1, 1 << 20),
        partitions_min=_number(values, "minPartitions", 0, 0, 100_000) or None,
        partition_bytes_max=_size(values, "maxBytesPerPartition", 256 << 20),
        partition_records_max=_number(values, "maxRecordsPerPartition", 1_000_000, 1, 1 << 30),
        decompress=_flag(values, "decompress", False),
        verify_bodies=_flag(values, "verifyBodies", False),
    )


def _known_values(options: Mapping[str, str]) -> dict[str, str]:
    """The options under their own spelling."""
    spelling = {name.lower(): name for name in KNOWN_OPTIONS}
    values = {}
    for key, value in options.items():
        name = spelling.get(key.lower())
        if name is None:
            near = get_close_matches(key.lower(), spelling, n=1, cutoff=0.5)
            hint = f"did you mean {spelling[near[0]]!r}?" if near else f"known are {', '.join(KNOWN_OPTIONS)}"
            raise OptionError(f"unknown option {key!r}: {hint}")
        values[name] = value
    return values


def _store_path(values: dict[str, str]) -> str:
    if "storePath" in values and "path" in values:
        raise OptionError("give the store's directory either as option 'storePath' or as argument of load(), not both")
    path = values.get("storePath") or values.get("path")
    if not path:
        raise OptionError("option 'storePath' is missing: the directory of a broker's store, which holds 'commitlog'")
    return path


def _selection(values: dict[str, str], broker_name: str) -> TopicSelection:
    given = [name for name in _SELECTIONS if name in values]
    if len(given) != 1:
        found = f"there are {' and '.join(given)}" if given else "there is none"
        raise OptionError(f"exactly one of {', '.join(_SELECTIONS)} must say what to read: {found}")
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
            raise OptionError(f"option 'subscribePattern' is no regular expression: {error}") from error
        return TopicSelection(pattern=text)
    return TopicSelection(queues=_assigned(text, broker_name))


def _assigned(text: str, broker_name: str) -> tuple[tuple[str, int], ...]:
    example = f'write {{"topic":{{"{broker_name}":[0,1]}}}}'
    try:
        assigned = json.loads(text)
    except ValueError as error:
        raise OptionError(f"option 'assign' is no JSON ({error}): {example}") from error
    queues = []
    for topic, brokers in (assigned.items() if isinstance(assigned, dict) else ()):
        by_broker = {broker_name: brokers} if isinstance(brokers, list) else brokers
        if not isinstance(by_broker, dict) or not all(_are_queue_ids(ids) for ids in by_broker.values()):
            raise OptionError(f"option 'assign' has {brokers!r} for topic {topic!r}: {example}")
        strange = sorted(set(by_broker) - {broker_name})
        if strange:
            raise OptionError(f"option 'assign' names broker {strange[0]!r}, this store is that of {broker_name!r} "
                              "(option 'brokerName')")
        queues += [(topic, queue_id) for ids in by_broker.values() for queue_id in ids]
    if not queues:
        raise OptionError(f"option 'assign' names no queue: {example}")
    return tuple(queues)


def _are_queue_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _tags(text: str) -> frozenset[str] | None:
    """None takes all messages. RocketMQ's form: `TagA || TagB`, `*` for all."""
    tags = frozenset(part for part in (piece.strip() for piece in text.split("||")) if part)
    return None if not tags or ALL_TAGS in tags else tags


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(part for part in (piece.strip() for piece in text.split(",")) if part)
    if not names:
        raise OptionError("option 'columns' is empty: leave it out for all columns")
    return names


def _offsets(values: dict[str, str], name: str, default: str, broker_name: str) -> QueueOffsets | None:
    """None is the default, `earliest` for a start and `latest` for an end."""
    text = values.get(name, default).strip()
    if text == default:
        return None
    if text in ("earliest", "latest"):
        raise OptionError(f"option {name!r} of a batch read cannot be {text!r}: leave it out or give offsets as JSON")
    return parse_offsets(text, name, broker_name)


def _timestamp(values: dict[str, str], name: str) -> int | None:
    """Ms since 1970 from a number or from ISO 8601, where a time without a zone is UTC."""
    text = values.get(name)
    if text is None:
        return None
    text = text.strip()
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionError(f"option {name!r} is {text!r}: write ms since 1970 or ISO 8601, as "
                          "2026-01-31T08:00:00Z") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _flag(values: dict[str, str], name: str, default: bool) -> bool:
    text = values.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"option {name!r} is {values[name]!r}: write true or false")
    return text == "true"


def _number(values: dict[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    text = values.get(name, str(default)).strip()
    if not re.fullmatch(r"\d+", text) or not lowest <= int(text) <= highest:
        raise OptionError(f"option {name!r} is {text!r}: write a number from {lowest} to {highest}")
    return int(text)


def _size(values: dict[str, str], name: str, default: int) -> int:
    text = values.get(name)
    if text is None:
        return default
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _SIZE_UNITS or int(match[1]) == 0:
        raise OptionError(f"option {name!r} is {text!r}: write bytes, or a number with k, m or g, like 256m")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def _listing(known: set[str], missing: str) -> str:
    ordinary = sorted(topic for topic in known if not is_special(topic))
    near = get_close_matches(missing, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"it has {', '.join(ordinary)}" if ordinary else "it has none"
