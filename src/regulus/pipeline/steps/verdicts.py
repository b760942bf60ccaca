"""Computes each business key's verdict, from what was promised (stubs), sent (the log) and done (effects).

| verdict | stub | log | effect |
|---|---|---|---|
| fine | yes | yes | one, in time |
| lost | yes | no | none |
| unmade | no | yes | |
| twice | | | more than one |
| late | | yes | one, after the limit |
| stuck | | half, or retried and waiting beyond the limit | none |
| dead letter | | dead letter | none |
| recalled | | taken back while it waited for its time | none |
| no effect | | yes, beyond the limit | none |
| waiting | | not yet beyond the limit | none |
| forgotten | yes, older than the log or the topic | no | none |
| not due | yes, not due to be sent | no | none |

The first that fits in the order of VERDICTS counts. Whether a delayed message is late depends on the time at which it
was due. Without stubs nothing is lost or unmade; without effects a message in the log is fine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from regulus.model import message_properties as names
from regulus.model.topics import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from regulus.pipeline.steps.message_facts import also, business_key, home_topic, is_first_copy, keys_of, milliseconds

FINE, WAITING, FORGOTTEN, NOT_DUE, RECALLED = "fine", "waiting", "forgotten", "not due", "recalled"
LOST, UNMADE, TWICE, LATE = "lost", "unmade", "twice", "late"
STUCK, DEAD, NO_EFFECT = "stuck", "dead letter", "no effect"
VERDICTS = (TWICE, UNMADE, LATE, DEAD, RECALLED, STUCK, NO_EFFECT, NOT_DUE, LOST, FORGOTTEN, WAITING, FINE)
_RECORD = ("topic", "broker_name", "queue_id", "queue_offset", "store_time")
BAD_VERDICTS = (LOST, UNMADE, TWICE, LATE, STUCK, DEAD, NO_EFFECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits after which a key is overdue. `log_since`: the time from which on the log is complete; None if it is
    complete from the beginning."""

    now: datetime
    late_ms: int = 60_000
    log_since: datetime | None = None


def key_verdicts(messages: DataFrame, limits: Limits, stubs: DataFrame | None = None,
                 effects: DataFrame | None = None) -> DataFrame:
    """One row per business key.

    `messages`: `topic, broker_name, queue_id, queue_offset, message_id, keys, properties, body, born_time, store_time,
    deliver_time` of the topic and, where they exist, of the group's retry and dead-letter topics, of
    `SCHEDULE_TOPIC_XXXX`, `rmq_sys_wheel_timer` and of the two half topics. Rows without keys are passed over.
    `stubs`: `key string, created_time timestamp` (null where not known), and `is_due boolean` where not all are. A
    message belongs to each stub whose key is one of its keys, and to its first key where there is none.
    `effects`: `key string, applied_time timestamp`, one row per effect.
    Returns `key, verdict, sends, retries, parked` (retries on their way), `delayed` (sends on their way, or gone by),
    `dead_letters, open_halves, effects` (all bigint; effects null when no table of them was given), `created_time,
    born_time, stored_time, last_stored_time, applied_time, latency_ms`.
    """
    if stubs is None:
        keys = _log_by_key(messages, None).select(
            "*", F.lit(None).cast("boolean").alias("has_stub"), F.lit(None).cast("boolean").alias("is_due"),
            F.lit(None).cast("timestamp").alias("created_time"))
    else:
        due = F.col("is_due") if "is_due" in stubs.columns else F.lit(True)
        made = stubs.where(F.col("key").isNotNull()).groupBy("key").agg(
            F.min("created_time").alias("created_time"), F.max(F.coalesce(due, F.lit(False))).alias("is_due"),
            F.lit(True).alias("stub"))
        keys = _log_by_key(messages, made.select("key")).join(made, "key", "full").withColumn(
            "has_stub", F.coalesce("stub", F.lit(False)))
    done = _effects_by_key(effects)
    keys = keys.join(done, "key", "left") if done is not None else keys.withColumn(
        "effects", F.lit(None).cast("bigint")).withColumn("applied_time", F.lit(None).cast("timestamp"))
    known = F.col("effects") if effects is None else F.coalesce("effects", F.lit(0).cast("bigint"))
    counts = ["sends", "retries", "parked", "delayed", "dead_letters", "open_halves"]
    keys = keys.withColumn("effects", known).withColumn("asked_time", F.greatest("born_time", "due_time"))
    return keys.fillna(0, [*counts, "recalled"]).select(
        "key", _verdict(limits).alias("verdict"), *counts, "effects", "created_time", "born_time", "stored_time",
        "last_stored_time", "applied_time",
        F.coalesce(milliseconds("asked_time", "applied_time"), milliseconds("created_time", "applied_time"))
        .alias("latency_ms"))


