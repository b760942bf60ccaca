"""`regulus up` as a process: ready line, clean stop, death and recovery, refusals."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from regulus.errors import ConnectionLost
from regulus.record import message_record
from regulus.testing.running_server import HOST, ServerProcess
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

MakeProcess = Callable[..., ServerProcess]
SEND = {"a": "producers", "b": "Orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
        "i": "", "j": "0", "k": "false", "m": "false"}


async def send_until_lost(connection: Connection, acknowledged: list[bytes]) -> None:
    """Send numbered messages, some at a time, until the connection ends."""

    async def one(number: int) -> None:
        body = b"%06d" % number
        request = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, dict(SEND), body)
        answer = await connection.request(request, 60_000)
        assert answer.code == 0, answer
        acknowledged.append(body)

    for number in count(step=16):
        try:
            await asyncio.gather(*[one(number + n) for n in range(16)])
        except ConnectionLost:
            return


async def stored(connection: Connection) -> list[bytes]:
    """Bodies of all messages of the queue."""
    found: list[bytes] = []
    offset = 0
    while True:
        answer = await connection.request(RemotingCommand.request(RequestCode.PULL_MESSAGE, {
            "consumerGroup": "readers", "topic": "Orders", "queueId": "0", "queueOffset": str(offset),
            "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
            "subscription": "*", "subVersion": "0", "expressionType": "TAG"}), 60_000)
        if answer.code != 0:
            return found
        found += [message.body for message in message_record.decode_all(answer.body)]
        offset = int(answer.ext["nextBeginOffset"])


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_acknowledged_messages_survive_the_death_of_the_process(
        make_broker_process: MakeProcess, flush: str) -> None:
    server = make_broker_process("--flush", flush)
    for _ in range(2):
        before = len(await stored(await connect(HOST, server.port)))
        acknowledged: list[bytes] = []
        connection = await connect(HOST, server.port)
        sending = asyncio.create_task(send_until_lost(connection, acknowledged))
        while len(acknowledged) < 200 and not sending.done():
            await asyncio.sleep(0)
        server.kill()
        await sending
        assert (server.store_path / "abort").exists()
        server.start()
        found = (await stored(await connect(HOST, server.port)))[before:]
        assert found[:len(acknowledged)] == acknowledged
    assert "crash" in server.log_path.read_text()


async def test_a_clean_stop_leaves_no_abort_file_and_status_0(broker_process: ServerProcess) -> None:
    assert (broker_process.store_path / "abort").exists()
    assert broker_process.stop() == 0
    assert not (broker_process.store_path / "abort").exists()


async def test_a_new_message_of_a_dead_broker_keeps_its_queue_offset(broker_process: ServerProcess) -> None:
    connection = await connect(HOST, broker_process.port)
    request = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, dict(SEND), b"one")
    assert (await connection.request(request, 60_000)).ext["queueOffset"] == "0"
    broker_process.kill()
    broker_process.start()
    connection = await connect(HOST, broker_process.port)
    request = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, dict(SEND), b"two")
    assert (await connection.request(request, 60_000)).ext["queueOffset"] == "1"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "regulus", *arguments], capture_output=True, text=True, timeout=60,
                          env=os.environ, check=False)


def test_a_refused_configuration_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("listenprot=1\n")
    result = run("up", "-c", str(path))
    assert result.returncode == 2
    assert result.stderr.splitlines() == [f"regulus: {path}: unknown key listenprot: did you mean listenPort?"]


def test_a_store_in_use_is_one_line(broker_process: ServerProcess) -> None:
    result = run("up", "--port", "0", "--namesrv-port", "0", "--store", str(broker_process.store_path))
    assert result.returncode == 1
    assert f"in use by process {broker_process.pid}" in result.stderr.splitlines()[-1]


def test_a_taken_port_is_one_line(broker_process: ServerProcess, tmp_path: Path) -> None:
    result = run("up", "--port", str(broker_process.port), "--namesrv-port", "0", "--listen", HOST, "--store",
                 str(tmp_path / "other"))
    assert result.returncode == 1
    assert str(broker_process.port) in result.stderr.splitlines()[-1]


def test_nothing_heavy_is_imported_on_the_way_up() -> None:
    script = "import sys, json, regulus.cli.up; print(json.dumps(sorted(sys.modules)))"
    modules = set(json.loads(run_python(script)))
    assert not modules & {"numpy", "pandas", "pyarrow", "pyspark", "grpc", "zstandard", "starlette", "uvicorn"}


def run_python(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_its_log_has_the_form_that_was_asked_for(make_broker_process: MakeProcess, log_format: str) -> None:
    process = make_broker_process("--log-format", log_format)
    assert process.stop() == 0
    lines = process.log_path.read_text().splitlines()
    assert any("broker stopped" in line for line in lines)
    assert [line.startswith("{") for line in lines] == [log_format == "json"] * len(lines)
    if log_format == "json":
        assert {key for line in lines for key in json.loads(line)} == {"time", "level", "logger", "message"}
