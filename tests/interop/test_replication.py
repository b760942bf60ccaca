"""A master and a slave, each of the two ours or RocketMQ's: killed under load, nothing that was answered is lost."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from clients import JAVA
from conftest import NewRun
from pairs import TOPIC, Pair
from toolchain import our_environment

COUNT = 300
PAIRS = [("regulus", "regulus"), ("java-4.9.8", "regulus"), ("java-5.3.3", "regulus"), ("regulus", "java-4.9.8"),
         pytest.param(("regulus", "java-5.3.3"), marks=pytest.mark.long)]


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[Pair]:
    master, slave = request.param
    with ExitStack() as stack:
        yield Pair(master, slave, new_run(f"pair-{master}-{slave}"), stack)


def test_what_was_answered_is_read_from_the_slave_when_the_master_is_killed(pair: Pair, new_run: NewRun) -> None:
    client = JAVA["5.3.3"]
    home = new_run("pair-client")
    options = {"namesrv": pair.name_server, "topic": TOPIC}
    client.produce(home, **options, group="PairsProducer", prefix="first", count=COUNT)
    pair.await_copy()
    client.produce(home, **options, group="PairsProducer", prefix="second", count=COUNT)
    pair.kill_master()
    expected = [f"{prefix}-{index}" for prefix in ("first", "second") for index in range(COUNT)]
    with client.consume(home, **options, group="PairsConsumer") as running:
        running.wait_for_bodies(expected)
        running.finish()
        assert set(running.bodies()) == set(expected)
    pair.stop_slave()
    logs = [sorted((pair.store(which) / "commitlog").iterdir()) for which in ("master", "slave")]
    assert [file.name for file in logs[1]] == [file.name for file in logs[0]][:len(logs[1])]
    for ours, theirs in zip(*logs, strict=False):
        master, slave = ours.read_bytes(), theirs.read_bytes()
        assert slave.rstrip(b"\0") == master[:len(slave.rstrip(b"\0"))]


def test_an_old_master_comes_back_as_the_slave_of_a_java_master(new_run: NewRun) -> None:
    """It was killed with messages that nobody else has; its slave was made the master, and went on."""
    client = JAVA["5.3.3"]
    home = new_run("resync-client")
    with ExitStack() as stack:
        pair = Pair("regulus", "java-4.9.8", new_run("resync"), stack)
        options = {"namesrv": pair.name_server, "topic": TOPIC, "group": "PairsProducer"}
        client.produce(home, **options, prefix="common", count=COUNT)
        pair.await_copy()
        pair.stop_slave()
        pair.kill_master()
        kill_old = pair._start("regulus", "master", brokerRole="ASYNC_MASTER", brokerId="0")
        client.produce(home, **options, prefix="alone", count=20)
        kill_old()
        pair._start("java-4.9.8", "slave", brokerRole="ASYNC_MASTER", brokerId="0")
        client.produce(home, **options, prefix="after", count=COUNT)
        done = subprocess.run(
            [sys.executable, "-m", "regulus.cli.main", "store", "resync", str(pair.store("master")), "--yes",
             "--master", f"127.0.0.1:{pair.ports['slave']}", "-c", str(pair.store("master").parent / "broker.conf")],
            env=our_environment(), capture_output=True, text=True, check=False)
        assert "the master does not have 20 messages" in done.stdout, (done.stdout, done.stderr)
        kept = b"".join([path.read_bytes() for path in (pair.store("master") / "cut").rglob("*") if path.is_file()])
        assert all(f"alone-{number}".encode() in kept for number in range(20))
        pair._start("regulus", "master", brokerRole="SLAVE", brokerId="1")
        pair.await_copy()
