"""Checks whether messages of one sharding key have kept their order."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from regulus.pipeline.steps.message_facts import business_key, is_first_copy, with_epoch

BORN_LATER = "born later, stored earlier"
TWO_QUEUES = "in two queues by turns"
APPLIED_EARLIER = "stored later, applied earlier"


def order_violations(messages: DataFrame) -> DataFrame:
    """One row per message that is in the wrong place among those of its sharding key.

    `messages`: `topic, broker_name, queue_id, queue_offset, message_id, sharding_key, born_time, store_time,
    born_host`. There are two kinds. A message was stored after one of the same producer (born host) that was born
    later; producers are not compared, because clocks of machines differ. Or a key comes back to a queue that it had
    left; a key that moves once, because the topic got more queues, does not count.
    Returns `topic, sharding_key, broker_name, queue_id, queue_offset, message_id, violation`.
    """
    keyed = with_epoch(messages).where(is_first_copy() & F.col("sharding_key").isNotNull())
    in_queue = Window.partitionBy("topic", "broker_name", "queue_id", "topic_epoch", "sharding_key",
                                  "born_host").orderBy("queue_offset")
    late = keyed.withColumn("before", F.lag("born_time").over(in_queue)).where(F.col("born_time") < F.col("before"))
    return _named(late, BORN_LATER).unionByName(_named(_returned(keyed), TWO_QUEUES))


def _returned(keyed: DataFrame) -> DataFrame:
    """The first message of each later run of a key in a queue in which it was before."""
    queue = F.struct("broker_name", "queue_id")
    by_time = Window.partitionBy("topic", "sharding_key").orderBy("store_time", "broker_name", "queue_id",
                                                                  "queue_offset")
    runs = keyed.withColumn("queue", queue).withColumn("before", F.lag("queue").over(by_time)).where(
        F.col("before").isNull() | (F.col("queue") != F.col("before")))
    again = Window.partitionBy("topic", "sharding_key", "queue").orderBy("store_time", "queue_offset")
    return runs.withColumn("visit", F.row_number().over(again)).where(F.col("visit") > 1)


def effect_order_violations(messages: DataFrame, effects: DataFrame) -> DataFrame:
    """One row per message whose effect came before that of an earlier message in its queue.

    `messages`: as for `order_violations`, with `keys`. `effects`: `key string, applied_time timestamp`; the first
    effect of a key counts. A message whose key has no effect is ignored.
    Returns the columns of `order_violations`.
    """
    first_effects = effects.groupBy("key").agg(F.min("applied_time").alias("applied_time"))
    keyed = with_epoch(messages).where(is_first_copy() & F.col("sharding_key").isNotNull())
    applied = keyed.withColumn("key", business_key()).join(first_effects, "key")
    in_queue = Window.partitionBy("topic", "broker_name", "queue_id", "topic_epoch", "sharding_key").orderBy(
        "queue_offset")
    latest: Column = F.max("applied_time").over(in_queue.rowsBetween(Window.unboundedPreceding, -1))
    early = applied.withColumn("before", latest).where(F.col("applied_time") < F.col("before"))
    return _named(early, APPLIED_EARLIER)


def _named(rows: DataFrame, violation: str) -> DataFrame:
    return rows.select("topic", "sharding_key", "broker_name", "queue_id", "queue_offset", "message_id",
                       F.lit(violation).alias("violation"))
