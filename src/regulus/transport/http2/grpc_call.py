"""One gRPC call: request messages in, answer messages out, and its status.

Source: PROTOCOL-HTTP2 of gRPC.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from regulus.errors import GrpcRefused
from regulus.transport.http2.connection import Http2Connection
from regulus.transport.http2.stream import STREAM_WINDOW, Stream
from regulus.wire.http2 import frames, header_block
from regulus.wire.http2.grpc_messages import (
    PREFIX_SIZE,
    GrpcStatus,
    Message,
    MessageReader,
    Packed,
    framed,
    timeout_s,
)
from regulus.wire.http2.header_block import RequestHeaders

_log = logging.getLogger(__name__)

_OK = header_block.trailers(GrpcStatus.OK)
_RESPONSE = header_block.RESPONSE
TIMEOUT_S_MAX = 86_400.0
"""The longest deadline in seconds; a longer one counts as no deadline, as a client may set it sixty years ahead."""
STREAMED_SIZE_MAX = STREAM_WINDOW // 2 - PREFIX_SIZE
"""The maximum number of bytes of one message in a stream of messages. The window opens again only after the message,
which must therefore fit into the part that is always open."""
MESSAGE_SIZE = 64
"""Bytes that each of many messages costs besides its content."""
CALL_SIZE = 2_048
"""Bytes in memory that a call costs besides those of its headers and messages."""


@dataclass(frozen=True, slots=True)
class OneAnswer:
    """A method with one message each way. A compressed request message is `unpacked` before."""

    answer: Callable[[Message, "GrpcCall"], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class ManyAnswers:
    """A method that answers one message with any number of messages."""

    serve: Callable[[Message, "GrpcCall"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A method with any number of messages both ways; it begins with the headers."""

    serve: Callable[["GrpcCall"], Awaitable[None]]


Method = OneAnswer | ManyAnswers | Conversation


def _is_grpc(content_type: str) -> bool:
    return content_type == "application/grpc" or content_type.startswith(("application/grpc+", "application/grpc;"))


class CallKeeper(Protocol):
    """What a call needs from its server."""

    loop: asyncio.AbstractEventLoop
    message_size_max: int
    unfinished: "dict[GrpcCall, float]"

    def hold(self, call: "GrpcCall", size: int) -> None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...


