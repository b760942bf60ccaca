"""Processes that are started, killed and stopped, and say so when they end by themselves."""

import asyncio
import os
import socket
import sys

import pytest

from regulus.cli.demo import processes
from regulus.cli.demo.airports import TOPIC
from regulus.cli.demo.board_process import CONSUMER_GROUP
from regulus.cli.demo.processes import DemoProcess
from regulus.client.sync import Admin
from regulus.errors import RegulusError
from regulus.model.topics import TopicConfig, dlq_topic
from regulus.testing.attack.field import Talk
from regulus.testing.running_server import ServerProcess
from regulus.wire.codes import RequestCode

WAITS = """
import asyncio, socket, sys
from regulus.cli.demo.processes import told_to_stop

async def main():
    told = asyncio.create_task(told_to_stop())
    await asyncio.sleep(0)      # it listens to signals before anybody is let in who could send one
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", int(sys.argv[1])):
        await told
    print("stopped as told")

asyncio.run(main())
"""

DEAF = """
import signal, socket, sys, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    time.sleep(60)
"""


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A process that is this program."""
    made = []

    def process(program, *arguments):
        (tmp_path / "played.py").write_text(program)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
        made.append(DemoProcess("player", tmp_path, "played", [str(argument) for argument in arguments]))
        made[-1].start()
        return made[-1]

    yield process
    for each in made:
        each.stop()


def words(tmp_path):
    return (tmp_path / "player.log").read_text()


def test_a_process_stops_when_it_is_told_to(make, tmp_path, unused_tcp_port):
    process = make(WAITS, unused_tcp_port)
    process.await_port(unused_tcp_port)
    process.check()
    process.stop()
    assert words(tmp_path) == "stopped as told\n"
    process.check()


def test_a_killed_process_says_nothing_and_is_started_again(make, tmp_path, unused_tcp_port):
    process = make(WAITS, unused_tcp_port)
    process.await_port(unused_tcp_port)
    process.kill()
    process.check()
    assert words(tmp_path) == ""
    process.start()
    process.await_port(unused_tcp_port)


def test_a_process_ends_when_the_demo_is_gone(make, tmp_path, unused_tcp_port):
    process = make(WAITS, unused_tcp_port)
    process.await_port(unused_tcp_port)
    process._process.stdin.close()      # as the end of whoever holds it
    assert process._process.wait(60) == 0
    assert words(tmp_path) == "stopped as told\n"
    process._process = None


def test_a_process_that_ends_by_itself_is_told(make, tmp_path, unused_tcp_port):
    process = make("import sys; sys.exit(3)")
    words = rf"^the player ended with status 3; its output is in {tmp_path}/player\.log$"
    with pytest.raises(RegulusError, match=words):
        process.await_port(unused_tcp_port)


def test_a_process_that_never_listens_is_told(make, monkeypatch, unused_tcp_port):
    monkeypatch.setattr(processes, "READY_TIMEOUT_S", 0.1)
    process = make("import sys; sys.stdin.read()")
    with pytest.raises(RegulusError, match="did not accept a connection within"):
        process.await_port(unused_tcp_port)


def test_a_process_that_does_not_stop_is_killed_and_told(make, monkeypatch, unused_tcp_port):
    monkeypatch.setattr(processes, "STOP_TIMEOUT_S", 0.1)
    process = make(DEAF, unused_tcp_port)
    process.await_port(unused_tcp_port)
    with pytest.raises(RegulusError, match=r"did not stop within 0\.1 s and was killed"):
        process.stop()


@pytest.mark.parametrize(("module", "group"), [("relay_process", "cancelled_flights"),
                                               ("board_process", CONSUMER_GROUP)])
def test_who_starts_while_the_broker_is_away_starts_with_it(tmp_path, monkeypatch, module, group):
    """The demo may kill the broker in the moment in which another process begins."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    server = ServerProcess(tmp_path / "store")
    server.start()
    with Admin(server.name_server_address) as admin:
        for topic in (TOPIC, dlq_topic(CONSUMER_GROUP)):
            admin.create_topic(TopicConfig(topic_name=topic))
    server.kill()
    process = DemoProcess("waiting", tmp_path, f"regulus.cli.demo.{module}",
                          (str(tmp_path), server.name_server_address))
    process.start()
    try:
        with socket.create_server(("127.0.0.1", server.name_server_port)) as silent:
            silent.settimeout(60)
            silent.accept()[0].close()      # it has asked in vain
        server.start()
        asyncio.run(asyncio.wait_for(_joined(server.port, group, process), 60))
    finally:
        process.stop()
        server.kill()


async def _joined(port, group, process):
    async with Talk(port) as talk:
        while (await talk.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})).code:
            process.check()
            await asyncio.sleep(0.1)
