"""What a call counts, gives windows for and ends with."""

import asyncio
import zlib
from collections.abc import Iterator
from typing import Any

import h2.settings
import pytest

from regulus.transport.http2 import grpc_call
from regulus.transport.http2.stream import STREAM_WINDOW
from regulus.wire.http2 import frames
from regulus.wire.http2.grpc_messages import STEP_SIZE, Message, Packed, framed
from tests.unit.transport.http2.peers import PACKED_MAX, Peer, become, connected, is_at_rest, served

WINDOW = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE


async def say(peer: Peer, stream_id: int, data: bytes) -> None:
    """As its windows let it; it has been heard when this returns."""
    sent = 0
    while sent < len(data):
        size = min(peer.h2.local_flow_control_window(stream_id), 16_384, len(data) - sent)
        if not size:
            await peer.hear()
            continue
        peer.h2.send_data(stream_id, data[sent:sent + size])
        sent += size
        peer.flush()
    pongs = peer.pongs
    peer.h2.ping(bytes(8))
    peer.flush()
    await peer.until(lambda: peer.pongs > pongs)


async def say_all(peer: Peer, method: str, message: bytes) -> int:
    """A request in as many frames as it takes."""
    stream_id = peer.begin(method)
    await say(peer, stream_id, framed(message))
    if stream_id not in peer.ended:
        peer.h2.end_stream(stream_id)
        peer.flush()
    return stream_id


@pytest.mark.parametrize("method", ["BreakOff", "BreakOffLate"])
async def test_a_method_that_is_cancelled_by_what_it_waits_for_is_answered(server, caplog, method):
    async with connected(server) as peer:
        assert (await peer.answer(peer.call(method)))[0] == "14"
        assert f"/t/{method} was cancelled" in caplog.text
        assert await peer.answer(peer.call("Echo")) == ("0", [b"m"])
    await become(lambda: is_at_rest(server))


async def test_messages_that_no_method_takes_yet_are_counted(server, methods):
    """The call costs 2,048 bytes and 282 of its headers, each message 64 beside its own."""
    async with connected(server) as peer:
        talk = peer.begin("Hesitate")
        await say(peer, talk, framed(b"x" * 1000) * 100 + framed(b"y" * 1000)[:500])
        assert server.held == 2_330 + 100 * 1_064 + 500
        methods.gate.set()
        await say(peer, talk, framed(b"y" * 1000)[500:])
        await peer.until(lambda: len(peer.data.get(talk, b"")) == 101 * 1005)
        assert server.held == 2_330
        peer.h2.end_stream(talk)
        peer.flush()
        assert (await peer.answer(talk))[0] == "0"
    await become(lambda: is_at_rest(server))


def packed(data: bytes) -> bytes:
    small = zlib.compress(data)
    return b"\x01" + len(small).to_bytes(4, "big") + small


async def test_small_messages_that_become_large_ones_wait_as_they_came_and_are_inflated_one_at_a_time(methods):
    methods.gate.set()
    async with served(methods, held_max=250_000) as server, connected(server) as peer:
        talk = peer.begin("Talk", ("grpc-encoding", "deflate"))
        await say(peer, talk, packed(bytes(100_000)) * 20)
        await peer.until(lambda: len(peer.data.get(talk, b"")) == 20 * 100_005)
        peer.h2.end_stream(talk)
        peer.flush()
        assert (await peer.answer(talk))[0] == "0"
        await become(lambda: is_at_rest(server))


