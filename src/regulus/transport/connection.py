"""One TCP connection that carries frames both ways.

Requests of the peer reach `on_requests`, all requests of one read in one call; answers of the peer go to the `request`
that waits for their opaque. The two directions number their requests independently. During the call the bodies of sends
are still where they were read; a handler that keeps one must ask for it then.

If a client does not read what we write, its requests are not read either (`pause_writing`): they wait in its own socket
and not in our memory. The end that connected always reads: if both ends waited for the other to read, neither would
ever continue. A client whose large frame must wait for room (`unfinished_frames`) is not read either. Bytes that are
not a frame close this connection and no other. A client may begin with a TLS handshake instead (`tls`).
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast

from regulus.errors import ConnectionLost, FrameError, RequestTimeout, RequestTooLarge
from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.transport.config import TransportConfig
from regulus.transport.read_buffer import ReadBuffer
from regulus.transport.tls import ServerTls, handshake_failure, take_over
from regulus.transport.unfinished_frames import UnfinishedFrames
from regulus.wire.frame_reader import FRAME_SIZE_MAX, HEADER_SIZE_MAX, FrameReader
from regulus.wire.remoting_command import RESPONSE_FLAG, RemotingCommand

_log = logging.getLogger(__name__)
_channels = count(1)

_TLS_HANDSHAKE = 0x16
_FULL_READ = 200_000        # bytes; a read of this many most likely leaves more behind
_DEADLINE_STEP = 0.01       # seconds: requests whose deadlines fall into one step share a timer
_LATE_MAX = 0.05            # seconds: a timer later than that shows that the loop was blocked
_GRACE = 0.1                # seconds for reading the answers that arrived meanwhile
_OPAQUE_MAX = 0x7FFFFFFF
_LENGTHS_SIZE = 8           # bytes before the header; the first four do not count as the frame's own
_RESPONSE = RESPONSE_FLAG
_FRAME_SIZE_MAX = FRAME_SIZE_MAX
_HEADER_SIZE_MAX = HEADER_SIZE_MAX

OnRequests = Callable[["Connection", list[RemotingCommand]], None]
OnConnection = Callable[["Connection"], None]


class _Deadline:
    """Requests, by opaque and time allowed, that fail when the timer fires."""

    __slots__ = ("has_grace", "requests", "timer")

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.timer = timer
        self.has_grace = False
        self.requests: list[tuple[int, int]] = []


class Connection(asyncio.BufferedProtocol):
    """A connection, made by `listener.listen` or `connector.connect`. `buffer` may serve other connections of the same
    loop too.

    `unfinished`: the account of unfinished frames; None if the peer is trusted to end what it begins. `tls`: the
    context for clients that begin a handshake; None at the end that connected.
    """

    def __init__(self, on_requests: OnRequests, on_opened: OnConnection, on_closed: OnConnection,
                 config: TransportConfig, loop: asyncio.AbstractEventLoop, buffer: ReadBuffer,
                 reads_always: bool = False, unfinished: UnfinishedFrames | None = None,
                 tls: ServerTls | None = None) -> None:
        self.peer = Peer(0, b"", b"")
        self.is_open = False
        self.active_time = 0.0              # of the loop's clock: last read or write
        self.frame_began = 0.0              # of the loop's clock, or when it got the room that it waited for
        self._on_requests = on_requests
        self._on_opened = on_opened
        self._on_closed = on_closed
        self._config = config
        self._loop = loop
        self._reads_always = reads_always
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._beneath: asyncio.Transport = cast(asyncio.Transport, None)    # below TLS; without TLS the same
        self._buffer = buffer
        self._reader = FrameReader()
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._deadlines: dict[int, _Deadline] = {}
        self._unclocked: list[tuple[int, int]] = []     # requests in the outbox, by opaque and time allowed
        self._opaque = 0
        self._has_read = tls is None
        self._tls = tls
        self._shaking_hands: asyncio.Task[None] | None = None
        self._is_encrypted = False
        self._is_deaf = False
        self._unfinished = unfinished
        self._is_noted = False              # as one inside a frame
        self._waits_for_room = False
        self._outbox: list[bytes | memoryview] = []
        self._drained: asyncio.Future[None] | None = None   # while too many bytes wait to leave
        self._closed: asyncio.Future[None] = loop.create_future()

    def __repr__(self) -> str:
        return f"Connection({self.peer.channel}, {self.peer.remote_text!r})"

    # --- called by the event loop ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._beneath = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(self._config.write_buffer_high, self._config.write_buffer_low)
        self.peer = _peer(next_channel(), self._transport)
        self.is_open = True
        self.active_time = self._loop.time()
        self._on_opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        room = self._reader.room
        return self._buffer.room if room is None else room

    def buffer_updated(self, size: int) -> None:
        if not self.is_open:
            return
        self.active_time = self._loop.time()
        if self._is_deaf:
            return
        buffer = self._buffer
        if not self._has_read and not self._begins_plain(buffer, size):
            return
        reader = self._reader
        if reader.room is None:
            reader.lend(buffer.data, buffer.front, buffer.front + size)
        else:
            reader.fill(size)
        has_ended = False
        try:
            # The reader first returns the good frames before a bad one, and raises at the next call.
            while commands := reader.frames():
                has_ended = True
                self._deliver(commands)
        except FrameError as error:
            self.refuse(str(error))
            return
        finally:
            held = reader.buffered
            reader.give_back(self._note_unfinished(held, has_ended) if held or self._is_noted else True)
        if size >= _FULL_READ and self.is_open:
            self._end_turn()

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()
        if not self._reads_always:
            self._pause_reading()

    def resume_writing(self) -> None:
        self._wake_drained()
        self._resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._closed.done():
            return
        self.is_open = False
        self._end_frame()
        self._wake_drained()
        for deadline in self._deadlines.values():
            deadline.timer.cancel()
        self._deadlines.clear()
        waiting, self._waiting = self._waiting, {}
        lost = f"connection to {self.peer.remote_text} closed before the answer"
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(lost))
        if not self._closed.done():
            self._closed.set_result(None)
        self._on_closed(self)

    # --- called by the owner -----------------------------------------------------------------------------------------

    def send(self, command: RemotingCommand) -> None:
        """Write one frame. Does nothing once the connection is closed."""
        self.send_many(command.encode_parts())

    def send_soon(self, command: RemotingCommand) -> None:
        """Write one frame at the end of this turn of the loop, in one system call with all other frames sent so."""
        self._put_out(command.encode_parts())

    def ask_soon(self, command: RemotingCommand) -> None:
        """Like `send_soon`, for a request. Raises RequestTooLarge when the peer would not read its frame.

        The peer would close the connection, which would affect all its users.
        """
        self._put_out(_that_fits(command))

    def send_many(self, parts: Sequence[bytes | memoryview]) -> None:
        """Write whole frames given in parts. uvloop gathers them in one system call without copying."""
        if self.is_open:
            self.active_time = self._loop.time()
            if self._is_encrypted:
                parts = (b"".join(parts),)      # with TLS each part would be a record of its own
            self._transport.writelines(parts)
            self._check_write_buffer()

    def write(self, data: bytes | memoryview) -> None:
        """Write the bytes of whole frames."""
        if self.is_open:
            self.active_time = self._loop.time()
            self._transport.write(data)
            self._check_write_buffer()

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """The peer's answer to `command`, whose opaque is chosen here.

        Raises RequestTimeout, ConnectionLost; RequestTooLarge, and then nothing was sent.

        Its time begins when it is written, at the end of this turn of the loop.
        """
        if not self.is_open:
            raise ConnectionLost(f"connection to {self.peer.remote_text} is closed")
        opaque = self._next_opaque()
        command.opaque = opaque
        future: asyncio.Future[RemotingCommand] = self._loop.create_future()
        self._put_out(_that_fits(command))
        self._waiting[opaque] = future
        self._unclocked.append((opaque, timeout_ms))
        try:
            return await future
        finally:
            self._waiting.pop(opaque, None)

    async def drained(self) -> None:
        """Wait until the peer keeps up with what we write: returns at once, unless much is waiting to leave."""
        if self._drained is not None:
            await asyncio.shield(self._drained)

    def read_on(self) -> None:
        """Continue: there is room for the frame that waited for it."""
        self._waits_for_room = False
        self.active_time = self.frame_began = self._loop.time()
        if self.is_open:
            self._reader.give_back()
            self._resume_reading()

    def is_idle_since(self, time: float) -> bool:
        """Whether nothing was read or written since then, by the loop's clock; a connection whose reading is paused is
        not idle."""
        return self.active_time < time and not self._waits_for_room

    def ignore_input(self) -> None:
        """Ignore further requests and answers of the peer. Its bytes are still read: closing a connection with unread
        bytes would also drop answers that have not left yet."""
        self._is_deaf = True

    def close(self) -> None:
        """Close after what was written has left."""
        self._flush_outbox()
        if self.is_open:
            self.is_open = False
            if self._is_encrypted:
                self._beneath.resume_reading()      # TLS waits until the peer ends it, too
            self._transport.close()

    def abort(self) -> None:
        """Close at once; written bytes that have not left are dropped."""
        if not self._closed.done():
            self.is_open = False
            self._transport.abort()

    def refuse(self, cause: str) -> None:
        """Close because of what the peer sent, and log it once."""
        _log.warning("connection of %s closed: %s", self.peer.remote_text, cause)
        self.abort()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)

    # -----------------------------------------------------------------------------------------------------------------

    def _put_out(self, parts: Sequence[bytes | memoryview]) -> None:
        if not self._outbox:
            self._loop.call_soon(self._flush_outbox)
        self._outbox.extend(parts)

    def _flush_outbox(self) -> None:
        if self._outbox:
            parts, self._outbox = self._outbox, []
            is_written = False
            try:
                self.send_many(parts)
                is_written = True
            finally:
                if not is_written:
                    # It is not known how much of it has left. Requests that wait for answers fail with ConnectionLost.
                    self.abort()
        if self._unclocked and self.is_open:
            self._set_deadlines()

    def _end_turn(self) -> None:
        """Let other connections have a turn before this one continues.

        uvloop keeps reading, up to 32 times, while reads are full; a peer that sends as fast as we answer would be
        served alone for tens of ms.
        """
        self._beneath.pause_reading()
        self._loop.call_soon(self._resume_reading)

    def _pause_reading(self) -> None:
        """Pause reading below TLS.

        If the peer's end arrived during a pause of TLS itself, TLS would discard the bytes that it holds; and after
        reading continues below it, TLS no longer limits them.
        """
        self._transport.pause_reading()
        self._beneath.pause_reading()

    def _resume_reading(self) -> None:
        if self.is_open and not self._waits_for_room and (self._drained is None or self._reads_always):
            self._transport.resume_reading()
            self._beneath.resume_reading()

    def _note_unfinished(self, held: int, has_ended: bool) -> bool:
        """Account for an unfinished frame; returns whether the rest may have separate memory. Otherwise reading
        pauses."""
        unfinished = self._unfinished
        if unfinished is None:
            return True
        if has_ended or not held or not self._is_noted:
            self._end_frame()
            self.frame_began = self.active_time
        if not held or not self.is_open:
            return self.is_open
        self._is_noted = True
        has_room = unfinished.note(self, held, self._reader.wanted)
        if not has_room and self.is_open and self._is_noted:
            self._waits_for_room = True
            self._pause_reading()
        return has_room

    def _end_frame(self) -> None:
        if self._is_noted and self._unfinished is not None:
            self._is_noted = False
            self._waits_for_room = False
            self._unfinished.forget(self)

    def _wake_drained(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    def _begins_plain(self, buffer: ReadBuffer, size: int) -> bool:
        """Whether the first bytes read are frames; otherwise TLS begins or the connection is closed."""
        self._has_read = True
        tls = self._tls
        assert tls is not None
        if buffer.room[0] != _TLS_HANDSHAKE:
            if not tls.is_enforced:
                return True
            self._refuse_by(tls, "it speaks plain text, and this port TLS only (tls.server.mode=enforcing); switch TLS "
                                 "on in the client")
        elif tls.context is None:
            self._refuse_by(tls, f"it began a TLS handshake, and {tls.missing}; or switch TLS off in the client")
        else:
            self._transport.pause_reading()
            received = bytes(buffer.data[buffer.front:buffer.front + size])
            self._shaking_hands = self._loop.create_task(self._encrypt(tls, tls.context, received))
        return False

    def _refuse_by(self, tls: ServerTls, cause: str) -> None:
        tls.refused(self.peer.remote_text, cause)
        self.abort()

    async def _encrypt(self, tls: ServerTls, context: ssl.SSLContext, received: bytes) -> None:
        """Continue with TLS; the listener counts the connection as before."""
        is_done = False
        try:
            await take_over(self._transport, self, context, received, self._be_encrypted)
            is_done = True
        except OSError as error:
            if self.is_open:
                self._refuse_by(tls, f"its TLS handshake failed: {handshake_failure(error)}")
        finally:
            if not is_done:     # whatever the reason: nothing else notifies the owner
                self.abort()
                self.connection_lost(None)

    def _be_encrypted(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_encrypted = True
        transport.set_write_buffer_limits(self._config.write_buffer_high, self._config.write_buffer_low)
        if not self.is_open:        # it was closed meanwhile
            transport.abort()

    def _deliver(self, commands: list[RemotingCommand]) -> None:
        responses = take_responses(commands)
        for response in responses:
            self._answer(response)
        if commands:
            self._on_requests(self, commands)

    def _answer(self, response: RemotingCommand) -> None:
        future = self._waiting.pop(response.opaque, None)
        if future is None:
            _log.info("answer %d of %s came too late or was not asked for", response.opaque, self.peer.remote_text)
        elif not future.done():
            future.set_result(response)

    def _set_deadlines(self) -> None:
        """Let each request that was written now fail after its time, or up to one step later. A timer for each would
        cost more than the rest of the request."""
        unclocked, self._unclocked = self._unclocked, []
        now = self._loop.time()
        for request in unclocked:
            step = int((now + request[1] / 1000) / _DEADLINE_STEP) + 1
            deadline = self._deadlines.get(step)
            if deadline is None:
                deadline = self._deadlines[step] = _Deadline(
                    self._loop.call_at(step * _DEADLINE_STEP, self._pass_deadline, step))
            deadline.requests.append(request)

    def _pass_deadline(self, step: int) -> None:
        deadline = self._deadlines[step]
        if self._loop.time() - step * _DEADLINE_STEP > _LATE_MAX and not deadline.has_grace:
            # The process was blocked, and the answers may have arrived: they are read once before the requests fail.
            deadline.has_grace = True
            deadline.timer = self._loop.call_later(_GRACE, self._pass_deadline, step)
            return
        for opaque, timeout_ms in self._deadlines.pop(step).requests:
            future = self._waiting.pop(opaque, None)
            if future is not None and not future.done():
                future.set_exception(RequestTimeout(f"no answer of {self.peer.remote_text} within {timeout_ms} ms"))

    def _next_opaque(self) -> int:
        self._opaque = 1 if self._opaque == _OPAQUE_MAX else self._opaque + 1
        return self._opaque

    def _check_write_buffer(self) -> None:
        size = self._transport.get_write_buffer_size()
        if size > self._config.write_buffer_max:
            self.refuse(f"it left {size} bytes unread, more than {self._config.write_buffer_max}")


def _that_fits(command: RemotingCommand) -> list[bytes | memoryview]:
    """The parts of a request's frame. Raises RequestTooLarge."""
    parts = command.encode_parts()
    size = -4
    for part in parts:
        size += len(part)
    header_size = len(parts[0]) - _LENGTHS_SIZE
    if size > _FRAME_SIZE_MAX or header_size > _HEADER_SIZE_MAX:
        raise RequestTooLarge(f"a request of {size} bytes with a header of {header_size}; {FRAME_SIZE_MAX} and "
                              f"{HEADER_SIZE_MAX} are the most")
    return parts


def next_channel() -> int:
    """A number that no other channel of this process has."""
    return next(_channels)


def take_responses(commands: list[RemotingCommand]) -> list[RemotingCommand]:
    """Move the responses out of `commands`, which keeps the requests."""
    responses: list[RemotingCommand] = []
    for command in commands:
        if command.flag & _RESPONSE:
            responses.append(command)
    if responses:
        commands[:] = [] if len(responses) == len(commands) else [each for each in commands if not each.is_response]
    return responses


def _peer(channel: int, transport: asyncio.Transport) -> Peer:
    remote = transport.get_extra_info("peername")
    local = transport.get_extra_info("sockname")
    return Peer(channel, stored_host(remote), stored_host(local), _address_text(remote), _host_of(local))


def stored_host(address: Any) -> bytes:
    """The stored form of a socket's address."""
    # A peer that disconnected before we could ask has no address.
    return host_bytes(address[0], address[1]) if address else b"\0" * 8


def _host_of(address: Any) -> str:
    return str(address[0]).removeprefix("::ffff:") if address else ""


def _address_text(address: Any) -> str:
    if not address:
        return "a peer already gone"
    host = _host_of(address)
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
