"""What failed, how often, and how it ended."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.frames import small_table
from tests.unit.pipeline.steps.rows import at, collected, effects, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


def copy(topic: str, name: str, tries: int, ms: int = 0, **more: Any) -> dict[str, Any]:
    properties = dict(more.pop("properties", {}))
    if topic == "SCHEDULE_TOPIC_XXXX":
        properties |= {"REAL_TOPIC": "%RETRY%g", "REAL_QID": "0"}
    return {"topic": topic, "message_id": name, "keys": f"key-{name}", "reconsume_times": tries, "origin_topic": "t",
            "store_time": at(ms), "properties": properties, **more}


def outcomes(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return collected(frame, "consumer_group", "topic", "identity", "tries", "outcome", "cause")


def test_a_message_ends_as_dead_letter_or_applied_or_is_not_known(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.retries import retry_outcomes

    messages = table(spark, [
        {"message_id": "never failed"},
        copy("%RETRY%g", "dead", 1, 10), copy("%RETRY%g", "dead", 2, 20), copy("%DLQ%g", "dead", 3, 30),
        copy("%DLQ%g", "at once", 1, 5), copy("%RETRY%g", "good", 1, 10), copy("%RETRY%g", "open", 1, 10)])
    limits = small_table(spark, [("g", 2), ("h", 1)], "consumer_group string, retry_max_times int")
    frame = retry_outcomes(messages, effects(spark, ("key-good", 70)), limits=limits)
    assert outcomes(frame) == [
        ("g", "t", "at once", 0, "dead letter", "no retry wanted"), ("g", "t", "dead", 2, "dead letter",
                                                                     "retries used up"),
        ("g", "t", "good", 1, "applied", None), ("g", "t", "open", 1, "unknown", None)]
    assert collected(frame.where("identity IN ('good', 'dead')"), "time_to_success_ms", "time_to_death_ms") == [
        (70, None), (None, 30)]


def test_the_messages_of_a_java_batch_are_counted_each(spark: "SparkSession") -> None:
    """They have one id, and here no keys either."""
    from regulus.pipeline.steps.retries import retry_outcomes

    def of_batch(topic: str, number: int, tries: int, **more: Any) -> dict[str, Any]:
        return copy(topic, "batch", tries, keys=None, properties={"ORIGIN_MESSAGE_ID": f"place-{number}"}, **more)

    messages = table(spark, [*[of_batch("%RETRY%g", number, 1) for number in range(3)], of_batch("%DLQ%g", 0, 2),
                             of_batch("%DLQ%g", 1, 2)])
    assert outcomes(retry_outcomes(messages)) == [
        ("g", "t", "batch", 1, "dead letter", "given up after retries"),
        ("g", "t", "batch", 1, "dead letter", "given up after retries"), ("g", "t", "batch", 1, "unknown", None)]


def test_a_dead_letter_of_what_was_popped_is_its_retries_message(spark: "SparkSession") -> None:
    """Only when it is given up is it noted where its last copy was."""
    from regulus.pipeline.steps.retries import retry_outcomes

    messages = table(spark, [copy("%RETRY%g", "m", 1), copy("%RETRY%g", "m", 2),
                             copy("%DLQ%g", "m", 3, properties={"ORIGIN_MESSAGE_ID": "of the second retry"})])
    assert outcomes(retry_outcomes(messages)) == [("g", "t", "m", 2, "dead letter", "given up after retries")]


@pytest.mark.parametrize("limit", [3, None])
def test_what_ended_before_the_groups_limit_has_not_used_up_its_retries(spark: "SparkSession",
                                                                        limit: int | None) -> None:
    from regulus.pipeline.steps.retries import retry_outcomes

    messages = table(spark, [copy("%RETRY%g", "dead", 1), copy("%RETRY%g", "dead", 2), copy("%DLQ%g", "dead", 3)])
    limits = None if limit is None else small_table(spark, [("g", limit)],
                                                    "consumer_group string, retry_max_times int")
    frame = retry_outcomes(messages, limits=limits)
    assert outcomes(frame) == [("g", "t", "dead", 2, "dead letter", "given up after retries")]


def test_the_groups_progress_tells_what_passed_from_what_waits(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.retries import retry_outcomes

    messages = table(spark, [
        copy("%RETRY%g", "passed", 1, queue_offset=3), copy("%RETRY%g", "next", 1, queue_offset=4),
        copy("SCHEDULE_TOPIC_XXXX", "passed", 1), copy("SCHEDULE_TOPIC_XXXX", "parked", 1),
        copy("SCHEDULE_TOPIC_XXXX", "again", 2), copy("%RETRY%g", "again", 1, queue_offset=2)])
    progress = small_table(spark, [("g", "%RETRY%g", "a", 0, 4)],
                           "consumer_group string, topic string, broker_name string, queue_id int, "
                           "consumer_offset bigint")
    assert collected(retry_outcomes(messages, progress=progress), "identity", "outcome") == [
        ("again", "waiting"), ("next", "waiting"), ("parked", "waiting"), ("passed", "passed")]


def test_a_cause_that_the_application_noted_is_told(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.retries import dead_letters_by_cause, retry_outcomes

    messages = table(spark, [
        copy("%DLQ%g", "x", 2, 10, properties={"LAST_ERROR": "no such account"}),
        copy("%DLQ%g", "y", 3, 20, properties={"LAST_ERROR": "no such account"}),
        copy("%DLQ%g", "z", 1, properties={"why": "own words"})])
    by_cause = dead_letters_by_cause(retry_outcomes(messages))
    assert collected(by_cause, "consumer_group", "topic", "cause", "dead_letters", "tries_min", "tries_max") == [
        ("g", "t", "no retry wanted", 1, 0, 0), ("g", "t", "no such account", 2, 1, 2)]
    named = retry_outcomes(messages, cause_properties=("why",))
    assert collected(named.where("identity = 'z'"), "cause") == [("own words",)]


def test_the_ladder_counts_messages_by_their_retries(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.retries import retry_ladder, retry_outcomes, time_to_success

    messages = table(spark, [copy("%RETRY%g", name, tries) for name, tries in
                             (("a", 1), ("b", 1), ("c", 1), ("c", 2))] + [copy("%DLQ%g", "b", 2)])
    frame = retry_outcomes(messages, effects(spark, ("key-a", 50), ("key-c", 90)))
    assert collected(retry_ladder(frame), "tries", "messages", "applied", "dead_letters", "unknown") == [
        (1, 2, 1, 1, 0), (2, 1, 1, 0, 0)]
    assert collected(time_to_success(frame), "messages", "p50_ms", "max_ms") == [(2, 50, 90)]
