"""How far a group is behind, in messages and in time."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.frames import small_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_lag_is_summed_and_its_time_is_that_of_the_slowest_queue(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.group_lag import group_lag

    def ago(seconds: int) -> datetime:
        return NOW - timedelta(seconds=seconds)

    progress = small_table(
        spark,
        [("g", "t", "a", 0, 5, 10, 5, ago(60)), ("g", "t", "a", 1, 9, 10, 1, ago(90)),
         ("g", "t", "a", 2, 3, 3, 0, ago(500)), ("g", "u", "a", 0, 0, 4, 4, None)],
        "consumer_group string, topic string, broker_name string, queue_id int, consumer_offset bigint, "
        "max_offset bigint, lag bigint, last_consumed_store_time timestamp")
    queues = (("t", 0), ("t", 1), ("t", 2), ("u", 0))
    messages = small_table(spark, [(topic, "a", queue, ago(0)) for topic, queue in queues],
                           "topic string, broker_name string, queue_id int, store_time timestamp")
    found = {row.topic: (row.queues, row.lag, row.lag_ms) for row in group_lag(progress, messages).collect()}
    assert found == {"t": (3, 6, 90_000), "u": (1, 4, None)}
