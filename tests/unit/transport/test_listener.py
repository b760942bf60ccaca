"""Limits on connections and idleness, closing, and the taken address."""

import asyncio
import errno
import logging
import socket

import pytest

from regulus.errors import ConnectFailed
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.transport.listener import Listener, bind, listen, reachable
from regulus.transport.unfinished_frames import UnfinishedFrames
from regulus.wire.remoting_command import RemotingCommand

HOST = "127.0.0.1"


class Doors:
    """Who came and who went."""

    def __init__(self) -> None:
        self.opened: list[Connection] = []
        self.closed: list[Connection] = []

    def on_requests(self, connection: Connection, requests: list[RemotingCommand]) -> None:
        for request in requests:
            connection.send(request.response(0))

    async def listen(self, **limits: int) -> Listener:
        return await listen(HOST, 0, self.on_requests, self.opened.append, self.closed.append,
                            TransportConfig(**limits))


async def ask(connection: Connection) -> int:
    return (await connection.request(RemotingCommand.request(1), 60_000)).code


async def test_connections_over_the_limit_are_closed_at_once_and_told_of_once(
        caplog: pytest.LogCaptureFixture) -> None:
    doors = Doors()
    listener = await doors.listen(connections_max=1)
    first = await connect(HOST, listener.port)
    assert await ask(first) == 0
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            refused = await connect(HOST, listener.port)
            await refused.wait_closed()
    assert len(caplog.records) == 1
    assert await ask(first) == 0
    assert len(doors.opened) == 1
    assert doors.closed == []
    await listener.close()


async def test_ports_of_one_listener_share_their_limits(caplog: pytest.LogCaptureFixture) -> None:
    doors, config = Doors(), TransportConfig(connections_max=1)
    bound = [bind(HOST, 0), bind(HOST, 0)]
    ports = [each.getsockname()[1] for each in bound]
    listener = Listener(bound, doors.on_requests, doors.opened.append, doors.closed.append, config,
                        asyncio.get_running_loop())
    await listener.accept()
    assert listener.port == ports[0]
    first = await connect(HOST, ports[1])
    assert await ask(first) == 0
    refused = await connect(HOST, ports[0])
    await refused.wait_closed()
    await listener.close()
    await first.wait_closed()
    for port in ports:
        with pytest.raises(ConnectFailed):
            await connect(HOST, port)


async def test_a_place_that_became_free_is_given_again() -> None:
    doors = Doors()
    listener = await doors.listen(connections_max=1)
    first = await connect(HOST, listener.port)
    assert await ask(first) == 0
    doors.opened[0].close()
    await first.wait_closed()
    second = await connect(HOST, listener.port)
    assert await ask(second) == 0
    assert doors.closed == doors.opened[:1]
    await listener.close()


async def test_an_idle_connection_is_closed() -> None:
    doors = Doors()
    listener = await doors.listen(idle_time_max_ms=20)
    connection = await connect(HOST, listener.port)
    await asyncio.wait_for(connection.wait_closed(), 60)
    await listener.close()


async def test_a_connection_that_waits_for_room_is_not_idle() -> None:
    """We do not read it: what it sent lies in its socket."""
    doors, config = Doors(), TransportConfig()
    unfinished = UnfinishedFrames(config)
    unfinished.keep(config.large_frames_size_max)
    listener = Listener([bind(HOST, 0)], doors.on_requests, doors.opened.append, doors.closed.append, config,
                        asyncio.get_running_loop(), unfinished)
    await listener.accept()
    connection = await connect(HOST, listener.port)
    asked = asyncio.create_task(connection.request(RemotingCommand.request(1, None, b"x" * (1 << 20)), 30_000))
    async with asyncio.timeout(60):
        while not doors.opened or doors.opened[0].is_idle_since(float("inf")):
            await asyncio.sleep(0)
    doors.opened[0].active_time = float("-inf")
    listener._check_idle()
    assert doors.opened[0].is_open
    unfinished.keep(0)
    assert doors.opened[0].is_idle_since(float("inf"))
    assert not doors.opened[0].is_idle_since(0.0)
    assert (await asked).code == 0
    await listener.close()


async def test_closing_lets_written_answers_leave() -> None:
    doors = Doors()
    listener = await doors.listen()
    connection = await connect(HOST, listener.port)
    waiting = asyncio.create_task(ask(connection))
    while not doors.opened:
        await asyncio.sleep(0)
    answered = await waiting
    await listener.close()
    await connection.wait_closed()
    assert answered == 0
    assert not listener.connections


async def test_a_closed_listener_accepts_no_more() -> None:
    doors = Doors()
    listener = await doors.listen()
    listener.stop_accepting()
    with pytest.raises(ConnectFailed):
        await connect(HOST, listener.port)
    await listener.close()


def test_a_taken_address_is_named() -> None:
    with bind(HOST, 0) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        with pytest.raises(OSError, match=f"{HOST}:{port}") as caught:
            bind(HOST, port)
        assert caught.value.errno == errno.EADDRINUSE


def test_answers_leave_at_once_also_where_the_last_one_is_not_acknowledged_yet() -> None:
    async def accepted() -> int:
        doors = Doors()
        listener = await doors.listen()
        connection = await connect(HOST, listener.port)
        await ask(connection)
        taken = doors.opened[0]._transport.get_extra_info("socket")
        no_delay: int = taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.close()
        await listener.close()
        return no_delay

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        assert runner.run(accepted())


async def test_ipv6_is_spoken() -> None:
    doors = Doors()
    listener = await listen("::1", 0, doors.on_requests, doors.opened.append, doors.closed.append, TransportConfig())
    connection = await connect("::1", listener.port)
    assert await ask(connection) == 0
    assert doors.opened[0].peer.remote_text.startswith("[::1]:")
    assert len(doors.opened[0].peer.remote) == 20
    await listener.close()


async def test_a_peer_that_reads_nothing_does_not_keep_its_place() -> None:
    doors = Doors()
    listener = await doors.listen(idle_time_max_ms=40)
    with socket.create_connection((HOST, listener.port)):
        while not doors.opened:
            await asyncio.sleep(0.001)
        doors.opened[0].write(bytes(16 << 20))
        async with asyncio.timeout(60):
            while listener.connections:
                await asyncio.sleep(0.01)
    assert doors.closed == doors.opened
    await listener.close()


@pytest.mark.parametrize(("bound", "reached"), [
    ("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "::1"),
    ("10.0.0.7", "10.0.0.7")])
def test_a_server_is_reached_where_it_is_bound_or_at_the_loopback(bound, reached):
    assert reachable(bound) == reached
