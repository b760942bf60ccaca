"""A gRPC server with a few methods, and a client made of the library h2 whose every byte a test may choose."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings

from regulus.errors import GrpcRefused
from regulus.transport.config import TransportConfig
from regulus.transport.http2.grpc_call import Conversation, GrpcCall, ManyAnswers, Method, OneAnswer
from regulus.transport.http2.grpc_server import GrpcLimits, GrpcServer
from regulus.wire.http2.grpc_messages import GrpcStatus, Message, framed

LIMITS: dict[str, int] = {"connections_max": 100, "message_size_max": 8 << 20, "held_max": 64 << 20,
                          "waiting_max": 64 << 20, "metadata_size_max": 16 << 10}

PACKED_MAX = 1 << 20
"""Bytes of what Echo is sent compressed."""


class Methods:
    """What they saw: `begun` and `cancelled` name calls by their messages; `gate` lets Wait go on."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.cancelled: list[bytes] = []
        self.gate = asyncio.Event()
        self.calls: list[GrpcCall] = []

    async def echo(self, data: Message, call: GrpcCall) -> bytes:
        self.calls.append(call)
        return await call.unpacked(data, PACKED_MAX)

    async def wait(self, data: bytes, call: GrpcCall) -> bytes:
        self.begun.append(data)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(data)
            raise
        return data

    async def fail(self, data: bytes, call: GrpcCall) -> bytes:
        raise KeyError("a fault of the method")

    async def refuse(self, data: bytes, call: GrpcCall) -> bytes:
        raise GrpcRefused(GrpcStatus.INVALID_ARGUMENT, "not this 100 %")

    async def large(self, data: bytes, call: GrpcCall) -> bytes:
        return bytes(int(data))

    async def count(self, data: bytes, call: GrpcCall) -> None:
        """So many messages of 1,000 bytes."""
        self.begun.append(data)
        try:
            for number in range(int(data)):
                await call.send(number.to_bytes(4, "big").ljust(1000, b"."))
        except asyncio.CancelledError:
            self.cancelled.append(data)
            raise

    async def break_off(self, data: bytes, call: GrpcCall) -> bytes:
        """What it waits for is cancelled by somebody else."""
        waited_for = asyncio.get_running_loop().create_future()
        waited_for.cancel()
        await waited_for
        return data

    async def break_off_late(self, data: bytes, call: GrpcCall) -> None:
        await call.send(data)
        await self.break_off(data, call)

    async def hesitate(self, call: GrpcCall) -> None:
        """As talk, but it takes no message before the gate opens."""
        self.calls.append(call)
        await self.gate.wait()
        await self.talk(call)

    async def boast(self, call: GrpcCall) -> None:
        """Says 1,000 bytes at once, and ends well even when it is cancelled."""
        self.begun.append(b"boast")
        try:
            await call.send(bytes(1000))
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(b"boast")

    async def talk(self, call: GrpcCall) -> None:
        call.begin_answer()
        async for message in call.messages():
            self.begun.append(message)
            await call.send(message.upper())

    def table(self) -> dict[str, Method]:
        return {"/t/Echo": OneAnswer(self.echo), "/t/Wait": OneAnswer(self.wait), "/t/Fail": OneAnswer(self.fail),
                "/t/Refuse": OneAnswer(self.refuse), "/t/Large": OneAnswer(self.large),
                "/t/Count": ManyAnswers(self.count), "/t/Talk": Conversation(self.talk),
                "/t/BreakOff": OneAnswer(self.break_off), "/t/BreakOffLate": ManyAnswers(self.break_off_late),
                "/t/Hesitate": Conversation(self.hesitate), "/t/Boast": Conversation(self.boast)}


@asynccontextmanager
async def served(methods: Methods, tls: TransportConfig | None = None, **limits: int) -> AsyncIterator[GrpcServer]:
    server = GrpcServer(methods.table(), tls or TransportConfig(), GrpcLimits(**{**LIMITS, **limits}))
    await server.accept(server.bind("127.0.0.1", 0))
    try:
        yield server
    finally:
        await server.stop(0.1)


