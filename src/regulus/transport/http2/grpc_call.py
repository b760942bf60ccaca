"""One call of gRPC: messages of the request in, messages of the answer out, and how it ended.

Source: PROTOCOL-HTTP2 of gRPC.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from regulus.errors import GrpcRefused
from regulus.transport.http2.connection import Http2Connection
from regulus.transport.http2.stream import STREAM_WINDOW, Stream
from regulus.wire.http2 import frames, header_block
from regulus.wire.http2.grpc_messages import PREFIX_SIZE, GrpcStatus, MessageReader, framed, timeout_s
from regulus.wire.http2.header_block import RequestHeaders

_log = logging.getLogger(__name__)

_OK = header_block.trailers(GrpcStatus.OK)
_RESPONSE = header_block.RESPONSE
TIMEOUT_S_MAX = 86_400.0
"""A client may name a deadline in sixty years; one beyond this is none."""
STREAMED_SIZE_MAX = STREAM_WINDOW // 2
"""Bytes of one of many messages of a request: the window opens again with the message, so that it must fit into it."""


@dataclass(frozen=True, slots=True)
class OneAnswer:
    """A method with one message each way."""

    answer: Callable[[bytes, "GrpcCall"], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class ManyAnswers:
    """A method that sends any number of messages for one."""

    serve: Callable[[bytes, "GrpcCall"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A method with any number of messages both ways; it begins with the headers."""

    serve: Callable[["GrpcCall"], Awaitable[None]]


Method = OneAnswer | ManyAnswers | Conversation


class CallKeeper(Protocol):
    """What a call asks of its server."""

    loop: asyncio.AbstractEventLoop
    message_size_max: int
    held: int
    held_max: int
    unfinished: "dict[GrpcCall, float]"

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...


