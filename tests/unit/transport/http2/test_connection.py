"""What a connection bounds, with peers that do what they like."""

import asyncio
import socket
from collections.abc import Callable

import h2.settings
import pytest
from hpack import Encoder

from regulus.transport.http2 import connection
from regulus.transport.http2.connection import Http2Connection
from regulus.transport.http2.grpc_server import GrpcServer, _Opening
from regulus.wire.http2 import frames
from regulus.wire.http2.grpc_messages import framed
from tests.unit.transport.http2.peers import Peer, become, connected, is_at_rest, served

WINDOW = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
ALL = {WINDOW: frames.WINDOW_MAX}
"""A peer that lets us send as much as we like."""


def open_one(server: GrpcServer) -> Http2Connection:
    (only,) = [each for each in server.connections if each.streams]
    return only


# --- answers that nobody reads ---------------------------------------------------------------------------------------


async def test_a_peer_that_opens_its_windows_and_does_not_read_is_not_written_to_for_ever(server, methods):
    """100 MB, of which no more than a turn's share lies in the socket; that is counted, and others have their turns."""
    async with connected(server, ALL) as peer:
        peer.h2.increment_flow_control_window(frames.WINDOW_MAX - frames.WINDOW_DEFAULT)
        peer.flush()
        stream_id = peer.call("Count", b"100000")
        await become(lambda: methods.begun)
        only = open_one(server)
        await become(lambda: only._transport.get_write_buffer_size() > connection.BUFFER_HIGH)
        for _ in range(20):
            await asyncio.sleep(0)
        in_socket = only._transport.get_write_buffer_size()
        assert in_socket <= connection.BUFFER_HIGH + connection.TURN_SIZE + 65_536
        assert server._account.size == only.held == in_socket + only.streams[stream_id].waiting_size
        assert methods.cancelled == []
    await become(lambda: methods.cancelled == [b"100000"] and is_at_rest(server))


async def test_what_lies_in_the_sockets_of_those_who_do_not_read_is_bounded(methods):
    async with served(methods, waiting_max=100_000) as server, connected(server) as good, \
            connected(server, ALL) as greedy:
        greedy.h2.increment_flow_control_window(frames.WINDOW_MAX - frames.WINDOW_DEFAULT)
        greedy.flush()
        greedy.call("Count", b"100000")
        await become(lambda: methods.cancelled == [b"100000"])
        assert await good.answer(good.call("Echo")) == ("0", [b"m"])
        assert len(server.connections) == 1
        await become(lambda: is_at_rest(server))


async def test_a_large_answer_that_is_read_slowly_is_whole(server):
    async with connected(server, ALL) as peer:
        peer.h2.increment_flow_control_window(frames.WINDOW_MAX - frames.WINDOW_DEFAULT)
        peer.flush()
        stream_id = peer.call("Count", b"20000")
        await become(lambda: server._account.size)
        await peer.until(lambda: stream_id in peer.ended)
        assert peer.headers[stream_id]["grpc-status"] == "0"
        assert peer.data[stream_id] == b"".join(framed(number.to_bytes(4, "big").ljust(1000, b"."))
                                                for number in range(20_000))
    await become(lambda: is_at_rest(server))


# --- ends ------------------------------------------------------------------------------------------------------------


async def test_a_connection_that_is_closed_counts_until_its_socket_is(server):
    """Its peer does not read: the socket would stay for ever, beside those that connections_max counts."""
    async with connected(server, ALL) as peer:
        peer.h2.increment_flow_control_window(frames.WINDOW_MAX - frames.WINDOW_DEFAULT)
        peer.flush()
        await become(lambda: server.connections)
        (only,) = server.connections
        peer.writer.transport.pause_reading()
        only._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        while only._transport.get_write_buffer_size() < 60_000:
            stream_id = peer.call("Large", b"60000")
            await become(lambda stream_id=stream_id: only._last_id == stream_id and not only.streams)
        peer.send(frames.frame(frames.PING, 0, 1, bytes(8)))
        await become(lambda: not only._is_open)
        assert list(server.connections) == [only]
        now = server.loop.time()
        only.look(now)
        await asyncio.sleep(0.02)
        assert list(server.connections) == [only]
        only.look(now + connection.CLOSE_S_MAX + 1)
        await become(lambda: not server.connections)
        assert is_at_rest(server)


async def test_what_ends_a_connection_while_it_is_counted_is_not_counted_for_ever(methods):
    async with served(methods, waiting_max=10_000) as server:
        for _ in range(3):
            async with connected(server) as peer:
                peer.send(frames.head(frames.DATA, 0, 1, 16_000) + bytes(12_000))
                await peer.end()
        await become(lambda: is_at_rest(server))


