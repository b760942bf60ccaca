"""Outcomes carried out over real connections; the decisions are a table in the test."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest

from regulus.broker.outcome import (
    HOLD,
    NO_REPLY,
    Notice,
    Outcome,
    Relay,
    Reply,
    plain_reply,
    refuse,
    when_saved,
)
from regulus.broker.request_latencies import RequestLatencies
from regulus.errors import StoreDamaged
from regulus.model.peer import Peer
from regulus.server.request_server import JOINED_PART_MAX, RequestServer, send_parts
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.transport.listener import Listener, listen
from regulus.wire.codes import ResponseCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import RemotingCommand

(ECHO, DURABLE, HELD, BROKEN, SLICES, RELAY, FRAME, DURABLE_FRAME, SAVED, SAVED_DURABLE, NOTHING, DAMAGED, REFUSED,
 REFUSED_SAVED, FIRM, FIRM_SAVED, POPPED, POPPED_SAVED) = range(1, 19)


class Desk:
    """A request server and what its neighbours saw."""

    def __init__(self) -> None:
        self.settled: list[int] = []
        self.durable: list[tuple[int, Connection, bytes]] = []
        self.firm: list[bool] = []
        self.unsent: list[int] = []
        self.closed: asyncio.Queue[int] = asyncio.Queue()
        self.channels: list[int] = []
        self.saving: list[tuple[int, Callable[[str], None]]] = []
        self.sent: list[Callable[[int], None]] = []
        self.latencies = RequestLatencies()
        self.server = RequestServer(self.handle, self, self.settled.append, self.when_durable,
                                    lambda change, release: self.saving.append((change, release)),
                                    lambda channel, _: self.closed.put_nowait(channel), lambda: 1234, self.latencies)

    def when_durable(self, end: int, connection: Connection, frames: bytes, is_firm: bool = False,
                     sent: Callable[[int], None] | None = None) -> None:
        self.durable.append((end, connection, frames))
        self.firm.append(is_firm)
        if sent is not None:
            self.sent.append(sent)

    @property
    def counted(self) -> dict[tuple[int, int, str], int]:
        """Answers by request code, response code and result."""
        return {(kind.request_code, kind.response_code, kind.result): sum(histogram.counts)
                for kind, histogram in self.latencies.all()}

    def handle(self, request: RemotingCommand, peer: Peer, state: "Desk", now_ms: int) -> Outcome:
        self.channels.append(peer.channel)
        match request.code:
            case 1:
                return Reply(request.response(0, str(now_ms), body=request.body))
            case 2:
                return Reply(request.response(0), 77)
            case 3:
                return HOLD
            case 4:
                raise RuntimeError("a broken handler")
            case 5:
                return Reply(request.response(0, body=[memoryview(b"ab"), memoryview(b"cd")]))
            case 6:
                return Relay(channel=int(request.ext["channel"]), request=RemotingCommand.request(307),
                             timeout_ms=int(request.ext.get("timeout", "5000")), answer=lambda answer: request.response(
                                 207 if answer is None else 0, body=b"" if answer is None else answer.body))
            case 7:
                return plain_reply(request.response(0, "encoded").encode(), 0)
            case 8:
                return plain_reply(request.response(0, "encoded").encode(), 66)
            case 9:
                return Reply(request.response(0, "saved", body=b"all"), change=5)
            case 10:
                return Reply(request.response(0, "saved"), 55, 5)
            case 12:
                raise StoreDamaged(f"message {request.body.decode()} is damaged")
            case 13:
                return refuse(request, ResponseCode.NO_PERMISSION, "not yours")
            case 14:
                return when_saved(refuse(request, ResponseCode.TOPIC_EXIST_ALREADY, "is there"), 5)
            case 15:
                return Reply(request.response(0, "firm"), 44, is_firm=True)
            case 16:
                return when_saved(Reply(request.response(0, "firm"), 45, is_firm=True), 5)
            case 17:
                return Reply(request.response(0, "popped"), 47, is_firm=True, unsent=self.unsent.append)
            case 18:
                return when_saved(Reply(request.response(0, "popped"), 48, is_firm=True, unsent=self.unsent.append), 5)
            case _:
                return NO_REPLY


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def listener(desk: Desk) -> AsyncIterator[Listener]:
    listener = await listen("127.0.0.1", 0, desk.server.on_requests, desk.server.on_opened, desk.server.on_closed,
                            TransportConfig())
    yield listener
    desk.server.stop()
    await listener.close()


async def ask(connection: Connection, code: int, ext: dict[str, str] | None = None,
              body: bytes = b"") -> RemotingCommand:
    return await connection.request(RemotingCommand.request(code, ext, body), 60_000)


async def test_a_reply_goes_out_and_the_batch_is_settled(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    answer = await ask(connection, ECHO, body=b"x")
    assert (answer.remark, answer.body) == ("1234", b"x")
    assert desk.settled == [1234]
    connection.close()


async def test_an_encoded_answer_goes_out_as_it_is(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    answers = await asyncio.gather(*[ask(connection, code) for code in (FRAME, ECHO, FRAME)])
    assert [answer.remark for answer in answers] == ["encoded", "1234", "encoded"]
    connection.close()


async def test_slices_are_sent_between_other_answers(listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    answers = await asyncio.gather(*[ask(connection, code, body=b"x") for code in (ECHO, SLICES, ECHO, SLICES)])
    assert [answer.body for answer in answers] == [b"x", b"abcd", b"x", b"abcd"]
    connection.close()


class Written:
    """A connection's two ways to write, and what was written so: as one piece or in parts."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []
        self.parts: list[bytes | memoryview] = []

    def write(self, data: bytes | memoryview) -> None:
        self.pieces.append(data)

    def send_many(self, parts: list[bytes | memoryview]) -> None:
        self.parts += parts


