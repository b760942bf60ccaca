"""Computes retries and dead letters: which messages failed, how often, why, and how it ended.

A failed message waits in the schedule topic, and is then stored again in `%RETRY%group`, or after its last try in
`%DLQ%group`. All copies keep the message's id, and have its original topic in RETRY_TOPIC.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from regulus.model import message_properties as names
from regulus.model.topics import DLQ_PREFIX, SCHEDULE_TOPIC
from regulus.pipeline.steps.message_facts import also, business_key, group_of, home_topic, milliseconds, percentiles

CAUSE_PROPERTIES = ("LAST_ERROR", "ERROR", "EXCEPTION", "CAUSE", "REASON", "lastError", "error", "exception", "cause",
                    "reason")
"""Properties in which applications write why they failed; RocketMQ defines none. The first that is there counts."""

USED_UP = "retries used up"
UNWANTED = "no retry wanted"
GIVEN_UP = "given up after retries"
"""The cause if a message was given up before the group's limit. A limit of the consumer, which is not in the message,
or the listener has ended the retries."""
DEAD = "dead letter"
APPLIED = "applied"
PASSED = "passed"
WAITING = "waiting"
UNKNOWN = "unknown"


def failed_copies(messages: DataFrame, cause_properties: Sequence[str] = CAUSE_PROPERTIES) -> DataFrame:
    """One row per copy in a retry or dead-letter topic, or parked on its way there.

    `messages`: `topic, broker_name, queue_id, queue_offset, message_id, keys, tags, properties, born_time, store_time,
    reconsume_times, origin_topic, origin_message_id`, of the topics `%RETRY%group`, `%DLQ%group` and
    `SCHEDULE_TOPIC_XXXX`, which has messages that wait; other rows are ignored.
    Returns `consumer_group, topic` (where the message first was), `identity` (its id, else its first copy's), `origin`
    (its first copy's place, null of what was popped), `key, tags, tries int, kind` (`retry`, `parked`, `dead letter`),
    `cause` (null when no property says it), `born_time, store_time, broker_name, stored_in, queue_id, queue_offset`.
    """
    home = home_topic()
    kind = F.when(F.col("topic") == SCHEDULE_TOPIC, "parked").when(home.startswith(DLQ_PREFIX), DEAD).otherwise("retry")
    return messages.where(group_of(home).isNotNull()).select(
        group_of(home).alias("consumer_group"),
        F.coalesce("origin_topic", home).alias("topic"),
        F.coalesce("message_id", "origin_message_id", "keys").alias("identity"),
        F.col("properties")[names.ORIGIN_MESSAGE_ID].alias("origin"),
        business_key().alias("key"), "tags",
        F.col("reconsume_times").alias("tries"), kind.alias("kind"), stated_cause(cause_properties).alias("cause"),
        "born_time", "store_time", "broker_name", F.col("topic").alias("stored_in"), "queue_id", "queue_offset")


def stated_cause(cause_properties: Sequence[str] = CAUSE_PROPERTIES) -> Column:
    """Why a message failed, if a property says it; else null."""
    return F.coalesce(*[F.col("properties")[name] for name in cause_properties])


def retry_outcomes(messages: DataFrame, effects: DataFrame | None = None, progress: DataFrame | None = None,
                   cause_properties: Sequence[str] = CAUSE_PROPERTIES, limits: DataFrame | None = None) -> DataFrame:
    """One row per message that a group failed on at least once.

    `messages`: as for `failed_copies`. `effects`: `key string, applied_time timestamp` of the consumers' own table.
    `progress`: `consumer_group, topic, broker_name, queue_id, consumer_offset`, where groups read next.
    `limits`: `consumer_group, retry_max_times`, a row per group, without which no message has used up its retries.
    Returns `consumer_group, topic, identity, key, tags, tries int, outcome, cause, born_time, first_failed_time,
    last_failed_time, dead_time, applied_time, time_to_success_ms, time_to_death_ms`. `tries` are the retries that were
    stored, the dead letter not counted. The outcomes: `dead letter`; `applied`, an effect is there; `waiting`, a copy
    is parked or the group has not reached it; `passed`, the group went past the last copy and did not fail again;
    `unknown`, nothing is known of effects or progress. The time to success runs from birth to effect.
    """
    copies = _with_reached(failed_copies(messages, cause_properties), progress)
    by_message = _by_message(copies)
    applied = _first_effects(effects)
    joined = also(by_message, F.lit(None).cast("timestamp").alias("applied_time")) if applied is None else (
        by_message.join(applied, "key", "left"))
    known = also(joined, F.lit(None).cast("int").alias("retry_max_times")) if limits is None else (
        joined.join(limits, "consumer_group", "left"))
    return known.select(
        "consumer_group", "topic", "identity", "key", "tags", "tries", _outcome().alias("outcome"), _cause(),
        "born_time", "first_failed_time", "last_failed_time", "dead_time", "applied_time",
        milliseconds("born_time", "applied_time").alias("time_to_success_ms"),
        milliseconds("born_time", "dead_time").alias("time_to_death_ms"))


def retry_ladder(outcomes: DataFrame) -> DataFrame:
    """How many messages needed n retries.

    `outcomes`: what `retry_outcomes` returns. Returns `consumer_group, topic, tries, messages, applied, passed,
    waiting, dead_letters, unknown`, one row per number of tries that occurs.
    """
    def count(outcome: str) -> Column:
        return F.count_if(F.col("outcome") == outcome)

    return outcomes.groupBy("consumer_group", "topic", "tries").agg(
        F.count("*").alias("messages"), count(APPLIED).alias("applied"), count(PASSED).alias("passed"),
        count(WAITING).alias("waiting"), count(DEAD).alias("dead_letters"), count(UNKNOWN).alias("unknown"))


def time_to_success(outcomes: DataFrame) -> DataFrame:
    """How long messages took that failed at first and were applied in the end.

    Returns `consumer_group, topic, messages, p50_ms, p90_ms, p95_ms, p99_ms, max_ms`.
    """
    applied = outcomes.where((F.col("outcome") == APPLIED) & F.col("time_to_success_ms").isNotNull())
    return applied.groupBy("consumer_group", "topic").agg(
        F.count("*").alias("messages"), *percentiles("time_to_success_ms"),
        F.max("time_to_success_ms").alias("max_ms"))


def dead_letters_by_cause(outcomes: DataFrame) -> DataFrame:
    """Dead letters by group, topic and cause.

    Returns `consumer_group, topic, cause, dead_letters, tries_min, tries_max, first_time, last_time`.
    """
    return outcomes.where(F.col("outcome") == DEAD).groupBy("consumer_group", "topic", "cause").agg(
        F.count("*").alias("dead_letters"), F.min("tries").alias("tries_min"), F.max("tries").alias("tries_max"),
        F.min("dead_time").alias("first_time"), F.max("dead_time").alias("last_time"))


def _with_reached(copies: DataFrame, progress: DataFrame | None) -> DataFrame:
    """The copies with `reached`: whether the group has read them; null when its progress is not known."""
    if progress is None:
        return also(copies, F.lit(None).cast("boolean").alias("reached"))
    read = progress.select("consumer_group", F.col("topic").alias("stored_in"), "broker_name", "queue_id",
                           "consumer_offset")
    joined = copies.join(read, ["consumer_group", "stored_in", "broker_name", "queue_id"], "left")
    return also(joined, (F.col("consumer_offset") > F.col("queue_offset")).alias("reached"))


def _by_message(copies: DataFrame) -> DataFrame:
    """One row per group and message. `tries` of a dead letter counts the last failure, which no retry followed.

    The messages of a batch of Java's client 5 have one id if RocketMQ stored them. They are distinguished by their
    keys, and by the places of their first copies, if all copies have them: of popped messages only a dead letter does.
    """
    dead, retry, parked = (F.col("kind") == kind for kind in (DEAD, "retry", "parked"))
    last_cause = F.max_by("cause", F.when(F.col("cause").isNotNull(), F.col("store_time")))
    of_id = ["consumer_group", "topic", "identity", "key"]
    all_say = F.count("origin").over(Window.partitionBy(of_id)) == F.count("*").over(Window.partitionBy(of_id))
    first_copy = F.when(all_say, F.col("origin")).alias("first_copy")
    return also(copies, first_copy).groupBy(*of_id, "first_copy").agg(
        F.first("tags", ignorenulls=True).alias("tags"),
        F.coalesce(F.max(F.when(dead, F.col("tries") - 1)), F.max("tries")).alias("tries"),
        F.coalesce(F.max(F.when(retry, F.col("tries"))), F.lit(0)).alias("tries_delivered"),
        F.coalesce(F.max(F.when(parked, F.col("tries"))), F.lit(0)).alias("tries_parked"),
        F.max_by("reached", F.when(retry, F.col("tries"))).alias("reached"),
        last_cause.alias("stated_cause"),
        F.min("born_time").alias("born_time"),
        F.min("store_time").alias("first_failed_time"),
        F.max("store_time").alias("last_failed_time"),
        F.min(F.when(dead, F.col("store_time"))).alias("dead_time"))


def _outcome() -> Column:
    """The outcome of a message. A dead letter comes first; if there is also an effect, the ledger reports it as
    `both`."""
    return (F.when(F.col("dead_time").isNotNull(), DEAD)
            .when(F.col("applied_time").isNotNull(), APPLIED)
            .when(F.col("tries_parked") > F.col("tries_delivered"), WAITING)
            .when(~F.col("reached"), WAITING)
            .when(F.col("reached"), PASSED)
            .otherwise(UNKNOWN))


def _cause() -> Column:
    """The cause that a property gives; for a dead letter without one, how it became a dead letter."""
    how = F.when(F.col("tries") <= 0, UNWANTED).when(F.col("tries") >= F.col("retry_max_times"), USED_UP).otherwise(
        GIVEN_UP)
    return F.coalesce("stated_cause", F.when(F.col("dead_time").isNotNull(), how)).alias("cause")


def _first_effects(effects: DataFrame | None) -> DataFrame | None:
    if effects is None:
        return None
    return effects.where(F.col("key").isNotNull()).groupBy("key").agg(F.min("applied_time").alias("applied_time"))