def verdict_counts(verdicts: DataFrame) -> DataFrame:
    """The number of keys of each verdict that occurs, as `verdict, keys`."""
    return verdicts.groupBy("verdict").agg(F.count("*").alias("keys"))


def log_complete_since(messages: DataFrame) -> datetime | None:
    """The time from which on the log is complete; None when retention has removed nothing. Runs a job.

    `messages`: `topic, broker_name, queue_id, queue_offset, store_time`, the topic's own.
    """
    queues = messages.where(is_first_copy()).groupBy("topic", "broker_name", "queue_id").agg(
        F.min("queue_offset").alias("first_offset"), F.min("store_time").alias("first_time"))
    row = queues.where("first_offset > 0").agg(F.unix_millis(F.max("first_time")).alias("since")).first()
    since = None if row is None else row["since"]
    return None if since is None else datetime.fromtimestamp(since / 1000, UTC)


def emptied_queues_complete_since(messages: DataFrame, bounds: DataFrame, now: datetime) -> datetime | None:
    """Like `log_complete_since`, for queues from which retention has removed all messages; None if there are none.

    `bounds`: `broker_name, queue_id, min_offset, max_offset` of the topic. Retention removes the beginning of a log,
    with all queues, so it is complete from the first remaining message of any queue of the broker on; if none is left,
    from `now` on. Runs a job.
    """
    emptied = bounds.where("max_offset > 0 AND min_offset >= max_offset").select("broker_name").distinct()
    first = messages.where(is_first_copy()).groupBy("broker_name").agg(F.unix_millis(F.min("store_time")).alias("ms"))
    begins = [row["ms"] for row in emptied.join(first, "broker_name", "left").collect()]
    return max((now if ms is None else datetime.fromtimestamp(ms / 1000, UTC) for ms in begins), default=None)


def shortened_logs(bounds: DataFrame) -> dict[str, datetime | None]:
    """The topics of which retention has removed messages that were not kept elsewhere. Runs a job.

    The value is the time from which on the logs of their brokers are complete; None if no message is left that shows
    it. `bounds`: `topic, broker_name, first_store_time, has_lost boolean` of queues. Retention removes the beginning of
    a log, with all queues, so the log begins no later than the first remaining message of any queue of the broker.
    """
    begins = bounds.groupBy("broker_name").agg(F.unix_millis(F.min("first_store_time")).alias("ms"))
    shortened = bounds.where("has_lost").select("topic", "broker_name").distinct().join(begins, "broker_name")
    unknown, since = F.count_if(F.col("ms").isNull()).alias("unknown"), F.max("ms").alias("ms")
    return {row["topic"]: None if row["unknown"] else datetime.fromtimestamp(row["ms"] / 1000, UTC)
            for row in shortened.groupBy("topic").agg(unknown, since).collect()}


def topics_made(bounds: DataFrame) -> dict[str, datetime]:
    """The time when each topic was created, the latest of all its brokers; earlier messages, of a former topic, are
    gone. Runs a job.

    `bounds`: `topic, topic_made_time`, null if the broker does not report it.
    """
    made = bounds.groupBy("topic").agg(F.unix_millis(F.max("topic_made_time")).alias("ms")).where("ms IS NOT NULL")
    return {row["topic"]: datetime.fromtimestamp(row["ms"] / 1000, UTC) for row in made.collect()}


def open_halves(messages: DataFrame) -> DataFrame:
    """The half messages that were neither committed nor rolled back, one row per message id.

    `messages`: `topic, broker_name, queue_id, queue_offset, message_id, keys, body, store_time` with the topics
    `RMQ_SYS_TRANS_HALF_TOPIC` and `RMQ_SYS_TRANS_OP_HALF_TOPIC`, whose bodies list the offsets of ended halves.
    Returns `message_id, keys, halves, stored_time`.
    """
    ended = messages.where(F.col("topic") == TRANS_OP_HALF_TOPIC).select(
        "broker_name", "queue_id", F.explode(F.split(F.col("body").cast("string"), ",")).alias("offset"),
    ).select("broker_name", "queue_id", F.col("offset").try_cast("bigint").alias("queue_offset"),
             F.lit(True).alias("ended")).where("queue_offset IS NOT NULL").distinct()
    halves = messages.where(F.col("topic") == TRANS_HALF_TOPIC).select(
        "broker_name", "queue_id", "queue_offset", "message_id", "keys", "store_time")
    # A half about which the broker asked is stored again; the message has ended if any of its copies has.
    return (
        halves.join(ended, ["broker_name", "queue_id", "queue_offset"], "left")
        .groupBy(F.coalesce("message_id", "keys").alias("message_id"))
        .agg(F.first("keys").alias("keys"), F.count("*").alias("halves"), F.min("store_time").alias("stored_time"),
             F.count("ended").alias("ended"))
        .where("ended = 0").drop("ended")
    )