class GrpcCall(Stream):
    """A call, made from a request's headers. `metadata` are its headers, in their order; `peer` is `host:port`, and
    `origin` the ends of its connection."""

    __slots__ = ("_deadline", "_has_begun", "_left_size", "_messages", "_method", "_more", "_own_size", "_queued",
                 "_reader", "_request", "_server", "_task", "_timer", "_untaken", "authority", "held", "metadata",
                 "origin", "path", "peer")

    def __init__(self, connection: Http2Connection, stream_id: int, request: RequestHeaders,
                 server: CallKeeper) -> None:
        super().__init__(connection, stream_id)
        self.path = request.path
        self.authority = request.authority
        self.metadata = request.metadata
        self.peer = connection.peer
        self.origin = connection.origin
        self._server = server
        self._method: Method | None = None
        self._reader: MessageReader | None = None
        self.held = 0               # bytes of the request that the server counts for this call
        self._own_size = CALL_SIZE + request.size       # the part of them without messages
        self._left_size = 0         # of a call that only waits for its peer to read
        self._queued = 0            # memory of messages that are not taken yet,
        self._untaken = 0           # and their size as received
        self._request: Message | None = None
        self._messages: deque[Message] = deque()
        self._more: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        self._has_begun = False

    def admit(self, request: RequestHeaders, method: Method | None) -> None:
        """Begin the call, or refuse it."""
        values = dict(request.metadata)
        if request.method != b"POST" or not _is_grpc(values.get("content-type", "")):
            self.end(header_block.refusal(405 if request.method != b"POST" else 415))
        elif request.is_too_large:
            self.refuse(GrpcStatus.RESOURCE_EXHAUSTED, "the headers are too large (metadataSizeMax)")
        elif method is None:
            self.refuse(GrpcStatus.UNIMPLEMENTED, f"method {request.path[:256]} is not served here")
        else:
            try:
                self._hold(0)
            except GrpcRefused as error:
                self.give_up(error)
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
            assert isinstance(method, Conversation)
            self._spawn(self._serve(method.serve, self))
        else:
            self._server.unfinished[self] = self._server.loop.time()

    # --- called by methods -------------------------------------------------------------------------------------------

    def time_left_s(self) -> float | None:
        """Seconds until the deadline; None when there is none."""
        return None if self._deadline is None else self._deadline - self._server.loop.time()

    def begin_answer(self) -> None:
        """Send the headers of the answer before its first message."""
        if not self._has_begun:
            self._has_begun = True
            self.begin(_RESPONSE)

    async def send(self, message: bytes) -> None:
        """Send one message of the answer. Returns when the connection has accepted it."""
        self.begin_answer()
        self.write(framed(message))
        await self.sent()

    async def unpacked(self, message: Message, size_max: int) -> bytes:
        """A request message, inflated if it was compressed. Raises GrpcRefused if it becomes larger than `size_max`.

        Inflating runs in steps, between which others are served, and the size is counted as it grows.
        """
        if not isinstance(message, Packed):
            return message
        if len(message) > size_max:
            raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED,
                              f"a compressed message of {len(message)} bytes; it may become {size_max}")
        parts: list[bytes] = []
        size = 0
        for part in message.inflated(size_max):
            parts.append(part)
            size += len(part)
            self._hold(self._messages_size() + size)
            await asyncio.sleep(0)
        whole = b"".join(parts)
        if self._request is message:
            self._request = whole
        self._hold(self._messages_size())
        return whole

    async def messages(self, size_max: int = STREAMED_SIZE_MAX) -> AsyncGenerator[bytes, None]:
        """The messages of the request, until the client ends its side; each compressed one inflates to at most
        `size_max` bytes."""
        while await self.has_message():
            message = self._messages.popleft()
            if not self._messages and self._reader is not None:
                self.took(self._untaken)
                self._queued = self._untaken = 0
                self._hold(self._reader.held)
            yield await self.unpacked(message, size_max)

    async def has_message(self) -> bool:
        """Wait for the next of `messages`, without taking it; False when there are no more."""
        while not (self._messages or self.has_peer_ended or self.has_ended):
            self._more = self._server.loop.create_future()
            await self._more
        return bool(self._messages)

    def refuse(self, status: int, text: str) -> None:
        """End the call with an error, before or after a part of the answer."""
        block = header_block.trailers(status, text)
        self.end(block if self._has_begun else _RESPONSE + block)

    # the end of the answer waits for the peer, and the rest of the request is not needed

    def data_came(self, data: bytes) -> None:
        if self.has_ended:      # the end of the answer waits for the peer; the rest of the request is not needed
            return
        try:
            self._take(data)
        except GrpcRefused as error:
            self.give_up(error)

    def peer_ended(self) -> None:
        self._server.unfinished.pop(self, None)
        if self._reader is not None and self._reader.held:
            self.give_up(GrpcRefused(GrpcStatus.INTERNAL, "the last message is cut short"))
        elif isinstance(self._method, Conversation):
            self._wake_reader()
        elif self._request is None:
            self.give_up(GrpcRefused(GrpcStatus.INTERNAL, "the call has no message"))
        elif isinstance(self._method, OneAnswer):
            self._spawn(self._answer(self._method, self._request))
        elif self._method is not None:
            assert isinstance(self._method, ManyAnswers)
            self._spawn(self._serve(self._method.serve, self._request, self))

    def lost(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def end(self, block: bytes) -> None:
        """End the answer. From then on a call whose answer waits for its peer counts as waiting bytes, because only
        closing the connection would free them."""
        super().end(block)
        if self._left_size or self.is_closed:
            return
        self._forget_request()
        self._left_size, self._own_size = self._own_size, 0
        self._server.hold(self, -self.held)
        self.held = 0
        self.connection.hold(self._left_size)

    def drop(self) -> None:
        super().drop()
        self._server.unfinished.pop(self, None)
        self._server.hold(self, -self.held)
        self.held = 0
        left, self._left_size = self._left_size, 0
        self.connection.hold(-left)
        self._forget_request()
        self._wake_reader()
        if self._timer is not None:
            self._timer.cancel()

    # -----------------------------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """Take data of the request. Raises GrpcRefused."""
        assert self._reader is not None, "a call that is refused hears nothing more"
        before = self._reader.held
        found = self._reader.feed(data)
        if isinstance(self._method, Conversation):
            if found:
                self._messages.extend(found)
                self._queued += sum(map(len, found)) + MESSAGE_SIZE * len(found)
                self._untaken += before + len(data) - self._reader.held
                self._wake_reader()
            self._hold(self._messages_size())
            return
        self.took(len(data))
        for message in found:
            if self._request is not None:
                raise GrpcRefused(GrpcStatus.UNIMPLEMENTED, "the method takes one message")
            self._request = message
        self._hold(self._messages_size())

    def _messages_size(self) -> int:
        """Bytes of the messages present, as received."""
        reader = self._reader.held if self._reader is not None else 0
        return reader + self._queued + len(self._request or b"")

    def _hold(self, size: int) -> None:
        """Account for bytes of messages. Raises GrpcRefused when there is no room for them."""
        if self.is_closed:      # while one of them was inflated
            return
        more = self._own_size + size - self.held
        self.held += more
        self._server.hold(self, more)

    def _forget_request(self) -> None:
        self._request = self._reader = None
        self._messages.clear()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = self._server.spawn(work)

    async def _answer(self, method: OneAnswer, request: Message) -> None:
        try:
            answer = await method.answer(request, self)
        except BaseException as error:
            self._failed(error)
        else:
            self.begin(_RESPONSE)
            self.write(framed(answer))
            self.end(_OK)

    async def _serve(self, serve: Callable[..., Awaitable[None]], *given: "Message | GrpcCall") -> None:
        try:
            await serve(*given)
        except BaseException as error:
            self._failed(error)
        else:
            self.begin_answer()
            self.end(_OK)

    def _failed(self, error: BaseException) -> None:
        """End the call for an error of its method. Raises the error again if it ends the task too."""
        if isinstance(error, GrpcRefused):
            self.give_up(error)
        elif isinstance(error, Exception):
            _log.error("%s failed", self.path, exc_info=error)
            self.refuse(GrpcStatus.INTERNAL, "the server failed; see its log")
        else:
            # We end a call before we cancel its method. If it has not ended, something that it waited for cancelled it.
            if isinstance(error, asyncio.CancelledError) and not self.has_ended:
                _log.warning("%s was cancelled by what it waited for", self.path)
                self.refuse(GrpcStatus.UNAVAILABLE, "the server gave the call up")
            raise error

    # --- called by the server ----------------------------------------------------------------------------------------

    @property
    def may_give_way(self) -> bool:
        """Whether the call may be ended to make room for others: not when a method has its one message, and may already
        have carried it out."""
        return not (self.has_ended or (self._task is not None and isinstance(self._method, OneAnswer)))

    def give_up(self, error: GrpcRefused) -> None:
        self.refuse(error.status, str(error))
        if not self.is_closed:      # a part of the answer waits, for as long as the peer likes
            self._forget_request()
            self._hold(0)
        self.lost()

    def expire(self, text: str) -> None:
        """End a call for which no client waits any more; a part of the answer that waits for the peer is dropped."""
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
