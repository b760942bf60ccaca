"""docs/metrics.md names each family that a server shows, and no other one."""

import re
from pathlib import Path

from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.metrics import nameserver_families
from regulus.nameserver.state import NameServerState
from regulus.proxy.metrics import LOCAL_MODE, ProxyNumbers, proxy_families
from regulus.wire.metrics_text import MetricsPage
from tests.golden.metrics_load import Load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
OF_A_SERVER_ALONE = {"rocketmq_rpc_latency_milliseconds", "rocketmq_topic_create_execution_time_milliseconds",
                     "rocketmq_consumer_group_create_execution_time_milliseconds"}
OF_A_SLAVE_OR_ITS_MASTER = {"regulus_master_linked", "regulus_master_silent_milliseconds",
                            "regulus_replica_behind_bytes", "regulus_replica_in_sync"}
OF_A_FULL_PAGE = {"regulus_metrics_left_out_series"}


def named() -> set[str]:
    """The first column of the tables of families; those that are not served are named by another table."""
    text = PAGE.read_text()
    served, own = text.split("\nNot served,")[0], text.split("## Families of Regulus")[1].split("\n## ")[0]
    names = {name for cell in re.findall(r"^\| (rocketmq_[^|]+) \|", served, re.MULTILINE)
             for name in cell.split(", ")}
    return names | {f"regulus_{name}" for cell in re.findall(r"^\| ([a-z_, ]+) \| ", own, re.MULTILINE)
                    for name in cell.strip().split(", ")}


def test_the_page_names_each_family():
    load = Load()
    load.run()
    page = load.page()
    for _ in nameserver_families(NameServerState(NamesrvConfig()), page, {}, 0, 0.0, 0):
        pass
    for _ in proxy_families(page, {}, LOCAL_MODE, ProxyNumbers(clients=0, renewals=0, calls=0, receives=0, streams=0)):
        pass
    shown = set(page.families) - {"target_info"}
    assert isinstance(page, MetricsPage)
    assert named() == shown | OF_A_SERVER_ALONE | OF_A_SLAVE_OR_ITS_MASTER | OF_A_FULL_PAGE
