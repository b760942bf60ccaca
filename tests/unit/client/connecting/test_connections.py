import asyncio
from unittest import mock

import pytest

from regulus.client.config import ClientConfig
from regulus.client.connecting.connections import Connections
from regulus.errors import ClientClosed, ConnectFailed, ConnectionLost, RequestTimeout
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import ScriptedServer, closed_address
from tests.virtual_time import in_virtual_time, now_ms, pass_time

DEADLINE_STEP_MS = 20
"""Requests whose time is up within 10 ms share a timer; so much later than asked for, at most."""


def answer(command):
    return command.response(ResponseCode.SUCCESS)


def request():
    return RemotingCommand.request(RequestCode.GET_BROKER_CONFIG)


@pytest.fixture
async def server():
    made = ScriptedServer(answer)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def connections():
    made = Connections(ClientConfig(), lambda connection, commands: None, None)
    yield made
    await made.close()


async def test_all_requests_to_an_address_share_a_connection_also_those_that_wait_for_it(server, connections):
    answers = await asyncio.gather(*(connections.request(server.address, request(), 5000) for _ in range(20)))
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
    assert len(server.connections) == 1
    assert connections.open_addresses() == [server.address]


async def test_a_lost_connection_fails_its_requests_and_is_opened_anew(server, connections):
    server.script = lambda command: None
    waiting = asyncio.ensure_future(connections.request(server.address, request(), 5000))
    async with asyncio.timeout(10):
        while not server.requests:
            await asyncio.sleep(0)
    server.connections[0].abort()
    with pytest.raises(ConnectionLost):
        await waiting
    server.script = answer
    assert (await connections.request(server.address, request(), 5000)).code == ResponseCode.SUCCESS
    assert len(server.connections) == 2


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:0", "a" * 70 + ".example:1", "a\0b:1"])
async def test_what_is_no_address_cannot_be_connected_to(connections, address):
    with pytest.raises(ConnectFailed, match="is no address"):
        await connections.request(address, request(), 5000)


async def test_where_nobody_listens_no_connection_is_made(connections):
    with pytest.raises(ConnectFailed) as caught:
        await connections.request(closed_address(), request(), 5000)
    assert caught.value.code == 10001


async def test_an_answer_that_does_not_come_is_given_up(server, connections):
    server.script = lambda command: None
    await connections.get(server.address)       # or its time would be up before there is a connection
    with pytest.raises(RequestTimeout) as caught:
        await connections.request(server.address, request(), 10)
    assert caught.value.code == 10002


@in_virtual_time
async def test_the_time_for_connecting_begins_when_all_that_begin_in_this_moment_have_begun():
    server, connections = ScriptedServer(answer), Connections(ClientConfig(), lambda connection, commands: None, None)
    await server.start()
    asked = [asyncio.ensure_future(connections.request(server.address, request(), 500)) for _ in range(3)]
    asyncio.get_running_loop().call_soon(pass_time, 2_000)
    assert {(await each).code for each in asked} == {ResponseCode.SUCCESS}
    await connections.close()
    await server.stop()


async def test_closed_connections_take_no_requests(server, connections):
    await connections.request(server.address, request(), 5000)
    await connections.close()
    with pytest.raises(ClientClosed):
        await connections.request(server.address, request(), 5000)


async def test_what_was_written_before_closing_arrives(server, connections):
    for _ in range(100):
        await connections.send_oneway(server.address, RemotingCommand.request(
            RequestCode.GET_BROKER_CONFIG, oneway=True), 5000)
    await connections.close()
    async with asyncio.timeout(10):
        while len(server.requests) < 100:
            await asyncio.sleep(0)


async def test_addresses_at_which_nothing_is_are_forgotten_beyond_a_limit(server, connections, monkeypatch):
    monkeypatch.setattr("regulus.client.connecting.connections.ADDRESSES_MAX", 4)
    await connections.request(server.address, request(), 5000)
    at_server, busy = connections.places(server.address), connections.places("busy:1")
    assert busy.take(1)
    for number in range(50):
        connections.places(f"gone:{number}")
        assert len(connections._places) <= 4
    assert connections.places(server.address) is at_server
    assert connections.places("busy:1") is busy
    assert connections.open_addresses() == [server.address]


async def test_where_no_connection_comes_in_time_nobody_answers(server, connections):
    """As at a machine that is gone: its consumers go to the slave, too."""
    with pytest.raises(ConnectFailed, match="within 0 ms"):
        await connections.request(server.address, request(), 0)
    assert connections.is_silent(server.address)
    await connections.request(server.address, request(), 5000)
    assert not connections.is_silent(server.address)


async def test_addresses_that_do_not_answer_are_forgotten_beyond_a_limit(server, connections, monkeypatch):
    monkeypatch.setattr("regulus.client.connecting.connections.ADDRESSES_MAX", 4)
    port = server.address.rpartition(":")[2]
    for number in range(2, 12):
        with pytest.raises(ConnectFailed):
            await connections.request(f"127.0.0.{number}:{port}", request(), 0)
        assert connections.is_silent(f"127.0.0.{number}:{port}")
        assert len(connections._silent) <= 4


@in_virtual_time
async def test_a_request_that_is_asked_again_has_what_is_left_of_its_time():
    async def go_away(command):
        await asyncio.sleep(0.9)
        return command.response(ResponseCode.GO_AWAY, "bye") if len(server.requests) == 1 else None

    server, connections = ScriptedServer(go_away), Connections(ClientConfig(), lambda connection, commands: None, None)
    await server.start()
    begun = now_ms()
    with pytest.raises(RequestTimeout):
        await connections.request(server.address, request(), 1000)
    assert len(server.requests) == 2
    assert now_ms() - begun <= 1000 + 2 * DEADLINE_STEP_MS
    await connections.close()
    await server.stop()


@in_virtual_time
async def test_a_request_that_waited_for_its_connection_has_what_is_left_of_its_time():
    asked = []

    class Slow:
        is_open = True

        async def request(self, command, timeout_ms):
            asked.append(timeout_ms)
            return command.response(ResponseCode.SUCCESS)

    async def connect_slowly(address):
        await asyncio.sleep(0.7)
        return Slow()

    connections = Connections(ClientConfig(), lambda connection, commands: None, None)
    with mock.patch.object(connections, "_connect", connect_slowly):
        await connections.request("a:1", request(), 1000)
    assert asked == [pytest.approx(300, abs=1)]
