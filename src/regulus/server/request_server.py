"""Receives frames, and carries out the outcomes of their handlers.

All requests of one read are decided one after the other, their answers leave in one write, and then the appended
messages are made visible. Nothing here decides; the packages below neither wait, send nor log.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

from regulus.broker.long_answers import Fault
from regulus.broker.outcome import NO_REPLY, Notice, Outcome, Relay, Reply, Unsent
from regulus.broker.request_latencies import ONEWAY, SUCCESS, Kind, RequestLatencies
from regulus.errors import ConnectionLost, RequestTimeout, StoreDamaged, StoreError, StoreNotWritable
from regulus.model.peer import Peer
from regulus.server.channel import Channel
from regulus.server.clock import Clock
from regulus.server.damage_report import DamageReport
from regulus.server.durability import Writer
from regulus.server.refusals import Refusals
from regulus.transport.connection import Connection
from regulus.wire.codes import ResponseCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import RemotingCommand

JOINED_PART_MAX = 1024
"""The average size of parts, in bytes, below which copying costs less than sending each part by itself."""

# A private name allows it to be a typed constant in the compiled form.
_JOINED_PART_MAX = JOINED_PART_MAX

_log = logging.getLogger(__name__)
_damage_report = DamageReport()

Handle = Callable[[RemotingCommand, Peer, Any, int], Outcome]
Settle = Callable[[int], None]
WhenSaved = Callable[[int, Callable[[str], None]], None]


Sent = Callable[[int], None]
"""Called with the code of the answer when it was written."""


class AnswerWhenDurable(Protocol):
    def __call__(self, end: int, writer: Writer, frames: bytes, is_firm: bool = False,
                 sent: Sent | None = None) -> None: ...


class RequestServer:
    """`handle` decides one request on `state`; `settle` follows each batch: it saves, registers, dispatches and sends
    notices. `refusals` gets the refused requests, `latencies` how long each took, if anybody wants to know."""

    def __init__(self, handle: Handle, state: Any, settle: Settle, answer_when_durable: AnswerWhenDurable,
                 when_saved: WhenSaved, channel_closed: Callable[[int, int], None], clock: Clock,
                 latencies: RequestLatencies | None = None) -> None:
        self._handle = handle
        self._state = state
        self._settle = settle
        self._answer_when_durable = answer_when_durable
        self._when_saved = when_saved
        self._channel_closed = channel_closed
        self._clock = clock
        self.refusals = Refusals()
        self._tally = None if latencies is None else Tally(latencies)
        self._channels: dict[int, Channel] = {}
        self._relays: set[asyncio.Task[None]] = set()

    def on_opened(self, channel: Channel) -> None:
        self._channels[channel.peer.channel] = channel

    def on_closed(self, channel: Channel) -> None:
        if self._channels.pop(channel.peer.channel, None) is not None:
            now_ms = self._clock()
            self._channel_closed(channel.peer.channel, now_ms)
            self.settle_safely(now_ms)

    def on_requests(self, connection: Connection, requests: list[RemotingCommand]) -> None:
        now_ms = self._clock()
        parts: list[bytes | memoryview] = []
        held: list[bytes | memoryview] = []
        others: list[Outcome] = []
        tally = self._tally
        if tally is not None and not tally.begin_again():
            tally = self._tally = Tally(tally.latencies)
        end = decide(requests, self._handle, connection.peer, self._state, now_ms, parts, held, others,
                     self.refusals, tally)
        if held:
            self._answer_when_durable(end, connection, b"".join(held), sent=None if tally is None else tally.held_sent)
        for index, outcome in enumerate(others):
            self._carry_out(outcome, connection, None if tally is None else tally.sent_of(index))
        self.settle_safely(now_ms)
        if parts:
            send_parts(connection, parts)
        if tally is not None:
            tally.parts_sent()

    def tell(self, notice: Notice) -> None:
        """Carry out a notice's reply for the client on its channel."""
        channel, reply = self._channels.get(notice.channel), notice.reply
        if channel is not None:
            self._answer(reply, channel)
        elif reply.unsent is not None:
            reply.unsent(self._clock())

    def settle_safely(self, now_ms: int) -> None:
        """Run `settle`. A fault in it must not keep the answers of the requests from leaving."""
        try:
            self._settle(now_ms)
        except Exception:
            _log.exception("what follows a batch of requests failed")

    def tell_faults(self, faults: deque[Fault]) -> None:
        """Take out and log what failed while others were served; the clients concerned have been answered."""
        while faults:
            fault = faults.popleft()
            _log.error("request %d of %s failed", fault.code, fault.peer.remote_text, exc_info=fault.error)

    def stop(self) -> None:
        for task in self._relays:
            task.cancel()

    def _carry_out(self, outcome: Outcome, connection: Connection, sent: Sent | None) -> None:
        """Carry out an outcome other than a reply that leaves now."""
        if isinstance(outcome, Relay):
            task = asyncio.ensure_future(self._relay(outcome, connection))
            self._relays.add(task)
            task.add_done_callback(self._relays.discard)
        elif isinstance(outcome, Reply):
            self._answer(outcome, connection, sent)

    def _answer(self, reply: Reply, channel: Channel, sent: Sent | None = None) -> None:
        """The steps of a reply, in the order that its class gives."""
        if reply.change:
            self._save_first(reply, channel, sent)
            return
        if reply.durable_at:
            self._answer_when_durable(reply.durable_at, self._recipient(reply, channel), _frame_of(reply),
                                      reply.is_firm, sent)
            return
        if isinstance(reply.answer, bytes):
            channel.write(reply.answer)
        else:
            channel.send_soon(reply.answer)
        if sent is not None:
            sent(0)

    def _save_first(self, reply: Reply, channel: Channel, sent: Sent | None) -> None:
        """The answer is encoded now: its body may be a part of the log, which may go while the answer waits."""
        saved = Reply(_frame_of(reply), reply.durable_at, 0, reply.is_firm, reply.unsent)

        def release(fault: str) -> None:
            is_gone = channel.peer.channel not in self._channels
            if (fault or is_gone) and saved.unsent is not None:
                saved.unsent(self._clock())
            if fault:
                channel.send_soon(_not_saved(_frame_of(saved), fault))
                if sent is not None:
                    sent(ResponseCode.SYSTEM_ERROR)
            elif not is_gone:
                self._answer(saved, channel, sent)

        self._when_saved(reply.change, release)

    def _recipient(self, reply: Reply, channel: Channel) -> Writer:
        return channel if reply.unsent is None else _Recipient(channel, self._channels, reply.unsent, self._clock)

    async def _relay(self, relay: Relay, requester: Channel) -> None:
        asked = self._channels.get(relay.channel)
        answer: RemotingCommand | None = None
        if asked is not None:
            try:
                answer = await asked.request(relay.request, relay.timeout_ms)
            except (RequestTimeout, ConnectionLost) as error:
                _log.info("request %d was not answered by %s: %s", relay.request.code, asked.peer.remote_text, error)
        response = relay.answer(answer)
        if isinstance(response, Relay):
            await self._relay(response, requester)
        else:
            requester.send_soon(response)


