"""RocketMQ's own push consumer, told by the broker to pop: at ours and at its own."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from admin import AdminTool
from clients import JAVA, RunningClient
from conftest import NewRun, Server, make_server

from regulus import SimpleConsumer
from regulus.client.consuming.consumer_start import ENDS_WAIT_MS

COUNT = 40
CLIENT = JAVA["5.3.3"]
CLUSTER = "DefaultCluster"


@pytest.fixture(scope="module", params=["regulus", "java-5.3.3"])
def server(request, new_run: NewRun) -> Iterator[Server]:
    started = make_server(request.param, new_run(f"pop-{request.param}"))
    try:
        started.start()
        yield started
    finally:
        started.kill()


@pytest.fixture(scope="module")
def mqadmin(server: Server, new_run: NewRun) -> Iterator[AdminTool]:
    with AdminTool("5.3.3", new_run("pop-mqadmin"), server.name_server_address) as tool:
        yield tool


@pytest.fixture
def home(new_run: NewRun) -> Path:
    return new_run("pop-client")


def make_popped(mqadmin: AdminTool, server: Server, topic: str, group: str, retries: int = 16) -> None:
    """A topic that the group pops."""
    mqadmin.run("updateTopic", "-b", server.broker_address, "-t", topic, "-r", "4", "-w", "4")
    mqadmin.run("updateSubGroup", "-b", server.broker_address, "-g", group, "-r", str(retries))
    said = mqadmin.run("setConsumeMode", "-b", server.broker_address, "-t", topic, "-g", group, "-m", "POP", "-q", "8")
    assert "success" in said.lower(), said


def test_what_is_sent_is_popped_once(server: Server, mqadmin: AdminTool, home: Path) -> None:
    make_popped(mqadmin, server, "popped", "G-popped")
    where = {"namesrv": server.name_server_address, "topic": "popped"}
    CLIENT.produce(home, **where, group="P", prefix="before", count=COUNT)
    options = {**where, "group": "G-popped", "server_balance": "true"}
    with RunningClient(CLIENT, home, "consume", options) as one, RunningClient(CLIENT, home, "consume", options) as two:
        one.wait_for_start()
        two.wait_for_start()
        CLIENT.produce(home, **where, group="P", prefix="later", count=COUNT)
        wanted = sorted(f"{prefix}-{index}" for prefix in ("before", "later") for index in range(COUNT))
        one.wait_until(lambda: two.take_available() or len(one.bodies() + two.bodies()) >= len(wanted), "all messages")
        one.finish()
        two.finish()
        assert sorted(one.bodies() + two.bodies()) == wanted
        assert all("POP_CK" in message["properties"] for message in one.messages() + two.messages())


def test_what_was_in_the_hands_of_a_killed_consumer_comes_to_another(server: Server, mqadmin: AdminTool,
                                                                     home: Path) -> None:
    """Its invisible time is over before a message of ten seconds that nobody acknowledged is seen again."""
    make_popped(mqadmin, server, "dropped", "G-dropped")
    where = {"namesrv": server.name_server_address, "topic": "dropped"}
    options = {**where, "group": "G-dropped", "server_balance": "true", "invisible": "5000"}
    with RunningClient(CLIENT, home, "consume", {**options, "fail_prefix": "m"}) as first:
        first.wait_for_start()
        CLIENT.produce(home, **where, group="P", prefix="m", count=4)
        first.wait_for_bodies([f"m-{index}" for index in range(4)])
        first.kill()
    with RunningClient(CLIENT, home, "consume", options) as second:
        second.wait_for_bodies([f"m-{index}" for index in range(4)])
        second.finish()
        assert {message["reconsumeTimes"] for message in second.messages()} == {"1"}


def test_a_message_that_always_fails_is_a_dead_letter_here_and_lost_there(server: Server, mqadmin: AdminTool,
                                                                           home: Path) -> None:
    """RocketMQ's client acknowledges it when it came more often than the consumer allows."""
    if server.name != "regulus":
        pytest.skip("RocketMQ's broker leaves dead letters to its proxy, and its client drops the message")
    make_popped(mqadmin, server, "failing", "G-failing", retries=1)
    where = {"namesrv": server.name_server_address, "topic": "failing"}
    options = {**where, "group": "G-failing", "server_balance": "true", "invisible": "5000", "fail_prefix": "m"}
    CLIENT.produce(home, **where, group="P", prefix="m", count=1)
    with RunningClient(CLIENT, home, "consume", options) as failing:
        failing.wait_until(lambda: len(failing.bodies()) == 2, "the message twice")
        failing.wait_until(lambda: "%DLQ%G-failing" in mqadmin.run("topicList"), "a dead letter")
        failing.finish()


async def test_our_consumer_that_pops_starts_at_once_and_without_a_warning(
        server: Server, mqadmin: AdminTool, caplog: pytest.LogCaptureFixture) -> None:
    """It asks each broker to let its group begin; RocketMQ's answer, and do nothing of the kind."""
    mqadmin.run("updateTopic", "-b", server.broker_address, "-t", "begun", "-r", "4", "-w", "4")
    consumer = SimpleConsumer(server.name_server_address, "G-begun")
    consumer.subscribe("begun")
    begun = time.monotonic()
    async with consumer:
        assert (time.monotonic() - begun) * 1000 < ENDS_WAIT_MS
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
