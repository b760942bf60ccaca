"""Calls over real connections, by grpcio and by the library h2."""

import asyncio
import hashlib
import itertools
import logging
import time
from collections.abc import AsyncIterator
from random import Random

import grpc
import h2.settings
import pytest

from regulus.transport import tls
from regulus.transport.config import TransportConfig
from regulus.transport.http2 import connection, grpc_call, grpc_server
from regulus.transport.http2.grpc_server import GrpcServer
from regulus.transport.tls import TlsMode
from regulus.wire.http2 import frames
from regulus.wire.http2.grpc_messages import framed
from tests.unit.transport.http2.peers import Peer, become, connected, is_at_rest, served

WINDOW = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is closed for its silence while a test waits, unless it says so."""
    monkeypatch.setattr(grpc_server, "FIRST_BYTES_S_MAX", 600.0)


@pytest.fixture
async def channel(server: GrpcServer) -> AsyncIterator[grpc.aio.Channel]:
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=options) as channel:
        yield channel


# --- by grpcio -------------------------------------------------------------------------------------------------------


async def test_grpcio_calls_methods_of_all_kinds(channel, methods, server):
    assert await channel.unary_unary("/t/Echo")(b"hello", timeout=10, metadata=(("x-a", "b"),)) == b"hello"
    (call,) = methods.calls
    assert call.authority == f"127.0.0.1:{server.port}"
    assert call.peer.startswith("127.0.0.1:")
    assert ("x-a", "b") in call.metadata
    assert [each[:4] async for each in channel.unary_stream("/t/Count")(b"300", timeout=10)] == [
        number.to_bytes(4, "big") for number in range(300)]
    talk = channel.stream_stream("/t/Talk")(timeout=10)
    for word in (b"one", b"two"):
        await talk.write(word)
        assert await talk.read() == word.upper()
    await talk.done_writing()
    assert await talk.read() is grpc.aio.EOF
    assert await talk.code() == grpc.StatusCode.OK
    assert await asyncio.gather(*[channel.unary_unary("/t/Echo")(b"%d" % number, timeout=10)
                                  for number in range(500)]) == [b"%d" % number for number in range(500)]
    await become(lambda: is_at_rest(server))


@pytest.mark.parametrize(("method", "status", "text"), [
    ("Refuse", grpc.StatusCode.INVALID_ARGUMENT, "not this 100 %"),
    ("Nobody", grpc.StatusCode.UNIMPLEMENTED, "not served"),
    ("Fail", grpc.StatusCode.INTERNAL, "see its log")])
async def test_a_call_ends_as_its_method_does(channel, server, caplog, method, status, text):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary(f"/t/{method}")(b"m", timeout=10)
    assert (refused.value.code(), text in refused.value.details()) == (status, True)
    assert ("KeyError" in caplog.text) == (method == "Fail")
    assert await channel.unary_unary("/t/Echo")(b"m", timeout=10) == b"m"
    await become(lambda: is_at_rest(server))


async def test_large_messages_go_both_ways(channel, server):
    body = bytes(range(256)) * (5 << 12)        # 5 MiB
    assert hashlib.sha1(await channel.unary_unary("/t/Echo")(body, timeout=30)).digest() == hashlib.sha1(body).digest()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary("/t/Echo")(bytes((8 << 20) + 1), timeout=30)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    await become(lambda: is_at_rest(server))


async def test_compressed_requests_are_read(channel):
    body = b"again and again " * 1000
    assert await channel.unary_unary("/t/Echo")(body, timeout=10, compression=grpc.Compression.Gzip) == body
    assert await channel.unary_unary("/t/Echo")(body, timeout=10, compression=grpc.Compression.Deflate) == body


async def test_who_gives_up_ends_the_method(channel, methods, server):
    waiting = channel.unary_unary("/t/Wait")(b"cancelled", timeout=60)
    await become(lambda: methods.begun)
    waiting.cancel()
    await become(lambda: methods.cancelled == [b"cancelled"])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary("/t/Wait")(b"late", timeout=0.1)
    assert refused.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    await become(lambda: methods.cancelled == [b"cancelled", b"late"])
    await become(lambda: is_at_rest(server))


# --- by h2 -----------------------------------------------------------------------------------------------------------


async def test_the_server_ends_a_call_at_its_deadline_by_itself(server, methods):
    async with connected(server) as peer:
        status, _ = await peer.answer(peer.call("Wait", b"late", ("grpc-timeout", "50m")))
        assert (status, methods.cancelled) == ("4", [b"late"])
        methods.gate.set()
        assert await peer.answer(peer.call("Wait", b"soon", ("grpc-timeout", "99999999H"))) == ("0", [b"soon"])
    await become(lambda: is_at_rest(server))


async def test_an_answer_waits_for_the_windows_of_its_stream_and_is_whole(server):
    async with connected(server, {WINDOW: 0}) as peer:
        peer.takes = False
        peer.h2.increment_flow_control_window(100_000)
        stream_id = peer.call("Large", b"100000")
        await peer.until(lambda: ":status" in peer.headers.get(stream_id, {}))
        assert peer.data == {}
        assert server._account.size == 102_332     # 2,048 bytes of the call, and 279 of its headers, beside
        for size in (1, 4, 5, 20_000, 80_000):      # 5 beyond the end
            before = len(peer.data.get(stream_id, b""))
            peer.h2.increment_flow_control_window(size, stream_id)
            peer.flush()
            wanted = min(before + size, 100_005)
            await peer.until(lambda wanted=wanted: len(peer.data.get(stream_id, b"")) >= wanted)
            assert len(peer.data[stream_id]) == wanted
        assert await peer.answer(stream_id) == ("0", [bytes(100_000)])
    await become(lambda: is_at_rest(server))


async def test_settings_that_take_windows_back_hold_even_below_zero(server):
    async with connected(server, {WINDOW: 1000}) as peer:
        peer.takes = False
        stream_id = peer.call("Large", b"5000")
        await peer.until(lambda: len(peer.data.get(stream_id, b"")) == 1000)
        peer.h2.update_settings({WINDOW: 10})       # 990 below zero
        peer.flush()
        pongs = peer.pongs
        peer.h2.increment_flow_control_window(990, stream_id)
        peer.h2.ping(bytes(8))
        peer.flush()
        await peer.until(lambda: peer.pongs > pongs)
        assert len(peer.data[stream_id]) == 1000
        peer.h2.increment_flow_control_window(7, stream_id)
        peer.flush()
        await peer.until(lambda: len(peer.data[stream_id]) == 1007)
        peer.h2.update_settings({WINDOW: 60_000})
        peer.flush()
        assert await peer.answer(stream_id) == ("0", [bytes(5000)])


async def test_frames_are_as_large_as_the_peer_takes_them(server):
    async with connected(server) as peer:
        sizes = []
        original = peer._take

        def take(event):
            if hasattr(event, "data"):
                sizes.append(len(event.data))
            original(event)

        peer._take = take
        assert await peer.answer(peer.call("Large", b"60000")) == ("0", [bytes(60_000)])
        assert max(sizes) == 16_384


async def test_a_stream_that_nobody_reads_holds_up_no_other(server):
    async with connected(server, {WINDOW: 1000}) as peer:
        taken = peer.h2.acknowledge_received_data
        stalled = peer.call("Large", b"50000")
        peer.h2.acknowledge_received_data = lambda size, stream_id: None if stream_id == stalled else taken(
            size, stream_id)
        await peer.until(lambda: len(peer.data.get(stalled, b"")) == 1000)
        peer.h2.increment_flow_control_window(1000)
        for _ in range(20):
            assert await peer.answer(peer.call("Echo", b"lively")) == ("0", [b"lively"])
        assert len(peer.data[stalled]) == 1000
        peer.h2.reset_stream(stalled)
        peer.flush()
        await become(lambda: is_at_rest(server))


async def test_streams_share_the_window_of_their_connection(server):
    async with connected(server, {WINDOW: 1 << 20}) as peer:
        peer.takes = False
        streams = [peer.call("Large", b"200000") for _ in range(3)]
        await peer.until(lambda: sum(map(len, peer.data.values())) == 65_535)
        for _ in range(20):
            peer.h2.increment_flow_control_window(65_536)
            peer.flush()
            await asyncio.sleep(0)
        for stream_id in streams:
            assert await peer.answer(stream_id) == ("0", [bytes(200_000)])
    await become(lambda: is_at_rest(server))


async def test_the_connection_with_the_most_that_waits_is_closed(methods, caplog):
    async with served(methods, waiting_max=1_000_000) as server, connected(server, {WINDOW: 0}) as greedy, \
            connected(server, {WINDOW: 0}) as modest:
        small = modest.call("Large", b"300000")
        await become(lambda: server._account.size == 302_332)
        with caplog.at_level(logging.WARNING):
            for _ in range(4):
                greedy.call("Large", b"200000")
            await greedy.end()
        assert "bytes wait for it" in caplog.text
        assert server._account.size == 302_332
        modest.h2.increment_flow_control_window(400_000, small)
        modest.h2.increment_flow_control_window(400_000)
        modest.flush()
        assert await modest.answer(small) == ("0", [bytes(300_000)])
        await become(lambda: is_at_rest(server))


async def test_requests_that_are_under_way_have_a_size_in_all(methods):
    """Each costs 2,048 bytes and 278 of its headers beside."""
    async with served(methods, held_max=104_652) as server, connected(server) as peer:
        first, second = peer.begin("Echo"), peer.begin("Echo")
        await say(peer, first, framed(bytes(90_000))[:40_000])
        assert server.held == 44_652
        await say(peer, second, framed(bytes(90_000))[:60_000])
        assert (server.held, peer.ended) == (104_652, {})
        await say(peer, second, b"1")
        assert (await peer.answer(second))[0] == "8"
        assert server.held == 42_326
        peer.h2.reset_stream(first)
        peer.flush()
        await become(lambda: is_at_rest(server))


async def say(peer: Peer, stream_id: int, data: bytes) -> None:
    """A part of a request; it has been heard when this returns."""
    for start in range(0, len(data), 16_384):
        peer.h2.send_data(stream_id, data[start:start + 16_384])
        pongs = peer.pongs
        peer.h2.ping(bytes(8))
        peer.flush()
        await peer.until(lambda pongs=pongs: peer.pongs > pongs)


async def test_a_request_that_does_not_end_is_ended(server, methods, monkeypatch):
    monkeypatch.setattr(grpc_server, "REQUEST_S_MAX", 0.05)
    monkeypatch.setattr(grpc_server, "LOOK_S", 0.01)
    watching = asyncio.ensure_future(server.watch())
    async with connected(server) as peer:
        talk = peer.begin("Talk")       # which may be open for days
        stream_id = peer.begin("Echo")
        peer.h2.send_data(stream_id, framed(b"long message")[:7])
        peer.flush()
        assert (await peer.answer(stream_id))[0] == "4"
        assert talk not in peer.ended
    watching.cancel()
    await become(lambda: is_at_rest(server))


async def test_requests_that_do_not_end_are_ended_a_few_a_turn(server, monkeypatch):
    monkeypatch.setattr(grpc_server, "LOOK_S", 0.01)
    monkeypatch.setattr(grpc_server, "_LOOKS_PER_TURN", 10)
    async with connected(server) as peer:
        for _ in range(100):
            peer.begin("Echo")
        await become(lambda: len(server.unfinished) == 100)
        monkeypatch.setattr(grpc_server, "REQUEST_S_MAX", 0.0)
        watching = asyncio.ensure_future(server.watch())
        left = [100]
        while left[-1]:
            await asyncio.sleep(0)
            left.append(len(server.unfinished))
        assert max(before - now for before, now in itertools.pairwise(left)) == 10
        watching.cancel()
    await become(lambda: is_at_rest(server))


@pytest.mark.parametrize(("data", "status"), [
    (b"", "13"), (framed(b"cut")[:-1], "13"), (framed(b"whole") + b"\0", "13"),
    (framed(b"a") + framed(b"b"), "12"), (b"\x02" + framed(b"a")[1:], "12")])
async def test_a_request_has_one_whole_message(server, data, status):
    async with connected(server) as peer:
        stream_id = peer.begin("Echo")
        peer.h2.send_data(stream_id, data, end_stream=True)
        peer.flush()
        assert (await peer.answer(stream_id))[0] == status
        assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])
    await become(lambda: is_at_rest(server))


async def test_messages_of_a_conversation_have_a_size_that_fits_the_window(server, methods):
    async with connected(server) as peer:
        stream_id = peer.begin("Talk")
        sent = 0
        message = framed(bytes(grpc_call.STREAMED_SIZE_MAX + 1))
        while stream_id not in peer.ended and stream_id not in peer.resets and sent < len(message):
            size = min(peer.h2.local_flow_control_window(stream_id), 16_384, len(message) - sent)
            if size:
                peer.h2.send_data(stream_id, message[sent:sent + size])
                sent += size
                peer.flush()
            await peer.hear()
        assert (await peer.answer(stream_id))[0] == "8"
        other = peer.begin("Talk")
        for _ in range(5):      # more than the window of the stream in all
            message, sent = framed(b"x" * (grpc_call.STREAMED_SIZE_MAX - 100)), 0
            while sent < len(message):
                size = min(peer.h2.local_flow_control_window(other), 16_384, len(message) - sent)
                if not size:
                    await peer.hear()
                    continue
                peer.h2.send_data(other, message[sent:sent + size])
                sent += size
                peer.flush()
        peer.h2.end_stream(other)
        peer.flush()
        status, found = await peer.answer(other)
        assert (status, [len(each) for each in found]) == ("0", [grpc_call.STREAMED_SIZE_MAX - 100] * 5)


async def test_what_is_no_grpc_is_answered_by_http(server):
    async with connected(server) as peer:
        for fields, status in (((":method", "GET"), "405"), (("content-type", "text/html"), "415")):
            stream_id = peer.h2.get_next_available_stream_id()
            headers = {":method": "POST", ":scheme": "http", ":path": "/t/Echo", ":authority": "here",
                       "content-type": "application/grpc"} | dict([fields])
            peer.h2.send_headers(stream_id, list(headers.items()), end_stream=True)
            peer.flush()
            await peer.until(lambda stream_id=stream_id: stream_id in peer.ended)
            assert peer.headers[stream_id] == {":status": status}
    await become(lambda: is_at_rest(server))


async def test_calls_under_way_end_when_the_server_stops_and_no_new_one_is_taken(methods):
    async with served(methods) as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        under_way = asyncio.ensure_future(channel.unary_unary("/t/Wait")(b"under way", timeout=10))
        await become(lambda: methods.begun)
        stopping = asyncio.ensure_future(server.stop(10))
        await asyncio.sleep(0.05)
        assert not stopping.done()
        methods.gate.set()
        assert await under_way == b"under way"
        await stopping
        assert is_at_rest(server)
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", server.port)


async def test_what_does_not_end_in_time_is_cancelled_by_the_stop(methods):
    async with served(methods) as server, connected(server) as peer:
        peer.call("Wait", b"too long")
        await become(lambda: methods.begun)
        await server.stop(0.05)
        assert methods.cancelled == [b"too long"]
        await peer.end()
        assert is_at_rest(server)


async def test_a_connection_that_is_gone_takes_its_calls_along(server, methods):
    async with connected(server) as peer:
        for number in range(20):
            peer.call("Wait", b"%d" % number)
        peer.begin("Talk")
        peer.call("Count", b"100000")
        await become(lambda: len(methods.begun) == 21)
    await become(lambda: len(methods.cancelled) == 21 and is_at_rest(server))


async def test_a_silent_peer_is_asked_and_one_that_does_not_answer_is_closed(server):
    async with connected(server) as peer:
        peer.begin("Talk")
        await become(lambda: any(each.streams for each in server.connections))
        (open_,) = server.connections
        now = server.loop.time()
        open_.look(now + connection.PING_AFTER_S + 1)
        open_.look(now + connection.PING_AFTER_S + 2)
        pongs = open_._asked_at
        assert pongs is not None
        await peer.hear()       # h2 answers by itself
        while open_._asked_at is not None:
            await asyncio.sleep(0.005)
        open_.look(now + connection.PING_AFTER_S + 5)
        open_._read_at = now
        open_.look(now + 1000)
        open_.look(now + 1000 + connection.PONG_S_MAX + 1)
        await peer.end()
        assert not server.connections


async def test_a_connection_without_calls_is_let_go(server):
    async with connected(server) as idle, connected(server) as busy:
        await idle.answer(idle.call("Echo"))
        busy.begin("Talk")
        await become(lambda: any(each.streams for each in server.connections))
        later = server.loop.time() + connection.IDLE_S_MAX + 1
        for each in list(server.connections):
            each._read_at = later
            each.look(later)
        assert await idle.end() == frames.NO_ERROR
        assert len(server.connections) == 1


async def test_more_streams_than_a_connection_may_have_are_refused_and_not_begun(server, methods, monkeypatch):
    monkeypatch.setattr(connection, "STREAMS_MAX", 3)
    async with connected(server) as peer:
        await peer.hear()
        peer.h2.remote_settings._settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS].appendleft(100)
        streams = [peer.call("Wait", b"%d" % number) for number in range(5)]
        await peer.until(lambda: len(peer.resets) == 2)
        assert peer.resets == {streams[3]: frames.REFUSED_STREAM, streams[4]: frames.REFUSED_STREAM}
        methods.gate.set()
        assert await peer.answer(streams[0]) == ("0", [b"0"])
        assert methods.begun == [b"0", b"1", b"2"]


# --- hostile ---------------------------------------------------------------------------------------------------------

PING = frames.frame(frames.PING, 0, 0, bytes(8))
RESET = frames.frame(frames.RST_STREAM, 0, 1, bytes(4))


@pytest.mark.parametrize(("flood", "count"), [
    (PING, 2001), (frames.settings({4: 70_000}), 101), (RESET, 2001), (frames.frame(0, 0, 1, b""), 2001),
    (frames.frame(frames.PRIORITY, 0, 1, bytes(5)), 2001), (frames.frame(0x7F, 0, 0, b""), 2001),
    (frames.frame(frames.HEADERS, 0, 3, b"\x88") + frames.frame(frames.CONTINUATION, 0, 3, b"") * 64, 1)],
    ids=["pings", "settings", "resets", "empty data", "priorities", "unknown", "fragments"])
async def test_a_flood_ends_its_connection_and_no_other(server, flood, count):
    async with connected(server) as other, connected(server) as peer:
        talk = peer.begin("Talk")
        assert talk == 1
        peer.send(flood * count)
        assert await peer.end() == frames.ENHANCE_YOUR_CALM
        assert await other.answer(other.call("Echo")) == ("0", [b"m"])
    await become(lambda: is_at_rest(server))


async def test_floods_are_counted_from_look_to_look(server):
    async with connected(server) as peer:
        for _ in range(3):
            pongs = peer.pongs
            for _ in range(1500):
                peer.h2.ping(bytes(8))
            peer.flush()
            await peer.until(lambda pongs=pongs: peer.pongs == pongs + 1500)
            for each in server.connections:
                each.look(server.loop.time())


async def test_calls_that_are_taken_back_at_once_end_their_connection(server, methods):
    """CVE-2023-44487."""
    async with connected(server) as peer:
        await peer.hear()
        for _ in range(3000):
            stream_id = peer.begin("Wait", ends=False)
            peer.h2.reset_stream(stream_id)
        peer.flush()
        assert await peer.end() == frames.ENHANCE_YOUR_CALM
    assert methods.begun == []
    await become(lambda: is_at_rest(server))


@pytest.mark.parametrize("seed", range(12))
async def test_no_bytes_fell_a_server(server, methods, caplog, seed):
    """Frames of a real client, changed, cut and shuffled: no traceback, nothing left behind, and others are served."""
    chance = Random(seed)
    async with connected(server) as good:
        for _ in range(30):
            pieces = _recorded()
            for _ in range(chance.randrange(1, 6)):
                kind = chance.randrange(4)
                index = chance.randrange(len(pieces))
                piece = bytearray(pieces[index])
                if kind == 0 and piece:
                    piece[chance.randrange(len(piece))] = chance.randrange(256)
                    pieces[index] = bytes(piece)
                elif kind == 1:
                    del pieces[index]
                    if not pieces:
                        pieces = [b"\0"]
                elif kind == 2:
                    pieces.insert(chance.randrange(len(pieces)), bytes(piece))
                else:
                    chance.shuffle(pieces)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(frames.PREFACE + b"".join(pieces) if chance.random() < 0.9 else b"".join(pieces))
            writer.write_eof()
            with_end = asyncio.ensure_future(reader.read())
            await asyncio.wait([with_end], timeout=0.05)
            with_end.cancel()
            writer.transport.abort()
        assert await good.answer(good.call("Echo")) == ("0", [b"m"])
    await become(lambda: is_at_rest(server))
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []


def _recorded() -> list[bytes]:
    """The frames that a client says in a few calls, behind the preface."""
    class Silent:
        def __init__(self) -> None:
            self.data = b""

        def is_closing(self) -> bool:
            return False

        def write(self, data: bytes) -> None:
            self.data += data

    writer = Silent()
    peer = Peer(None, writer, {})
    peer.call("Echo", b"one")
    peer.call("Wait", b"two", ("grpc-timeout", "1S"))
    talk = peer.begin("Talk")
    peer.h2.send_data(talk, framed(b"three"))
    peer.call("Count", b"20")
    peer.h2.ping(bytes(8))
    peer.h2.increment_flow_control_window(1000)
    peer.h2.reset_stream(talk)
    peer.flush()
    data, pieces = writer.data[len(frames.PREFACE):], []
    while data:
        size = 9 + int.from_bytes(data[:3], "big")
        pieces.append(data[:size])
        data = data[size:]
    return pieces


async def test_a_full_read_of_small_frames_holds_the_loop_for_a_moment(server, methods):
    """With many streams open: what one frame costs does not grow with them."""
    async with connected(server, {WINDOW: 0}) as peer:
        await peer.hear()
        for _ in range(1000):
            peer.call("Large", b"10")
        (open_,) = server.connections
        await become(lambda: open_.held == 2_342_000)
        update = frames.window_update(0, 1)
        data = update * (65_536 // len(update))
        began = time.thread_time()
        open_.data_received(data)
        assert time.thread_time() - began < 0.5


# --- connections -----------------------------------------------------------------------------------------------------


async def silent(server: GrpcServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that the server has, and which says nothing."""
    count = len(server._opening)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await become(lambda: len(server._opening) == count + 1)
    return reader, writer