class _Recipient:
    """The destination of a pop's answer that waits for the log: the client that asked, as long as it is connected."""

    def __init__(self, channel: Channel, channels: dict[int, Channel], unsent: Unsent, clock: Clock) -> None:
        self._channel = channel
        self._channels = channels
        self._unsent = unsent
        self._clock = clock

    def write(self, data: bytes) -> None:
        if self._channel.peer.channel in self._channels:
            self._channel.write(data)
        else:
            self._unsent(self._clock())


class Tally:
    """The answers to the requests of one read, until they are written. `runs` are those that leave with the read,
    `held` those that wait for the log together; each is a kind of answer, and how many in a row. The others have an
    entry each in `others`, None where nothing is answered now."""

    def __init__(self, latencies: RequestLatencies) -> None:
        self.runs: list[tuple[Kind, int]] = []
        self.held: list[tuple[Kind, int]] = []
        self.others: list[tuple[int, int] | None] = []
        self.latencies = latencies
        self._began = perf_counter()

    def begin_again(self) -> bool:
        """For the next read, if nothing of the last one is waited for."""
        if self.held or self.others:
            return False
        self.runs.clear()
        self._began = perf_counter()
        return True

    def note_other(self, request: RemotingCommand, outcome: Outcome) -> None:
        """An outcome that does not leave with the read. What is held is counted when it is answered."""
        code = 0
        if isinstance(outcome, Reply) and not isinstance(outcome.answer, bytes):
            code = outcome.answer.code
        elif request.is_oneway and outcome is NO_REPLY:
            self.runs.append(((request.code, code, False, ONEWAY), 1))
        self.others.append((request.code, code) if isinstance(outcome, Reply) else None)

    def parts_sent(self) -> None:
        self.latencies.note_runs(self.runs, self._took_ms())

    def held_sent(self, late: int) -> None:
        """`late`: the code with which they left instead of their own; 0 for none."""
        runs = self.held if not late else [
            ((kind[0], late, kind[2], kind[3]), times) for kind, times in self.held]
        self.latencies.note_runs(runs, self._took_ms())

    def sent_of(self, index: int) -> Sent | None:
        noted = self.others[index]
        if noted is None:
            return None
        request_code, response_code = noted

        def sent(late: int) -> None:
            self.latencies.note(request_code, late or response_code, self._took_ms())
        return sent

    def _took_ms(self) -> float:
        return (perf_counter() - self._began) * 1000


