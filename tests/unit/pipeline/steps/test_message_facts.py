"""What the steps ask of a row."""

from typing import TYPE_CHECKING

import pytest

from tests.unit.pipeline.steps.rows import collected, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


def test_group_home_and_kind_of_a_row(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.message_facts import business_key, group_of, home_topic, is_first_copy

    rows = table(spark, [
        {"topic": "t", "keys": "k1 N2"}, {"topic": "%RETRY%g%h"}, {"topic": "%DLQ%g"},
        {"topic": "SCHEDULE_TOPIC_XXXX", "properties": {"REAL_TOPIC": "%RETRY%g"}},
        {"topic": "SCHEDULE_TOPIC_XXXX"}])
    home = home_topic()
    frame = rows.select("topic", business_key().alias("key"), group_of(home).alias("group"), home.alias("home"),
                        is_first_copy().alias("first"))
    assert collected(frame, "topic", "key", "group", "home", "first") == sorted([
        ("t", "k1", None, "t", True), ("%RETRY%g%h", None, "g%h", "%RETRY%g%h", False),
        ("%DLQ%g", None, "g", "%DLQ%g", False), ("SCHEDULE_TOPIC_XXXX", None, "g", "%RETRY%g", False),
        ("SCHEDULE_TOPIC_XXXX", None, None, "SCHEDULE_TOPIC_XXXX", False)], key=repr)


def test_a_table_without_epochs_gets_one(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.message_facts import with_epoch

    rows = with_epoch(table(spark, [{}]))
    assert collected(rows, "topic_epoch") == [(0,)]
    assert with_epoch(rows).columns == rows.columns
