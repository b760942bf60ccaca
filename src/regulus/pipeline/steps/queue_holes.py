"""Finds messages that are missing from a queue.

A queue numbers its messages without gaps, so each number that is missing between two others is a lost message. Messages
before a queue's first one were removed by retention and are not a loss, unless the broker says that it still has them.
Messages after the last one are a loss only up to the end that the broker reported before the messages were read.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from regulus.pipeline.steps.message_facts import EPOCH, QUEUE, with_epoch

LOST = "lost"
NOT_ARCHIVED = "removed before it was archived"


def queue_extents(messages: DataFrame) -> DataFrame:
    """One row per queue that has messages.

    `messages`: `topic, broker_name, queue_id, queue_offset` and, if the source has it, `topic_epoch`.
    Returns `topic, broker_name, queue_id, topic_epoch, first_offset, next_offset, rows`; the numbers are bigint.
    """
    return (
        with_epoch(messages)
        .groupBy(*QUEUE)
        .agg(
            F.min("queue_offset").alias("first_offset"),
            (F.max("queue_offset") + 1).alias("next_offset"),
            F.count("*").alias("rows"),
        )
    )


def queue_holes(messages: DataFrame, bounds: DataFrame | None = None, *, has_epoch: bool | None = None) -> DataFrame:
    """One row per run of missing messages, [start_offset, end_offset).

    `messages`: as for `queue_extents`. All messages from the first to the last wanted must be in it: a table filtered
    by tag has holes that are not losses.
    `bounds`: `topic, broker_name, queue_id, min_offset, max_offset`, what the brokers keep. To avoid false alarms, read
    the largest number before the messages and the smallest one after them. Without bounds only holes between messages
    are found. Bounds are those of a topic's newest epoch. `has_epoch`: see `with_epoch`.
    Returns `topic, broker_name, queue_id, topic_epoch, start_offset, end_offset, missing, cause`. The cause is `lost`,
    or `removed before it was archived` for messages between rows of an archive and the broker's first message.
    """
    messages = with_epoch(messages, has_epoch)
    inner = _holes_between(messages)
    if bounds is None:
        return _with_cause(inner, F.lit(LOST))
    kept = bounds.select("topic", "broker_name", "queue_id", "min_offset", "max_offset")
    between = inner.join(kept, ["topic", "broker_name", "queue_id"], "left")
    removed = F.coalesce(F.col("end_offset") <= F.col("min_offset"), F.lit(False))
    edges = _holes_at_the_edges(messages, kept)
    return _with_cause(between, F.when(removed, NOT_ARCHIVED).otherwise(LOST)).unionByName(
        _with_cause(edges, F.lit(LOST)))


def _holes_between(messages: DataFrame) -> DataFrame:
    in_order = Window.partitionBy(*QUEUE).orderBy("queue_offset")
    behind = messages.select(*QUEUE, (F.col("queue_offset") + 1).alias("start_offset"),
                             F.lead("queue_offset").over(in_order).alias("end_offset"))
    return behind.where(F.col("end_offset") > F.col("start_offset"))


def _holes_at_the_edges(messages: DataFrame, bounds: DataFrame) -> DataFrame:
    """What the broker keeps before the first row and after the last one; the whole queue if there are no rows."""
    newest = Window.partitionBy("topic", "broker_name", "queue_id").orderBy(F.desc(EPOCH))
    extents = (queue_extents(messages).withColumn("newest", F.row_number().over(newest) == 1)
               .where("newest").drop("newest", "rows"))
    joined = bounds.join(extents, ["topic", "broker_name", "queue_id"], "left").withColumn(
        EPOCH, F.coalesce(EPOCH, F.lit(0).cast("bigint")))
    first = F.coalesce("first_offset", "max_offset")
    leading = joined.select(*QUEUE, F.col("min_offset").alias("start_offset"),
                            F.least(first, "max_offset").alias("end_offset"))
    trailing = joined.where(F.col("next_offset").isNotNull()).select(
        *QUEUE, F.greatest("next_offset", "min_offset").alias("start_offset"), F.col("max_offset").alias("end_offset"))
    return leading.unionByName(trailing).where(F.col("end_offset") > F.col("start_offset"))


def _with_cause(holes: DataFrame, cause: Column) -> DataFrame:
    return holes.select(*QUEUE, "start_offset", "end_offset",
                        (F.col("end_offset") - F.col("start_offset")).alias("missing"), cause.alias("cause"))
