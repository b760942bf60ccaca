"""Makes alerts about messages: rows for the sink, one for each alert. It works on streams."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from regulus.model.topics import DLQ_PREFIX
from regulus.pipeline.steps.message_facts import also, business_key

DEAD_LETTER, REJECTED = "dead_letter", "rejected"


def dead_letter_alerts(messages: DataFrame) -> DataFrame:
    """One alert per dead letter.

    `messages`: `topic, broker_name, queue_id, queue_offset, message_id, origin_topic, keys, reconsume_times,
    store_time`. Returns `tags, keys, body`, the body a JSON object.
    """
    dead = messages.where(F.col("topic").startswith(DLQ_PREFIX))
    return _alerts(also(dead, F.lit(None).cast("string").alias("reason")), DEAD_LETTER, business_key(), "origin_topic",
                   "reconsume_times")


def reject_alerts(rejects: DataFrame) -> DataFrame:
    """One alert per rejected message.

    `rejects`: what `message_rejects` returns. Returns `tags, keys, body`, the body a JSON object.
    """
    return _alerts(rejects, REJECTED, F.col("message_id"))


def _alerts(rows: DataFrame, kind: str, key: Column, *more: str) -> DataFrame:
    place = F.concat_ws("/", "broker_name", "queue_id", "queue_offset").alias("place")
    fields = F.struct(F.lit(kind).alias("alert"), "topic", place, "message_id", key.alias("key"), "reason",
                      "store_time", *more)
    # Only the first key, because the sink refuses keys with the space that separates several.
    return rows.select(F.lit(kind).alias("tags"), key.alias("keys"), F.to_json(fields).cast("binary").alias("body"))
