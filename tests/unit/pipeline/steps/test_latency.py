"""Each leg of a message's way is measured where both its ends are known."""

from typing import TYPE_CHECKING

import pytest

from tests.frames import small_table
from tests.unit.pipeline.steps.rows import BASE, at, collected, effects, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


def test_all_legs_of_a_message_that_was_delivered_and_applied(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.latency import LEGS, latencies

    messages = table(spark, [{"message_id": "M", "keys": "k N1", "store_time": at(5)}, {"message_id": "N", "keys": "l"},
                             {"topic": "%RETRY%g", "message_id": "M", "keys": "k"}])
    delivered = small_table(spark, [("M", at(17)), ("M", at(99))], "message_id string, delivered_time timestamp")
    frame = latencies(messages, delivered, effects(spark, ("k", 40), ("k", 90)))
    assert collected(frame, "key", *(f"{leg}_ms" for leg in LEGS)) == [
        ("k", 5, 12, 23, 35, 40), ("l", 0, None, None, None, None)]


def test_a_delay_that_was_asked_for_is_no_latency(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.latency import LEGS, latencies

    messages = table(spark, [{"message_id": "M", "keys": "k", "store_time": at(60_000), "message_type": "delayed"}])
    frame = latencies(messages, effects=effects(spark, ("k", 60_040)))
    assert collected(frame, "key", "born_time", *(f"{leg}_ms" for leg in LEGS)) == [
        ("k", BASE.replace(tzinfo=None), None, None, None, 40, None)]


def test_percentiles_by_topic_and_by_hour(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.latency import latencies, latency_over_time, latency_percentiles

    messages = table(spark, [{"message_id": f"M{number}", "store_time": at(number)} for number in range(1, 101)])
    frame = latencies(messages)
    wanted = [("t", "born_to_stored", 100, 50, 90, 95, 99, 100)]
    columns = ("messages", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms")
    assert collected(latency_percentiles(frame), "topic", "leg", *columns) == wanted
    row = latency_over_time(frame).first()
    assert row is not None
    assert (row["bucket_start"].timestamp(), row["leg"]) == (BASE.timestamp(), "born_to_stored")
