"""The fixtures that ship with the package do what their names say."""

from collections.abc import Callable

from regulus.testing.running_server import HOST, ServerProcess, ServerThread
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand


async def code_of(port: int, code: int, ext: dict[str, str]) -> int:
    connection = await connect(HOST, port)
    answer = await connection.request(RemotingCommand.request(code, ext), 5000)
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
