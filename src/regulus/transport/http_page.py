"""A small HTTP/1.1 server for pages that are made when they are asked for: GET and HEAD, no bodies, no TLS.

Everything a client can hold is limited: connections, the size of a request, and the time for a request to come and for
an answer to be read. One request of a connection is answered at a time.

Source: RFC 9112.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

_log = logging.getLogger(__name__)

REQUEST_SIZE_MAX = 8 << 10
"""Bytes of a request line and its headers; more is answered 431."""
QUERY_FIELDS_MAX = 256
BACKLOG = 64
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """`query` has the values of each parameter, `accept` the header of that name."""

    path: str
    query: dict[str, list[str]] = field(default_factory=dict)
    accept: str = ""


@dataclass(frozen=True, slots=True)
class PageAnswer:
    parts: Sequence[bytes]
    content_type: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


Answer = Callable[[PageRequest], Awaitable[PageAnswer]]


class _Refused(Exception):
    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


class HttpPages:
    """`bound` is the port, which is closed with the server."""

    def __init__(self, bound: socket.socket, answer: Answer, connections_max: int, timeout_s: float) -> None:
        self.port: int = bound.getsockname()[1]
        self._bound = bound
        self._answer = answer
        self._connections_max = connections_max
        self._timeout_s = timeout_s
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self) -> None:
        """Raises OSError."""
        self._server = await asyncio.start_server(self._accepted, sock=self._bound, limit=REQUEST_SIZE_MAX,
                                                  backlog=BACKLOG)

    async def stop(self) -> None:
        """Nothing is answered any more."""
        if self._server is not None:
            self._server.close()
        self._bound.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self._connections_max:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a page could not be answered", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Each drain waits until nothing is left: closing the connection would drop it.
        writer.transport.set_write_buffer_limits(0)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return      # the client went away, or was too slow
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection lasts."""
        try:
            async with asyncio.timeout(self._timeout_s):
                head = await reader.readuntil(_END)
        except asyncio.LimitOverrunError:
            await self._write(writer, _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), keeps=False, is_head=False)
            return False
        try:
            method, request, keeps = _parsed(head)
        except _Refused as refused:
            await self._write(writer, _error(refused.status), keeps=False, is_head=False)
            return False
        await self._write(writer, await self._answer(request), keeps=keeps, is_head=method == "HEAD")
        return keeps

    async def _write(self, writer: asyncio.StreamWriter, answer: PageAnswer, *, keeps: bool, is_head: bool) -> None:
        size = sum(map(len, answer.parts))
        writer.write(f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
                     f"Content-Length: {size}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                     f"Connection: {'keep-alive' if keeps else 'close'}\r\n\r\n".encode())
        async with asyncio.timeout(self._timeout_s):
            for part in () if is_head else answer.parts:
                writer.write(part)
                await writer.drain()
            await writer.drain()


def _error(status: HTTPStatus) -> PageAnswer:
    return PageAnswer([f"{status.value} {status.phrase}\n".encode()], TEXT, status)


def _parsed(head: bytes) -> tuple[str, PageRequest, bool]:
    """Method, request, and whether the connection lasts. Raises _Refused."""
    try:
        first, *lines = head[:-len(_END)].decode("ascii").split("\r\n")
        method, target, version = first.split(" ")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        url = urlsplit(target)
        query = parse_qs(url.query, max_num_fields=QUERY_FIELDS_MAX)
    except ValueError:
        raise _Refused(HTTPStatus.BAD_REQUEST) from None
    if version not in ("HTTP/1.1", "HTTP/1.0") or headers.get("content-length", "0") != "0" \
            or "transfer-encoding" in headers:
        raise _Refused(HTTPStatus.BAD_REQUEST)
    if method not in ("GET", "HEAD"):
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED)
    wish = headers.get("connection", "").lower()
    keeps = wish != "close" if version == "HTTP/1.1" else wish == "keep-alive"
    return method, PageRequest(url.path, query, headers.get("accept", "")), keeps