def send_parts(connection: Connection, parts: list[bytes | memoryview]) -> None:
    """Write whole frames given in parts: short parts joined, long ones, such as bodies from the log, as they are."""
    size = 0
    for part in parts:
        size += len(part)
    if size > len(parts) * _JOINED_PART_MAX:
        connection.send_many(parts)
    else:
        connection.write(parts[0] if len(parts) == 1 else b"".join(parts))


def decide(requests: list[RemotingCommand], handle: Handle, peer: Peer, state: Any, now_ms: int,
           parts: list[bytes | memoryview], held: list[bytes | memoryview], others: list[Outcome],
           refusals: Refusals, tally: "Tally | None" = None) -> int:
    """Decide requests one after the other.

    `parts` gets the frames that leave now, `held` those that wait until the log is durable up to the position returned,
    `others` the outcomes that are not replies and the replies that wait alone, `refusals` the answers with an error
    code. `tally` counts them.
    """
    end = 0
    run_code = run_times = 0        # of answers like the last one, of one list and without an error code
    run_taker = parts
    for request in requests:
        try:
            outcome = handle(request, peer, state, now_ms)
        except (StoreDamaged, StoreNotWritable) as error:
            outcome = _unreadable(request, peer, error)
        except Exception:   # one broken handler must not end the connection, let alone the server
            outcome = _unexpected(request, peer)
        if type(outcome) is not Reply:
            others.append(outcome)
            if tally is not None:
                tally.note_other(request, outcome)
            continue
        reply = outcome
        taker = parts
        if reply.change or reply.durable_at:
            if reply.change or reply.is_firm:
                others.append(reply)
                _note_refusal(reply, request, peer, refusals)
                if tally is not None:
                    tally.note_other(request, reply)
                continue
            end = max(end, reply.durable_at)
            taker = held
        code = 0
        if isinstance(reply.answer, bytes):
            taker.append(reply.answer)
        else:
            command = reply.answer
            code = command.code
            if code:
                refusals.note(request, command, peer)
            taker += command.encode_parts()
        if tally is None:
            continue
        if run_times and (request.code != run_code or code or taker is not run_taker):
            (tally.held if run_taker is held else tally.runs).append(((run_code, 0, False, SUCCESS), run_times))
            run_times = 0
        if code:
            (tally.held if taker is held else tally.runs).append(((request.code, code, False, SUCCESS), 1))
            continue
        run_code, run_taker = request.code, taker
        run_times += 1
    if tally is not None and run_times:
        (tally.held if run_taker is held else tally.runs).append(((run_code, 0, False, SUCCESS), run_times))
    return end


def _note_refusal(reply: Reply, request: RemotingCommand, peer: Peer, refusals: Refusals) -> None:
    answer = reply.answer
    if not isinstance(answer, bytes) and answer.code:
        refusals.note(request, answer, peer)


def _frame_of(reply: Reply) -> bytes:
    return b"".join(reply.encode_parts())


def _unexpected(request: RemotingCommand, peer: Peer) -> Outcome:
    _log.exception("request %d of %s failed", request.code, peer.remote_text)
    if request.is_oneway:
        return NO_REPLY
    remark = f"the server failed at request {request.code}; see its log"
    return Reply(request.response(ResponseCode.SYSTEM_ERROR, remark))


def _unreadable(request: RemotingCommand, peer: Peer, error: StoreError) -> Outcome:
    """The answer when the requested data is damaged or cannot be read now: the client is informed, and the log at most
    once in a while."""
    if _damage_report.is_due(str(error)):
        _log.error("request %d of %s is refused: %s", request.code, peer.remote_text, error)
    if request.is_oneway:
        return NO_REPLY
    return Reply(request.response(ResponseCode.SYSTEM_ERROR, str(error)))


def _not_saved(frame: bytes, fault: str) -> RemotingCommand:
    """The answer in place of one whose change could not be saved."""
    reader = FrameReader()
    reader.feed(frame)
    (answer,) = reader.frames()
    remark = f"what this request changed or needs is not saved: {fault}"
    return RemotingCommand(int(ResponseCode.SYSTEM_ERROR), None, b"", answer.flag, answer.opaque, remark,
                           answer.language, answer.version, answer.serialize_type)
