"""Lite topics, which RocketMQ 5.5 has and we do not: its client for Java is told so, and mqadmin."""

import subprocess
from collections.abc import Iterator

import pytest
from admin import AdminTool
from conftest import NewRun
from ports import free_ports
from regulus_server import RegulusServer
from toolchain import CLIENTS5, NEWEST_JAVA, clients5_java, tool


@pytest.fixture(scope="module")
def server(new_run: NewRun) -> Iterator[RegulusServer]:
    (port,) = free_ports(1)
    started = RegulusServer(new_run("lite-regulus"), grpc_port=port)
    try:
        started.start()
        yield started
    finally:
        started.kill()


@pytest.fixture(scope="module")
def mqadmin(server: RegulusServer, new_run: NewRun) -> Iterator[AdminTool]:
    with AdminTool(NEWEST_JAVA, new_run("lite-mqadmin"), server.name_server_address) as tool_of_5_5:
        yield tool_of_5_5


def test_a_consumer_of_lite_topics_fails_when_it_is_built_and_says_why(
        server: RegulusServer, mqadmin: AdminTool, new_run: NewRun) -> None:
    assert "success" in mqadmin.run("updateTopic", "-b", server.broker_address, "-t", "Parent")
    source = CLIENTS5 / "java" / "LiteConsumer.java"
    said = subprocess.run([tool("java"), f"-Duser.home={new_run('lite-client')}", "-cp", clients5_java(), str(source),
                           f"127.0.0.1:{server.grpc_port}", "Parent"],
                          capture_output=True, text=True, timeout=120, check=True).stdout
    assert "lite topics are not served here, so that a consumer of them would get nothing" in said.splitlines()[-1]
    assert "UnsupportedException" in said.splitlines()[-1]


def test_mqadmin_is_told_so_too(server: RegulusServer, mqadmin: AdminTool) -> None:
    said = mqadmin.run("updateTopic", "-b", server.broker_address, "-t", "Lite", "-a", "+message.type=LITE")
    assert "message.type=LITE is not served by this broker" in said
    said = mqadmin.run("getBrokerLiteInfo", "-b", server.broker_address)
    assert "request type 200074 not supported: lite topics are not served" in said
