"""A real Prometheus reads a real broker, and knows each name that our alerts and our dashboard ask for."""

import asyncio
import json
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from tests.golden.metrics_load import Load
from tests.interop import ports, toolchain

from regulus.broker.config import BrokerConfig
from regulus.model.metrics_config import MetricsConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import Regulus
from regulus.testing.running_server import small_store
from regulus.transport.config import TransportConfig

pytestmark = pytest.mark.interop

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
RULES = DEPLOY / "regulus-rules.yml"
_NAME = re.compile(r"\b(?:regulus|rocketmq)_[a-z0-9_]+")
OF_A_SERVER_ALONE = {"rocketmq_rpc_latency_milliseconds"}
OF_A_SLAVE_OR_ITS_MASTER = {"regulus_replica_behind_bytes", "regulus_replica_in_sync", "regulus_master_linked"}
OF_A_NAME_SERVER = {"regulus_nameserver_broker_silent_milliseconds"}


def expressions() -> list[str]:
    """Of the alerts, and of the dashboard."""
    rules = re.findall(r"^ +expr: (.+)$", RULES.read_text(), re.MULTILINE)
    board = json.loads((DEPLOY / "grafana-regulus.json").read_text())
    return [*rules, *[target["expr"].replace("$__rate_interval", "1m")
                      for panel in board["panels"] for target in panel["targets"]]]


def promtool(*arguments: str) -> str:
    directory, environment = toolchain.prometheus()
    result = subprocess.run([str(directory / "bin" / "promtool"), *arguments], env=environment, cwd=DEPLOY,
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_rules_are_sound():
    assert "rules found" in promtool("check", "rules", RULES.name)


def test_the_rules_fire_and_rest():
    assert "SUCCESS" in promtool("test", "rules", "regulus-rules-test.yml")


def test_each_name_that_is_asked_for_is_a_family():
    load = Load()
    load.run()
    known = set(load.page().families) | OF_A_SERVER_ALONE | OF_A_SLAVE_OR_ITS_MASTER | OF_A_NAME_SERVER
    asked = {name.removesuffix("_bucket") for each in expressions() for name in _NAME.findall(each)}
    assert asked <= known
    assert len(asked) > 20


@pytest.fixture
async def scraped(tmp_path: Path) -> AsyncIterator[str]:
    """The address of a Prometheus that reads a broker each second."""
    server = Regulus(BrokerConfig(listen_port=0), small_store(tmp_path / "store"),
                     NamesrvConfig(listen_port=0, bind_address="127.0.0.1"),
                     transport_config=TransportConfig(bind_address="127.0.0.1"),
                     metrics_config=MetricsConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=0))
    await server.start()
    assert server.broker_server.metrics is not None
    directory, environment = toolchain.prometheus()
    (port,) = ports.free_ports(1)
    (tmp_path / "prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": "1s"}, "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "regulus", "static_configs": [
            {"targets": [f"127.0.0.1:{server.broker_server.metrics.port}"]}]}]}))
    with (tmp_path / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [str(directory / "bin" / "prometheus"), f"--config.file={tmp_path / 'prometheus.yml'}",
             f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}"],
            env=environment, stdout=log, stderr=log)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(30)
    await server.stop()


async def ask(address: str, expression: str) -> list[object]:
    def read() -> bytes:
        with urlopen(f"{address}/api/v1/query?query={quote(expression)}", timeout=10) as answer:
            return answer.read()
    told = json.loads(await asyncio.get_running_loop().run_in_executor(None, read))
    assert told["status"] == "success"
    return told["data"]["result"]


async def test_prometheus_reads_a_broker_and_evaluates_each_expression(scraped: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if await ask(scraped, "regulus_ready == 1"):
                break
        except OSError:
            assert time.monotonic() < deadline, "Prometheus did not start"
        assert time.monotonic() < deadline, "Prometheus read no page"
        await asyncio.sleep(0.2)
    for expression in expressions():
        await ask(scraped, expression)
    assert await ask(scraped, "up == 1")
    assert await ask(scraped, 'ALERTS{alertname="RegulusNotReady"}') == []
