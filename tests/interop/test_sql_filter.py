"""Consumers of RocketMQ filter by SQL92 at our broker, and at their own; and both evaluate the same."""

import time
from pathlib import Path

import pytest
from clients import JAVA, RunningClient
from conftest import NewRun, make_server
from tests.interop.sql_verdicts import java_verdicts
from tests.sql_conditions import made, verdicts
from toolchain import JAVA_VERSIONS

COUNT = 20
WANTED = "index BETWEEN 5 AND 9 OR index = 12"


@pytest.fixture(scope="module", params=["regulus", "java-5.3.3"])
def server(request, new_run: NewRun):
    started = make_server(request.param, new_run(f"sql-{request.param}"), enablePropertyFilter="true")
    try:
        started.start()
        yield started
    finally:
        started.kill()


@pytest.fixture
def home(new_run: NewRun) -> Path:
    return new_run("sql-client")


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_a_java_consumer_gets_what_its_condition_takes(version, server, home):
    client, topic = JAVA[version], f"sql-{version.replace('.', '-')}"
    options = {"namesrv": server.name_server_address, "topic": topic}
    client.produce(home, **options, group=f"P-{topic}", prefix="m", count=COUNT)
    with RunningClient(client, home, "consume", {**options, "group": f"G-{topic}", "sql": WANTED}) as running:
        running.wait_for_bodies([f"m-{index}" for index in (5, 6, 7, 8, 9, 12)])
        # Sent while the consumer waits: of these, too, only what it wants.
        client.produce(home, **options, group=f"P-{topic}", prefix="later", count=COUNT)
        running.wait_for_bodies([f"later-{index}" for index in (5, 6, 7, 8, 9, 12)])
        running.finish()
        assert {int(body.rpartition("-")[2]) for body in running.bodies()} == {5, 6, 7, 8, 9, 12}


def test_conditions_mean_what_they_mean_to_rocketmq():
    seed = time.time_ns()
    conditions = made(seed, 2_000)
    expected = [each.replace("e", "0") for each in java_verdicts(conditions)]
    wrong = [(condition, theirs) for condition, theirs in zip(conditions, expected, strict=True)
             if verdicts(condition) != theirs]
    assert not wrong, f"seed {seed}"
