"""Processes that are started, killed and stopped, and say so when they end by themselves."""

import os
import sys

import pytest

from regulus.cli.demo import processes
from regulus.cli.demo.processes import DemoProcess
from regulus.errors import RegulusError

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
    words = rf"^the player ended with status 3; its words are in {tmp_path}/player\.log$"
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
