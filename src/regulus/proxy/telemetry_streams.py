"""The telemetry streams that are open: how many, how long one may be silent, and who writes on it.

A stream is open for as long as its client lives, days perhaps. So what one costs is bounded: its client is checked
before it is let in and at each of its commands, it says what it is within some minutes, and a client has a few.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from google.protobuf.message import DecodeError

from regulus.errors import CallRefused, GrpcRefused, HeaderError
from regulus.proxy.caller import Caller, ClientKey
from regulus.proxy.clients import Clients, Stream
from regulus.proxy.config import ProxyConfig
from regulus.proxy.status import status
from regulus.proxy.telemetry import Telemetry
from regulus.transport.http2.grpc_call import GrpcCall
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code
from regulus.wire.http2.grpc_messages import GrpcStatus

_log = logging.getLogger(__name__)

SILENT_S_MAX = 600.0
"""Until a stream has brought settings: Python's client sends them five minutes after it has opened a stream anew."""
STREAMS_OF_CLIENT_MAX = 8
CHECKED_A_STEP = 128
"""Streams that are decided anew in one step; each costs a signature."""
COMMAND_SIZE_MAX = 256 << 10
"""Bytes of one command of a client: 1,024 topics of the longest names are 140 KiB."""
LAST_WORDS_S_MAX = 5.0
"""How long a client has to read what waits for it when its stream ends."""
FIRST_WORDS_S_MAX = 1.0
"""How long a client has to write to a stream that is refused."""
HOLDERS_TOLD = 5
"""Hosts that are named when there are no more streams."""
_ENDS_STREAM = frozenset((Code.UNAUTHORIZED, Code.CLIENT_ID_REQUIRED, Code.TOO_MANY_REQUESTS,
                          Code.REQUEST_HEADER_FIELDS_TOO_LARGE))

Check = Callable[[str, messages.TelemetryCommand, Caller], Caller]


