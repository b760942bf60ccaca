"""Computes how many messages and bytes were stored over time."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from regulus.pipeline.steps.message_facts import is_first_copy


def throughput(messages: DataFrame, bucket: str = "1 minute") -> DataFrame:
    """Messages stored, by time and topic.

    `messages`: `topic, store_time, store_size`. `bucket`: a length in Spark's words.
    Returns `bucket_start timestamp, topic, is_copy boolean, messages bigint, bytes bigint`; a copy is a retry, a dead
    letter, or a message parked for a delay or a transaction.
    """
    return (
        messages.groupBy(F.window("store_time", bucket)["start"].alias("bucket_start"), "topic",
                         (~is_first_copy()).alias("is_copy"))
        .agg(F.count("*").alias("messages"), F.sum(F.col("store_size").cast("bigint")).alias("bytes"))
    )


def effects_over_time(effects: DataFrame, bucket: str = "1 minute") -> DataFrame:
    """Effects, by the time at which they were applied.

    `effects`: `key string, applied_time timestamp`. Returns `bucket_start timestamp, effects bigint`.
    """
    return effects.where("applied_time IS NOT NULL").groupBy(
        F.window("applied_time", bucket)["start"].alias("bucket_start")).agg(F.count("*").alias("effects"))
