"""Messages and bytes over time."""

from typing import TYPE_CHECKING

import pytest

from tests.unit.pipeline.steps.rows import at, collected, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


def test_messages_are_counted_by_minute_and_topic_and_copies_apart(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.throughput import throughput

    messages = table(spark, [{"store_time": at(0)}, {"store_time": at(59_999)}, {"store_time": at(60_000)},
                             {"topic": "%DLQ%g", "store_time": at(60_000)}])
    assert collected(throughput(messages), "topic", "is_copy", "messages", "bytes") == [
        ("%DLQ%g", True, 1, 100), ("t", False, 1, 100), ("t", False, 2, 200)]
