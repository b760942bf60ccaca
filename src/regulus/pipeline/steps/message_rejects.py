"""Finds messages in the log that break a rule."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from regulus.pipeline.steps.message_facts import also, is_first_copy

_CRC_BITS = 0x7FFFFFFF
"""RocketMQ stores the checksum without the sign bit of an int."""


def message_rejects(messages: DataFrame) -> DataFrame:
    """One row per message that breaks a rule, with its place and the first rule it breaks.

    `messages`: `topic, broker_name, queue_id, queue_offset, physical_offset, message_id, keys, body` (as stored, not
    decompressed)`, body_crc, store_time`. The rules: the body has its checksum; a message as its producer sent it has
    a key, without which no ledger can follow it. Works on streams.
    Returns `topic, broker_name, queue_id, queue_offset, physical_offset, message_id, store_time, reason`.
    """
    return also(messages, _reason().alias("reason")).where("reason IS NOT NULL").select(
        "topic", "broker_name", "queue_id", "queue_offset", "physical_offset", "message_id", "store_time", "reason")


def rejects_by_reason(rejects: DataFrame) -> DataFrame:
    """Counts by topic and reason: `topic, reason, rejected, first_time, last_time`."""
    return rejects.groupBy("topic", "reason").agg(
        F.count("*").alias("rejected"), F.min("store_time").alias("first_time"),
        F.max("store_time").alias("last_time"))


def _reason() -> Column:
    checksum = F.crc32("body").bitwiseAND(F.lit(_CRC_BITS).cast("bigint"))
    return (F.when(F.col("body").isNotNull() & (checksum != F.col("body_crc")), "the body has another checksum")
            .when(is_first_copy() & F.col("keys").isNull(), "no key"))
