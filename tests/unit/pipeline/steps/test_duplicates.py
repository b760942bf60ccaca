"""A message twice in the log, an effect twice; a copy that the broker made is no duplicate."""

from typing import TYPE_CHECKING

import pytest

from tests.unit.pipeline.steps.rows import at, collected, effects, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


def test_a_message_that_was_sent_twice_is_found_with_its_places(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.duplicates import duplicate_messages

    messages = table(spark, [{"message_id": "M1", "keys": "k1"}, {"message_id": "M1", "keys": "k1", "queue_id": 1},
                             {"message_id": "M2"}, {"message_id": None}, {"message_id": None},
                             {"topic": "u", "message_id": "M2"}])
    assert [tuple(row) for row in duplicate_messages(messages).select("topic", "message_id", "keys", "copies",
                                                                      "places").collect()] == [
        ("t", "M1", "k1", 2, ["a/0/0", "a/1/1"])]


def test_the_messages_of_a_java_batch_are_no_copies_and_its_copy_has_one_of_each(spark: "SparkSession") -> None:
    """RocketMQ stores them with one id, one behind the other."""
    from regulus.pipeline.steps.duplicates import duplicate_messages

    batch = [{"message_id": "B", "keys": f"k{number}", "queue_offset": number} for number in range(3)]
    assert duplicate_messages(table(spark, batch)).count() == 0
    again = [row | {"queue_offset": 5 + number, "store_time": at(3000)} for number, row in enumerate(batch)]
    found = duplicate_messages(table(spark, [*batch, *again]))
    assert collected(found, "message_id", "keys", "copies", "places") == [
        ("B", f"k{number}", 2, [f"a/0/{number}", f"a/0/{5 + number}"]) for number in range(3)]


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_copies_that_keep_their_messages_id_are_no_duplicates(spark: "SparkSession", topic: str) -> None:
    from regulus.pipeline.steps.duplicates import duplicate_messages

    messages = table(spark, [{"message_id": "M1"}, {"topic": topic, "message_id": "M1"},
                             {"topic": topic, "message_id": "M1"}])
    assert duplicate_messages(messages).count() == 0


def test_an_effect_twice_is_found(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.duplicates import duplicate_effects

    assert collected(duplicate_effects(effects(spark, ("a", 1), ("b", 1), ("a", 3))), "key", "effects") == [("a", 2)]