class GrpcCall(Stream):
    """Made of a request's headers. `metadata` are its headers, in their order; `peer` is `host:port`."""

    __slots__ = ("_deadline", "_has_begun", "_held", "_messages", "_method", "_more", "_reader", "_request", "_server",
                 "_task", "_timer", "authority", "metadata", "path", "peer")

    def __init__(self, connection: Http2Connection, stream_id: int, request: RequestHeaders,
                 server: CallKeeper) -> None:
        super().__init__(connection, stream_id)
        self.path = request.path
        self.authority = request.authority
        self.metadata = request.metadata
        self.peer = connection.peer
        self._server = server
        self._method: Method | None = None
        self._reader: MessageReader | None = None
        self._held = 0              # bytes of the request that the server counts for us
        self._request: bytes | None = None
        self._messages: deque[bytes] = deque()
        self._more: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        self._has_begun = False

    def admit(self, request: RequestHeaders, method: Method | None) -> None:
        """Begin, or say why not."""
        values = dict(request.metadata)
        if request.method != b"POST" or not values.get("content-type", "").startswith("application/grpc"):
            self.end(header_block.refusal(405 if request.method != b"POST" else 415))
        elif request.is_too_large:
            self.refuse(GrpcStatus.RESOURCE_EXHAUSTED, "the headers are too large (metadataSizeMax)")
        elif method is None:
            self.refuse(GrpcStatus.UNIMPLEMENTED, f"method {request.path[:256]} is not served here")
        else:
            self._begin(method, values)

    def _begin(self, method: Method, values: dict[str, str]) -> None:
        self._method = method
        is_long = isinstance(method, Conversation)
        self._reader = MessageReader(STREAMED_SIZE_MAX if is_long else self._server.message_size_max,
                                     values.get("grpc-encoding", "identity"))
        within_s = timeout_s(values.get("grpc-timeout", ""))
        if within_s is not None and within_s <= TIMEOUT_S_MAX:
            self._deadline = self._server.loop.time() + within_s
            self._timer = self._server.loop.call_later(within_s, self._expire)
        if is_long:
            self._spawn(self._converse())
        else:
            self._server.unfinished[self] = self._server.loop.time()

    # --- called by methods -------------------------------------------------------------------------------------------

    def time_left_s(self) -> float | None:
        """Until the client gives up; None where it never does."""
        return None if self._deadline is None else self._deadline - self._server.loop.time()

    def begin_answer(self) -> None:
        """Send the headers of the answer before its first message."""
        if not self._has_begun:
            self._has_begun = True
            self.begin(_RESPONSE)

    async def send(self, message: bytes) -> None:
        """One message of the answer. Returns when the connection has taken it."""
        self.begin_answer()
        self.write(framed(message))
        await self.sent()

    async def messages(self) -> AsyncIterator[bytes]:
        """Of the request, until the client ends its side."""
        while True:
            while self._messages:
                message = self._messages.popleft()
                self.took(PREFIX_SIZE + len(message))
                yield message
            if self.has_peer_ended or self.is_closed:
                return
            self._more = self._server.loop.create_future()
            await self._more

    def refuse(self, status: int, text: str) -> None:
        """End the call without an answer, or behind a part of it."""
        block = header_block.trailers(status, text)
        self.end(block if self._has_begun else _RESPONSE + block)

    # --- called by the connection ------------------------------------------------------------------------------------

    def data_came(self, data: bytes) -> None:
        try:
            self._take(data)
        except GrpcRefused as error:
            self._give_up(error)

    def peer_ended(self) -> None:
        self._server.unfinished.pop(self, None)
        if self._reader is not None and self._reader.held:
            self._give_up(GrpcRefused(GrpcStatus.INTERNAL, "the last message is cut short"))
        elif isinstance(self._method, Conversation):
            self._wake_reader()
        elif self._request is None:
            self._give_up(GrpcRefused(GrpcStatus.INTERNAL, "the call has no message"))
        elif isinstance(self._method, OneAnswer):
            self._spawn(self._answer(self._method, self._request))
        elif self._method is not None:
            self._spawn(self._serve(self._method, self._request))

    def lost(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def drop(self) -> None:
        super().drop()
        self._server.unfinished.pop(self, None)
        self._release()
        self._wake_reader()
        if self._timer is not None:
            self._timer.cancel()

    # -----------------------------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """Raises GrpcRefused."""
        assert self._reader is not None, "a call that is refused hears nothing more"
        found = self._reader.feed(data)
        if isinstance(self._method, Conversation):
            self._messages.extend(found)
            self._hold(self._reader.held)
            if found:
                self._wake_reader()
            return
        self.took(len(data))
        for message in found:
            if self._request is not None:
                raise GrpcRefused(GrpcStatus.UNIMPLEMENTED, "the method takes one message")
            self._request = message
        self._hold(self._reader.held + len(self._request or b""))

    def _hold(self, size: int) -> None:
        """Raises GrpcRefused when all calls together hold more than they may."""
        self._server.held += size - self._held
        self._held = size
        if self._server.held > self._server.held_max:
            raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED,
                              f"requests of {self._server.held_max} bytes are under way (callsSizeMax)")

    def _release(self) -> None:
        self._server.held -= self._held
        self._held = 0

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = self._server.spawn(work)

    async def _answer(self, method: OneAnswer, request: bytes) -> None:
        try:
            answer = await method.answer(request, self)
        except GrpcRefused as error:
            self._give_up(error)
        except Exception:
            self._fail()
        else:
            self.begin(_RESPONSE)
            self.write(framed(answer))
            self.end(_OK)

    async def _serve(self, method: ManyAnswers, request: bytes) -> None:
        await self._serve_out(method.serve(request, self))

    async def _converse(self) -> None:
        assert isinstance(self._method, Conversation)
        await self._serve_out(self._method.serve(self))

    async def _serve_out(self, serving: Awaitable[None]) -> None:
        try:
            await serving
        except GrpcRefused as error:
            self._give_up(error)
        except Exception:
            self._fail()
        else:
            self.begin_answer()
            self.end(_OK)

    def _give_up(self, error: GrpcRefused) -> None:
        self.refuse(error.status, str(error))
        self.lost()

    def _fail(self) -> None:
        _log.exception("%s failed", self.path)
        self.refuse(GrpcStatus.INTERNAL, "the server failed; see its log")

    def expire(self, text: str) -> None:
        """Nobody waits for the answer any more; a part of it that waits for the peer is dropped."""
        if self.waiting_size:
            self.reset(frames.CANCEL)
        else:
            self.refuse(GrpcStatus.DEADLINE_EXCEEDED, text)
        self.lost()

    def _expire(self) -> None:
        self.expire("the client's deadline has passed")

    def _wake_reader(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)
