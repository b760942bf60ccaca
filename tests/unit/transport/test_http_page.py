"""Pages over HTTP, and clients that send anything else."""

import asyncio
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
