"""What clients say in the trace topic, as spans; first of all what RocketMQ's own Java client said."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.golden.recorded_session import frames_of
from tests.unit.pipeline.steps.rows import collected, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
TRACED = "C000020A5AC24E0E2F2A6703DDF00000"


def java_trace(spark: "SparkSession") -> "DataFrame":
    """The trace messages of the recorded Java client (4.9.8), which sent one message and consumed it."""
    bodies = [frame.command.body for frame in frames_of("trace")
              if frame.from_client and frame.command.ext.get("b") == "RMQ_SYS_TRACE_TOPIC"]
    assert len(bodies) == 2
    return table(spark, [{"topic": "RMQ_SYS_TRACE_TOPIC", "body": body} for body in bodies])


def trace(spark: "SparkSession", *records: str) -> "DataFrame":
    """One trace message; fields written with `|` between."""
    body = "".join(record.replace("|", "\x01") + "\x02" for record in records)
    return table(spark, [{"topic": "RMQ_SYS_TRACE_TOPIC", "body": body.encode()}])


def time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_the_java_clients_trace_is_a_send_and_a_consume(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.trace_spans import trace_records, trace_rejects, trace_spans

    messages = java_trace(spark)
    assert trace_rejects(messages).count() == 0
    spans = trace_spans(trace_records(messages))
    rows = {row["kind"]: row for row in spans.collect()}
    send, consume = rows["send"], rows["consume"]
    assert (send.group_name, send.topic, send.message_id, send["keys"], send.tags) == (
        "PG_trace", "GNormal", TRACED, "trace1", "Tr")
    assert (send.duration_ms, send.success, send.store_host, send.region) == (9, True, "127.0.0.1:10911",
                                                                             "DefaultRegion")
    assert send.start_time.astimezone(UTC) == time(1795219506674)
    assert (consume.group_name, consume.topic, consume.message_id, consume.tags) == ("CG_trace", "GNormal", TRACED,
                                                                                     "Tr")
    assert (consume.duration_ms, consume.success, consume.retry_count, consume.outcome, consume.region) == (
        0, True, 0, "success", None)
    assert consume.start_time.astimezone(UTC) == time(1795219507735)


def test_the_java_clients_trace_gives_the_delivery_and_the_way(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.trace_spans import deliveries_from_trace, service_map, trace_records, trace_spans

    spans = trace_spans(trace_records(java_trace(spark)))
    assert collected(deliveries_from_trace(spans), "message_id", "consumer_group") == [(TRACED, "CG_trace")]
    assert collected(service_map(spans), "producer_group", "topic", "consumer_group", "messages", "deliveries",
                     "failed") == [("PG_trace", "GNormal", "CG_trace", 1, 1, 0)]


def test_every_field_of_a_send_is_read_in_its_three_lengths(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.trace_spans import trace_records

    start = "Pub|1700000000000|r|P|T|{}|tag|k1 k2|h:1|7|3|4|"
    frame = trace_records(trace(spark, start.format("old") + "false", start.format("now") + "OFF|true",
                                start.format("host") + "OFF|true|c:9"))
    assert collected(frame, "message_id", "success", "offset_message_id", "body_size", "cost_ms", "message_type") == [
        ("host", True, "OFF", 7, 3, "ordered"), ("now", True, "OFF", 7, 3, "ordered"),
        ("old", False, None, 7, 3, "ordered")]


def test_transactions_and_recalls_are_spans_too(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.trace_spans import trace_records, trace_spans

    frame = trace_spans(trace_records(trace(
        spark, "EndTransaction|1700000000000|r|P|T|M1|tag|k|h:1|2|TX9|ROLLBACK_MESSAGE|true",
        "Recall|1700000000000|r|P|T|M2|true")))
    assert collected(frame, "kind", "message_id", "outcome", "success") == [
        ("end transaction", "M1", "ROLLBACK_MESSAGE", None), ("recall", "M2", None, True)]


def test_records_that_are_cut_short_or_strange_are_rejects_and_stop_nothing(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.trace_spans import trace_records, trace_rejects

    messages = trace(spark, "Pub|1|r", "Lunch|1", "Recall|no time|r|P|T|M|maybe")
    assert collected(trace_rejects(messages), "record") == [("Lunch|1",), ("Pub|1|r",)]
    assert collected(trace_records(messages), "record_type", "time", "success") == [("Recall", None, None)]


def test_slow_and_failing_groups_are_seen(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.trace_spans import service_map, slow_groups, trace_records, trace_spans

    def consumed(name: str, cost: int, success: str, code: int) -> tuple[str, str]:
        return (f"SubBefore|1700000000000|r|C|R{name}|{name}|0|k", f"SubAfter|R{name}|{name}|{cost}|{success}|k|{code}")

    sends = [f"Pub|1700000000000|r|P|T|{name}|tag|k|h:1|7|3|0|OFF|true" for name in ("A", "B", "lonely")]
    spans = trace_spans(trace_records(trace(
        spark, *sends, *consumed("A", 10, "true", 0), *consumed("B", 2500, "false", 2),
        "SubBefore|1700000000000|r|C|RX|X|0|k")))
    assert collected(slow_groups(spans), "consumer_group", "topic", "consumed", "failed", "unfinished", "slow",
                     "max_ms") == [("C", "T", 2, 1, 0, 1, 2500), ("C", None, 1, 0, 1, 0, None)]
    assert collected(service_map(spans), "topic", "consumer_group", "messages", "failed") == [
        ("T", "C", 2, 1), ("T", None, 1, 0)]
