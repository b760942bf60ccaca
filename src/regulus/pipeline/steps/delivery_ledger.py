"""The delivery ledger: what was sent, against what was done, one business key a row and one group a total.

A message's business key is the first of its `keys`. A key ends in exactly one of three places: an effect (the
consumer's own table), a dead letter, or nowhere, and then it is lost.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from regulus.model.topics import dlq_topic, retry_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTotals:
    """Numbers of business keys; `duplicates` are log records beyond the first of their key, `redelivered` effects
    refused as repetitions, `both` keys with an effect and a dead letter."""

    sent: int
    applied: int
    dead_lettered: int
    retried: int
    lost: int
    both: int
    duplicates: int
    redelivered: int

    @property
    def balanced(self) -> bool:
        return self.lost == 0 and self.both == 0 and self.sent == self.applied + self.dead_lettered

    def verdict(self) -> str:
        return f"{self.sent} sent = {self.applied} applied + {self.dead_lettered} dead letters, {self.lost} lost"


def delivery_ledger(messages: DataFrame, effects: DataFrame, topic: str, consumer_group: str) -> DataFrame:
    """One row a business key that was sent.

    `messages`: table `messages` of the topic and the group's retry and dead-letter topics.
    `effects`: `key string, applied_time timestamp, deliveries bigint`, one row a key.
    Returns `key, tags, sends, retries, dead_letters, deliveries, born_time, applied_time, latency_ms, applied,
    dead_lettered, lost`.
    """

    def of(topic_name: str) -> Column:
        return F.sum(F.when(F.col("topic") == topic_name, 1).otherwise(0))

    by_key = (
        messages.select("topic", "tags", "born_time", F.split("keys", " ").getItem(0).alias("key"))
        .groupBy("key")
        .agg(
            F.first("tags").alias("tags"),
            F.min("born_time").alias("born_time"),
            of(topic).alias("sends"),
            of(retry_topic(consumer_group)).alias("retries"),
            of(dlq_topic(consumer_group)).alias("dead_letters"),
        )
        .where(F.col("sends") > 0)
    )
    applied = F.col("applied_time").isNotNull()
    dead = F.col("dead_letters") > 0
    return by_key.join(effects, "key", "left").select(
        "key",
        "tags",
        "sends",
        "retries",
        "dead_letters",
        F.coalesce("deliveries", F.lit(0)).alias("deliveries"),
        "born_time",
        "applied_time",
        (F.unix_millis("applied_time") - F.unix_millis("born_time")).alias("latency_ms"),
        applied.alias("applied"),
        dead.alias("dead_lettered"),
        (~applied & ~dead).alias("lost"),
    )


def ledger_by_tag(ledger: DataFrame) -> DataFrame:
    """One row a tag: `tags, sent, applied, retried, dead_lettered, lost, duplicates, latency_p50_ms, _p99_ms`."""
    return (
        ledger.groupBy("tags")
        .agg(
            F.count("*").alias("sent"),
            F.sum(F.col("applied").cast("bigint")).alias("applied"),
            F.sum((F.col("retries") > 0).cast("bigint")).alias("retried"),
            F.sum(F.col("dead_lettered").cast("bigint")).alias("dead_lettered"),
            F.sum(F.col("lost").cast("bigint")).alias("lost"),
            F.sum(F.col("sends") - 1).alias("duplicates"),
            F.percentile_approx("latency_ms", 0.5, 10_000).alias("latency_p50_ms"),
            F.percentile_approx("latency_ms", 0.99, 10_000).alias("latency_p99_ms"),
        )
        .orderBy(F.desc("sent"))
    )


def ledger_totals(ledger: DataFrame) -> LedgerTotals:
    """Runs the ledger once."""
    row = ledger.agg(
        F.count("*").alias("sent"),
        F.sum(F.col("applied").cast("bigint")).alias("applied"),
        F.sum(F.col("dead_lettered").cast("bigint")).alias("dead_lettered"),
        F.sum((F.col("retries") > 0).cast("bigint")).alias("retried"),
        F.sum(F.col("lost").cast("bigint")).alias("lost"),
        F.sum((F.col("applied") & F.col("dead_lettered")).cast("bigint")).alias("both"),
        F.sum(F.col("sends") - 1).alias("duplicates"),
        F.sum(F.greatest(F.col("deliveries") - 1, F.lit(0))).alias("redelivered"),
    ).first()
    assert row is not None
    return LedgerTotals(**{name: int(value or 0) for name, value in row.asDict().items()})
