"""The options and columns of the Spark sink: typed, and checked when the query is planned.

An unknown one is refused with the nearest name. Spark passes options as texts and loses their case; of a DataFrame it
passes the names and types of the columns.
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum

from regulus.errors import OptionError
from regulus.model.topics import name_fault
from regulus.spark import option_values


class DeliveryGuarantee(StrEnum):
    AT_LEAST_ONCE = "atLeastOnce"
    """Each row is stored; a task that is tried again stores its rows again."""
    EXACTLY_ONCE = "exactlyOnce"
    """The broker records how far each task has come and stores no row twice. Only Regulus brokers do this."""
    TRANSACTIONAL = "transactional"
    """The rows of a batch become visible together, after it is committed. Any RocketMQ broker can do this."""


KNOWN_SINK_OPTIONS = (
    "nameServer", "topic", "producerGroup", "deliveryGuarantee", "sinkId", "jobId", "dedupKey", "sendTimeoutMs",
    "retryBudgetMs", "inFlightMax", "rateLimit", "commitTopic", "credentials",
)
_OWNED_OPTIONS: Mapping[str, str] = {
    "kafka.bootstrap.servers": "give option 'nameServer', whose port is 9876 unless it was set otherwise",
    "kafka.transactional.id": "give option 'sinkId', and deliveryGuarantee=exactlyOnce or transactional",
    "kafka.acks": "give option 'deliveryGuarantee'; when a message counts as stored is a setting of the broker",
    "kafka.enable.idempotence": "give deliveryGuarantee=exactlyOnce, which is the default",
    "kafka.linger.ms": "rows are sent in batches of up to 1 MiB as they come; leave it out",
    "kafka.batch.size": "rows are sent in batches of up to 1 MiB as they come; leave it out",
    "kafka.compression.type": "bodies are stored as the rows have them: compress them in the query if they are large",
    "kafka.max.request.size": "the broker's setting maxMessageSize bounds a body; nothing is to be set here",
    "kafka.delivery.timeout.ms": "give option 'retryBudgetMs'",
    "kafka.request.timeout.ms": "give option 'sendTimeoutMs'",
    "kafka.key.serializer": "keys and values are sent as they are: cast them in the query",
    "kafka.value.serializer": "keys and values are sent as they are: cast them in the query",
    "kafka.interceptor.classes": "there are no interceptors: change the rows in the query",
    "kafka.security.protocol": "give option 'credentials', whose file may have the keys of TLS too",
    "kafka.sasl.": "give option 'credentials', which says where access and secret key are",
    "kafka.ssl.": "give option 'credentials', whose file may have the keys of TLS too",
    "kafka.": "there is no Kafka client here",
    "includeHeaders": "give a column 'properties', a map<string,string>",
}
"""Options of Kafka's sink, and what to do instead of each; a name that ends with a dot is a prefix."""
_SPARKS_OWN = frozenset(("checkpointlocation", "queryname"))
"""Options of Spark itself that it also passes to the sink of a stream."""

DEFAULT_PRODUCER_GROUP = "regulus-spark-sink"
SEND_TIMEOUT_MS = 3_000
RETRY_BUDGET_MS = 30_000
IN_FLIGHT_MAX = 1024
SINK_ID_SIZE_MAX = 64

_TEXT = ("string",)
_BYTES = ("binary", "string")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_KEYS = (*_BYTES, *_INTEGERS)
SINK_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "topic": _TEXT,
    "body": _BYTES, "value": _BYTES,
    "keys": _TEXT, "key": _BYTES,
    "tags": _TEXT,
    "properties": ("map<string,string>",),
    "delay_level": _INTEGERS,
    "sharding_key": _TEXT,
    "queue_id": _INTEGERS,
    "flag": _INTEGERS,
}
"""The columns that can be written, and the types that each may have."""
_OTHER_NAMES = {"partition": "queue_id", "headers": "properties"}
"""Columns by their names in Kafka's sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a write. `sink_id` None means the id of the streaming query, `topic` None the column.

    `is_for_once`: the sink's id was made for a single run of a job that names none, and is never used again.
    """

    name_server: str
    topic: str | None = None
    producer_group: str = DEFAULT_PRODUCER_GROUP
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    sink_id: str | None = None
    is_for_once: bool = False
    job_id: int = 0
    dedup_key: tuple[str, ...] = ()
    send_timeout_ms: int = SEND_TIMEOUT_MS
    retry_budget_ms: int = RETRY_BUDGET_MS      # of one request, all its attempts together
    in_flight_max: int = IN_FLIGHT_MAX          # messages sent and not yet answered, of one task
    rate_limit: int | None = None               # messages a second, of one task
    commit_topic: str | None = None
    credentials: str | None = None              # the place of the credentials, not their values

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def is_transactional(self) -> bool:
        return self.delivery_guarantee is DeliveryGuarantee.TRANSACTIONAL


def for_this_run(options: SinkOptions) -> SinkOptions:
    """Give a batch write that names no sink a random id, which differs in each run."""
    if options.sink_id is not None or options.delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
        return options
    return replace(options, sink_id=f"run-{uuid.uuid4().hex}", is_for_once=True)


