"""Messages with a priority: RocketMQ's newest clients at ours and at its own newest broker and proxy, which agree."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from admin import AdminTool
from clients import NEWEST_JAVA, RunningClient
from clients5 import JAVA5
from conftest import NewRun, Server, make_server
from ports import free_ports
from real_rocketmq import RealProxy
from toolchain import NEWEST_JAVA as NEWEST

from regulus import ConsumeFromWhere, Message, Producer, SimpleConsumer, SimpleConsumerConfig

SENT = (3, 0, 9, 5, 1, 8, 2, 7, 4, 6)
QUEUES = 8
WANTED = [f"m-{SENT.index(priority)}" for priority in sorted(SENT, reverse=True)]
"""The bodies, by priority; of the last three, which share a queue, by arrival, which is the same here."""


class Bench:
    """A broker and its front for gRPC."""

    def __init__(self, server: Server, endpoint: str, mqadmin: AdminTool) -> None:
        self.server, self.endpoint, self.mqadmin = server, endpoint, mqadmin

    def make_topic(self, name: str, kind: str) -> dict[str, str]:
        """Where it is, as the drivers' options say it."""
        said = self.mqadmin.run("updateTopic", "-b", self.server.broker_address, "-t", name, "-r", str(QUEUES), "-w",
                                str(QUEUES), "-a", f"+message.type={kind}")
        assert "success" in said, said
        return {"namesrv": self.server.name_server_address, "topic": name}

    def make_group(self, name: str, *options: str) -> str:
        return self.mqadmin.run("updateSubGroup", "-b", self.server.broker_address, "-g", name, *options)


