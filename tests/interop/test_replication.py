"""A master and a slave, each of the two ours or RocketMQ's: killed under load, nothing that was answered is lost."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from child_process import ChildProcess
from clients import JAVA
from conftest import NewRun
from ports import free_broker_port, free_ports
from real_rocketmq import RealRocketMQ, broker_settings, write_properties
from remoting_probe import ask, await_broker, await_name_server
from toolchain import our_environment

COUNT = 300
COPIED_WITHIN_S = 120           # a slave of RocketMQ 5 asks for the topics each minute
GET_BROKER_RUNTIME_INFO = 28
GET_ALL_TOPIC_CONFIG = 21
TOPIC = "Pairs"
PAIRS = [("regulus", "regulus"), ("java-4.9.8", "regulus"), ("java-5.3.3", "regulus"), ("regulus", "java-4.9.8"),
         ("regulus", "java-5.3.3")]


class Pair:
    """A name server of ours, and the two brokers of one name. Both are SYNC_MASTER and its SLAVE."""

    def __init__(self, master: str, slave: str, home: Path, stack: ExitStack) -> None:
        self._home = home
        self._stack = stack
        port = free_ports(1)[0]
        self.name_server = f"127.0.0.1:{port}"
        process = self._our("nameserver", ["nameserver", "--port", str(port), "--kv-config", str(home / "kv.json")])
        await_name_server(self.name_server, process.check_alive)
        self.ports = {"master": free_broker_port(), "slave": free_broker_port()}
        self.kill_master = self._start(master, "master", brokerRole="SYNC_MASTER", brokerId="0")
        self.stop_slave = self._start(slave, "slave", brokerRole="SLAVE", brokerId="1")

    def store(self, which: str) -> Path:
        return self._home / which / "store"

    def await_copy(self) -> None:
        """Until both logs end at one place, and the slave knows the topic."""
        deadline = time.monotonic() + COPIED_WITHIN_S
        ends: list[str] = []
        while time.monotonic() < deadline:
            ends = [self.log_end(which) for which in ("master", "slave")]
            topics = ask(f"127.0.0.1:{self.ports['slave']}", GET_ALL_TOPIC_CONFIG)["body"]
            if ends[0] == ends[1] != "0" and f'"{TOPIC}"'.encode() in topics:
                return
            time.sleep(0.2)
        raise AssertionError(f"the logs end at {ends}, or the slave does not know the topic, after {COPIED_WITHIN_S} s")

    def log_end(self, which: str) -> str:
        body = ask(f"127.0.0.1:{self.ports[which]}", GET_BROKER_RUNTIME_INFO)["body"].decode()
        return body.partition('"commitLogMaxOffset":"')[2].partition('"')[0]

    def _start(self, kind: str, which: str, **settings: str) -> Callable[[], None]:
        """What ends it."""
        home, port = self._home / which, self.ports[which]
        if kind != "regulus":
            # 5.3.3 waits for nobody unless told, and lets nobody read from a slave.
            settings |= {"slaveReadEnable": "true"} if which == "slave" else {"inSyncReplicas": "2"}
            real = RealRocketMQ(kind.removeprefix("java-"), home, broker_port=port, store=self.store(which),
                                name_server=self.name_server, haSendHeartbeatInterval="500", **settings)
            self._stack.callback(real.kill)
            real.start()
            return real.kill if which == "master" else real.stop_broker
        conf = write_properties(home / "broker.conf", broker_settings(
            self.name_server, port, self.store(which), haSendHeartbeatInterval="500", **settings))
        process = self._our(which, ["broker", "--config", str(conf)])
        await_broker(f"127.0.0.1:{port}", self.name_server, process.check_alive)
        return process.kill if which == "master" else lambda: self._stop(process)

    def _stop(self, process: ChildProcess) -> None:
        assert process.stop() == 0

    def _our(self, name: str, command: list[str]) -> ChildProcess:
        home = self._home / name
        home.mkdir(parents=True, exist_ok=True)
        process = ChildProcess(f"regulus {name}", [sys.executable, "-m", "regulus.cli.main", *command],
                               home / "regulus.log", our_environment(), home)
        self._stack.callback(process.kill)
        return process


@pytest.fixture(params=PAIRS, ids=[f"{master}-{slave}" for master, slave in PAIRS])
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