def parse_sink_options(options: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """Raises OptionError that names the option, its value and the allowed values."""
    values = _known_values(options)
    guarantee = _guarantee(values)
    parsed = SinkOptions(
        name_server=_name_server(values),
        topic=_name(values, "topic"),
        producer_group=_name(values, "producerGroup") or DEFAULT_PRODUCER_GROUP,
        delivery_guarantee=guarantee,
        sink_id=_sink_id(values),
        job_id=_number(values, "jobId", 0, 0, (1 << 62)),
        dedup_key=_dedup_key(values),
        send_timeout_ms=_number(values, "sendTimeoutMs", SEND_TIMEOUT_MS, 1, 600_000),
        retry_budget_ms=_number(values, "retryBudgetMs", RETRY_BUDGET_MS, 0, 86_400_000),
        in_flight_max=_number(values, "inFlightMax", IN_FLIGHT_MAX, 1, 1 << 20),
        rate_limit=_number(values, "rateLimit", 0, 1, 1 << 30) if "rateLimit" in values else None,
        commit_topic=_name(values, "commitTopic"),
        credentials=_credentials(values),
    )
    _check_together(parsed, values, is_stream)
    return parsed


def check_columns(columns: Mapping[str, str], options: SinkOptions) -> None:
    """Raises OptionError when a DataFrame with these columns cannot be sent. The types have Spark's spelling."""
    for name, spark_type in columns.items():
        allowed = SINK_COLUMNS.get(name) or (_KEYS if name in options.dedup_key else None)
        if allowed is None:
            raise OptionError(f"the sink has no column {name!r}: {_hint(name)}; leave it out with select() or drop()")
        if spark_type not in allowed:
            raise OptionError(f"column {name!r} is {spark_type}; the sink takes {' or '.join(allowed)}: cast it")
    for one, other in (("body", "value"), ("keys", "key")):
        if one in columns and other in columns:
            raise OptionError(f"columns {one!r} and {other!r} mean the same: keep one of them")
    if "body" not in columns and "value" not in columns:
        raise OptionError("there is no column 'body' (or 'value'), which holds what is to be sent")
    if options.topic is None and "topic" not in columns:
        raise OptionError("where to send is not said: give option 'topic', or a column 'topic'")
    if options.topic is not None and "topic" in columns:
        raise OptionError("option 'topic' and a column 'topic' are both given: drop one of them")
    for name in options.dedup_key:
        if name not in columns:
            raise OptionError(f"option 'dedupKey' names column {name!r}, which the DataFrame does not have")
    if options.is_transactional and "delay_level" in columns:
        raise OptionError("a transactional message cannot be delayed: drop column 'delay_level', or use "
                          "deliveryGuarantee=exactlyOnce")


def _hint(name: str) -> str:
    near = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else get_close_matches(name, SINK_COLUMNS, n=1, cutoff=0.7)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(SINK_COLUMNS)}"


def _known_values(options: Mapping[str, str]) -> dict[str, str]:
    """The options under their documented spelling, without those of Spark itself."""
    given = {key: value for key, value in options.items() if key.lower() not in _SPARKS_OWN}
    known = option_values.known_values(given, KNOWN_SINK_OPTIONS, _OWNED_OPTIONS)
    return {name: value.strip() for name, value in known.items()}


def _name_server(values: dict[str, str]) -> str:
    if not values.get("nameServer"):
        raise OptionError("option 'nameServer' is missing: host:port of a name server, several with ';' between them")
    return values["nameServer"]


def _guarantee(values: dict[str, str]) -> DeliveryGuarantee:
    text = values.get("deliveryGuarantee", DeliveryGuarantee.EXACTLY_ONCE)
    for guarantee in DeliveryGuarantee:
        if text.lower() == guarantee.lower():
            return guarantee
    raise OptionError(f"option 'deliveryGuarantee' is {text!r}: write one of {', '.join(DeliveryGuarantee)}")


def _name(values: dict[str, str], option: str) -> str | None:
    text = values.get(option)
    if text is None:
        return None
    fault = name_fault(text, "group" if option == "producerGroup" else "topic")
    if fault:
        raise OptionError(f"option {option!r} is {text!r}: {fault}")
    return text


def _sink_id(values: dict[str, str]) -> str | None:
    text = values.get("sinkId")
    if text is not None and not re.fullmatch(rf"[A-Za-z0-9_.\-]{{1,{SINK_ID_SIZE_MAX}}}", text):
        raise OptionError(f"option 'sinkId' is {text!r}: write up to {SINK_ID_SIZE_MAX} letters, digits, '_', '-', '.'")
    return text


def _dedup_key(values: dict[str, str]) -> tuple[str, ...]:
    names = tuple(part for part in (piece.strip() for piece in values.get("dedupKey", "").split(",")) if part)
    if "dedupKey" in values and not names:
        raise OptionError("option 'dedupKey' is empty: name the column, or columns, that tell rows apart")
    return names


def _credentials(values: dict[str, str]) -> str | None:
    text = values.get("credentials")
    if text is not None and not re.match(r"(env|file):.", text):
        # The message does not show the text, because it may be the secret itself.
        raise OptionError("option 'credentials' says where they are, not what they are: write env:NAME or file:/path")
    return text


def _number(values: dict[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    text = values.get(name, str(default))
    if not re.fullmatch(r"\d{1,19}", text) or (name in values and not lowest <= int(text) <= highest):
        raise OptionError(f"option {name!r} is {text!r}: write a number from {lowest} to {highest}")
    return int(text)


def _check_together(options: SinkOptions, values: dict[str, str], is_stream: bool) -> None:
    if is_stream and "jobId" in values:
        raise OptionError("option 'jobId' is for batch writes: a stream numbers its batches itself")
    if "jobId" in values and options.sink_id is None:
        raise OptionError("option 'jobId' numbers the jobs of a sink, and none is named: give option 'sinkId' too")
    if options.is_transactional and "producerGroup" not in values:
        raise OptionError("deliveryGuarantee=transactional needs option 'producerGroup', a group of this sink alone: "
                          "brokers ask it what became of a transaction")
    if options.commit_topic is not None and not options.is_transactional:
        raise OptionError("option 'commitTopic' is of deliveryGuarantee=transactional")
