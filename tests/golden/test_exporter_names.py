"""The second family of names: those of apache/rocketmq-exporter, from the same load."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.golden.exporter_names import NAMES, NEVER_FILLED, OF_CLIENTS
from tests.golden.metrics_load import Load


@pytest.fixture(scope="module")
def load() -> Load:
    load = Load(has_exporter_names=True)
    load.run()
    load.rig.run(61_000)    # rates are of a minute
    return load


def value(load: Load, name: str, **labels: str) -> float:
    found = [sample.value for family in text_string_to_metric_families(load.text()) for sample in family.samples
             if sample.name == name and labels.items() <= sample.labels.items()]
    assert len(found) == 1, f"{name} {labels}: {found}"
    return found[0]


def test_all_names_that_have_numbers_here_are_families(load):
    assert len(NAMES) == 89
    ours = set(load.page().families)
    assert ours & NAMES == NAMES - NEVER_FILLED - OF_CLIENTS
    assert set(Load().page().families) & NAMES == set()


def test_they_count_what_the_exporter_asks_for(load):
    assert value(load, "rocketmq_producer_offset", topic="normal", broker="broker-a", cluster="cluster-a") == 108
    assert value(load, "rocketmq_consumer_offset", topic="lag", group="g-lag") == 16
    assert value(load, "rocketmq_group_diff", topic="lag", group="g-lag", countOfOnlineConsumers="1",
                 msgModel="1") == 24
    assert value(load, "rocketmq_group_diff", topic="gone", group="g-gone", countOfOnlineConsumers="0") == 15
    assert value(load, "rocketmq_group_retrydiff", topic="%RETRY%g-retry", group="g-retry") == 0
    assert value(load, "rocketmq_topic_dlq_offset", group="g-retry") == 3
    assert value(load, "rocketmq_topic_retry_offset", topic="%RETRY%g-retry") == 3
    assert value(load, "rocketmq_producer_count", group="p-txn") == 1
    assert value(load, "rocketmq_group_count", group="g-push") == 1
    assert value(load, "rocketmq_group_get_latency_by_storetime", topic="lag", group="g-lag") > 60_000
    assert value(load, "rocketmq_brokeruntime_putmessage_times_total") > 300
    assert value(load, "rocketmq_brokeruntime_commitlog_maxoffset") == load.rig.store.commit_log_max_offset()
