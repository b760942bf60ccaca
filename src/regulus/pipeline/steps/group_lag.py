"""Computes how far consumer groups are behind."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from regulus.pipeline.steps.message_facts import also


def group_lag(progress: DataFrame, messages: DataFrame) -> DataFrame:
    """One row per group and topic.

    `progress`: table `offsets`, `consumer_group, topic, broker_name, queue_id, consumer_offset, max_offset, lag,
    last_consumed_store_time`. `messages`: `topic, broker_name, queue_id, store_time`.
    Returns `consumer_group, topic, queues, lag` (messages) and `lag_ms`, from the last message consumed to the newest
    of its queue, the largest of all queues; null where nothing was consumed yet.
    """
    newest = messages.groupBy("topic", "broker_name", "queue_id").agg(F.max("store_time").alias("newest"))
    behind = F.unix_millis("newest") - F.unix_millis("last_consumed_store_time")
    queues = also(progress.join(newest, ["topic", "broker_name", "queue_id"], "left"),
                  F.when(F.col("lag") > 0, behind).otherwise(0).alias("lag_ms"))
    return queues.groupBy("consumer_group", "topic").agg(
        F.count("*").alias("queues"), F.sum("lag").alias("lag"), F.max("lag_ms").alias("lag_ms"))