async def test_a_call_that_is_on_its_way_when_we_leave_is_refused_so_that_it_goes_elsewhere(server, methods):
    async with connected(server) as peer:
        await peer.answer(peer.call("Echo"))
        (only,) = server.connections
        only.leave()
        late = peer.call("Wait", b"late")       # its client has not heard that we leave
        assert await peer.end() == frames.NO_ERROR
        assert (peer.resets, methods.begun) == ({late: frames.REFUSED_STREAM}, [])


async def test_who_does_not_say_that_it_heard_us_leave_is_closed_in_the_end(server):
    async with connected(server) as peer:
        await become(lambda: server.connections)
        (only,) = server.connections
        only.leave()
        now = server.loop.time()
        only.look(now + 1)
        await asyncio.sleep(0.02)
        assert list(server.connections) == [only]
        peer.send(frames.frame(frames.PING, frames.ACK, 0, b"anything"))
        only.look(now + connection.CLOSE_S_MAX + 1)
        await become(lambda: not server.connections)


async def test_calls_under_way_go_on_when_we_leave(server, methods):
    async with connected(server) as peer:
        stream_id = peer.call("Wait", b"under way")
        await become(lambda: methods.begun)
        only = open_one(server)
        only.leave()
        only.look(server.loop.time() + connection.CLOSE_S_MAX + 1)
        methods.gate.set()
        await become(lambda: not only.streams)
        assert only._is_open        # its client has not heard yet that we leave
        late = peer.call("Wait", b"late")
        assert await peer.answer(stream_id) == ("0", [b"under way"])
        assert await peer.end() == frames.NO_ERROR
        assert (peer.resets, methods.begun) == ({late: frames.REFUSED_STREAM}, [b"under way"])
    await become(lambda: is_at_rest(server))


async def test_a_stop_waits_for_answers_that_are_still_read_and_for_requests_that_are_still_sent(methods):
    async with served(methods) as server, connected(server) as peer:
        peer.takes = False
        answer = peer.call("Large", b"300000")
        await become(lambda: server._account.size)
        request = peer.begin("Echo")
        await become(lambda: server.unfinished)
        stopping = asyncio.ensure_future(server.stop(20))
        await peer.until(lambda: peer.goaway == frames.NO_ERROR)
        assert not stopping.done()
        peer.h2.send_data(request, framed(b"not late"), end_stream=True)
        peer.h2.increment_flow_control_window(400_000)
        peer.h2.increment_flow_control_window(400_000, answer)
        peer.flush()
        assert await peer.answer(answer) == ("0", [bytes(300_000)])
        assert await peer.answer(request) == ("0", [b"not late"])
        assert await peer.end() == frames.NO_ERROR
        await stopping
        assert is_at_rest(server)
        assert not server.opened(_Opening(server))


# --- floods ----------------------------------------------------------------------------------------------------------


async def test_a_full_read_of_calls_lets_others_have_turns(server):
    """256 KiB of requests take most of a second: the loop goes round in between."""
    async with connected(server) as peer:
        await become(lambda: server.connections)
        (only,) = server.connections
        await become(lambda: only._has_settings)
        numbers = range(1, 10_001, 2)
        only.data_received(b"".join(request(number, "Nobody") for number in numbers))
        assert only._last_id == 2 * connection.FRAMES_PER_TURN - 1
        await asyncio.sleep(0)
        assert only._last_id == 4 * connection.FRAMES_PER_TURN - 1
        only.data_received(request(10_001, "Nobody"))       # as what TLS had read already
        assert only._last_id == 4 * connection.FRAMES_PER_TURN - 1
        said = await frames_until(peer, lambda kind, stream_id: (kind, stream_id) == (frames.HEADERS, 10_001))
        assert [stream_id for kind, stream_id, _ in said if kind == frames.HEADERS] == [*numbers, 10_001]
    await become(lambda: is_at_rest(server))


async def test_nothing_is_read_behind_a_full_read_until_others_had_their_turns(server):
    async with connected(server) as peer:
        await become(lambda: server.connections)
        (only,) = server.connections
        await become(lambda: only._has_settings)
        unknown = frames.frame(0x7F, 0, 0, bytes(8_191))
        only.data_received(unknown * 7)
        assert only._transport.is_reading()
        only.data_received(unknown * 8)
        assert not only._transport.is_reading()
        await asyncio.sleep(0)
        assert only._transport.is_reading()
        assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])


def request(stream_id: int, method: str) -> bytes:
    block = Encoder().encode([(":method", "POST"), (":scheme", "http"), (":path", f"/t/{method}"),
                              (":authority", "here"), ("content-type", "application/grpc")])
    return frames.frame(frames.HEADERS, frames.END_HEADERS, stream_id, block)


