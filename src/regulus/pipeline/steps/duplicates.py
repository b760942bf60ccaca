"""Finds duplicates: messages that are in the log twice, and effects that happened twice."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from regulus.pipeline.steps.message_facts import also, is_first_copy

PLACES_MAX = 10
"""Places of one message that are listed."""


def duplicate_messages(messages: DataFrame) -> DataFrame:
    """One row per message that a topic holds more than once, as when a producer tried again after a timeout.

    `messages`: `topic, broker_name, queue_id, queue_offset, message_id, keys, store_time`. Retries, dead letters and
    parked copies keep their message's id on purpose and are left out; so are messages without an id. The messages of a
    batch of Java's client 5 have one id if RocketMQ stored them: of those that were stored at once in one queue, the
    first, second and so on count as different messages.
    Returns `topic, message_id, keys, copies, first_store_time, last_store_time, places`, where a place is
    `broker/queue/offset` and at most ten are listed.
    """
    place = F.concat_ws("/", "broker_name", "queue_id", "queue_offset")
    at_once = Window.partitionBy("topic", "message_id", "broker_name", "queue_id", "store_time").orderBy("queue_offset")
    # Nearly all ids are there once, so only the others are examined.
    together = (
        messages.where(is_first_copy() & F.col("message_id").isNotNull())
        .groupBy("topic", "message_id")
        .agg(F.collect_list(F.struct("broker_name", "queue_id", "queue_offset", "store_time", "keys")).alias("stored"))
        .where(F.size("stored") > 1)
    )
    sent = together.select("topic", "message_id", F.explode("stored").alias("stored")).select(
        "topic", "message_id", "stored.*")
    return (
        also(sent, F.row_number().over(at_once).alias("nth"))
        .groupBy("topic", "message_id", "nth")
        .agg(
            F.first("keys").alias("keys"),
            F.count("*").alias("copies"),
            F.min("store_time").alias("first_store_time"),
            F.max("store_time").alias("last_store_time"),
            F.slice(F.sort_array(F.collect_list(place)), 1, PLACES_MAX).alias("places"),
        )
        .where(F.col("copies") > 1)
        # Not drop(), for which Spark would look at tables that a declarative pipeline has not made yet.
        .select("topic", "message_id", "keys", "copies", "first_store_time", "last_store_time", "places")
    )


def duplicate_effects(effects: DataFrame) -> DataFrame:
    """One row per business key with more than one effect.

    `effects`: `key string, applied_time timestamp`, one row per effect; rows without a key are left out.
    Returns `key, effects, first_applied_time, last_applied_time`.
    """
    return (
        effects.where(F.col("key").isNotNull())
        .groupBy("key")
        .agg(
            F.count("*").alias("effects"),
            F.min("applied_time").alias("first_applied_time"),
            F.max("applied_time").alias("last_applied_time"),
        )
        .where(F.col("effects") > 1)
    )
