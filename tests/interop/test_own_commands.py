"""Our own commands, and through them our admin client, do the same on real brokers as on ours."""

import json
import re
import time
from collections.abc import Callable

from click.testing import CliRunner
from conftest import Server

from regulus.cli.bench import bench
from regulus.cli.cluster import cluster
from regulus.cli.group import group
from regulus.cli.message import message
from regulus.cli.topic import topic

KNOWN_WITHIN_S = 60.0
"""Brokers dispatch and index a message, and note the offsets that a leaving consumer told one-way, some time after."""


def run(server: Server, command: object, *arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, env={"NAMESRV_ADDR": server.name_server_address})
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.output


def comes_true(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + KNOWN_WITHIN_S
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.1)
    return False


def comes_to_lag(server: Server, name: str, wanted: int) -> bool:
    return comes_true(lambda: int(json.loads(run(server, group, "progress", name, "--output", "json"))["lag"])
                      == wanted)


def comes_to_count(server: Server, wanted: int) -> bool:
    return comes_true(lambda: run(server, topic, "status", "Commands").endswith(f"\n{wanted} messages\n"))


def found_by_key(server: Server, key: str, unique_key: str) -> bool:
    def found() -> bool:
        result = CliRunner().invoke(message, ("query", "Commands", "--key", key),
                                    env={"NAMESRV_ADDR": server.name_server_address})
        return result.exit_code == 0 and unique_key in result.output

    return comes_true(found)


def test_commands(server: Server) -> None:
    assert server.broker_address in run(server, cluster, "list")
    assert "brokerVersionDesc" in run(server, cluster, "status", server.broker_address)
    run(server, topic, "create", "Commands", "-q", "2")
    assert re.search(r"broker-a +DefaultCluster +2 +2 +6 ", run(server, topic, "route", "Commands"))

    status, unique_key, queue, *_, offset = run(server, message, "send", "Commands", "hello", "-k", "k1 k2").split()
    assert (status, offset) == ("SEND_OK", "0")
    assert found_by_key(server, "k2", unique_key)
    assert unique_key in run(server, message, "query", "Commands", "--unique-key", unique_key)
    assert unique_key in run(server, message, "query", "Commands", "--offset", "0", "--queue", queue)
    assert run(server, message, "view", unique_key, "--topic", "Commands", "--body-only") == "hello"
    assert "hello" in run(server, topic, "tail", "Commands", "--from-beginning", "--no-wait")

    run(server, bench, "producer", "--topic", "Commands", "-c", "98", "-f", "8")
    assert comes_to_count(server, 100)
    assert "100 messages" in run(server, bench, "consumer", "--topic", "Commands", "--group", "counting", "-c", "100")
    assert comes_to_lag(server, "counting", 0)
    run(server, group, "reset", "counting", "Commands", "--to", "earliest")
    assert comes_to_lag(server, "counting", 100)
    run(server, group, "reset", "counting", "Commands", "--offset", "1", "--queue", queue)
    assert comes_to_lag(server, "counting", 99)
    run(server, group, "reset", "counting", "Commands", "--to", "latest")
    assert re.search(r"counting +0 +2 +0 ", run(server, group, "list"))

    run(server, group, "delete", "counting", "--yes")
    run(server, topic, "delete", "Commands", "--yes")
    assert "Commands" not in run(server, topic, "list")