@pytest.mark.parametrize(("method", "size"), [("Echo", 1_000_000), ("Talk", 500_000)])
async def test_a_message_is_counted_as_what_it_becomes(methods, method, size):
    async with served(methods, held_max=size // 2) as server, connected(server) as peer:
        stream = peer.begin(method, ("grpc-encoding", "deflate"))
        await say(peer, stream, packed(bytes(size)))
        if stream not in peer.ended:
            peer.h2.end_stream(stream)
            peer.flush()
        assert (await peer.answer(stream))[0] == "8"
        await become(lambda: is_at_rest(server))


async def test_what_a_message_became_counts_as_long_as_its_method_has_it(methods):
    held = []

    async def look(data: Message, call: grpc_call.GrpcCall) -> bytes:
        whole = await call.unpacked(data, PACKED_MAX)
        held.append(call.held)
        return whole[:1]

    methods.echo = look
    async with served(methods) as server, connected(server) as peer:
        stream = peer.begin("Echo", ("grpc-encoding", "deflate"))
        await say(peer, stream, packed(bytes(500_000)))
        peer.h2.end_stream(stream)
        peer.flush()
        assert await peer.answer(stream) == ("0", [b"\0"])
        assert held[0] > 500_000
        await become(lambda: is_at_rest(server))


async def test_others_are_served_while_a_message_is_inflated(server, methods, monkeypatch):
    """One that becomes 1 MiB takes 16 steps: no turn of the loop has two of them."""
    turns, steps = [0], []
    loop = asyncio.get_running_loop()

    def turn() -> None:
        turns[0] += 1
        loop.call_soon(turn)

    inflated = Packed.inflated

    def watched(message: Packed, size_max: int) -> Iterator[bytes]:
        for part in inflated(message, size_max):
            steps.append(turns[0])
            yield part

    monkeypatch.setattr(Packed, "inflated", watched)
    async with connected(server) as peer:
        stream = peer.begin("Echo", ("grpc-encoding", "deflate"))
        loop.call_soon(turn)
        await say(peer, stream, packed(bytes(PACKED_MAX)))
        peer.h2.end_stream(stream)
        peer.flush()
        status, (found,) = await peer.answer(stream)
        assert (status, len(found)) == ("0", PACKED_MAX)
        assert len(steps) >= PACKED_MAX // STEP_SIZE
        assert len(set(steps)) == len(steps)


@pytest.mark.parametrize("size", [PACKED_MAX + 1, 50 * PACKED_MAX])
async def test_a_message_that_becomes_more_than_its_method_takes_is_refused(server, methods, size):
    async with connected(server) as peer:
        stream = peer.begin("Echo", ("grpc-encoding", "deflate"))
        await say(peer, stream, packed(bytes(size)))
        peer.h2.end_stream(stream)
        peer.flush()
        assert (await peer.answer(stream))[0] == "8"


async def test_a_compressed_message_that_is_larger_than_it_may_become_is_not_inflated(server, methods, monkeypatch):
    monkeypatch.setattr(Packed, "inflated", None)
    async with connected(server) as peer:
        stream = peer.begin("Echo", ("grpc-encoding", "deflate"))
        await say(peer, stream, b"\x01" + (PACKED_MAX + 1).to_bytes(4, "big") + bytes(PACKED_MAX + 1))
        peer.h2.end_stream(stream)
        peer.flush()
        assert (await peer.answer(stream))[0] == "8"


async def test_a_call_that_is_taken_back_while_it_is_inflated_counts_no_more(server, methods):
    """Its reader is another task than its method, and hears of the end later."""
    async with connected(server) as peer:
        talk = peer.begin("Hesitate")
        await become(lambda: methods.calls)
        (call,) = methods.calls
        peer.h2.reset_stream(talk)
        peer.flush()
        await become(lambda: call.is_closed)
        assert len(await call.unpacked(Packed(zlib.compress(bytes(PACKED_MAX))), PACKED_MAX)) == PACKED_MAX
        await become(lambda: is_at_rest(server))


@pytest.mark.parametrize(("size", "count"), [(10, 30_000), (10_000, 500)], ids=["larger than before", "far smaller"])
async def test_the_window_opens_by_as_much_as_came_compressed(server, methods, size, count):
    """Opened by more, it would have no end; by less, it would close for good."""
    methods.gate.set()
    async with connected(server) as peer:
        talk = peer.begin("Hesitate", ("grpc-encoding", "deflate"))
        small = zlib.compress(b"x" * size)
        message = b"\x01" + len(small).to_bytes(4, "big") + small
        await say(peer, talk, message * count)
        await peer.until(lambda: len(peer.data.get(talk, b"")) == count * (5 + size))
        (call,) = methods.calls
        assert call.receive_window + call.taken == STREAM_WINDOW
        assert peer.h2.local_flow_control_window(talk) <= STREAM_WINDOW


async def test_the_largest_message_of_a_conversation_comes_through_however_much_of_the_window_is_open(server, methods):
    methods.gate.set()
    async with connected(server) as peer:
        talk = peer.begin("Hesitate")
        await say(peer, talk, framed(bytes(STREAM_WINDOW // 2 - 1 - 5)))    # one byte more would open it again
        (call,) = methods.calls
        assert call.taken == STREAM_WINDOW // 2 - 1
        await say(peer, talk, framed(bytes(grpc_call.STREAMED_SIZE_MAX)))
        peer.h2.end_stream(talk)
        peer.flush()
        status, found = await peer.answer(talk)
        assert (status, [len(each) for each in found]) == ("0", [524_282, 524_283])


async def test_headers_that_few_bytes_repeat_are_counted(methods):
    """A value of 3,800 bytes is said once, and named by one byte in each of the calls behind."""
    async with served(methods, held_max=1_000_000) as server, connected(server) as peer:
        first = peer.begin("Talk", ("x-large", "y" * 3_800))
        await become(lambda: server.held == 2_048 + 278 + 3_839)
        for _ in range(200):
            peer.begin("Talk", *[("x-large", "y" * 3_800)] * 4)
        await peer.until(lambda: len(peer.ended) == 200 - 56)
        assert (server.held <= 1_000_000, first in peer.ended) == (True, False)
        assert {peer.headers[stream_id]["grpc-status"] for stream_id in peer.ended} == {"8"}
    await become(lambda: is_at_rest(server))


async def test_calls_whose_answers_wait_count_with_what_waits(methods):
    """Else peers with windows of nothing would fill both bounds: that of requests, and that of answers."""
    async with served(methods, waiting_max=250_000) as server, connected(server) as good:
        peers = [connected(server, {WINDOW: 0}) for _ in range(3)]
        async with peers[0] as small, peers[1] as large, peers[2] as smaller:
            for peer, count in ((small, 20), (large, 60), (smaller, 10)):
                for _ in range(count):
                    peer.call("Echo")
            await become(lambda: server._account.size > 200_000)
            assert server.held == 0
            sizes = sorted(each.held for each in server.connections)
            assert sizes[0] == 0
            assert sizes[-1] > 60 * 2_048
            for _ in range(20):
                small.call("Echo")
            await large.end()       # that with the most
            assert await good.answer(good.call("Echo")) == ("0", [b"m"])
            await become(lambda: len(server.connections) == 3)
            assert server._account.size < 200_000
            for peer, count in ((small, 15), (smaller, 50)):    # neither has as much as the large one had
                for _ in range(count):
                    peer.call("Echo")
            await become(lambda: len(server.connections) == 2)
            assert await good.answer(good.call("Echo")) == ("0", [b"m"])
    await become(lambda: is_at_rest(server))


async def test_how_an_answer_ends_is_said_once(server, methods):
    """Its trailers wait behind what the peer does not read, and its method ends well all the same."""
    async with connected(server, {WINDOW: 100}) as peer:
        peer.takes = False
        stream_id = peer.begin("Boast")
        await become(lambda: methods.begun)
        await say(peer, stream_id, framed(bytes(1_000)))
        assert server.held == 2_048 + 279 + 1_064
        peer.h2.send_data(stream_id, b"\0" + (1 << 30).to_bytes(4, "big"))
        peer.flush()
        await become(lambda: methods.cancelled)
        await say(peer, stream_id, bytes(50_000))       # which nobody takes, nor counts
        (only,) = server.connections
        assert (server.held, only.held) == (0, 2_048 + 279 + only.streams[stream_id].waiting_size)
        peer.h2.end_stream(stream_id)
        peer.h2.increment_flow_control_window(10_000, stream_id)
        peer.flush()
        assert await peer.answer(stream_id) == ("8", [bytes(1000)])
    await become(lambda: is_at_rest(server))


@pytest.mark.parametrize(("content_type", "status"), [
    ("application/grpc", "200"), ("application/grpc+proto", "200"), ("application/grpc;charset=utf-8", "200"),
    ("application/grpc-web", "415"), ("application/grpcs", "415"), ("application/json", "415"), ("", "415")])
async def test_what_a_call_says_that_it_is(server, content_type, status):
    async with connected(server) as peer:
        stream_id = peer.h2.get_next_available_stream_id()
        peer.h2.send_headers(stream_id, [(":method", "POST"), (":scheme", "http"), (":path", "/t/Nobody"),
                                         (":authority", "here"), ("content-type", content_type)], end_stream=True)
        peer.flush()
        await peer.until(lambda: stream_id in peer.ended)
        assert peer.headers[stream_id][":status"] == status


async def test_a_deadline_that_is_met_is_forgotten(server, methods):
    async with connected(server) as peer:
        assert await peer.answer(peer.call("Echo", b"m", ("grpc-timeout", "1H"))) == ("0", [b"m"])
        (call,) = methods.calls
        assert call._timer.cancelled()


@pytest.mark.parametrize(("text", "left_s"), [("24H", 86_400.0), ("1441M", None), ("99999999H", None), ("9S", 9.0)])
async def test_a_deadline_beyond_a_day_is_none(server, methods, text, left_s):
    methods.gate.set()
    async with connected(server) as peer:
        talk = peer.begin("Hesitate", ("grpc-timeout", text))
        await become(lambda: methods.calls)
        assert methods.calls[0].time_left_s() == (left_s if left_s is None else pytest.approx(left_s, abs=5))
        peer.h2.end_stream(talk)
        peer.flush()
        await peer.answer(talk)


async def test_a_part_of_an_answer_that_nobody_reads_is_dropped_at_the_deadline(server, methods):
    async with connected(server, {WINDOW: 0}) as peer:
        stream_id = peer.call("Count", b"10", ("grpc-timeout", "50m"))
        await peer.until(lambda: peer.resets == {stream_id: frames.CANCEL})
        assert (methods.cancelled, server._account.size) == ([b"10"], 0)
    await become(lambda: is_at_rest(server))


@pytest.mark.parametrize("method", ["Echo", "Hesitate"])
async def test_the_connection_that_holds_most_gives_way_with_its_largest_call(methods, method):
    """Whoever asks: the others go on, of the same client, too."""
    async with served(methods, held_max=200_000) as server, connected(server) as greedy, \
            connected(server) as second, connected(server) as modest:
        small, large = greedy.begin(method), greedy.begin(method)
        await say(greedy, small, framed(bytes(90_000))[:20_000])
        await say(greedy, large, framed(bytes(90_000))[:80_000])
        other = second.begin(method)
        await say(second, other, framed(bytes(90_000))[:80_000])
        assert await modest.answer(await say_all(modest, "Echo", bytes(20_000))) == ("0", [bytes(20_000)])
        assert (await greedy.answer(large))[0] == "8"
        assert "callsSizeMax" in greedy.headers[large]["grpc-message"]
        assert (small in greedy.ended, other in second.ended) == (False, False)
    await become(lambda: is_at_rest(server))


async def test_very_many_small_calls_keep_nobody_from_a_larger_one(methods):
    """As many give way as it takes."""
    async with served(methods, held_max=200_000) as server, connected(server) as greedy, connected(server) as modest:
        begun = [greedy.begin("Echo") for _ in range(90)]
        await become(lambda: server.held > 190_000)
        assert await modest.answer(await say_all(modest, "Echo", bytes(30_000))) == ("0", [bytes(30_000)])
        await greedy.until(lambda: greedy.ended)
        assert {(await greedy.answer(each))[0] for each in greedy.ended} == {"8"}
        assert 10 < len(greedy.ended) < 30 < len(begun)
    await become(lambda: is_at_rest(server))


class Counted(dict[Any, Any]):
    looks = 0

    def __iter__(self) -> Iterator[Any]:
        self.looks += 1
        return super().__iter__()

    def values(self) -> Any:
        self.looks += 1
        return super().values()


async def test_calls_of_one_connection_are_looked_at_once_for_many_that_give_way(methods):
    """Thousands may have begun, of which each new call ends one."""
    async with served(methods, held_max=200_000) as server, connected(server) as greedy, connected(server) as modest:
        large = greedy.begin("Echo")
        await say(greedy, large, framed(bytes(90_000))[:16_000])
        for _ in range(77):
            greedy.begin("Echo")
        await become(lambda: len(server.unfinished) == 78)
        greedy_here = next(iter(server.unfinished)).connection
        greedy_here.streams = calls = Counted(greedy_here.streams)
        for _ in range(30):
            await say(modest, modest.begin("Echo"), b"")
        assert (calls.looks, modest.ended) == (2, {})
        assert (await greedy.answer(large))[0] == "8"
        greedy_here.streams = dict(calls)
    await become(lambda: is_at_rest(server))


async def test_calls_give_way_of_the_connection_that_holds_most_by_then(methods):
    async with served(methods, held_max=200_000) as server, connected(server) as first, \
            connected(server) as second, connected(server) as modest:
        for _ in range(80):
            first.begin("Echo")
        await become(lambda: len(server.unfinished) == 80)
        first_here = next(iter(server.unfinished)).connection
        for _ in range(12):
            await say(second, second.begin("Echo"), framed(bytes(90_000))[:16_000])
        assert 0 < first_here.requests_size < 100_000
        left = first_here.requests_size
        for _ in range(20):
            await say(modest, modest.begin("Echo"), b"")
        assert (first_here.requests_size, modest.ended) == (left, {})
        await second.until(lambda: second.ended)
    await become(lambda: is_at_rest(server))


async def test_all_connections_are_looked_at_when_the_one_that_held_most_has_ended_its_calls(methods):
    """And not for each call: there may be thousands of both."""
    async with served(methods, held_max=400_000) as server, connected(server) as gone, connected(server) as greedy, \
            connected(server) as modest:
        assert (await gone.answer(await say_all(gone, "Echo", bytes(380_000))))[0] == "0"
        for _ in range(20):
            await say(greedy, greedy.begin("Echo"), framed(bytes(90_000))[:16_000])
        server.connections = connections = Counted(server.connections)
        for _ in range(60):
            await say(modest, modest.begin("Echo"), b"")
        assert (connections.looks, modest.ended) == (1, {})
        await greedy.until(lambda: len(greedy.ended) == 6)
    await become(lambda: is_at_rest(server))


async def test_a_request_that_a_method_works_on_gives_no_way(methods):
    """What it does may be done already. Where no other call has enough, the one that asks is refused."""
    async with served(methods, held_max=150_000) as server, connected(server) as greedy, connected(server) as modest:
        waiting = [await say_all(greedy, "Wait", bytes(60_000)), await say_all(greedy, "Wait", bytes(60_000))]
        await become(lambda: len(methods.begun) == 2)
        assert (await modest.answer(await say_all(modest, "Echo", bytes(30_000))))[0] == "8"
        unfinished = greedy.begin("Echo")
        await become(lambda: len(server.unfinished) == 1)
        assert (await modest.answer(await say_all(modest, "Echo", bytes(30_000))))[0] == "8"
        assert (await greedy.answer(unfinished))[0] == "8"
        methods.gate.set()
        assert [(await greedy.answer(each))[0] for each in waiting] == ["0", "0"]
    await become(lambda: is_at_rest(server))


async def test_messages_that_were_taken_count_no_more(methods):
    methods.gate.set()
    async with served(methods, held_max=20_000) as server, connected(server) as peer:
        talk = peer.begin("Hesitate")
        for number in range(1, 41):
            await say(peer, talk, framed(bytes(1_000)))
            await peer.until(lambda number=number: len(peer.data.get(talk, b"")) == number * 1_005)
        assert talk not in peer.ended
