"""The delivery ledger compares what was sent with what was done, one business key per row and one group per total.

A message's business key is the first of its `keys`. A key ends in an effect (the consumer's own table; or, if none is
named, the group has read past its last copy), in a dead letter, or in neither: then it is waiting, for a retry or for
the group to read it, or it is lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from regulus.model.topics import SCHEDULE_TOPIC, dlq_topic, retry_topic
from regulus.pipeline.steps.message_facts import also, business_key, home_topic, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTotals:
    """Numbers of business keys. `duplicates` are log records beyond the first of their key, `redelivered` effects
    refused as repetitions, `both` keys with an effect and a dead letter, `dead_again` dead letters beyond the first of
    their key."""

    sent: int
    applied: int
    dead_lettered: int
    retried: int
    waiting: int
    lost: int
    both: int
    duplicates: int
    redelivered: int
    dead_again: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "LedgerTotals":
        """The totals from the single row of `ledger_total`."""
        return cls(**{field.name: int(row[field.name] or 0) for field in fields(cls)})

    @property
    def balanced(self) -> bool:
        """Whether each key has ended in exactly one place, or still can."""
        return self.lost == 0 and self.both == 0 and self.sent == self.applied + self.dead_lettered + self.waiting

    def verdict(self) -> str:
        waiting = f", {self.waiting} waiting" if self.waiting else ""
        copies = f" (in {self.dead_lettered + self.dead_again} copies)" if self.dead_again else ""
        return (f"{self.sent} keys sent = {self.applied} applied + {self.dead_lettered} dead-lettered{copies}"
                f"{waiting}, {self.lost} lost")


def delivery_ledger(messages: DataFrame, topics: Sequence[str], consumer_group: str, effects: DataFrame | None = None,
                    progress: DataFrame | None = None) -> DataFrame:
    """One row per business key that was sent to one of the topics.

    `messages`: `topic, broker_name, queue_id, queue_offset, keys, tags, properties, born_time, store_time` of the
    topics, of the group's retry and dead-letter topics, and of SCHEDULE_TOPIC_XXXX, which has messages that wait for a
    retry.
    `effects`: `key string, applied_time timestamp, deliveries bigint`, one row per key; null is 1 delivery.
    `progress`: `consumer_group, topic, broker_name, queue_id, consumer_offset`, where groups read next. One of the two
    must be given; without progress only what is parked for a retry counts as waiting.
    Returns `key, tags, sends, retries, dead_letters, deliveries, born_time, applied_time, latency_ms, applied,
    dead_lettered, waiting, lost`.
    """
    assert effects is not None or progress is not None
    retry, dead = retry_topic(consumer_group), dlq_topic(consumer_group)
    is_parked = F.col("topic") == SCHEDULE_TOPIC
    copies = messages.where(F.col("topic").isin(*topics, retry, dead) | (is_parked & (home_topic() == retry))).select(
        "topic", "broker_name", "queue_id", "queue_offset", "tags", "born_time", "store_time",
        business_key().alias("key")).where("key IS NOT NULL")
    by_key = (
        _with_reached(copies, consumer_group, progress)
        .groupBy("key")
        .agg(
            F.first("tags", ignorenulls=True).alias("tags"),
            F.min("born_time").alias("born_time"),
            F.count_if(F.col("topic").isin(*topics)).alias("sends"),
            F.count_if(F.col("topic") == retry).alias("retries"),
            F.count_if(F.col("topic") == dead).alias("dead_letters"),
            F.max_by(is_parked, "store_time").alias("is_parked"),
            F.max_by("reached", "store_time").alias("is_reached"),
        )
        .where(F.col("sends") > 0)
    )
    ended = also(_with_effects(by_key, effects), (F.col("dead_letters") > 0).alias("dead_lettered"))
    settled = F.col("applied") | F.col("dead_lettered")
    return also(ended, (~settled & (F.col("is_parked") | ~F.col("is_reached"))).alias("waiting")).select(
        "key", "tags", "sends", "retries", "dead_letters", "deliveries", "born_time", "applied_time",
        milliseconds("born_time", "applied_time").alias("latency_ms"), "applied", "dead_lettered", "waiting",
        (~settled & ~F.col("waiting")).alias("lost"))


def ledger_by_tag(ledger: DataFrame) -> DataFrame:
    """One row per tag: `tags, sent, applied, retried, dead_lettered, waiting, lost, duplicates, latency_p50_ms,
    latency_p99_ms`."""
    return (
        ledger.groupBy("tags")
        .agg(
            F.count("*").alias("sent"),
            F.count_if("applied").alias("applied"),
            F.count_if(F.col("retries") > 0).alias("retried"),
            F.count_if("dead_lettered").alias("dead_lettered"),
            F.count_if("waiting").alias("waiting"),
            F.count_if("lost").alias("lost"),
            F.sum(F.col("sends") - 1).alias("duplicates"),
            F.percentile_approx("latency_ms", 0.5, 10_000).alias("latency_p50_ms"),
            F.percentile_approx("latency_ms", 0.99, 10_000).alias("latency_p99_ms"),
        )
    )


def ledger_total(ledger: DataFrame) -> DataFrame:
    """One row with the fields of LedgerTotals."""
    return ledger.agg(
        F.count("*").alias("sent"),
        F.count_if("applied").alias("applied"),
        F.count_if("dead_lettered").alias("dead_lettered"),
        F.count_if(F.col("retries") > 0).alias("retried"),
        F.count_if("waiting").alias("waiting"),
        F.count_if("lost").alias("lost"),
        F.count_if(F.col("applied") & F.col("dead_lettered")).alias("both"),
        F.coalesce(F.sum(F.col("sends") - 1), F.lit(0)).alias("duplicates"),
        F.coalesce(F.sum(F.greatest(F.col("deliveries") - 1, F.lit(0))), F.lit(0)).alias("redelivered"),
        F.coalesce(F.sum(F.greatest(F.col("dead_letters") - 1, F.lit(0))), F.lit(0)).alias("dead_again"),
    )


def _with_reached(copies: DataFrame, consumer_group: str, progress: DataFrame | None) -> DataFrame:
    """The copies with `reached`: whether the group has read them; true if its progress is not known at all."""
    if progress is None:
        return also(copies, F.lit(True).alias("reached"))
    read = progress.where(F.col("consumer_group") == consumer_group).select("topic", "broker_name", "queue_id",
                                                                            "consumer_offset")
    reached = F.coalesce(F.col("consumer_offset") > F.col("queue_offset"), F.lit(False))
    return also(copies.join(F.broadcast(read), ["topic", "broker_name", "queue_id"], "left"), reached.alias("reached"))


def _with_effects(by_key: DataFrame, effects: DataFrame | None) -> DataFrame:
    """The keys with `applied, applied_time, deliveries`."""
    if effects is None:
        passed = F.col("is_reached") & ~F.col("is_parked") & (F.col("dead_letters") == 0)
        return also(by_key, passed.alias("applied"), F.lit(None).cast("timestamp").alias("applied_time"),
                    F.lit(None).cast("bigint").alias("deliveries"))
    seen = effects.select("key", "applied_time", F.coalesce("deliveries", F.lit(1)).alias("effects"))
    return also(by_key.join(seen, "key", "left"), F.col("effects").isNotNull().alias("applied"),
                F.coalesce("effects", F.lit(0)).alias("deliveries"))
