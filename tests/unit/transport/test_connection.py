"""Frames both ways over a real loopback socket."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from regulus.errors import ConnectionLost, RequestTimeout, RequestTooLarge
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.transport.listener import Listener, listen
from regulus.transport.read_buffer import ReadBuffer
from regulus.transport.unfinished_frames import UnfinishedFrames
from regulus.wire.remoting_command import RemotingCommand
from tests.virtual_time import in_virtual_time, now_ms, pass_time

ECHO, SILENT, ASK_BACK, CLOSE, LARGE = 1, 2, 3, 4, 5
HOST = "127.0.0.1"


class Server:
    """Answers by code; keeps what it saw."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.asked = asyncio.Event()
        self.opened: list[Connection] = []
        self.closed: asyncio.Queue[Connection] = asyncio.Queue()
        self.tasks: list[asyncio.Task[None]] = []

    def on_requests(self, connection: Connection, requests: list[RemotingCommand]) -> None:
        self.batches.append(len(requests))
        self.asked.set()
        for request in requests:
            if request.code == ECHO:
                connection.send(request.response(0, body=request.body, ext=dict(request.ext)))
            elif request.code == ASK_BACK:
                self.tasks.append(asyncio.ensure_future(self.ask_back(connection, request)))
            elif request.code == CLOSE:
                connection.close()
            elif request.code == LARGE:
                connection.send(request.response(0, body=[memoryview(bytes(1 << 20))] * 8))

    async def ask_back(self, connection: Connection, request: RemotingCommand) -> None:
        answer = await connection.request(RemotingCommand.request(ECHO, body=b"back"), 1000)
        connection.send(request.response(0, body=answer.body))


def on_client_requests(connection: Connection, requests: list[RemotingCommand]) -> None:
    for request in requests:
        connection.send(request.response(0, body=request.body + b"!"))


@pytest.fixture
def server() -> Server:
    return Server()


async def start(server: Server, **limits: int) -> Listener:
    return await listen(HOST, 0, server.on_requests, server.opened.append, server.closed.put_nowait,
                        TransportConfig(**limits))


@pytest.fixture
async def listener(server: Server) -> AsyncIterator[Listener]:
    listener = await start(server)
    yield listener
    await listener.close()


@in_virtual_time
async def test_a_loop_that_was_held_up_reads_the_answers_before_time_is_up() -> None:
    listener = await start(Server())
    connection = await connect(HOST, listener.port)
    answers = [asyncio.ensure_future(connection.request(RemotingCommand.request(ECHO), 100)) for _ in range(10)]
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(pass_time, 300)
    assert [(await answer).code for answer in answers] == [0] * 10
    connection.close()
    await listener.close()


@in_virtual_time
async def test_a_loop_that_was_held_up_waits_little_longer_for_what_does_not_come() -> None:
    listener = await start(Server())
    connection = await connect(HOST, listener.port)
    begun = now_ms()
    request = asyncio.ensure_future(connection.request(RemotingCommand.request(SILENT), 100))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(pass_time, 300)
    with pytest.raises(RequestTimeout):
        await request
    assert now_ms() - begun == 400
    connection.close()
    await listener.close()


@in_virtual_time
async def test_the_time_of_a_request_begins_when_it_is_written() -> None:
    listener = await start(Server())
    connection = await connect(HOST, listener.port)

    async def ask(code: int) -> int:
        asked = asyncio.ensure_future(connection.request(RemotingCommand.request(code), 200))
        await asyncio.sleep(0)
        pass_time(1000)         # what else begins in this moment takes longer than the request may
        return (await asked).code

    assert await asyncio.gather(ask(ECHO), ask(ECHO), ask(ECHO)) == [0, 0, 0]
    connection.close()
    await listener.close()


async def test_an_answer_meets_its_request(listener: Listener) -> None:
    connection = await connect(HOST, listener.port)
    answers = await asyncio.gather(*[
        connection.request(RemotingCommand.request(ECHO, ext={"n": str(n)}, body=b"%d" % n), 1000) for n in range(100)])
    assert [answer.body for answer in answers] == [b"%d" % n for n in range(100)]
    assert answers[7].ext == {"n": "7"}
    connection.close()


async def test_requests_of_one_read_come_in_one_call(listener: Listener, server: Server) -> None:
    connection = await connect(HOST, listener.port)
    frames = b"".join(RemotingCommand.request(SILENT, oneway=True).encode() for _ in range(9))
    connection.write(frames)
    await connection.request(RemotingCommand.request(ECHO), 1000)
    assert server.batches[0] >= 9
    connection.close()