async def end_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:
        return b""


async def test_connections_have_a_number_also_those_that_say_nothing(methods):
    async with served(methods, connections_max=2) as server:
        _, writer = await silent(server)
        async with connected(server) as peer:
            assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])
            reader, one_too_many = await asyncio.open_connection("127.0.0.1", server.port)
            assert await end_of(reader) == b""
            one_too_many.close()
            writer.transport.abort()
            await become(lambda: not server._opening)
            async with connected(server) as another:
                assert await another.answer(another.call("Echo")) == ("0", [b"m"])
                reader, one_too_many = await asyncio.open_connection("127.0.0.1", server.port)
                assert await end_of(reader) == b""
                one_too_many.close()


async def test_first_bytes_are_waited_for_and_no_longer_than_that(server, monkeypatch):
    async with connected(server) as peer:
        assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])
        monkeypatch.setattr(grpc_server, "FIRST_BYTES_S_MAX", 0.1)
        reader, writer = await silent(server)
        assert await end_of(reader) == b""
        writer.close()
        assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])


async def test_a_stop_closes_what_says_nothing(methods):
    async with served(methods) as server:
        reader, writer = await silent(server)
        await server.stop(20)
        assert await end_of(reader) == b""
        writer.close()


async def test_handshakes_that_fail_count_no_more_and_say_why(methods, monkeypatch, caplog):
    monkeypatch.setattr(tls, "TOLD_S", 0.01)
    async with served(methods, TransportConfig(tls_test_mode_enable=True), connections_max=1) as server:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"\x16\x03\x01\x00\x05rubbish")
            await end_of(reader)
            writer.close()
            await become(lambda: not server._opening)
        await become(lambda: caplog.text.count("its TLS handshake failed: ") == 3)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16")
        await become(lambda: server._opening)
        writer.close()
        await become(lambda: not server._opening)
        await become(lambda: "its TLS handshake failed: the client closed it" in caplog.text)
        async with connected(server) as peer:
            assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])


async def test_plain_text_is_refused_where_tls_is_enforced(methods):
    tls = TransportConfig(tls_test_mode_enable=True, tls_server_mode=TlsMode.ENFORCING)
    async with served(methods, tls) as server, connected(server) as peer:
        peer.call("Echo")
        assert await end_of(peer.reader) == b""
        assert methods.calls == []
