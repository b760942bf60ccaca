"""Computes how long messages took: born at the producer, stored by the broker, delivered to a consumer, applied.

Each step is measured between two clocks, so a producer's clock that is ahead of the broker's gives negative numbers,
which are shown unchanged. A delay that the producer requested does not count: for a delayed message the time begins
when it was stored for its consumers.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from regulus.pipeline.steps.message_facts import (
    PERCENTILE_ACCURACY,
    also,
    business_key,
    is_first_copy,
    milliseconds,
    percentiles,
)

LEGS = ("born_to_stored", "stored_to_delivered", "delivered_to_applied", "stored_to_applied", "born_to_applied")


def latencies(messages: DataFrame, delivered: DataFrame | None = None, effects: DataFrame | None = None) -> DataFrame:
    """One row per message as its producer sent it; retries and other copies are left out.

    `messages`: `topic, message_id, message_type, keys, tags, born_time, store_time`.
    `delivered`: `message_id string, delivered_time timestamp`, as `deliveries_from_trace` gives it; the first counts.
    `effects`: `key string, applied_time timestamp`; the first of a key counts, for all messages of the key.
    Returns `topic, message_id, key, tags, born_time, store_time, delivered_time, applied_time` and one bigint column
    `<leg>_ms` for each of LEGS, null where one of its ends is not known; from birth on, also null for a message that
    was delayed.
    """
    rows = messages.where(is_first_copy()).select(
        "topic", "message_id", business_key().alias("key"), "tags", "born_time", "store_time",
        F.when(~F.col("message_type").eqNullSafe("delayed"), F.col("born_time")).alias("prompt_time"))
    rows = _with_first(rows, delivered, "message_id", "delivered_time")
    rows = _with_first(rows, effects, "key", "applied_time")
    return rows.select(
        "topic", "message_id", "key", "tags", "born_time", "store_time", "delivered_time", "applied_time",
        milliseconds("prompt_time", "store_time").alias("born_to_stored_ms"),
        milliseconds("store_time", "delivered_time").alias("stored_to_delivered_ms"),
        milliseconds("delivered_time", "applied_time").alias("delivered_to_applied_ms"),
        milliseconds("store_time", "applied_time").alias("stored_to_applied_ms"),
        milliseconds("prompt_time", "applied_time").alias("born_to_applied_ms"))


def latency_percentiles(latency: DataFrame, by: tuple[str, ...] = ("topic",)) -> DataFrame:
    """Percentiles of the legs, one row for each leg.

    `latency`: what `latencies` returns.
    Returns the columns of `by`, then `leg, messages, p50_ms, p90_ms, p95_ms, p99_ms, max_ms`, one row per leg that any
    message of the group has.
    """
    pairs = ", ".join(f"'{leg}', {leg}_ms" for leg in LEGS)
    long = latency.select(*by, F.expr(f"stack({len(LEGS)}, {pairs}) AS (leg, value)")).where("value IS NOT NULL")
    return long.groupBy(*by, "leg").agg(F.count("*").alias("messages"), *percentiles("value"),
                                        F.max("value").alias("max_ms"))


def latency_curve(latency: DataFrame, points: int = 101) -> DataFrame:
    """The whole distribution of the legs, for drawing: which share of messages took at most which time.

    `latency`: what `latencies` returns. Returns `leg, share double` (0 to 100, `points` of them), `ms bigint`.
    """
    shares = [number / (points - 1) for number in range(points)]
    pairs = ", ".join(f"'{leg}', {leg}_ms" for leg in LEGS)
    long = latency.select(F.expr(f"stack({len(LEGS)}, {pairs}) AS (leg, value)")).where("value IS NOT NULL")
    curve = long.groupBy("leg").agg(F.percentile_approx("value", shares, PERCENTILE_ACCURACY).alias("curve"))
    return curve.select("leg", F.posexplode("curve").alias("place", "ms")).select(
        "leg", (F.col("place") * (100 / (points - 1))).cast("double").alias("share"), "ms")


def latency_over_time(latency: DataFrame, bucket: str = "1 hour") -> DataFrame:
    """Percentiles of the legs by topic and by the time of storing.

    `bucket`: a length in Spark's words. Returns `bucket_start timestamp`, then as `latency_percentiles` by topic.
    """
    start = F.window("store_time", bucket)["start"].alias("bucket_start")
    return latency_percentiles(also(latency, start), ("bucket_start", "topic"))


def _with_first(rows: DataFrame, times: DataFrame | None, key: str, time: str) -> DataFrame:
    """Add the first time of each row's key; null if there is no table of times."""
    if times is None:
        return also(rows, F.lit(None).cast("timestamp").alias(time))
    return rows.join(times.where(F.col(key).isNotNull()).groupBy(key).agg(F.min(time).alias(time)), key, "left")
