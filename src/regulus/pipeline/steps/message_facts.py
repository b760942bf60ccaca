"""Facts about rows of table `messages` that the steps need: business key, consumer group and place."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from regulus.model import message_properties as names
from regulus.model.redrive import COPY_PREFIXES, COPY_TOPICS
from regulus.model.topics import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC

EPOCH = "topic_epoch"
QUEUE = ("topic", "broker_name", "queue_id", EPOCH)
"""The columns that identify a queue. A topic that was deleted and created again has a new epoch, and offsets from 0."""

PERCENTILE_ACCURACY = 10_000


def also(table: DataFrame, *columns: Column) -> DataFrame:
    """Add columns that the table does not have yet.

    It does not use withColumn, behind which a declarative pipeline does not see that a flow reads another table of the
    pipeline, so that it would run the flow before that table is updated.
    """
    return table.select("*", *columns)


def business_key() -> Column:
    """The first of the message's keys; null when it has none."""
    return F.split("keys", " ").getItem(0)


def keys_of(table: DataFrame, wanted: DataFrame, record: Sequence[str]) -> DataFrame:
    """Add a column `key`: a row for each of a message's keys that is wanted, or else one with its first key.

    `wanted`: `key string`, each once. `record`: the columns that identify a message. Only messages with several keys
    are processed twice. Rows without keys are left out.
    """
    names = F.array_distinct(F.filter(F.split("keys", " "), lambda name: name != ""))
    rows = also(table, names.alias("names"))
    one = also(rows.where(F.size("names") == 1), F.col("names")[0].alias("key")).drop("names")
    each = rows.where(F.size("names") > 1).select("*", F.posexplode("names").alias("nth", "key"))
    several = also(each.join(also(wanted, F.lit(True).alias("is_wanted")), "key", "left"),
                   F.max("is_wanted").over(Window.partitionBy(*record)).alias("has_wanted"))
    chosen = several.where("is_wanted OR has_wanted IS NULL AND nth = 0")
    return one.unionByName(chosen.select(*one.columns))


def with_epoch(table: DataFrame, has_epoch: bool | None = None) -> DataFrame:
    """Add a column `topic_epoch` if it is missing; 0 in all rows, because the source has no epochs.

    `has_epoch` None checks whether the column is there, which the definition of a pipeline's table must not do.
    """
    there = EPOCH in table.columns if has_epoch is None else has_epoch
    return table if there else also(table, F.lit(0).cast("bigint").alias(EPOCH))


def with_epoch_by_place(messages: DataFrame) -> DataFrame:
    """Add a column `topic_epoch` to rows of an archive: how often their queue had begun again before them.

    An archive has the messages of all topics that had a name one after the other. `physical_offset` gives their order.
    """
    in_order = Window.partitionBy("topic", "broker_name", "queue_id").orderBy("physical_offset")
    is_step_back = F.col("queue_offset") <= F.lag("queue_offset").over(in_order)
    marked = also(messages, F.coalesce(is_step_back, F.lit(False)).cast("bigint").alias("begins_again"))
    return also(marked, F.sum("begins_again").over(in_order).alias(EPOCH)).drop("begins_again")


def home_topic() -> Column:
    """The topic to which a row belongs after its delay: a parked copy's REAL_TOPIC, else its topic."""
    parked = F.col("topic").isin(SCHEDULE_TOPIC, TIMER_TOPIC)
    return F.when(parked, F.coalesce(F.col("properties")[names.REAL_TOPIC], "topic")).otherwise(F.col("topic"))


def group_of(topic: Column) -> Column:
    """The consumer group of a retry or dead-letter topic; null for other topics.

    The retry topic that POP makes for one group and topic (`%RETRY%group_topic`) counts as a group of that name.
    """
    for_retry = F.substring(topic, len(RETRY_PREFIX) + 1, 1 << 15)
    for_dead = F.substring(topic, len(DLQ_PREFIX) + 1, 1 << 15)
    return F.when(topic.startswith(RETRY_PREFIX), for_retry).when(topic.startswith(DLQ_PREFIX), for_dead)


def is_first_copy() -> Column:
    """Whether a row is the message as its producer sent it, and not a copy that the broker made of it."""
    topic = F.col("topic")
    return ~reduce(Column.__or__, (topic.startswith(prefix) for prefix in COPY_PREFIXES), topic.isin(*COPY_TOPICS))


def percentiles(column: str, prefix: str = "") -> list[Column]:
    """p50, p90, p95 and p99 of a number of ms, named `<prefix>p50_ms` and so on."""
    return [F.percentile_approx(column, share / 100, PERCENTILE_ACCURACY).alias(f"{prefix}p{share}_ms")
            for share in (50, 90, 95, 99)]


def milliseconds(start: str, end: str) -> Column:
    """Milliseconds from one time column to another."""
    return F.unix_millis(end) - F.unix_millis(start)
