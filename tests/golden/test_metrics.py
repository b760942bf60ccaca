"""The same load makes the same numbers as RocketMQ 5.5.1's: families, labels, and all values that count something."""

from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from tests.golden.metrics_load import Load

SCRAPES = Path(__file__).parent / "metrics"
Series = tuple[str, tuple[tuple[str, str], ...]]

COMPARED = frozenset({
    "rocketmq_broker_permission", "rocketmq_processor_watermark", "rocketmq_consumer_group_number",
    "rocketmq_messages_in_total", "rocketmq_messages_out_total", "rocketmq_message_size_count",
    "rocketmq_producer_connections", "rocketmq_consumer_connections",
    "rocketmq_consumer_lag_messages", "rocketmq_consumer_inflight_messages", "rocketmq_consumer_ready_messages",
    "rocketmq_send_to_dlq_messages_total", "rocketmq_commit_messages_total", "rocketmq_rollback_messages_total",
    "rocketmq_half_messages", "rocketmq_finish_message_latency_milliseconds_count",
    "rocketmq_finish_message_latency_milliseconds_bucket", "rocketmq_timer_enqueue_total",
    "rocketmq_timer_dequeue_total", "rocketmq_timing_messages", "rocketmq_timer_enqueue_lag",
    "rocketmq_delay_message_latency_seconds_count", "rocketmq_delay_message_latency_seconds_bucket",
    "rocketmq_pop_revive_retry_messages_total", "rocketmq_storage_dispatch_behind_bytes", "target_info"})
"""Samples whose values are the same there and here."""

LABELS_ALONE = frozenset({
    "rocketmq_throughput_in_total", "rocketmq_throughput_out_total", "rocketmq_message_size_sum",
    "rocketmq_consumer_lag_latency_milliseconds", "rocketmq_consumer_queueing_latency_milliseconds",
    "rocketmq_finish_message_latency_milliseconds_sum", "rocketmq_delay_message_latency_seconds_sum",
    "rocketmq_storage_size_bytes", "rocketmq_storage_flush_behind_bytes",
    "rocketmq_storage_message_reserve_time_milliseconds", "rocketmq_timer_enqueue_latency_milliseconds",
    "rocketmq_timer_dequeue_latency_milliseconds", "rocketmq_timer_dequeue_lag", "rocketmq_timer_message_snapshot",
    "rocketmq_topic_number"})
"""Samples with the same series: their values are times, bytes of what another client wrote, or count a broker's own."""

ELSEWHERE = frozenset({
    "rocketmq_rpc_latency_milliseconds", "rocketmq_topic_create_execution_time_milliseconds",
    "rocketmq_consumer_group_create_execution_time_milliseconds"})
"""Families that need a server: tests/unit/server/test_metrics_page.py."""

NOT_SERVED = frozenset({
    "rocketmq_pop_buffer_scan_time_consume_milliseconds", "rocketmq_pop_checkpoint_buffer_size",
    "rocketmq_pop_offset_buffer_size", "rocketmq_pop_revive_in_message_total", "rocketmq_pop_revive_out_message_total",
    "rocketmq_pop_revive_lag_milliseconds", "rocketmq_pop_revive_latency_milliseconds"})
"""Families of how RocketMQ does a thing. docs/metrics.md says so of each."""

OWN_TOPICS = ("rmq_sys_REVIVE_LOG_cluster-a", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")


def is_of_its_own_way(name: str, labels: dict[str, str]) -> bool:
    """Records of pops, and what a broker reads of its own: each does that in its way."""
    if labels.get("topic") == "rmq_sys_REVIVE_LOG_cluster-a":
        return True
    return name.endswith("out_total") and labels.get("topic") in OWN_TOPICS


def parsed(text: str, families: Callable[[str], object] = text_string_to_metric_families) -> dict[Series, float]:
    """Samples by name and labels."""
    found: dict[Series, float] = {}
    for family in families(text):
        for sample in family.samples:
            labels = sample.labels
            if sample.name.startswith("regulus_") or is_of_its_own_way(sample.name, labels):
                continue
            key = (sample.name, tuple(sorted(labels.items())))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def rocketmq(name: str) -> dict[Series, float]:
    return parsed((SCRAPES / name).read_text())


@pytest.fixture(scope="module")
def load() -> Load:
    load = Load()
    load.run()
    return load


def base(name: str) -> str:
    for suffix in ("_bucket", "_count", "_sum"):
        name = name.removesuffix(suffix)
    return name


def test_every_family_of_rocketmq_is_compared_or_told_as_not_served():
    theirs = {name for name, _ in rocketmq("broker-5.5.1-load.prom")}
    known = COMPARED | LABELS_ALONE | {"rocketmq_message_size_bucket"}
    assert {base(name) for name in theirs if name not in known} == ELSEWHERE | NOT_SERVED


@pytest.mark.parametrize("name", sorted(COMPARED))
def test_the_same_load_counts_the_same(load, name):
    ours = {labels: value for (each, labels), value in parsed(load.text()).items() if each == name}
    theirs = {labels: value for (each, labels), value in rocketmq("broker-5.5.1-load.prom").items() if each == name}
    assert ours == theirs
    assert ours


@pytest.mark.parametrize("name", sorted(LABELS_ALONE))
def test_the_same_series_are_there(load, name):
    ours = {labels for each, labels in parsed(load.text()) if each == name}
    theirs = {labels for each, labels in rocketmq("broker-5.5.1-load.prom") if each == name}
    assert ours == theirs
    assert ours


def test_buckets_have_the_same_edges(load):
    edges = {dict(labels)["le"] for name, labels in parsed(load.text()) if name == "rocketmq_message_size_bucket"}
    assert edges == {dict(labels)["le"] for name, labels in rocketmq("broker-5.5.1-load.prom")
                     if name == "rocketmq_message_size_bucket"}


def test_the_page_is_openmetrics_to_a_strict_reader(load):
    page = load.text(is_openmetrics=True)
    assert parsed(page, openmetrics_families) == parsed(load.text())