def _log_by_key(messages: DataFrame, stub_keys: DataFrame | None) -> DataFrame:
    home = home_topic()
    waits = F.col("topic") != home

    def count(test: Column) -> Column:
        return F.count_if(test)

    copies = messages.where(~F.col("topic").isin(TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC))
    taken_back = F.col("is_taken_back")
    copies = _keyed(_with_recalls(copies), stub_keys, _RECORD).groupBy("key").agg(
        count(is_first_copy()).alias("sends"),
        count(~waits & home.startswith(RETRY_PREFIX)).alias("retries"),
        count(waits & home.startswith(RETRY_PREFIX)).alias("parked"),
        count(waits & ~home.startswith(RETRY_PREFIX) & ~taken_back).alias("delayed"),
        count(taken_back).alias("recalled"),
        count(home.startswith(DLQ_PREFIX)).alias("dead_letters"),
        F.min("born_time").alias("born_time"),
        F.min("store_time").alias("stored_time"),
        F.max("store_time").alias("last_stored_time"),
        F.min(F.when(~home.startswith(RETRY_PREFIX) & ~home.startswith(DLQ_PREFIX), F.col("deliver_time")))
        .alias("due_time"),
        F.max("deliver_time").alias("last_due_time"))
    half = _keyed(open_halves(messages), stub_keys, ["message_id"]).groupBy("key").agg(
        F.count("*").alias("open_halves"), F.min("stored_time").alias("half_time"))
    return copies.join(half, "key", "full")


def _with_recalls(messages: DataFrame) -> DataFrame:
    """Add a column `is_taken_back`: whether a message that waited for its time was recalled by its producer.

    A recall is also a row of the timer topic, with the topic and the id of the recalled message; it has no keys.
    """
    waits = F.col("topic") == TIMER_TOPIC
    timers, properties = messages.where(waits), F.col("properties")
    recalls = timers.select(properties[names.TIMER_DEL_UNIQUE_KEY].alias("taken_back")).where("taken_back IS NOT NULL")
    own = F.concat(properties[names.REAL_TOPIC], F.lit("+"), F.col("message_id"))
    marked = also(timers, own.alias("taken_back")).join(
        also(recalls.distinct(), F.lit(True).alias("is_recall")), "taken_back", "left")
    marked = also(marked, F.coalesce("is_recall", F.lit(False)).alias("is_taken_back")).drop("taken_back", "is_recall")
    return also(messages.where(~waits), F.lit(False).alias("is_taken_back")).unionByName(marked)


def _keyed(rows: DataFrame, stub_keys: DataFrame | None, record: Sequence[str]) -> DataFrame:
    if stub_keys is not None:
        return keys_of(rows, stub_keys, record)
    return rows.withColumn("key", business_key()).where("key IS NOT NULL")


def _effects_by_key(effects: DataFrame | None) -> DataFrame | None:
    if effects is None:
        return None
    return effects.where(F.col("key").isNotNull()).groupBy("key").agg(
        F.count("*").alias("effects"), F.min("applied_time").alias("applied_time"))


def _verdict(limits: Limits) -> Column:
    elsewhere = F.greatest("sends", "retries", "parked", "delayed", "dead_letters", "open_halves") > 0
    in_log = elsewhere | (F.col("recalled") > 0)
    stub, no_effect = F.col("has_stub"), F.col("effects") == 0
    overdue = F.lit(limits.now - timedelta(milliseconds=limits.late_ms))
    last = F.greatest("last_stored_time", "last_due_time", "half_time")
    since = F.lit(limits.log_since).cast("timestamp")
    forgotten = F.coalesce(since.isNotNull() & (F.col("created_time").isNull() | (F.col("created_time") < since)),
                           F.lit(False))
    tried = (F.greatest("retries", "parked") > 0) | ((F.greatest("delayed", "open_halves") > 0) & (F.col("sends") == 0))
    no_log = stub & ~in_log & F.coalesce(no_effect, F.lit(True))
    return (
        F.when(F.col("effects") > 1, TWICE)
        .when(~stub & in_log, UNMADE)
        .when(milliseconds("asked_time", "applied_time") > limits.late_ms, LATE)
        .when((F.col("dead_letters") > 0) & F.coalesce(no_effect, F.lit(True)), DEAD)
        .when(in_log & ~elsewhere & F.coalesce(no_effect, F.lit(True)), RECALLED)
        .when(in_log & F.coalesce(no_effect, F.col("sends") == 0) & tried & (last < overdue), STUCK)
        .when(in_log & no_effect & (last < overdue), NO_EFFECT)
        .when(no_log & ~F.col("is_due"), NOT_DUE)
        .when(no_log & forgotten, FORGOTTEN)
        .when(no_log & F.coalesce(F.col("created_time") < overdue, F.lit(True)), LOST)
        .when(no_log | (in_log & no_effect), WAITING)
        .otherwise(FINE)
    )