async def test_frames_may_be_split_anywhere(listener: Listener) -> None:
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    frame = RemotingCommand.request(ECHO, body=b"abc", opaque=5).encode()
    for position in range(len(frame)):
        writer.write(frame[position:position + 1])
        await writer.drain()
        await asyncio.sleep(0)
    size = int.from_bytes(await reader.readexactly(4), "big")
    assert (await reader.readexactly(size)).endswith(b"abc")
    writer.close()


async def test_both_sides_may_ask(listener: Listener) -> None:
    connection = await connect(HOST, listener.port, on_client_requests)
    answer = await connection.request(RemotingCommand.request(ASK_BACK), 1000)
    assert answer.body == b"back!"
    connection.close()


async def test_a_request_times_out_and_its_late_answer_is_dropped(listener: Listener) -> None:
    connection = await connect(HOST, listener.port)
    with pytest.raises(RequestTimeout, match="within 10 ms"):
        await connection.request(RemotingCommand.request(SILENT), 10)
    assert (await connection.request(RemotingCommand.request(ECHO, body=b"on"), 1000)).body == b"on"
    connection.close()


async def test_a_closed_connection_fails_what_waits_and_what_comes_later(listener: Listener) -> None:
    connection = await connect(HOST, listener.port)
    with pytest.raises(ConnectionLost):
        await connection.request(RemotingCommand.request(CLOSE), 1000)
    with pytest.raises(ConnectionLost):
        await connection.request(RemotingCommand.request(ECHO), 1000)


HEADER_ROOM = 1 << 20
FRAME_ROOM = 16 << 20


