"""Streams by themselves, on a carrier that takes as much as a test says."""

import asyncio
import time

import pytest

from regulus.transport.http2.stream import STREAM_WINDOW, Stream
from regulus.wire.http2 import frames


class Connection:
    """`room` bytes go into each frame; what is put is kept."""

    initial_window = 1 << 30

    def __init__(self, room: int) -> None:
        self.room = room
        self.said: list[bytes] = []
        self.waiting = 0
        self.closed_streams: list[Stream] = []

    def put(self, frame: bytes) -> None:
        self.said.append(frame)

    def put_data(self, frame: bytes, size: int) -> None:
        self.said.append(frame)

    def wait(self, stream: Stream, size: int) -> None:
        self.waiting += size

    def sent(self, size: int) -> None:
        self.waiting -= size

    def closed(self, stream: Stream) -> None:
        self.closed_streams.append(stream)


class Quiet(Stream):
    __slots__ = ()

    def data_came(self, data: bytes) -> None: ...

    def peer_ended(self) -> None: ...

    def lost(self) -> None: ...


@pytest.fixture
def carrier() -> Connection:
    return Connection(16_384)


def test_what_waits_is_not_copied_for_each_frame(carrier):
    """Else the loop stands still for seconds: 64 MiB in 4,096 frames."""
    stream = Quiet(carrier, 1)
    stream.write(bytes(64 << 20))
    began = time.thread_time()
    stream.pump(1 << 30)
    assert time.thread_time() - began < 2
    assert (len(carrier.said), carrier.waiting, stream.waiting_size) == (4096, 0, 0)


def test_what_waits_leaves_whole_and_in_order_before_the_trailers(carrier):
    stream = Quiet(carrier, 1)
    stream.has_peer_ended = True
    carrier.room = 0
    stream.write(b"abcdefg")
    stream.write(b"hij")
    stream.end(b"T")
    carrier.room = 3
    stream.pump(5)
    assert (carrier.waiting, carrier.closed_streams) == (5, [])
    stream.pump(100)
    assert carrier.said == [frames.frame(frames.DATA, 0, 1, data) for data in (b"abc", b"de", b"fg", b"hij")] + [
        frames.frame(frames.HEADERS, 5, 1, b"T")]
    assert (carrier.waiting, carrier.closed_streams) == (0, [stream])


def test_an_answer_ends_once_and_nothing_is_written_behind_its_end(carrier):
    stream = Quiet(carrier, 1)
    stream.has_peer_ended = True
    carrier.room = 0
    stream.write(b"all")
    stream.end(b"first")
    stream.end(b"second")
    stream.begin(b"late")
    stream.write(b"more")
    assert carrier.waiting == 3
    carrier.room = 100
    stream.pump(100)
    stream.end(b"third")
    stream.write(b"more")
    assert carrier.said == [frames.frame(frames.DATA, 0, 1, b"all"), frames.frame(frames.HEADERS, 5, 1, b"first")]


async def test_all_who_wait_until_it_is_sent_go_on(carrier):
    stream = Quiet(carrier, 1)
    carrier.room = 0
    stream.write(b"abc")
    waiters = [asyncio.ensure_future(stream.sent()) for _ in range(3)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    await asyncio.sleep(0)
    carrier.room = 100
    stream.pump(100)
    done, _ = await asyncio.wait(waiters, timeout=5)
    assert [each.cancelled() for each in waiters if each in done] == [True, False, False]


async def test_who_writes_on_and_on_hears_that_the_stream_is_lost(carrier):
    stream = Quiet(carrier, 1)
    stream.drop()
    written = 0

    async def write() -> None:
        nonlocal written
        for _ in range(1000):
            stream.write(b"x")
            written += 1
            await stream.sent()

    task = asyncio.ensure_future(write())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), written) == (True, 1)


def test_a_window_opens_again_when_half_of_it_is_done_with(carrier):
    stream = Quiet(carrier, 1)
    stream.receive_window -= STREAM_WINDOW // 2
    stream.took(STREAM_WINDOW // 2 - 1)
    assert carrier.said == []
    stream.took(1)
    assert carrier.said == [frames.window_update(1, 524_288)]
    assert (stream.receive_window, stream.taken) == (1_048_576, 0)
    stream.has_peer_ended = True
    stream.took(STREAM_WINDOW)
    assert len(carrier.said) == 1


def test_what_is_written_waits_behind_what_waits_already(carrier):
    """Also where it would fit and the rest does not."""
    stream = Quiet(carrier, 1)
    carrier.room = 3
    stream.write(b"abcdefg")
    stream.write(b"hi")
    assert carrier.said == []
    stream.pump(100)
    assert carrier.said == [frames.frame(frames.DATA, 0, 1, data) for data in (b"abc", b"def", b"g", b"hi")]


def test_an_answer_that_comes_before_the_end_of_the_request_stops_it(carrier):
    stream = Quiet(carrier, 1)
    stream.end(b"T")
    assert carrier.said == [frames.frame(frames.HEADERS, 5, 1, b"T"), frames.rst_stream(1, frames.NO_ERROR)]
    other = Quiet(carrier, 3)
    other.has_peer_ended = True
    other.end(b"T")
    assert carrier.said[2:] == [frames.frame(frames.HEADERS, 5, 3, b"T")]


async def test_who_waits_until_it_is_sent_goes_on_when_the_stream_is_lost(carrier):
    stream = Quiet(carrier, 1)
    carrier.room = 0
    stream.write(b"abc")
    waiter = asyncio.ensure_future(stream.sent())
    await asyncio.sleep(0)
    assert not waiter.done()
    stream.drop()
    await asyncio.wait_for(waiter, 60)
    assert carrier.waiting == 0
