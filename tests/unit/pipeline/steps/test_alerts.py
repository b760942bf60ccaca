"""Alerts are rows that the sink takes."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.frames import small_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_dead_letter_and_a_reject_become_one_message_each(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.alerts import dead_letter_alerts, reject_alerts

    messages = small_table(
        spark,
        [("%DLQ%g", "broker-a", 0, 7, "M1", "orders", "o-1 extra", 17, NOW),
         ("orders", "broker-a", 0, 8, "M2", None, "o-2", 0, NOW)],
        "topic string, broker_name string, queue_id int, queue_offset bigint, message_id string, origin_topic string, "
        "keys string, reconsume_times int, store_time timestamp")
    (alert,) = dead_letter_alerts(messages).collect()
    assert (alert.tags, alert.keys) == ("dead_letter", "o-1")
    body = json.loads(bytes(alert.body))
    assert body | {"store_time": ""} == {
        "alert": "dead_letter", "topic": "%DLQ%g", "place": "broker-a/0/7", "message_id": "M1", "key": "o-1",
        "store_time": "", "origin_topic": "orders", "reconsume_times": 17}
    rejects = messages.withColumnRenamed("keys", "reason").drop("origin_topic", "reconsume_times").limit(1)
    (alert,) = reject_alerts(rejects).collect()
    assert (alert.tags, alert.keys) == ("rejected", "M1")
    assert json.loads(bytes(alert.body))["reason"] == "o-1 extra"