class Peer:
    """What was heard of each stream, and the connection's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: dict[int, int]) -> None:
        config = h2.config.H2Configuration(client_side=True, validate_outbound_headers=False,
                                           normalize_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self.h2.local_settings = h2.settings.Settings(client=True, initial_values={
            h2.settings.SettingCodes.ENABLE_PUSH: 0, **settings})
        state = self.h2.state_machine
        take = state.process_input      # by which h2 would hear nothing behind a GOAWAY, not even answers
        state.process_input = lambda what: [] if what is h2.connection.ConnectionInputs.RECV_GOAWAY else take(what)
        self.reader, self.writer = reader, writer
        self.data: dict[int, bytearray] = {}
        self.headers: dict[int, dict[str, str]] = {}
        self.ended: dict[int, bool] = {}
        self.resets: dict[int, int] = {}
        self.goaway: int | None = None
        self.is_closed = False
        self.pongs = 0
        self.takes = True       # whether it gives new windows for what it read
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data and not self.writer.is_closing():
            self.writer.write(data)

    def send(self, data: bytes) -> None:
        """Any bytes."""
        self.writer.write(data)

    def begin(self, method: str, *fields: tuple[str, str], ends: bool = False) -> int:
        stream_id = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, [
            (":method", "POST"), (":scheme", "http"), (":path", f"/t/{method}"), (":authority", "here"),
            ("te", "trailers"), ("content-type", "application/grpc"), *fields], end_stream=ends)
        self.flush()
        return stream_id

    def call(self, method: str, message: bytes = b"m", *fields: tuple[str, str]) -> int:
        stream_id = self.begin(method, *fields)
        self.h2.send_data(stream_id, framed(message), end_stream=True)
        self.flush()
        return stream_id

    async def hear(self, within_s: float = 60.0) -> None:
        """One read."""
        data = await asyncio.wait_for(self.reader.read(1 << 16), within_s)
        if not data:
            self.is_closed = True
            return
        for event in self.h2.receive_data(data):
            self._take(event)
        self.flush()

    def _take(self, event: Any) -> None:
        match event:
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                self.headers.setdefault(event.stream_id, {}).update(
                    {_text(name): _text(value) for name, value in event.headers})
            case h2.events.DataReceived():
                self.data.setdefault(event.stream_id, bytearray()).extend(event.data)
                if self.takes and event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self.ended[event.stream_id] = True
            case h2.events.StreamReset():
                self.resets[event.stream_id] = int(event.error_code)
            case h2.events.ConnectionTerminated():
                self.goaway = int(event.error_code)
            case h2.events.PingAckReceived():
                self.pongs += 1

    async def until(self, condition: Any) -> None:
        while not condition():
            assert not self.is_closed, "the connection is closed"
            await self.hear()

    async def answer(self, stream_id: int) -> tuple[str, list[bytes]]:
        """The status and the messages of a call."""
        await self.until(lambda: stream_id in self.ended or stream_id in self.resets)
        return self.headers[stream_id].get("grpc-status", ""), messages(bytes(self.data.get(stream_id, b"")))

    async def end(self) -> int | None:
        """Until the connection ends; by which code."""
        while not self.is_closed:
            try:
                await self.hear()
            except ConnectionError:
                self.is_closed = True
        return self.goaway


@asynccontextmanager
async def connected(server: GrpcServer, settings: dict[int, int] | None = None) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    peer = Peer(reader, writer, settings or {})
    try:
        yield peer
    finally:
        writer.transport.abort()


def messages(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = int.from_bytes(data[1:5], "big")
        found.append(data[5:5 + size])
        data = data[5 + size:]
    return found


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


async def become(condition: Any) -> None:
    """Of what happens in the same loop soon."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def is_at_rest(server: GrpcServer) -> bool:
    """No call and no byte is counted any more."""
    return not (server.held or server._account.size or server._tasks or server.unfinished
                or any(connection.streams or connection.held for connection in server.connections))
