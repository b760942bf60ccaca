"""What the Java client can besides: order, lite pull, broadcasting, delay; on our servers and on the real ones."""

from collections import Counter
from pathlib import Path

import pytest
from clients import JAVA, Event, RunningClient
from conftest import SERVERS, NewRun, Server
from toolchain import JAVA_VERSIONS

# Not 4.9: the lite pull of 5.3 asks with a request that a 4.9 broker does not know.
pytestmark = pytest.mark.parametrize("server", [name for name in SERVERS if name != "java-4.9.8"], indirect=True,
                                     scope="module")

COUNT = 8


class JavaDeeds:
    """The driver of one Java client version on one server; topics and groups carry the version."""

    def __init__(self, version: str, server: Server, home: Path) -> None:
        self.version = version
        self._client = JAVA[version]
        self._server = server
        self._home = home
        self._suffix = version.replace(".", "-")

    def topic(self, deed: str) -> str:
        return f"{deed}-{self._suffix}"

    def produce(self, deed: str, prefix: str, **options: object) -> list[Event]:
        return self._client.produce(self._home, namesrv=self._server.name_server_address, topic=self.topic(deed),
                                    group=f"P-{self.topic(deed)}", prefix=prefix, count=COUNT, **options)

    def start(self, driver_deed: str, deed: str, **options: object) -> RunningClient:
        return RunningClient(self._client, self._home, driver_deed, {
            "namesrv": self._server.name_server_address, "topic": self.topic(deed), "group": f"G-{self.topic(deed)}",
            **options})


@pytest.fixture(scope="module", params=JAVA_VERSIONS)
def java(request: pytest.FixtureRequest, server: Server, new_run: NewRun) -> JavaDeeds:
    return JavaDeeds(request.param, server, new_run("java-features"))


def bodies(prefix: str) -> list[str]:
    return [f"{prefix}-{index}" for index in range(COUNT)]


def test_messages_of_one_queue_are_consumed_in_their_order(java: JavaDeeds) -> None:
    """Two shards, each sent to one queue and consumed by a listener that takes a queue's messages one after another."""
    java.produce("ordered", "step", mode="ordered")
    with java.start("consume", "ordered", orderly="yes") as running:
        running.wait_for_bodies(bodies("step"))
        running.finish()
        for shard in (0, 1):
            received = [body for body in running.bodies() if int(body.rsplit("-", 1)[1]) % 2 == shard]
            assert received == [f"step-{index}" for index in range(shard, COUNT, 2)]


def test_a_client_with_the_vip_channel_sends_two_ports_below(java: JavaDeeds, server: Server,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dcom.rocketmq.sendMessageWithVIPChannel=true")
    vip_port = int(server.broker_address.rsplit(":", 1)[1]) - 2
    with java.start("pour", "vip", prefix="two below") as running:
        running.wait_until(lambda: is_anybody_at(vip_port) and "poured" in {event["event"] for event in running.events},
                           f"a send at port {vip_port}")
        running.finish()


def is_anybody_at(port: int) -> bool:
    """Whether a connection to it is established, by the tables of the system."""
    tables = (Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:] for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table]
    return any(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_lite_pull_takes_everything_and_commits(java: JavaDeeds) -> None:
    java.produce("lite", "first")
    with java.start("lite-pull", "lite") as running:
        running.wait_for_bodies(bodies("first"))
        running.finish()
        assert Counter(running.bodies()) == Counter(bodies("first"))
    java.produce("lite", "second")
    with java.start("lite-pull", "lite") as running:
        running.wait_for_bodies(bodies("second"))
        running.finish()
        assert Counter(running.bodies()) == Counter(bodies("second"))


def test_every_member_of_a_broadcasting_group_gets_everything(java: JavaDeeds) -> None:
    java.produce("broadcast", "news")
    with (java.start("consume", "broadcast", broadcast="yes") as one,
          java.start("consume", "broadcast", broadcast="yes") as other):
        for running in (one, other):
            running.wait_for_bodies(bodies("news"))
            running.finish()
            assert Counter(running.bodies()) == Counter(bodies("news"))


def test_a_delayed_message_comes_after_its_time(java: JavaDeeds) -> None:
    """Level 1 is one second in these servers' configuration."""
    java.produce("delayed", "later", delay_level=1)
    with java.start("consume", "delayed") as running:
        running.wait_for_bodies(bodies("later"))
        running.finish()
        for message in running.messages():
            assert 1000 <= int(message["storeTimestamp"]) - int(message["bornTimestamp"]) < 30_000
            assert message["topic"] == java.topic("delayed")
            assert message["properties"]["DELAY"] == "1"


def test_messages_of_a_batch_are_known_as_rocketmq_knows_them(java: JavaDeeds) -> None:
    """All that client 5 sent in a batch is known by one id, of which its send result says nothing."""
    [sent] = [event for event in java.produce("batched", "batch", mode="batch") if event["event"] == "sent"]
    with java.start("consume", "batched") as running:
        running.wait_for_bodies(bodies("batch"))
        running.finish()
        ids = {message["msgId"] for message in running.messages()}
    told = set(str(sent["msgId"]).split(","))
    assert len(told) == COUNT
    if java.version == "5.3.3":
        assert len(ids) == 1
        assert not ids & told
    else:
        assert ids == told