class TelemetryStreams:
    """`check` lets a call in, as its caller with its user, or raises CallRefused; `let_go` forgets a client, and what
    it has in hand."""

    def __init__(self, telemetry: Telemetry, clients: Clients, config: ProxyConfig, check: Check,
                 let_go: Callable[[ClientKey], None]) -> None:
        self._telemetry = telemetry
        self._clients = clients
        self._config = config
        self._check = check
        self._let_go = let_go
        self._open: dict[Stream, Caller] = {}
        # Commands that name the group of a consumer, and no more.
        self._joined: dict[Stream, messages.TelemetryCommand] = {}
        self._of_client: Counter[ClientKey] = Counter()
        self._is_full = False

    def __len__(self) -> int:
        return len(self._open)

    def end(self) -> None:
        """Let all streams end: the server stops."""
        for stream in self._open:
            stream.end()

    async def decide_anew(self) -> None:
        """Accounts, users or policies have changed: a stream ends whose client may no longer be what it said it is.
        With its newest stream a client is gone: nobody would acknowledge what is renewed for it."""
        for number, (stream, caller) in enumerate(list(self._open.items()), 1):
            try:
                if stream in self._open:    # it may have ended while others had a turn
                    self._check("Telemetry", self._joined.get(stream, messages.TelemetryCommand()), caller)
            except CallRefused as error:
                stream.refuse(error)
                client = self._clients.get(caller.key)
                if client is not None and client.stream is stream:
                    self._let_go(caller.key)
            if number % CHECKED_A_STEP == 0:
                await asyncio.sleep(0)

    async def serve(self, grpc_call: GrpcCall, caller: Caller) -> None:
        """Until the client ends its side, says what it may not, is silent, or reads too slowly."""
        try:
            caller = self._check("Telemetry", messages.TelemetryCommand(), caller)
            self._check_room(caller)
        except CallRefused as error:
            await _hear_first(grpc_call)
            await _end(error, grpc_call)
            return
        stream, holder = Stream(), caller.key
        self._open[stream] = caller
        self._of_client[holder] += 1
        try:
            fault = await self._carry(grpc_call, caller, stream)
        finally:
            stream.end()
            del self._open[stream]
            self._joined.pop(stream, None)
            self._of_client[holder] -= 1
            if not self._of_client[holder]:
                del self._of_client[holder]
            self._clients.closed(holder, stream)
        await _end(fault, grpc_call)

    def _check_room(self, caller: Caller) -> None:
        """Raises CallRefused."""
        if self._of_client[caller.key] >= STREAMS_OF_CLIENT_MAX:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"the client has {STREAMS_OF_CLIENT_MAX} telemetry streams")
        if len(self._open) < self._config.telemetry_streams_max:
            self._is_full = False
            return
        if not self._is_full:
            self._is_full = True
            hosts = Counter(each.host for each in self._open.values()).most_common(HOLDERS_TOLD)
            _log.warning("%d telemetry streams are open, and no more can be (telemetryStreamsMax); most are of %s",
                         len(self._open), ", ".join(f"{host}: {count}" for host, count in hosts))
        raise CallRefused(Code.TOO_MANY_REQUESTS, f"{self._config.telemetry_streams_max} streams are open "
                                                  "(telemetryStreamsMax)")

    async def _carry(self, grpc_call: GrpcCall, caller: Caller, stream: Stream) -> BaseException | None:
        """What the stream ended with; nobody reads or writes it any more. None when nothing is to be said of it."""
        reading = asyncio.ensure_future(self._read(grpc_call, caller, stream))
        writing = asyncio.ensure_future(_write(stream, grpc_call))
        tasks: list[asyncio.Future[Any]] = [reading, writing, asyncio.ensure_future(stream.ended.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stream.refusal is not None:
                return stream.refusal
            if reading.done() and stream.finish():
                await asyncio.wait([writing], timeout=LAST_WORDS_S_MAX)
            return reading.exception() if reading.done() and writing.done() else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, grpc_call: GrpcCall, caller: Caller, stream: Stream) -> None:
        """Until the client ends its side. Raises what ends the stream."""
        try:
            async with asyncio.timeout(SILENT_S_MAX) as silence:
                async for data in grpc_call.messages(COMMAND_SIZE_MAX):
                    command = _parsed(data)
                    caller = self._check("Telemetry", command, caller)
                    if command.WhichOneof("command") == "settings":
                        self._joined[stream] = _group_alone(command)    # before others have a turn
                    await self._telemetry.take(command, caller, stream)
                    if command.WhichOneof("command") == "settings":
                        silence.reschedule(None)
        except TimeoutError as error:
            raise CallRefused(Code.BAD_REQUEST, f"the stream has brought no settings for {SILENT_S_MAX} s"
                              ) from error


def _parsed(data: bytes) -> messages.TelemetryCommand:
    """Raises CallRefused, DecodeError."""
    if len(data) > COMMAND_SIZE_MAX:
        raise CallRefused(Code.BAD_REQUEST, f"the command has {len(data)} bytes; {COMMAND_SIZE_MAX} are the most")
    return messages.TelemetryCommand.FromString(data)


def _group_alone(command: messages.TelemetryCommand) -> messages.TelemetryCommand:
    """Of settings, whose topics are many: what a consumer needs in all that it does."""
    joined = messages.TelemetryCommand()
    if command.settings.WhichOneof("pub_sub") == "subscription":
        joined.settings.subscription.group.CopyFrom(command.settings.subscription.group)
    return joined


async def _write(stream: Stream, grpc_call: GrpcCall) -> None:
    """The only one that writes on the stream."""
    while (command := await stream.next()) is not None:
        await grpc_call.send(command.SerializeToString())


async def _hear_first(grpc_call: GrpcCall) -> None:
    """Clients write before they read, and one whose stream is over by then does not see why. Nobody looks at what they
    write, nor inflates it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST_WORDS_S_MAX):
            await grpc_call.has_message()


async def _end(fault: BaseException | None, grpc_call: GrpcCall) -> None:
    """The stream's last word."""
    if isinstance(fault, CallRefused) and fault.code in _ENDS_STREAM:
        word = messages.TelemetryCommand(status=status(fault.code, str(fault)))
        await asyncio.wait_for(grpc_call.send(word.SerializeToString()), LAST_WORDS_S_MAX)
    elif isinstance(fault, CallRefused | DecodeError | HeaderError):
        raise GrpcRefused(GrpcStatus.INVALID_ARGUMENT, str(fault)) from fault
    elif fault is not None:
        raise fault
