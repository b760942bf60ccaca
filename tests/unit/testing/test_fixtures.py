"""The fixtures that ship with the package do what their names say."""

from collections.abc import Callable

import pytest

from regulus.testing.running_server import HOST, ServerProcess, ServerThread, free_ports, kept_ports
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand


async def code_of(port: int, code: int, ext: dict[str, str]) -> int:
    connection = await connect(HOST, port)
    answer = await connection.request(RemotingCommand.request(code, ext), 60_000)
    connection.close()
    return answer.code


async def test_a_server_in_this_process(regulus_server: ServerThread) -> None:
    cluster = RequestCode.GET_BROKER_CLUSTER_INFO
    assert await code_of(regulus_server.name_server_port, cluster, {}) == 0
    offset = {"topic": "None", "queueId": "0"}
    assert await code_of(regulus_server.port, RequestCode.GET_MIN_OFFSET, offset) in (0, ResponseCode.TOPIC_NOT_EXIST)
    assert regulus_server.address == f"{HOST}:{regulus_server.port}"


async def test_a_server_process(broker_process: ServerProcess) -> None:
    assert broker_process.is_running
    assert await code_of(broker_process.name_server_port, RequestCode.GET_BROKER_CLUSTER_INFO, {}) == 0


async def test_a_killed_server_process_comes_back_at_its_ports(
        make_broker_process: Callable[..., ServerProcess]) -> None:
    server = make_broker_process("--flush", "sync")
    ports, pid = (server.port, server.name_server_port), server.pid
    server.kill()
    assert not server.is_running
    server.start()
    assert (server.port, server.name_server_port) == ports
    assert server.pid != pid


def test_no_port_is_given_twice_nor_to_two_workers_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who draws a port takes it some time later, and gives it up while it is down."""
    ports = []
    for number in range(3):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{number}")
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
        assert set(free_ports(2)) <= set(kept_ports())
        ports.append(set(kept_ports()))
    assert not ports[0] & ports[1] | ports[0] & ports[2] | ports[1] & ports[2]
    assert {len(each) for each in ports} == {6_666}
    monkeypatch.setattr("regulus.testing.running_server.KEPT_PORTS", range(10_000, 10_600))
    monkeypatch.setattr("regulus.testing.running_server._given", set())
    given = [port for _ in range(20) for port in free_ports(2)]
    assert len(set(given)) == 40
    # A run of very many servers draws those of the first ones again.
    assert all(free_ports(1) for _ in range(400))
