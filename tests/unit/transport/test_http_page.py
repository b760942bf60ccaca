"""Pages over HTTP, and clients that send anything else."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from regulus.transport.http_page import REQUEST_SIZE_MAX, HttpPages, PageAnswer, PageRequest
from regulus.transport.listener import bind


class Desk:
    def __init__(self) -> None:
        self.asked: list[PageRequest] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def answer(self, request: PageRequest) -> PageAnswer:
        self.asked.append(request)
        await self.gate.wait()
        if request.path == "/fails":
            raise RuntimeError("a broken page")
        return PageAnswer([b"one ", b"two"], status=HTTPStatus.OK if request.path == "/" else HTTPStatus.NOT_FOUND)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def pages(desk: Desk) -> AsyncIterator[HttpPages]:
    pages = HttpPages(bind("127.0.0.1", 0), desk.answer, 2, 0.2)
    await pages.accept()
    yield pages
    await pages.stop()


async def say(pages: HttpPages, data: bytes) -> bytes:
    """All that the server answers until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", pages.port)
    writer.write(data)
    told = await reader.read()
    writer.close()
    return told


async def test_a_page_is_answered_with_its_size(pages: HttpPages, desk: Desk) -> None:
    told = await say(pages, b"GET /?name[]=a&name[]=b HTTP/1.1\r\nAccept: text/plain\r\nConnection: close\r\n\r\n")
    head, body = told.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 7\r\n" in head
    assert body == b"one two"
    assert desk.asked == [PageRequest("/", {"name[]": ["a", "b"]}, "text/plain")]


async def test_a_connection_lasts_from_page_to_page(pages: HttpPages, desk: Desk) -> None:
    told = await say(pages, b"GET / HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n")
    assert told.count(b"HTTP/1.1 200 OK") == 2
    assert told.count(b"HTTP/1.1 404 Not Found") == 1
    assert len(desk.asked) == 3


async def test_a_head_request_has_no_body(pages: HttpPages) -> None:
    told = await say(pages, b"HEAD / HTTP/1.0\r\n\r\n")
    assert told.endswith(b"\r\n\r\n")
    assert b"Content-Length: 7" in told


@pytest.mark.parametrize(("request_", "status"), [
    (b"POST / HTTP/1.1\r\n\r\n", 405), (b"GET /\r\n\r\n", 400), (b"GET / HTTP/2\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400), (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 400),
    (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400), (b"GET //[ HTTP/1.1\r\n\r\n", 400),
    (b"GET /?" + b"a=1&" * 300 + b" HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nx: " + b"y" * REQUEST_SIZE_MAX + b"\r\n\r\n", 431)])
async def test_what_is_no_request_for_a_page_is_refused_and_ends_the_connection(
        pages: HttpPages, desk: Desk, request_: bytes, status: int) -> None:
    assert (await say(pages, request_)).startswith(f"HTTP/1.1 {status} ".encode())
    assert desk.asked == []


async def test_a_request_that_does_not_end_is_given_up(pages: HttpPages) -> None:
    assert await say(pages, b"GET / HTTP/1.1\r\n") == b""


async def test_a_page_that_fails_ends_its_connection_alone(
        pages: HttpPages, caplog: pytest.LogCaptureFixture) -> None:
    assert await say(pages, b"GET /fails HTTP/1.1\r\n\r\n") == b""
    assert "a page could not be answered" in caplog.text
    assert b"200 OK" in await say(pages, b"GET / HTTP/1.0\r\n\r\n")


async def test_connections_are_limited(pages: HttpPages, desk: Desk) -> None:
    desk.gate.clear()
    waiting = [asyncio.ensure_future(say(pages, b"GET / HTTP/1.0\r\n\r\n")) for _ in range(2)]
    while len(desk.asked) < 2:
        await asyncio.sleep(0)
    try:
        told = await say(pages, b"GET / HTTP/1.0\r\n\r\n")
    except ConnectionResetError:
        told = b""
    assert told == b""
    assert len(desk.asked) == 2
    desk.gate.set()
    assert [told.count(b"200 OK") for told in await asyncio.gather(*waiting)] == [1, 1]


async def test_a_stop_ends_what_is_under_way(pages: HttpPages, desk: Desk) -> None:
    desk.gate.clear()
    waiting = asyncio.ensure_future(say(pages, b"GET / HTTP/1.0\r\n\r\n"))
    while not desk.asked:
        await asyncio.sleep(0)
    await pages.stop()
    assert await waiting == b""


class SmallBuffers:
    """A server whose kernel takes little at once, and a client that decides when it reads."""

    def __init__(self, parts: list[bytes], timeout_s: float) -> None:
        bound = bind("127.0.0.1", 0)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.pages = HttpPages(bound, self._answer, 2, timeout_s)
        self._parts = parts
        self._client = socket.socket()

    async def _answer(self, request: PageRequest) -> PageAnswer:
        return PageAnswer(self._parts)

    async def ask(self, data: bytes) -> socket.socket:
        await self.pages.accept()
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self._client, ("127.0.0.1", self.pages.port))
        await loop.sock_sendall(self._client, data)
        return self._client

    async def stop(self) -> None:
        self._client.close()
        await self.pages.stop()


@pytest.mark.parametrize("size", range(10_000, 90_000, 20_000))
async def test_the_last_page_of_a_connection_arrives_whole_at_a_slow_reader(size: int) -> None:
    """A page that ends the connection waits for its reader, even if it is smaller than the buffers of the server."""
    both = SmallBuffers([b"x" * size], 30)
    client = await both.ask(b"GET / HTTP/1.0\r\n\r\n")
    loop, told = asyncio.get_running_loop(), b""
    while not told.endswith(b"\r\n\r\n"):
        told += await loop.sock_recv(client, 1)
    while data := await loop.sock_recv(client, 1024):
        told += data
    assert told.count(b"x" * 1024) == size // 1024
    assert len(told.partition(b"\r\n\r\n")[2]) == size
    await both.stop()


async def test_a_reader_that_is_never_done_is_given_up() -> None:
    """The time is for the whole answer, so that a reader cannot keep a large page by taking a little now and then."""
    both = SmallBuffers([b"x" * 20_000] * 500, 0.3)
    client = await both.ask(b"GET / HTTP/1.1\r\n\r\n")
    loop = asyncio.get_running_loop()
    began, read = loop.time(), 0
    with contextlib.suppress(ConnectionError):
        while data := await loop.sock_recv(client, 20_000):
            read += len(data)
            await asyncio.sleep(0.01)
    assert read < 500 * 20_000
    assert loop.time() - began < 4
    await both.stop()