@pytest.mark.parametrize("request_", [
    RemotingCommand.request(ECHO, ext={"n": "x" * HEADER_ROOM}),
    RemotingCommand.request(ECHO, body=bytes(FRAME_ROOM)),
    RemotingCommand.request(ECHO, body=[memoryview(bytes(FRAME_ROOM // 2))] * 2),
], ids=["header", "body", "parts"])
async def test_a_request_that_no_peer_would_read_fails_alone(listener: Listener, request_: RemotingCommand) -> None:
    connection = await connect(HOST, listener.port)
    answers = await asyncio.gather(
        connection.request(RemotingCommand.request(ECHO), 1000), connection.request(request_, 1000),
        connection.request(RemotingCommand.request(ECHO), 1000), return_exceptions=True)
    assert [type(answer) for answer in answers] == [RemotingCommand, RequestTooLarge, RemotingCommand]
    with pytest.raises(RequestTooLarge, match="are the most"):
        connection.ask_soon(request_)
    assert connection.is_open
    connection.close()


async def test_the_largest_request_that_fits_is_sent(listener: Listener, server: Server) -> None:
    connection = await connect(HOST, listener.port)
    front = len(RemotingCommand.request(SILENT).encode())
    connection.ask_soon(RemotingCommand.request(SILENT, body=bytes(FRAME_ROOM + 4 - front)))
    await asyncio.wait_for(server.asked.wait(), 60)
    assert connection.is_open
    connection.close()


async def test_what_cannot_be_written_fails_all_of_its_moment_and_leaves_none_waiting(listener: Listener) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    connection = await connect(HOST, listener.port)
    async with asyncio.timeout(60):
        answers = await asyncio.gather(
            connection.request(RemotingCommand.request(ECHO), 60_000),
            connection.request(RemotingCommand.request(ECHO, body=["no bytes"]), 60_000),  # type: ignore[list-item]
            return_exceptions=True)
    assert [type(answer) for answer in answers] == [ConnectionLost, ConnectionLost]
    assert [type(fault) for fault in faults] == [TypeError]


@pytest.mark.parametrize(("data", "cause"), [
    (b"\xff\xff\xff\xff", "frame of"),
    (b"\x16\x03\x01\x02\x00\x01", "TLS"),
    (RemotingCommand.request(SILENT).encode() + b"\x7f\xff\xff\xff", "frame of"),
])
async def test_bytes_that_are_no_frame_close_only_their_connection(
        listener: Listener, server: Server, caplog: pytest.LogCaptureFixture, data: bytes, cause: str) -> None:
    good = await connect(HOST, listener.port)
    await good.request(RemotingCommand.request(ECHO), 1000)
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    with caplog.at_level(logging.WARNING):
        writer.write(data)
        assert await reader.read() == b""
    assert [record.getMessage() for record in caplog.records if cause in record.getMessage()]
    assert len(caplog.records) == 1
    assert (await good.request(RemotingCommand.request(ECHO, body=b"on"), 1000)).body == b"on"
    writer.close()
    good.close()


async def test_the_owner_hears_of_opening_and_closing_once(listener: Listener, server: Server) -> None:
    connection = await connect(HOST, listener.port)
    await connection.request(RemotingCommand.request(ECHO), 1000)
    connection.close()
    closed = await server.closed.get()
    assert server.opened == [closed]
    assert server.closed.empty()
    assert closed.peer.local_address == HOST
    assert closed.peer.remote_text.startswith("127.0.0.1:")
    assert not listener.connections


async def test_a_peer_that_does_not_read_is_not_read(server: Server) -> None:
    listener = await start(server, write_buffer_high=65536, write_buffer_low=1024)
    reader, writer = await asyncio.open_connection(HOST, listener.port, limit=1 << 16)
    writer.write(RemotingCommand.request(LARGE).encode())
    await asyncio.wait_for(server.asked.wait(), 60)
    for _ in range(9):
        writer.write(RemotingCommand.request(LARGE).encode())
        await writer.drain()
        await asyncio.sleep(0)
    assert server.batches == [1]
    received = 0
    while received < 10 * (8 << 20):
        received += len(await reader.read(1 << 20))
    assert sum(server.batches) == 10
    writer.close()
    await listener.close()


async def test_a_peer_that_lets_too_much_pile_up_is_cut_off(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    listener = await start(server, write_buffer_high=65536, write_buffer_low=1024, write_buffer_max=1 << 20)
    _, writer = await asyncio.open_connection(HOST, listener.port, limit=1024)
    writer.write(RemotingCommand.request(LARGE).encode() * 4)
    await asyncio.wait_for(server.closed.get(), 60)
    assert "unread" in caplog.text
    writer.close()
    await listener.close()


class Wire(asyncio.Transport):
    """Says whether it is read."""

    def __init__(self) -> None:
        super().__init__({"peername": (HOST, 1), "sockname": (HOST, 2)})
        self.is_read = True
        self.is_aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.is_aborted = True


def wired(unfinished: UnfinishedFrames | None = None, received: list[int] | None = None) -> tuple[Connection, Wire]:
    def on_requests(_: Connection, requests: list[RemotingCommand]) -> None:
        if received is not None:
            received.extend(len(request.body) for request in requests)

    connection = Connection(on_requests, lambda _: None, lambda _: None, TransportConfig(),
                            asyncio.get_running_loop(), ReadBuffer(), unfinished=unfinished)
    wire = Wire()
    connection.connection_made(wire)
    return connection, wire


def receive(connection: Connection, data: bytes) -> None:
    """What an event loop does with bytes that came."""
    while data:
        room = connection.get_buffer(-1)
        part, data = data[:len(room)], data[len(room):]
        room[:len(part)] = part
        connection.buffer_updated(len(part))


FULL_READ = RemotingCommand.request(SILENT, body=bytes(1000)).encode() * 200


async def test_after_a_full_read_the_others_have_a_turn() -> None:
    connection, wire = wired()
    receive(connection, RemotingCommand.request(SILENT).encode())
    assert wire.is_read
    receive(connection, FULL_READ)
    assert not wire.is_read
    await asyncio.sleep(0)
    assert wire.is_read


async def test_a_turn_does_not_begin_while_the_peer_does_not_read() -> None:
    connection, wire = wired()
    receive(connection, FULL_READ)
    connection.pause_writing()
    await asyncio.sleep(0)
    assert not wire.is_read
    connection.resume_writing()
    assert wire.is_read


FRAME = RemotingCommand.request(SILENT, body=bytes(10 << 20)).encode()
SMALL = RemotingCommand.request(SILENT, body=bytes(100)).encode()


def account() -> UnfinishedFrames:
    """Room for one frame of 10 MiB, but not for two."""
    return UnfinishedFrames(TransportConfig(large_frames_size_max=17 << 20))


async def test_a_large_frame_waits_unread_until_another_has_ended() -> None:
    unfinished, received = account(), []
    first, first_wire = wired(unfinished, received)
    second, second_wire = wired(unfinished, received)
    receive(first, FRAME[:5000])
    receive(second, FRAME[:5000])
    assert (first_wire.is_read, second_wire.is_read) == (True, False)
    receive(first, FRAME[5000:] + SMALL[:20])
    assert received == [10 << 20]
    assert second_wire.is_read
    assert unfinished.large_size == len(FRAME)
    receive(second, FRAME[5000:])
    receive(first, SMALL[20:])
    assert received == [10 << 20, 10 << 20, 100]
    assert (unfinished.large_size, unfinished.small_size) == (0, 0)


async def test_a_frame_that_waited_with_much_of_it_goes_on_in_memory_of_its_own() -> None:
    unfinished, received = account(), []
    first, _ = wired(unfinished)
    second, second_wire = wired(unfinished, received)
    receive(first, FRAME[:5000])
    receive(second, FRAME[:200_000])
    await asyncio.sleep(0)      # the turn of the others is over
    assert not second_wire.is_read
    first.connection_lost(None)
    assert second_wire.is_read
    receive(second, FRAME[200_000:])
    assert received == [10 << 20]


async def test_small_frames_come_while_large_ones_wait() -> None:
    unfinished, received = account(), []
    for _ in range(3):
        receive(wired(unfinished)[0], FRAME[:5000])
    connection, wire = wired(unfinished, received)
    for position in range(len(SMALL)):
        receive(connection, SMALL[position:position + 1])
        assert wire.is_read
    assert received == [100]


async def test_a_frame_that_does_not_end_is_cut_off_and_told_of(caplog: pytest.LogCaptureFixture) -> None:
    unfinished = account()
    connection, wire = wired(unfinished)
    receive(connection, SMALL + SMALL[:20])
    unfinished.close_overdue(connection.frame_began + 59.9)
    assert not wire.is_aborted
    receive(connection, SMALL[20:30])
    unfinished.close_overdue(connection.frame_began + 60.01)
    assert wire.is_aborted
    assert "has not come whole within 60000 ms" in caplog.text


async def test_each_frame_has_its_own_time() -> None:
    unfinished = account()
    connection, wire = wired(unfinished)
    receive(connection, SMALL[:20])
    began = connection.frame_began
    connection.frame_began -= 60
    receive(connection, SMALL[20:] + SMALL[:20])
    assert connection.frame_began >= began
    unfinished.close_overdue(began + 60)
    assert not wire.is_aborted


async def test_who_does_not_take_its_answers_keeps_no_room_for_its_frame() -> None:
    unfinished, received = account(), []
    greedy, wire = wired(unfinished)
    receive(greedy, FRAME[:200_000])
    other, other_wire = wired(unfinished, received)
    receive(other, FRAME[:200_000])
    await asyncio.sleep(0)      # the turn of the others is over
    assert not other_wire.is_read
    began = greedy.frame_began
    greedy.frame_began -= 60
    for _ in range(3):          # it takes a little now and then
        greedy.pause_writing()
        greedy.resume_writing()
    greedy.pause_writing()
    unfinished.close_overdue(began + 0.5)
    assert wire.is_aborted
    assert other_wire.is_read


async def test_the_time_in_which_a_frame_waits_for_room_does_not_count() -> None:
    unfinished = account()
    first, _ = wired(unfinished)
    second, wire = wired(unfinished)
    receive(first, FRAME[:5000])
    receive(second, FRAME[:200_000])
    began = second.frame_began
    second.frame_began -= 61
    unfinished.close_overdue(began)
    assert not wire.is_aborted
    first.connection_lost(None)
    unfinished.close_overdue(began + 60)
    assert not wire.is_aborted
    unfinished.close_overdue(second.frame_began + 60.5)
    assert wire.is_aborted


async def test_what_comes_after_the_end_was_told_is_thrown_away() -> None:
    received: list[int] = []
    connection, wire = wired(received=received)
    receive(connection, SMALL + SMALL[:20])
    connection.ignore_input()
    receive(connection, SMALL[20:] + SMALL)
    assert received == [100]
    assert wire.is_read


async def test_unfinished_frames_of_real_peers_are_bounded(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    listener = await start(server, large_frames_size_max=17 << 20, frame_time_max_ms=300)
    peers = [await asyncio.open_connection(HOST, listener.port) for _ in range(4)]
    for _, writer in peers:
        writer.write(FRAME[:2 << 20])
    small = await connect(HOST, listener.port)
    assert (await small.request(RemotingCommand.request(ECHO, body=b"small"), 60_000)).body == b"small"
    for reader, writer in peers:    # one after the other, each in its own time
        with suppress(ConnectionResetError):    # with bytes unread the end comes as a reset
            assert await reader.read() == b""
        writer.close()
    assert caplog.text.count("has not come whole within 300 ms") == 4
    assert (await small.request(RemotingCommand.request(ECHO, body=b"small"), 60_000)).body == b"small"
    small.close()
    await listener.close()