async def frames_until(peer: Peer, is_last: Callable[[int, int], bool]) -> list[tuple[int, int, bytes]]:
    """What comes, without a look at whether a client may say what it said."""
    reader, found = frames.FrameReader(1 << 20), []
    reader.feed(frames.PREFACE)
    async with asyncio.timeout(60):
        while True:
            for kind, _, stream_id, payload in reader.frames():
                found.append((kind, stream_id, payload))
                if is_last(kind, stream_id):
                    return found
            reader.feed(await peer.reader.read(1 << 16))


async def test_calls_that_the_peer_makes_us_reset_end_their_connection(server, methods):
    """CVE-2025-8671: a window of 0 bytes more ends a stream, and its call must not be free."""
    async with connected(server) as peer:
        for stream_id in range(1, 6001, 2):
            peer.send(request(stream_id, "Wait") + frames.frame(frames.DATA, frames.END_STREAM, stream_id, framed(b"m"))
                      + frames.window_update(stream_id, 0))
        said = await frames_until(peer, lambda kind, stream_id: kind == frames.GOAWAY)
        assert int.from_bytes(said[-1][2][4:8], "big") == frames.ENHANCE_YOUR_CALM
    await become(lambda: is_at_rest(server))


@pytest.mark.parametrize("frame", [
    frames.frame(frames.PRIORITY, 0, 3, bytes(4)),
    frames.frame(frames.DATA, frames.PADDED, 1, b"\x02\0\0"), frames.frame(frames.DATA, 0, 3, b"")],
    ids=["wrong priorities", "nothing but padding", "empty data of ended streams"])
async def test_frames_that_bring_nothing_have_an_end(server, frame):
    async with connected(server) as peer:
        assert peer.begin("Talk") == 1
        await peer.answer(peer.call("Echo"))
        peer.send(frame * 2001)
        assert await peer.end() == frames.ENHANCE_YOUR_CALM
    await become(lambda: is_at_rest(server))


async def test_headers_that_are_far_too_large_have_an_end(server):
    async with connected(server) as peer:
        for _ in range(connection.FLOOD_MAX // connection.TOO_LARGE_FLOODS):
            assert (await peer.answer(peer.call("Echo", b"m", ("x", "y" * 20_000))))[0] == "8"
        peer.call("Echo", b"m", ("x", "y" * 20_000))
        assert await peer.end() == frames.ENHANCE_YOUR_CALM


async def test_a_client_may_ask_by_a_ping_how_fast_each_answer_comes(server):
    """As clients in Go do, each time that data comes."""
    async with connected(server) as peer:
        for number in range(connection.FLOOD_MAX + 100):
            assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])
            peer.h2.ping(number.to_bytes(8, "big"))
            peer.flush()
        await peer.until(lambda: peer.pongs == connection.FLOOD_MAX + 100)
        (only,) = server.connections
        assert only._floods == 0


# --- rules of streams and windows ------------------------------------------------------------------------------------


async def test_a_peer_that_sends_more_than_the_window_loses_its_stream(server, methods):
    async with connected(server) as peer:
        talk = peer.begin("Hesitate")
        whole = frames.frame(frames.DATA, 0, talk, framed(bytes(16_379)))
        peer.send(whole * 64)                   # 1 MiB, of which nobody takes anything
        await become(lambda: methods.calls and methods.calls[0].receive_window == 0)
        assert peer.resets == {}
        peer.send(frames.frame(frames.DATA, 0, talk, b"\0"))
        await peer.until(lambda: peer.resets == {talk: frames.FLOW_CONTROL_ERROR})
        assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])
    await become(lambda: is_at_rest(server))


async def test_data_behind_the_end_of_a_request_ends_its_stream(server, methods):
    async with connected(server) as peer:
        stream_id = peer.call("Wait", b"one")
        await become(lambda: methods.begun)
        peer.send(frames.frame(frames.DATA, frames.END_STREAM, stream_id, framed(b"two")))
        await peer.until(lambda: peer.resets == {stream_id: frames.STREAM_CLOSED})
        await become(lambda: methods.cancelled == [b"one"])
    await become(lambda: is_at_rest(server))


async def test_a_window_has_a_most(server):
    async with connected(server) as peer:
        stream_id = peer.begin("Talk")
        peer.send(frames.window_update(stream_id, frames.WINDOW_MAX - frames.WINDOW_DEFAULT))
        await become(lambda: server.connections and open_one(server).streams[stream_id].send_window == 0x7FFFFFFF)
        peer.send(frames.window_update(stream_id, 1))
        await peer.until(lambda: peer.resets == {stream_id: frames.FLOW_CONTROL_ERROR})
        peer.send(frames.window_update(0, frames.WINDOW_MAX - frames.WINDOW_DEFAULT))
        assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])
        peer.send(frames.window_update(0, frames.WINDOW_MAX))
        assert await peer.end() == frames.FLOW_CONTROL_ERROR