@pytest.fixture(scope="module", params=["regulus", f"java-{NEWEST}"])
def bench(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[Bench]:
    run = new_run(f"priority-{request.param}")
    (port,) = free_ports(1)
    server = make_server(request.param, run, **({"grpc_port": port} if request.param == "regulus" else {}))
    proxy: RealProxy | None = None
    endpoint = f"127.0.0.1:{port}"
    try:
        server.start()
        if request.param != "regulus":
            proxy = RealProxy(new_run("priority-proxy"), server.name_server_address, version=NEWEST)
            proxy.start()
            endpoint = proxy.endpoint
        with AdminTool(NEWEST, new_run("priority-mqadmin"), server.name_server_address) as mqadmin:
            yield Bench(server, endpoint, mqadmin)
    finally:
        if proxy is not None:
            proxy.kill()
        server.kill()


@pytest.fixture
def home(new_run: NewRun) -> Path:
    return new_run("priority-client")


def produce(home: Path, where: dict[str, str]) -> list[int]:
    """One message of each priority; the queues that the answers name."""
    priorities = ",".join(map(str, SENT))
    events = NEWEST_JAVA.produce(home, **where, group="P", prefix="m", count=len(SENT), priorities=priorities)
    return [int(event["queueId"]) for event in events if event["event"] == "sent"]


@pytest.mark.parametrize("kind", ["PRIORITY", "NORMAL"])
def test_the_priority_chooses_the_queue_in_any_topic(bench: Bench, home: Path, kind: str) -> None:
    where = bench.make_topic(f"queues-{kind}", kind)
    assert produce(home, where) == [min(priority, QUEUES - 1) for priority in SENT]
    events = NEWEST_JAVA.run(home, "pull", **where)
    kept = {event["body"]: (int(event["queueId"]), event["properties"]["_SYS_MSG_PRIORITY_"]) for event in events
            if event["event"] == "message"}
    assert kept == {f"m-{index}": (min(priority, QUEUES - 1), str(priority)) for index, priority in enumerate(SENT)}


def test_a_push_consumer_that_pops_gets_the_most_urgent_first(bench: Bench, home: Path) -> None:
    where = bench.make_topic("popped", "PRIORITY")
    bench.make_group("G-popped")
    said = bench.mqadmin.run("setConsumeMode", "-b", bench.server.broker_address, "-t", "popped", "-g", "G-popped",
                             "-m", "POP", "-q", "0")
    assert "success" in said.lower(), said
    produce(home, where)
    options = {**where, "group": "G-popped", "server_balance": "true", "threads": "1"}
    with RunningClient(NEWEST_JAVA, home, "consume", options) as consumer:
        consumer.wait_for_bodies(WANTED)
        consumer.finish()
        assert consumer.bodies() == WANTED


def test_a_client_of_rocketmq_5_gets_the_most_urgent_first(bench: Bench, home: Path) -> None:
    bench.make_topic("received", "PRIORITY")
    bench.make_group("G-received")
    where = {"endpoint": bench.endpoint, "topic": "received"}
    JAVA5.produce(home, **where, kind="priority", prefix="m", count=len(SENT), priorities=",".join(map(str, SENT)))
    options = {**where, "group": "G-received", "at_once": "1"}
    with RunningClient(JAVA5, home, "receive", options) as consumer:
        consumer.wait_for_bodies(WANTED)
        assert consumer.bodies() == WANTED
        assert [event["priority"] for event in consumer.messages()] == sorted(SENT, reverse=True)


@pytest.mark.parametrize("protocol", ["rocketmq", "grpc"])
async def test_our_own_clients_do_too(bench: Bench, protocol: str) -> None:
    where = bench.make_topic(f"ours-{protocol}", "PRIORITY")
    bench.make_group(f"G-ours-{protocol}")
    address = f"grpc://{bench.endpoint}" if protocol == "grpc" else f"rocketmq://{where['namesrv']}"
    config = SimpleConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with (Producer(address, "P") as producer,
                SimpleConsumer(address, f"G-ours-{protocol}", {where["topic"]: "*"}, config) as consumer):
        for index, priority in enumerate(SENT):
            await producer.send(Message(where["topic"], f"m-{index}".encode(), priority=priority))
        received = [message for _ in SENT for message in await consumer.receive(1, 60_000)]
    assert [message.body.decode() for message in received] == WANTED
    assert [message.priority for message in received] == sorted(SENT, reverse=True)


@pytest.mark.parametrize(("kind", "sent"), [("NORMAL", "priority"), ("PRIORITY", "normal")])
def test_a_client_of_rocketmq_5_is_told_what_a_topic_takes(bench: Bench, home: Path, kind: str, sent: str) -> None:
    bench.make_topic(f"told-{kind}", kind)
    options = {"endpoint": bench.endpoint, "topic": f"told-{kind}", "kind": sent, "prefix": "m", "count": 1,
               "priorities": "3"}
    with RunningClient(JAVA5, home, "produce", options) as client:
        said = client.wait_for_failure()
    assert f"[{kind}]" in said, said[-600:]


def test_what_failed_and_what_is_a_dead_letter_keeps_its_priority(bench: Bench, home: Path) -> None:
    where = bench.make_topic("failing", "PRIORITY")
    bench.make_group("G-failing", "-r", "1")
    produce(home, where)
    options = {**where, "group": "G-failing", "fail_prefix": "m", "max_reconsume": "1"}
    with RunningClient(NEWEST_JAVA, home, "consume", options) as consumer:
        consumer.wait_until(lambda: len(consumer.bodies()) == 2 * len(SENT), "each message twice")
        consumer.finish()
        again = {event["body"]: event["properties"]["_SYS_MSG_PRIORITY_"] for event in consumer.messages()
                 if event["reconsumeTimes"] == "1"}
    dead = {event["body"]: event["properties"]["_SYS_MSG_PRIORITY_"]
            for event in NEWEST_JAVA.run(home, "pull", **{**where, "topic": "%DLQ%G-failing"})
            if event["event"] == "message"}
    assert again == dead == {f"m-{index}": str(priority) for index, priority in enumerate(SENT)}


@pytest.mark.parametrize(("factor", "is_taken"), [("0", True), ("50", True), ("100", True), ("101", False),
                                                  ("many", False)])
def test_a_group_has_its_factor(bench: Bench, factor: str, is_taken: bool) -> None:
    said = bench.make_group(f"G-{factor}", "--attributes", f"+priority.factor={factor}")
    assert ("success" in said) == is_taken, said
    assert "priority.factor" in said or not is_taken, said
