"""Connections in memory: order, pieces, cuts, parted hosts, and nodes that die."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from regulus.testing.simulation.loop import Node, SimulatedLoop
from regulus.testing.simulation.network import SimulatedNetwork


class Listening(asyncio.BufferedProtocol):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.buffer = bytearray(8)
        self.data = b""
        self.lost: list[Exception | None] = []
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Pair:
    """A server and a client that is connected to it."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = SimulatedLoop(Random(seed))
        self.network = SimulatedNetwork(self.loop, Random(seed), lambda one, other, data: None)
        self.server, self.client = Node("server", "10.0.0.1"), Node("client", "10.0.0.2")
        self.accepted: list[Listening] = []
        self.network.bind(self.server, 80).serve(self.accept)

    def accept(self) -> Listening:
        self.accepted.append(Listening())
        return self.accepted[-1]

    async def connect(self) -> Listening:
        connecting = self.loop.create_connection(Listening, "10.0.0.1", 80)
        _, protocol = await self.loop.create_task(connecting, context=self.client.context)
        assert isinstance(protocol, Listening)
        return protocol

    def run(self, story: Callable[[], Awaitable[None]]) -> None:
        async def play() -> None:
            await story()

        self.loop.run_until_complete(play())


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_whole_and_in_order(seed: int) -> None:
    pair = Pair(seed)

    async def story() -> None:
        client = await pair.connect()
        for number in range(50):
            client.transport.write(f"{number},".encode())
            await asyncio.sleep(0.01)
        client.transport.close()
        await asyncio.sleep(60)
        assert pair.accepted[0].data == "".join(f"{number}," for number in range(50)).encode()
        assert pair.accepted[0].lost == client.lost == [None]

    pair.run(story)


def test_nobody_answers_where_nobody_listens() -> None:
    pair = Pair()
    pair.network.drop(pair.server, is_silent=False)

    async def story() -> None:
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()

    pair.run(story)


def test_a_port_is_taken_once() -> None:
    pair = Pair()
    with pytest.raises(OSError, match="in use"):
        pair.network.bind(pair.server, 80)


def test_between_parted_hosts_bytes_wait() -> None:
    pair = Pair()

    async def story() -> None:
        client = await pair.connect()
        pair.network.part("10.0.0.1", "10.0.0.2")
        client.transport.write(b"hello")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await pair.connect()
        assert pair.accepted[0].data == b""
        pair.network.join()
        await asyncio.sleep(1)
        assert pair.accepted[0].data == b"hello"

    pair.run(story)


def test_what_is_parted_in_one_direction_is_heard_in_the_other() -> None:
    pair = Pair()

    async def story() -> None:
        client = await pair.connect()
        await asyncio.sleep(1)
        pair.network.part("10.0.0.2", "10.0.0.1", is_one_way=True)
        client.transport.write(b"hello")
        pair.accepted[0].transport.write(b"anybody there?")
        await asyncio.sleep(30)
        assert (client.data, pair.accepted[0].data) == (b"anybody there?", b"")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await pair.connect()
        pair.network.join()
        await asyncio.sleep(1)
        assert pair.accepted[0].data == b"hello"

    pair.run(story)


def test_an_end_that_was_closed_between_parted_hosts_comes_when_they_are_joined() -> None:
    pair = Pair()

    async def story() -> None:
        client = await pair.connect()
        await asyncio.sleep(1)
        pair.network.part("10.0.0.1", "10.0.0.2")
        pair.accepted[0].transport.write(b"so long")
        pair.accepted[0].transport.close()
        await asyncio.sleep(10)
        assert (client.data, client.lost) == (b"", [])
        pair.network.join()
        await asyncio.sleep(1)
        assert (client.data, client.lost) == (b"so long", [None])

    pair.run(story)


def test_a_cut_ends_both_sides() -> None:
    pair = Pair()

    async def story() -> None:
        client = await pair.connect()
        pair.network.cut(next(iter(pair.network.transports)))
        await asyncio.sleep(1)
        for end in (client, pair.accepted[0]):
            assert [type(error) for error in end.lost] == [ConnectionResetError]

    pair.run(story)


@pytest.mark.parametrize(("is_silent", "within_s"), [(False, 1), (True, 21)])
def test_a_dead_node_hears_nothing_and_its_peer_hears_of_it(is_silent: bool, within_s: float) -> None:
    pair = Pair()

    async def story() -> None:
        client = await pair.connect()
        pair.server.is_alive = False
        pair.network.drop(pair.server, is_silent=is_silent)
        await asyncio.sleep(within_s)
        assert [type(error) for error in client.lost] == [ConnectionResetError]
        assert not pair.accepted[0].lost

    pair.run(story)