async def test_settings_may_not_make_a_window_larger_than_the_most(server):
    async with connected(server) as peer:
        stream_id = peer.begin("Talk")
        peer.send(frames.window_update(stream_id, frames.WINDOW_MAX - frames.WINDOW_DEFAULT)
                  + frames.settings({frames.INITIAL_WINDOW_SIZE: frames.WINDOW_DEFAULT + 1}))
        assert await peer.end() == frames.FLOW_CONTROL_ERROR


async def test_headers_behind_the_messages_end_a_request(server):
    async with connected(server) as peer:
        stream_id = peer.begin("Echo", ("content-length", "6"))
        peer.h2.send_data(stream_id, framed(b"m"))
        peer.h2.send_headers(stream_id, [("x", "y")], end_stream=True)
        peer.flush()
        assert await peer.answer(stream_id) == ("0", [b"m"])
        (only,) = server.connections
        assert only._promised == {}
        short = peer.begin("Echo", ("content-length", "7"))
        peer.send(frames.frame(frames.DATA, frames.END_STREAM, short, framed(b"m")))
        await peer.until(lambda: peer.resets == {short: frames.PROTOCOL_ERROR})
    await become(lambda: is_at_rest(server))


@pytest.mark.parametrize("frame", [
    frames.rst_stream(3, frames.CANCEL), frames.window_update(3, 1), frames.frame(frames.DATA, 0, 3, b"x"),
    frames.window_update(2, 1), frames.frame(frames.DATA, 0, 0, b"x")])
async def test_a_stream_that_has_not_begun_takes_nothing(server, frame):
    async with connected(server) as peer:
        peer.begin("Talk")
        peer.send(frame)
        assert await peer.end() == frames.PROTOCOL_ERROR


async def test_headers_in_many_frames_have_a_size(server):
    async with connected(server) as peer:
        peer.send(frames.frame(frames.HEADERS, 0, 1, bytes(16_384))
                  + frames.frame(frames.CONTINUATION, 0, 1, bytes(16_384)) * 3)
        await become(lambda: server._account.size == 65_536)
        peer.send(frames.frame(frames.CONTINUATION, 0, 1, b"\0"))
        assert await peer.end() == frames.ENHANCE_YOUR_CALM
    await become(lambda: is_at_rest(server))


async def test_padding_is_given_back_to_the_window(server):
    async with connected(server) as peer:
        talk = peer.begin("Talk")
        for _ in range(4_500):      # 1.1 MiB of padding
            while peer.h2.local_flow_control_window(talk) < 262:
                await peer.hear()
            peer.h2.send_data(talk, framed(b"m"), pad_length=255)
            peer.flush()
        peer.h2.end_stream(talk)
        peer.flush()
        assert await peer.answer(talk) == ("0", [b"M"] * 4_500)


async def test_frames_are_larger_for_a_peer_that_takes_larger_ones(server):
    async with connected(server) as peer:
        peer.send(frames.settings({frames.MAX_FRAME_SIZE: 40_000}) + request(1, "Large")
                  + frames.frame(frames.DATA, frames.END_STREAM, 1, framed(b"60000")))
        said = await frames_until(peer, lambda kind, stream_id: kind == frames.DATA)
        assert len(said[-1][2]) == 40_000


async def test_a_request_may_end_with_its_headers(server):
    async with connected(server) as peer:
        assert await peer.answer(peer.begin("Talk", ends=True)) == ("0", [])
        assert (await peer.answer(peer.begin("Echo", ends=True)))[0] == "13"
        assert peer.resets.get(1) is None
    await become(lambda: is_at_rest(server))


@pytest.mark.parametrize("said", [
    frames.frame(frames.PING, 0, 0, bytes(8)), frames.frame(frames.SETTINGS, frames.ACK, 0, b""),
    frames.settings({}) + frames.frame(frames.HEADERS, 0, 1, b"\x83") + frames.frame(frames.PING, 0, 0, bytes(8)),
    frames.settings({}) + frames.frame(frames.HEADERS, 0, 1, b"\x83") + frames.frame(frames.CONTINUATION, 4, 3, b"")],
    ids=["no settings", "settings of ours", "within headers", "headers of another stream"])
async def test_frames_that_come_where_others_must_end_the_connection(server, said):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(frames.PREFACE + said)
    heard = frames.FrameReader(1 << 20)
    heard.feed(frames.PREFACE + await asyncio.wait_for(reader.read(), 60))
    kind, _, _, payload = heard.frames()[-1]
    assert (kind, payload[:8]) == (frames.GOAWAY, bytes(7) + b"\1")
    writer.close()