def test_short_parts_leave_as_one_piece_and_long_ones_as_they_are() -> None:
    front = b"f"
    for parts, is_long in (([front], False), ([front, memoryview(bytes(JOINED_PART_MAX))], False),
                           ([front, memoryview(bytes(2 * JOINED_PART_MAX))], True),
                           ([bytes(JOINED_PART_MAX + 1)], True)):
        written = Written()
        send_parts(cast(Connection, written), parts)
        assert b"".join(written.parts if is_long else written.pieces) == b"".join(parts)
        assert (len(written.pieces), len(written.parts)) == ((0, len(parts)) if is_long else (1, 0))


async def test_damage_is_answered_each_time_and_logged_now_and_then(
        listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    connection = await connect("127.0.0.1", listener.port)
    for body in (b"5", b"5", b"6"):
        answer = await ask(connection, DAMAGED, body=body)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"message {body.decode()} is damaged")
    assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == [("ERROR", False)] * 2
    assert [message.rpartition(": ")[2] for message in caplog.messages] == ["message 5 is damaged",
                                                                            "message 6 is damaged"]
    connection.close()


async def test_a_broken_handler_is_logged_once_and_answered(
        listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    connection = await connect("127.0.0.1", listener.port)
    answer = await ask(connection, BROKEN)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert len([record for record in caplog.records if record.exc_info]) == 1
    assert (await ask(connection, ECHO, body=b"on")).body == b"on"
    connection.close()


@pytest.mark.parametrize("code", [BROKEN, DAMAGED])
async def test_a_one_way_request_is_not_answered_even_when_its_handler_breaks(listener: Listener, code: int) -> None:
    """A connection of ours would drop the answer that nobody waits for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(RemotingCommand.request(code, oneway=True, opaque=1).encode())
    writer.write(RemotingCommand.request(ECHO, opaque=2).encode())
    size = await reader.readexactly(4)
    frames = FrameReader()
    frames.feed(size + await reader.readexactly(int.from_bytes(size, "big")))
    assert [answer.opaque for answer in frames.frames()] == [2]
    writer.close()
    await writer.wait_closed()


async def test_a_durable_reply_is_left_to_the_flush(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    waiting = asyncio.create_task(ask(connection, DURABLE))
    await ask(connection, ECHO)
    (end, server_side, frames), = desk.durable
    assert end == 77
    server_side.write(frames)
    assert (await waiting).code == 0
    connection.close()


async def test_durable_replies_of_one_read_wait_together_in_order(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    waiting = [asyncio.create_task(ask(connection, code)) for code in (DURABLE, DURABLE_FRAME, DURABLE_FRAME)]
    assert (await ask(connection, ECHO)).code == 0
    (end, server_side, frames), = desk.durable
    assert end == 77, "what is latest in the log counts"
    assert not any(task.done() for task in waiting)
    server_side.write(frames)
    assert [answer.remark for answer in await asyncio.gather(*waiting)] == [None, "encoded", "encoded"]
    connection.close()


async def test_a_held_request_is_answered_by_its_channel(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    request = RemotingCommand.request(HELD)
    waiting = asyncio.create_task(connection.request(request, 60_000))
    await ask(connection, ECHO)
    desk.server.tell(Notice(desk.channels[0], Reply(request.response(0, body=b"late"))))
    desk.server.tell(Notice(999_999, Reply(request.response(0))))
    assert (await waiting).body == b"late"
    connection.close()


async def test_a_relay_asks_the_client_and_answers_the_requester(desk: Desk, listener: Listener) -> None:
    def answer_307(connection: Connection, requests: list[RemotingCommand]) -> None:
        for request in requests:
            connection.send(request.response(0, body=b"running"))

    client = await connect("127.0.0.1", listener.port, answer_307)
    await ask(client, ECHO)
    admin = await connect("127.0.0.1", listener.port)
    answer = await ask(admin, RELAY, {"channel": str(desk.channels[0])})
    assert answer.body == b"running"
    client.close()
    admin.close()


async def test_a_relay_to_one_who_is_silent_or_gone_is_answered_too(desk: Desk, listener: Listener) -> None:
    silent = await connect("127.0.0.1", listener.port)
    await ask(silent, ECHO)
    admin = await connect("127.0.0.1", listener.port)
    assert (await ask(admin, RELAY, {"channel": str(desk.channels[0]), "timeout": "20"})).code == 207
    assert (await ask(admin, RELAY, {"channel": "999999"})).code == 207
    silent.close()
    admin.close()


async def test_the_end_of_a_connection_is_told(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    await ask(connection, ECHO)
    connection.close()
    assert await desk.closed.get() == desk.channels[0]


# --- answers that wait for documents ---------------------------------------------------------------------------------


async def asked(desk: Desk, connection: Connection, code: int) -> "asyncio.Task[RemotingCommand]":
    """On its way back is only the answer to what was asked after it."""
    waiting = asyncio.create_task(connection.request(RemotingCommand.request(code), 60_000))
    await asyncio.sleep(0)
    assert (await connection.request(RemotingCommand.request(ECHO), 60_000)).code == 0
    assert not waiting.done()
    return waiting


async def test_only_the_one_who_asked_waits_until_it_is_saved(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    waiting = await asked(desk, connection, SAVED)
    ((change, release),) = desk.saving
    assert change == 5
    release("")
    answer = await waiting
    assert (answer.code, answer.remark, answer.body) == (0, "saved", b"all")
    connection.close()


async def test_what_could_not_be_saved_is_refused_with_the_cause(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    waiting = await asked(desk, connection, SAVED)
    desk.saving[0][1]("the disk is full")
    answer = await waiting
    assert (answer.code, answer.body) == (ResponseCode.SYSTEM_ERROR, b"")
    assert answer.remark == "what this request changed or needs is not saved: the disk is full"
    connection.close()


async def test_what_is_saved_may_have_to_wait_for_the_log(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    waiting = await asked(desk, connection, SAVED_DURABLE)
    assert desk.durable == []
    desk.saving[0][1]("")
    ((end, requester, frames),) = desk.durable
    assert end == 55
    requester.write(frames)
    assert (await waiting).remark == "saved"
    connection.close()


async def test_a_firm_reply_is_told_apart_from_others(desk: Desk, listener: Listener) -> None:
    """Also where it waits for settings to be saved, and where it comes late."""
    connection = await connect("127.0.0.1", listener.port)
    waiting = [asyncio.create_task(ask(connection, code)) for code in (FIRM, DURABLE, FIRM_SAVED)]
    await ask(connection, ECHO)
    desk.saving[0][1]("")
    desk.server.tell(Notice(desk.channels[0], Reply(RemotingCommand.request(HELD).response(0), 46, is_firm=True)))
    assert sorted((end, is_firm) for (end, _, _), is_firm in zip(desk.durable, desk.firm, strict=True)) == [
        (44, True), (45, True), (46, True), (77, False)]
    for _, server_side, frames in desk.durable:
        server_side.write(frames)
    assert [answer.remark for answer in await asyncio.gather(*waiting)] == ["firm", None, "firm"]
    connection.close()


async def gone(desk: Desk, connection: Connection) -> None:
    connection.close()
    async with asyncio.timeout(60):
        await desk.closed.get()


@pytest.mark.parametrize("code", [POPPED, POPPED_SAVED])
@pytest.mark.parametrize("is_gone", [False, True])
async def test_what_was_popped_for_one_who_has_gone_since_is_given_back(desk: Desk, listener: Listener, code: int,
                                                                        is_gone: bool) -> None:
    connection = await connect("127.0.0.1", listener.port)
    waiting = asyncio.create_task(ask(connection, code))
    await ask(connection, ECHO)
    if code == POPPED_SAVED:
        desk.saving[0][1]("")
    (_, server_side, frames), = desk.durable
    if is_gone:
        await gone(desk, connection)
    server_side.write(frames)
    assert desk.unsent == [1234] * is_gone
    if not is_gone:
        assert (await waiting).remark == "popped"
        connection.close()
    await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.parametrize(("fault", "is_gone"), [("the disk is full", False), ("", True)])
async def test_what_was_popped_is_given_back_where_its_group_cannot_be_saved_or_its_asker_has_gone(
        desk: Desk, listener: Listener, fault: str, is_gone: bool) -> None:
    connection = await connect("127.0.0.1", listener.port)
    waiting = asyncio.create_task(ask(connection, POPPED_SAVED))
    await ask(connection, ECHO)
    if is_gone:
        await gone(desk, connection)
    desk.saving[0][1](fault)
    assert (desk.unsent, desk.durable) == ([1234], [])
    connection.close()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_notice_of_what_was_popped_for_one_who_has_gone_is_given_back(desk: Desk) -> None:
    desk.server.tell(Notice(99, Reply(RemotingCommand.request(HELD).response(0), unsent=desk.unsent.append)))
    assert desk.unsent == [1234]


async def test_refusals_are_counted_and_nothing_else_is(
        desk: Desk, listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regulus.server.refusals")
    connection = await connect("127.0.0.1", listener.port)
    for code in (ECHO, SLICES, FRAME):
        await ask(connection, code, body=b"x")
    desk.server.refusals.tell()
    assert caplog.messages == []
    for code in (REFUSED, REFUSED, BROKEN):
        await ask(connection, code)
    waiting = asyncio.create_task(ask(connection, REFUSED_SAVED))
    async with asyncio.timeout(60):
        while not desk.saving:
            await asyncio.sleep(0)
    desk.server.refusals.tell()
    (line,) = [message for message in caplog.messages if message.startswith("refused: ")]
    assert line.startswith("refused: 2 QUERY_BROKER_OFFSET with 16 NO_PERMISSION, 1 request 4 with 1 SYSTEM_ERROR, "
                           "1 QUERY_CONSUMER_OFFSET with 18 TOPIC_EXIST_ALREADY; the last: QUERY_CONSUMER_OFFSET with "
                           "18 TOPIC_EXIST_ALREADY, of 127.0.0.1:")
    assert line.endswith(": is there")
    desk.saving[0][1]("")
    await waiting
    connection.close()


@pytest.mark.parametrize("fault", ["", "the disk is full"])
async def test_an_answer_of_many_steps_waits_until_what_it_changed_is_saved(desk: Desk, listener: Listener,
                                                                           fault: str) -> None:
    connection = await connect("127.0.0.1", listener.port)
    await ask(connection, ECHO)
    request = RemotingCommand.request(HELD)
    answered = asyncio.ensure_future(connection.request(request, 60_000))
    async with asyncio.timeout(60):
        while len(desk.channels) < 2:
            await asyncio.sleep(0)
    desk.server.tell(Notice(desk.channels[1], Reply(request.response(0, "deleted"), change=7)))
    desk.server.tell(Notice(99, Reply(request.response(0), change=7)))       # who is gone waits for nothing
    await ask(connection, ECHO)
    assert not answered.done()
    ((change, release),) = desk.saving
    assert change == 7
    release(fault)
    answer = await answered
    assert answer.code == (ResponseCode.SYSTEM_ERROR if fault else 0)
    assert answer.remark == ("what this request changed or needs is not saved: the disk is full" if fault
                             else "deleted")
    connection.close()


async def test_answers_are_counted_when_they_have_left(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    await asyncio.gather(*[ask(connection, code) for code in (ECHO, ECHO, FRAME, 13, ECHO, 13, 4)])
    assert desk.counted == {(ECHO, 0, "success"): 3, (FRAME, 0, "success"): 1, (13, 16, "success"): 2,
                            (4, 1, "success"): 1}
    connection.close()


async def test_what_nobody_waits_for_is_counted_as_oneway_and_what_is_held_not_at_all(
        desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    connection.send_soon(RemotingCommand.request(99, oneway=True))
    held = asyncio.ensure_future(ask(connection, 3))
    await ask(connection, ECHO)
    assert desk.counted == {(99, 0, "oneway"): 1, (ECHO, 0, "success"): 1}
    held.cancel()
    connection.close()


@pytest.mark.parametrize(("late", "code"), [(0, 0), (10, 10)])
async def test_answers_that_wait_for_the_log_are_counted_with_the_code_that_they_leave_with(
        desk: Desk, listener: Listener, late: int, code: int) -> None:
    connection = await connect("127.0.0.1", listener.port)
    waiting = asyncio.ensure_future(ask(connection, 2))
    await ask(connection, ECHO)
    assert desk.counted == {(ECHO, 0, "success"): 1}
    (sent,) = desk.sent
    sent(late)
    assert desk.counted == {(ECHO, 0, "success"): 1, (2, code, "success"): 1}
    waiting.cancel()
    connection.close()


async def test_an_answer_that_is_saved_first_is_counted_when_it_leaves(desk: Desk, listener: Listener) -> None:
    connection = await connect("127.0.0.1", listener.port)
    waiting = [asyncio.ensure_future(ask(connection, code)) for code in (9, 9)]
    await ask(connection, ECHO)
    (_, good), (_, bad) = desk.saving
    good("")
    bad("the disk is full")
    await asyncio.gather(*waiting)
    assert desk.counted == {(ECHO, 0, "success"): 1, (9, 0, "success"): 1, (9, 1, "success"): 1}
    connection.close()
