"""Makes spans of the clients' own message trace, from the texts that they send to RMQ_SYS_TRACE_TOPIC.

A trace message's body is a sequence of records, each ended by 0x02; a record is a sequence of fields separated by 0x01:

    Pub             time, region, group, topic, id, tags, keys, store host, body length, cost, type, offset id, success
    SubBefore       time, region, group, request, id, retry count, keys
    SubAfter        request, id, cost, success, keys, context code, then time and group
    EndTransaction  time, region, group, topic, id, tags, keys, store host, type, transaction id, state, from check
    Recall          time, region, group, topic, id, success

Older clients write a Pub without the offset id and a SubAfter without time and group. A field without a value is the
text `null` or empty.

Source: TraceDataEncoder.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from regulus.pipeline.steps.message_facts import percentiles

PUB, SUB_BEFORE, SUB_AFTER = "Pub", "SubBefore", "SubAfter"
END_TRANSACTION, RECALL = "EndTransaction", "Recall"
SEND, CONSUME, END, RECALLED = "send", "consume", "end transaction", "recall"

_FIELDS: dict[str, dict[str, int]] = {
    "time": {PUB: 1, SUB_BEFORE: 1, END_TRANSACTION: 1, RECALL: 1, SUB_AFTER: 7},
    "region": {PUB: 2, SUB_BEFORE: 2, END_TRANSACTION: 2, RECALL: 2},
    "group_name": {PUB: 3, SUB_BEFORE: 3, END_TRANSACTION: 3, RECALL: 3, SUB_AFTER: 8},
    "topic": {PUB: 4, END_TRANSACTION: 4, RECALL: 4},
    "message_id": {PUB: 5, SUB_BEFORE: 5, SUB_AFTER: 2, END_TRANSACTION: 5, RECALL: 5},
    "tags": {PUB: 6, END_TRANSACTION: 6},
    "keys": {PUB: 7, SUB_BEFORE: 7, SUB_AFTER: 5, END_TRANSACTION: 7},
    "store_host": {PUB: 8, END_TRANSACTION: 8},
    "body_size": {PUB: 9},
    "cost_ms": {PUB: 10, SUB_AFTER: 3},
    "message_type": {PUB: 11, END_TRANSACTION: 9},
    "request_id": {SUB_BEFORE: 4, SUB_AFTER: 1},
    "retry_count": {SUB_BEFORE: 6},
    "context_code": {SUB_AFTER: 6},
    "transaction_id": {END_TRANSACTION: 10},
    "transaction_state": {END_TRANSACTION: 11},
}
"""The index of a field in each kind of record; 0 is the kind itself."""

_NUMBERS = {"body_size": "int", "cost_ms": "bigint", "retry_count": "int", "context_code": "int"}
_FIELDS_MIN = {PUB: 13, SUB_BEFORE: 7, SUB_AFTER: 5, END_TRANSACTION: 12, RECALL: 7}
_MESSAGE_TYPES = ("normal", "half", "commit", "delayed", "ordered")
_CONTEXTS = ("success", "timeout", "exception", "nothing returned", "failed")


def trace_records(messages: DataFrame) -> DataFrame:
    """One row per record of the known kinds that has all its fields.

    `messages`: `body` (decompressed) and `born_host` of the trace topic.
    Returns `record_type, time timestamp, region, group_name, topic, message_id, tags, keys, store_host, body_size int,
    cost_ms bigint, message_type, request_id, retry_count int, context_code int, transaction_id, transaction_state,
    offset_message_id, success boolean, client_host`; what a kind of record does not have is null.
    """
    fields = _records(messages).where(_is_whole())
    columns = [_column(name) for name in _FIELDS]
    return fields.select(F.get("fields", 0).alias("record_type"), *columns, _offset_id().alias("offset_message_id"),
                         _success().alias("success"), "client_host")


def trace_rejects(messages: DataFrame) -> DataFrame:
    """One row per record that is of an unknown kind or too short.

    `messages`: `body, born_host`. Returns `record string, client_host`, the record's separators shown as `|`.
    """
    text = F.concat_ws("|", "fields").alias("record")
    return _records(messages).where(~_is_whole()).select(text, "client_host")


def trace_spans(records: DataFrame) -> DataFrame:
    """One row per send, a message consumed, an end of a transaction, a recall.

    `records`: what `trace_records` returns.
    Returns `kind` (`send`, `consume`, `end transaction`, `recall`), `group_name, topic, message_id, keys, tags,
    request_id, start_time, duration_ms bigint, success boolean, retry_count int, outcome` (of a consume: `success`,
    `timeout`, `exception`, `nothing returned`, `failed`; of a transaction its state), `client_host, store_host,
    region`.
    A consume whose end was not recorded has no duration and no success. A consume's topic is that of the send with its
    id, null if that was not traced.
    """
    ended = F.when(F.col("record_type") == PUB, SEND).when(F.col("record_type") == RECALL, RECALLED).otherwise(END)
    whole = records.where(F.col("record_type").isin(PUB, END_TRANSACTION, RECALL)).select(
        ended.alias("kind"), "group_name", "topic", "message_id", "keys", "tags", "request_id",
        F.col("time").alias("start_time"), F.col("cost_ms").alias("duration_ms"), "success", "retry_count",
        F.col("transaction_state").alias("outcome"), "client_host", "store_host", "region")
    return whole.unionByName(_consume_spans(records))


def _consume_spans(records: DataFrame) -> DataFrame:
    pair = ["request_id", "message_id"]
    of_send = records.where(F.col("record_type") == PUB).groupBy("message_id").agg(
        F.first("topic").alias("topic"), F.first("tags").alias("tags"))
    before = records.where(F.col("record_type") == SUB_BEFORE).select(
        *pair, "group_name", "keys", F.col("time").alias("start_time"), "retry_count", "client_host", "region")
    contexts = F.array(*map(F.lit, _CONTEXTS))
    after = records.where(F.col("record_type") == SUB_AFTER).groupBy(*pair).agg(
        F.first("cost_ms").alias("duration_ms"), F.first("success").alias("success"),
        F.get(contexts, F.first("context_code")).alias("outcome"))
    return before.join(after, pair, "left").join(of_send, "message_id", "left").select(
        F.lit(CONSUME).alias("kind"), "group_name", "topic", "message_id", "keys", "tags", "request_id", "start_time",
        "duration_ms", "success", "retry_count", "outcome", "client_host",
        F.lit(None).cast("string").alias("store_host"), "region")


def deliveries_from_trace(spans: DataFrame) -> DataFrame:
    """The time when each message first came to a consumer: `message_id, consumer_group, delivered_time`."""
    return spans.where(F.col("kind") == CONSUME).groupBy(
        "message_id", F.col("group_name").alias("consumer_group")).agg(F.min("start_time").alias("delivered_time"))


def slow_groups(spans: DataFrame, slow_ms: int = 1000) -> DataFrame:
    """How long the groups' listeners took.

    Returns `consumer_group, topic, consumed, failed, unfinished, slow` (took `slow_ms` or longer), `p50_ms, p90_ms,
    p95_ms, p99_ms, max_ms`.
    """
    return spans.where(F.col("kind") == CONSUME).groupBy(F.col("group_name").alias("consumer_group"), "topic").agg(
        F.count("*").alias("consumed"), F.count_if(~F.col("success")).alias("failed"),
        F.count_if(F.col("success").isNull()).alias("unfinished"),
        F.count_if(F.col("duration_ms") >= slow_ms).alias("slow"), *percentiles("duration_ms"),
        F.max("duration_ms").alias("max_ms"))


def service_map(spans: DataFrame) -> DataFrame:
    """The map of senders and consumers: one row per producer group, topic and consumer group.

    A topic for which no consumer was traced has a row with a null consumer group.
    Returns `producer_group, topic, consumer_group, messages, deliveries, failed, first_time, last_time`.
    """
    sends = spans.where(F.col("kind") == SEND).groupBy("message_id", "topic").agg(
        F.first("group_name").alias("producer_group"), F.min("start_time").alias("sent_time"))
    consumed = spans.where(F.col("kind") == CONSUME).select(
        "message_id", F.col("group_name").alias("consumer_group"), "success", F.lit(1).alias("delivery"))
    return sends.join(consumed, "message_id", "left").groupBy("producer_group", "topic", "consumer_group").agg(
        F.count_distinct("message_id").alias("messages"), F.count("delivery").alias("deliveries"),
        F.count_if(~F.col("success")).alias("failed"), F.min("sent_time").alias("first_time"),
        F.max("sent_time").alias("last_time"))


def _records(messages: DataFrame) -> DataFrame:
    texts = F.explode(F.split(F.col("body").cast("string"), "\x02"))
    rows = messages.select(texts.alias("record"), F.col("born_host").alias("client_host")).where("record <> ''")
    return rows.select(F.split("record", "\x01").alias("fields"), "client_host")


def _is_whole() -> Column:
    kind, size = F.get("fields", 0), F.size("fields")
    tests = [(kind == name) & (size >= least) for name, least in _FIELDS_MIN.items()]
    whole = tests[0]
    for test in tests[1:]:
        whole = whole | test
    return F.coalesce(whole, F.lit(False))


def _column(name: str) -> Column:
    value: Column | None = None
    for kind, place in _FIELDS[name].items():
        is_kind, field = F.get("fields", 0) == kind, _text(place)
        value = F.when(is_kind, field) if value is None else value.when(is_kind, field)
    assert value is not None
    if name == "time":
        value = F.timestamp_millis(value.try_cast("bigint"))
    elif name == "message_type":
        value = F.get(F.array(*map(F.lit, _MESSAGE_TYPES)), value.try_cast("int"))
    elif name in _NUMBERS:
        value = value.try_cast(_NUMBERS[name])
    return value.alias(name)


def _text(place: int) -> Column:
    """A field; null for the text `null` and for an empty one."""
    field = F.get("fields", place)
    return F.when((field != "null") & (field != ""), field)


def _offset_id() -> Column:
    return F.when((F.get("fields", 0) == PUB) & (F.size("fields") >= 14), _text(12))


def _success() -> Column:
    kind, size = F.get("fields", 0), F.size("fields")
    text = (F.when((kind == PUB) & (size >= 14), _text(13)).when(kind == PUB, _text(12))
            .when(kind == SUB_AFTER, _text(4)).when(kind == RECALL, _text(6)))
    return text.try_cast("boolean")
