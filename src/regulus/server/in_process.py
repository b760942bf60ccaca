"""A client in the broker's own process: it sends requests like one on a connection, without a socket.

Its requests pass the same access control, limits and handlers as all others, and their answers wait for the same disk.
Requests on behalf of others have the addresses of these as born host, and as store host the address at which they
arrived, with the broker's port.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from regulus.errors import ConnectionLost, FrameError, RequestTimeout
from regulus.model.message_id import host_bytes
from regulus.model.peer import Origin, Peer
from regulus.server.request_server import RequestServer
from regulus.transport.connection import next_channel
from regulus.wire.codes import ResponseCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import RemotingCommand

_OPAQUE_MAX = 0x7FFFFFFF

OnBrokerRequest = Callable[[RemotingCommand], Awaitable[RemotingCommand | None]]


class InProcessConnection:
    """A connection within the process.

    `address` and `port` are where the broker is reached. `on_request` answers the broker's requests to its client; None
    means no answer. `withdraw` makes the broker forget a request that it holds, by channel and opaque; it returns False
    when the broker does not hold it.
    """

    def __init__(self, requests: RequestServer, address: str, port: int, on_request: OnBrokerRequest,
                 withdraw: Callable[[int, int], bool]) -> None:
        own = host_bytes(address, port)
        self.peer = self._own_peer = Peer(next_channel(), own, own, "this process:0", address)
        self.is_open = False
        self._requests = requests
        self._on_request = on_request
        self._withdraw = withdraw
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._opaque = 0
        self._reader = FrameReader()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        self.is_open = True
        self._requests.on_opened(self)

    def close(self) -> None:
        """Close the connection; requests without an answer fail with ConnectionLost."""
        self.is_open = False
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLost("the broker is stopping"))
        for task in self._tasks:
            task.cancel()
        self._requests.on_closed(self)

    async def ask(self, command: RemotingCommand, timeout_ms: int, origin: Origin | None = None) -> RemotingCommand:
        """Send a request, with `origin` on behalf of another client; returns the broker's answer. Raises
        RequestTimeout, ConnectionLost."""
        if not self.is_open:
            raise ConnectionLost("the broker is not running")
        self._opaque = self._opaque % _OPAQUE_MAX + 1
        command.opaque = opaque = self._opaque
        waiting: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = waiting
        try:
            self._request(command, origin)
            if waiting.done():
                return waiting.result()
            async with asyncio.timeout(timeout_ms / 1000):
                return await waiting
        except TimeoutError:
            raise RequestTimeout(f"the broker did not answer request {command.code} within {timeout_ms} ms") from None
        finally:
            del self._waiting[opaque]

    def withdraw(self, command: RemotingCommand) -> None:
        """Withdraw a request. If the broker holds it, it answers that there is nothing; an answer that is already being
        made still arrives."""
        waiting = self._waiting.get(command.opaque)
        if waiting is not None and not waiting.done() and self._withdraw(self.peer.channel, command.opaque):
            waiting.set_result(command.response(ResponseCode.POLLING_TIMEOUT, "it was withdrawn"))

    def tell(self, command: RemotingCommand) -> None:
        """Send a one-way request."""
        if self.is_open:
            self._request(command, None)

    # --- as the broker sees a connection -----------------------------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        self._reader.feed(data)
        try:
            for command in self._reader.frames():
                self._take(command)
        except FrameError as error:     # the broker's own frames: a fault of ours, reported to the caller
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionLost(str(error)))
            self._reader = FrameReader()

    def send_many(self, parts: Sequence[bytes | memoryview]) -> None:
        self.write(b"".join(parts))

    def send_soon(self, command: RemotingCommand) -> None:
        self._take(command)

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                answer = await self._on_request(command)
        except TimeoutError:
            answer = None
        if answer is None:
            raise RequestTimeout(f"no client answered request {command.code} within {timeout_ms} ms")
        return answer

    def _request(self, command: RemotingCommand, origin: Origin | None) -> None:
        """Handle a request. Requests are decided before this returns, or held with the current peer."""
        self.peer = self._own_peer if origin is None else origin.peer or self._peer_of(origin)
        self._requests.on_requests(self, [command])     # type: ignore[arg-type]

    def _peer_of(self, origin: Origin) -> Peer:
        own = self._own_peer
        origin.peer = Peer(own.channel, origin.remote, origin.local[:-4] + own.local[-4:], own.remote_text,
                           own.local_address)
        return origin.peer

    def _take(self, command: RemotingCommand) -> None:
        if command.is_response:
            waiting = self._waiting.get(command.opaque)
            if waiting is not None and not waiting.done():
                waiting.set_result(command)
            return
        task = asyncio.get_running_loop().create_task(self._hear(command))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hear(self, command: RemotingCommand) -> None:
        answer = await self._on_request(command)
        if answer is not None and not command.is_oneway:
            self.tell(answer)
