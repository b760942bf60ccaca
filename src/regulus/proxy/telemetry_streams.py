"""The open telemetry streams: their number, access, time limits, and the reading and writing of each.

A stream stays open as long as its client lives, perhaps for days, so its cost is bounded. Access is checked at its
beginning and at each command, the client must send its settings within some minutes, and it can have only a few
streams.
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
"""Time after which a stream without settings ends. Python's client sends them only five minutes after it has reopened
a stream."""
STREAMS_OF_CLIENT_MAX = 8
"""Open streams of one client; the next one is refused."""
CHECKED_A_STEP = 128
"""Streams whose access is checked again in one step. Each costs the check of a signature."""
COMMAND_SIZE_MAX = 256 << 10
"""Bytes of one command of a client: 1,024 topics of the longest names are 140 KiB."""
LAST_WORDS_S_MAX = 5.0
"""How long a client has to read the commands that wait for it when its stream ends."""
FIRST_WORDS_S_MAX = 1.0
"""How long a refused stream waits for a command of its client before it ends."""
HOLDERS_TOLD = 5
"""Hosts with the most streams that the log names when the limit is reached."""
_ENDS_STREAM = frozenset((Code.UNAUTHORIZED, Code.CLIENT_ID_REQUIRED, Code.TOO_MANY_REQUESTS,
                          Code.REQUEST_HEADER_FIELDS_TOO_LARGE))
"""Refusals that the client gets as a last command. After others the stream ends with gRPC's INVALID_ARGUMENT."""

Check = Callable[[str, messages.TelemetryCommand, Caller], Caller]


class TelemetryStreams:
    """Serves telemetry streams. `check` returns the caller of an allowed call with its user, or raises CallRefused;
    `let_go` forgets a client and releases the messages it holds."""

    def __init__(self, telemetry: Telemetry, clients: Clients, config: ProxyConfig, check: Check,
                 let_go: Callable[[ClientKey], None]) -> None:
        self._telemetry = telemetry
        self._clients = clients
        self._config = config
        self._check = check
        self._let_go = let_go
        self._open: dict[Stream, Caller] = {}
        # For each stream a command that has only the group of the client's settings.
        self._joined: dict[Stream, messages.TelemetryCommand] = {}
        self._of_client: Counter[ClientKey] = Counter()
        self._is_full = False

    def __len__(self) -> int:
        return len(self._open)

    def end(self) -> None:
        """End all streams, because the server stops."""
        for stream in self._open:
            stream.end()

    async def decide_anew(self) -> None:
        """Check all streams again after accounts, users or policies have changed. A stream that is no longer allowed
        ends.

        A client that loses its newest stream is forgotten, and its messages are released: otherwise they would be
        renewed without ever being acknowledged."""
        for number, (stream, caller) in enumerate(list(self._open.items()), 1):
            try:
                if stream in self._open:    # it may have ended in a pause of this loop
                    self._check("Telemetry", self._joined.get(stream, messages.TelemetryCommand()), caller)
            except CallRefused as error:
                stream.refuse(error)
                client = self._clients.get(caller.key)
                if client is not None and client.stream is stream:
                    self._let_go(caller.key)
            if number % CHECKED_A_STEP == 0:
                await asyncio.sleep(0)

    async def serve(self, grpc_call: GrpcCall, caller: Caller) -> None:
        """Serve a stream until its client ends it, sends a forbidden command, is silent or reads too slowly."""
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
        """Raises CallRefused if the client or the server has too many streams (telemetryStreamsMax)."""
        if self._of_client[caller.key] >= STREAMS_OF_CLIENT_MAX:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"the client has {STREAMS_OF_CLIENT_MAX} telemetry streams")
        if len(self._open) < self._config.telemetry_streams_max:
            self._is_full = False
            return
        if not self._is_full:
            self._is_full = True
            hosts = Counter(each.host for each in self._open.values()).most_common(HOLDERS_TOLD)
            _log.warning("%d telemetry streams are open, which is the limit (telemetryStreamsMax); most are of %s",
                         len(self._open), ", ".join(f"{host}: {count}" for host, count in hosts))
        raise CallRefused(Code.TOO_MANY_REQUESTS, f"{self._config.telemetry_streams_max} streams are open "
                                                  "(telemetryStreamsMax)")

    async def _carry(self, grpc_call: GrpcCall, caller: Caller, stream: Stream) -> BaseException | None:
        """Read and write until the stream ends. Returns the error that it must end with, or None."""
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
        """Handle commands until the client ends its side. Raises CallRefused or DecodeError to end the stream."""
        try:
            async with asyncio.timeout(SILENT_S_MAX) as silence:
                async for data in grpc_call.messages(COMMAND_SIZE_MAX):
                    command = _parsed(data)
                    caller = self._check("Telemetry", command, caller)
                    if command.WhichOneof("command") == "settings":
                        self._joined[stream] = _group_alone(command)    # before the next await
                    await self._telemetry.take(command, caller, stream)
                    if command.WhichOneof("command") == "settings":
                        silence.reschedule(None)
        except TimeoutError as error:
            raise CallRefused(Code.BAD_REQUEST, f"no settings came on the stream for {SILENT_S_MAX} s"
                              ) from error


def _parsed(data: bytes) -> messages.TelemetryCommand:
    """Parse a command. Raises CallRefused if it is too large, DecodeError if it is malformed."""
    if len(data) > COMMAND_SIZE_MAX:
        raise CallRefused(Code.BAD_REQUEST, f"the command has {len(data)} bytes; {COMMAND_SIZE_MAX} are the most")
    return messages.TelemetryCommand.FromString(data)


def _group_alone(command: messages.TelemetryCommand) -> messages.TelemetryCommand:
    """A copy of settings with only the consumer group. It is kept as long as the stream, and topics may be many."""
    joined = messages.TelemetryCommand()
    if command.settings.WhichOneof("pub_sub") == "subscription":
        joined.settings.subscription.group.CopyFrom(command.settings.subscription.group)
    return joined


async def _write(stream: Stream, grpc_call: GrpcCall) -> None:
    """Send the commands of a stream. Nothing else writes to it, so commands do not mix."""
    while (command := await stream.next()) is not None:
        await grpc_call.send(command.SerializeToString())


async def _hear_first(grpc_call: GrpcCall) -> None:
    """Wait until the client of a refused stream has written, or for FIRST_WORDS_S_MAX.

    Clients write before they read, and would not see the reason on a stream that has already ended. The command is
    neither decompressed nor parsed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST_WORDS_S_MAX):
            await grpc_call.has_message()


async def _end(fault: BaseException | None, grpc_call: GrpcCall) -> None:
    """End the stream: send the refusal as a last command, or raise the error. None ends it without an error."""
    if isinstance(fault, CallRefused) and fault.code in _ENDS_STREAM:
        word = messages.TelemetryCommand(status=status(fault.code, str(fault)))
        await asyncio.wait_for(grpc_call.send(word.SerializeToString()), LAST_WORDS_S_MAX)
    elif isinstance(fault, CallRefused | DecodeError | HeaderError):
        raise GrpcRefused(GrpcStatus.INVALID_ARGUMENT, str(fault)) from fault
    elif fault is not None:
        raise fault
