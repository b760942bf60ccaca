"""`regulus nameserver` and `regulus broker` as two processes that find each other."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regulus.transport.connector import connect
from regulus.wire.bodies import TopicRouteData
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.store.rocksdb_store import STORE

HOST = "127.0.0.1"


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[int]:
    """The port that the ready line names; the process is stopped at the end and must end well."""
    command = [sys.executable, "-m", "regulus", *arguments, "--listen", HOST, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    assert process.stdout is not None
    match = re.search(r"is ready: [^,]*?:(\d+)", process.stdout.readline())
    try:
        assert match is not None
        yield int(match[1])
    finally:
        process.terminate()
        status = process.wait(60)
        process.stdout.close()
    assert status == 0


async def route_addresses(name_server_port: int, topic: str) -> dict[int, str]:
    """Broker addresses of the topic, once its broker has registered."""
    connection = await connect(HOST, name_server_port)
    async with asyncio.timeout(60):
        while True:
            request = RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            answer = await connection.request(request, 60_000)
            if answer.code == 0:
                connection.close()
                return TopicRouteData.decode(answer.body).broker_datas[0].broker_addrs


async def test_a_broker_of_a_conf_file_registers(tmp_path: Path) -> None:
    with running("nameserver", "--kv-config", str(tmp_path / "kvConfig.json")) as name_server_port:
        conf = tmp_path / "broker.conf"
        conf.write_text(f"brokerName=broker-x\nnamesrvAddr={HOST}:{name_server_port}\nbrokerIP1={HOST}\n"
                        f"storePathRootDir={tmp_path / 'store'}\nflushDiskType=SYNC_FLUSH\n", encoding="utf-8")
        with running("broker", "-c", str(conf)) as port:
            assert await route_addresses(name_server_port, "TBW102") == {0: f"{HOST}:{port}"}


async def test_the_environment_names_the_name_server(tmp_path: Path) -> None:
    with running("nameserver", "--kv-config", str(tmp_path / "kvConfig.json")) as name_server_port, \
            running("broker", "--store", str(tmp_path / "store"), NAMESRV_ADDR=f"{HOST}:{name_server_port}") as port:
        assert await route_addresses(name_server_port, "TBW102") == {0: f"{HOST}:{port}"}


async def test_the_key_value_configuration_outlives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "kvConfig.json")
    fields = {"namespace": "N", "key": "k"}
    with running("nameserver", "--kv-config", path) as port:
        connection = await connect(HOST, port)
        await connection.request(RemotingCommand.request(RequestCode.PUT_KV_CONFIG, {**fields, "value": "v"}), 60_000)
        connection.close()
    with running("nameserver", "--kv-config", path) as port:
        connection = await connect(HOST, port)
        answer = await connection.request(RemotingCommand.request(RequestCode.GET_KV_CONFIG, fields), 60_000)
        assert answer.ext["value"] == "v"
        connection.close()


@pytest.mark.parametrize("command", [("broker",), ("up", "--namesrv-port", "0", "--grpc-port", "-1")],
                         ids=["broker", "up"])
def test_a_store_that_is_partly_in_rocksdb_opens_by_the_switch_alone(tmp_path: Path, command: tuple[str, ...]) -> None:
    shutil.copytree(STORE, tmp_path / "store")
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=8192\nmappedFileSizeConsumeQueue=400\nhaListenPort=0\n", encoding="utf-8")
    arguments = [*command, "-c", str(conf), "--store", str(tmp_path / "store")]
    refused = subprocess.run([sys.executable, "-m", "regulus", *arguments, "--listen", HOST, "--port", "0"],
                             capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode != 0
    assert "--take-what-is-readable" in refused.stderr
    with running(*arguments, "--take-what-is-readable"):
        pass
