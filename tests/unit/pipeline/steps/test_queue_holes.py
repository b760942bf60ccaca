"""A hole is a loss; what retention took and what came after the look is none."""

from typing import TYPE_CHECKING

import pytest

from tests.frames import small_table
from tests.unit.pipeline.steps.rows import collected, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
HOLE = ("topic", "queue_id", "topic_epoch", "start_offset", "end_offset", "missing", "cause")


def queue(*offsets: int, queue_id: int = 0) -> list[dict[str, int]]:
    return [{"queue_id": queue_id, "queue_offset": offset} for offset in offsets]


def bounds(spark: "SparkSession", *rows: tuple[int, int, int]) -> "DataFrame":
    """Rows of (queue, smallest, largest)."""
    return small_table(spark, [("t", "a", *row) for row in rows],
                       "topic string, broker_name string, queue_id int, min_offset bigint, max_offset bigint")


def test_a_run_of_missing_numbers_is_one_hole(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.queue_holes import queue_extents, queue_holes

    messages = table(spark, queue(0, 1, 5, 6, 8) + queue(3, 4, queue_id=1))
    assert collected(queue_holes(messages), *HOLE) == [("t", 0, 0, 2, 5, 3, "lost"), ("t", 0, 0, 7, 8, 1, "lost")]
    assert collected(queue_extents(messages), "queue_id", "first_offset", "next_offset", "rows") == [
        (0, 0, 9, 5), (1, 3, 5, 2)]


def test_a_message_stored_twice_at_one_place_hides_no_hole(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.queue_holes import queue_holes

    assert collected(queue_holes(table(spark, queue(0, 0, 2))), *HOLE[3:]) == [(1, 2, 1, "lost")]


def test_what_retention_removed_is_no_hole_but_what_the_broker_keeps_is(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.queue_holes import queue_holes

    messages = table(spark, queue(7, 8, 9) + queue(7, 8, queue_id=1))
    kept = bounds(spark, (0, 7, 10), (1, 5, 10), (2, 4, 6), (3, 6, 6))
    assert collected(queue_holes(messages, kept), *HOLE) == [
        ("t", 1, 0, 5, 7, 2, "lost"), ("t", 1, 0, 9, 10, 1, "lost"), ("t", 2, 0, 4, 6, 2, "lost")]


def test_messages_that_came_after_the_bounds_and_a_log_that_moved_on_are_no_holes(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.queue_holes import queue_holes

    messages = table(spark, queue(4, 5, 6, 7))
    assert queue_holes(messages, bounds(spark, (0, 6, 7))).count() == 0
    assert queue_holes(messages, bounds(spark, (0, 8, 8))).count() == 0


def test_an_archive_whose_end_retention_passed_has_a_hole_with_its_cause(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.queue_holes import queue_holes

    messages = table(spark, queue(0, 1, 5, 6))
    assert collected(queue_holes(messages, bounds(spark, (0, 5, 7))), *HOLE[3:]) == [
        (2, 5, 3, "removed before it was archived")]


def test_a_topic_that_was_made_again_counts_anew(spark: "SparkSession") -> None:
    from pyspark.sql import functions as F

    from regulus.pipeline.steps.queue_holes import queue_holes

    messages = table(spark, queue(0, 1, 2) + queue(0, 2))
    epochs = messages.withColumn("topic_epoch", F.monotonically_increasing_id() * 0)
    one = epochs.where("queue_offset < 3").limit(3)
    two = table(spark, queue(0, 2)).withColumn("topic_epoch", F.lit(1).cast("bigint"))
    assert collected(queue_holes(one.unionByName(two), bounds(spark, (0, 0, 3))), *HOLE[2:]) == [(1, 1, 2, 1, "lost")]
