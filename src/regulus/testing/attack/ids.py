"""Forged positions: offsets inside bodies, names that would be paths, invalid queue ids.

Whatever the request, nothing outside the store may be made, changed or removed, a record forged inside a body must not
count as one, and the store must start again and serve what it acknowledged.
"""

import asyncio

from regulus.errors import RegulusError
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes, offset_message_id, parse_offset_message_id
from regulus.record import layout, message_record
from regulus.testing.attack.field import Field, Sent, Talk
from regulus.testing.running_server import HOST, ServerProcess
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    ConsumerSendMsgBackRequest,
    EndTransactionRequest,
    GetMaxOffsetRequest,
    PullMessageRequest,
    PutKvConfigRequest,
    ResumeCheckHalfMessageRequest,
    UpdateAndCreateTopicRequest,
    ViewMessageByIdRequest,
)

COMMIT, ROLLBACK = 8, 12
HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "forgers"
ANYBODY = host_bytes(HOST, 1)
NAMES = ("../../victim", "..", ".", "a/b", "../../../victim", "victim\0x", "victim\n", "", " ", "%RETRY%../../victim",
         "%DLQ%../../victim", "x" * 300, "Тема", "con:victim", "~root", "$HOME", "victim/../..")
"""None of these leads out of the round's own directory: if one gets through, it must do no harm."""
QUEUE_IDS = (-1, -2, -(1 << 31), (1 << 31) - 1, 1 << 31, 1 << 40, 65_536)
OFFSETS = (-1, -(1 << 63), (1 << 63) - 1, 1, 7, 1 << 40)
QUEUES_OF_A_TOPIC_MAX = 64
"""Queue ids above the number of queues of a topic may not make files."""
SETTLE_S = 0.3


class Scene:
    """A broker whose store has a neighbour, and messages that must survive."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.victim = field.home / "victim"
        self.victim.mkdir()
        (self.victim / "keep").write_text("untouched")
        self.server: ServerProcess = field.server(field.home / "inner" / "store")
        self.names = (*NAMES, str(field.home / "absolute"))
        self.sent: list[Sent] = []

    async def begin(self, talk: Talk) -> None:
        for number in range(5):
            one = await talk.sent("Honest", b"message %d" % number)
            assert one is not None, "a fresh broker takes messages"
            self.sent.append(one)

    async def end(self) -> None:
        """Check the store and its neighbourhood, before and after a restart."""
        await asyncio.sleep(SETTLE_S)
        self._look_around()
        self.server.stop()
        try:
            self.server.start()
        except RegulusError as error:
            self.field.find(f"the broker does not start again: {error}")
            return
        async with Talk(self.server.port) as talk:
            there = {message.queue_offset: message.body for message in await talk.queue("Honest", 0)}
            if any(there.get(one.queue_offset) != one.body for one in self.sent):
                self.field.find(f"acknowledged messages are gone: {sorted(there)} are left")
            await talk.ask(RequestCode.CLEAN_UNUSED_TOPIC)
        self._look_around()

    def _look_around(self) -> None:
        inside = {self.victim, self.victim / "keep", self.field.home / "inner", self.server.store_path,
                  self.server.log_path}
        foreign = [path for path in self.field.home.rglob("*") if path not in inside
                   and self.server.store_path not in path.parents and path.suffix != ".conf"]
        if foreign:
            self.field.find(f"made outside the store: {', '.join(str(path) for path in foreign[:5])}")
        if not (self.victim / "keep").is_file():
            self.field.find("a file outside the store is gone")
        odd = [path.name for path in self.server.store_path.glob("consumequeue/*/*")
               if not path.name.isdigit() or int(path.name) > QUEUES_OF_A_TOPIC_MAX]
        if odd:
            self.field.find(f"consume queues of ids that no topic has: {odd[:5]}")


async def _forge(talk: Talk, topic: str, real_topic: str) -> tuple[int, MessageExt]:
    """Store a message whose body is a whole record of `topic`; returns the offset of that record in the log."""
    first = await talk.sent("Carrier", b"first", 0)
    assert first is not None, "the carrier is a topic like any other"
    start = await _end_of(talk, first)
    properties = {"REAL_TOPIC": real_topic, "REAL_QID": "0", "PGROUP": GROUP, "TRAN_MSG": "true", "UNIQ_KEY": "F"}
    forged = MessageExt(topic, b"forged", properties, 0, 0, 0, 1_700_000_000_000, ANYBODY, ANYBODY)
    forged.physical_offset = start + layout.BODY_START_V4
    forged.store_timestamp = 1_700_000_000_000
    await talk.sent("Carrier", message_record.encode(forged), 0)
    return forged.physical_offset, forged


async def _end_of(talk: Talk, sent: Sent) -> int:
    """The offset of the next record."""
    _, physical_offset = parse_offset_message_id(sent.message_id)
    answer = await talk.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequest(offset=physical_offset).ext())
    return physical_offset + message_record.decode(answer.body).store_size


def _end_transaction(offset: int, queue_offset: int, decision: int) -> dict[str, str]:
    return EndTransactionRequest(producer_group=GROUP, tran_state_table_offset=queue_offset, commit_log_offset=offset,
                                 commit_or_rollback=decision, msg_id="F").ext()


async def halves(field: Field) -> None:
    """End transactions that were never begun."""
    scene = Scene(field)
    scene.server.start()
    async with Talk(scene.server.port) as talk:
        await scene.begin(talk)
        homes = (*scene.names[:5], scene.names[-1], "Honest", "Never", HALVES, "SCHEDULE_TOPIC_XXXX",
                 "RMQ_SYS_TRANS_OP_HALF_TOPIC")
        for real_topic in homes:
            offset, forged = await _forge(talk, HALVES, real_topic)
            decision = field.chance.choice((COMMIT, COMMIT, ROLLBACK))
            answer = await talk.ask(RequestCode.END_TRANSACTION, _end_transaction(offset, 0, decision))
            if answer.code == ResponseCode.SUCCESS:
                field.find(f"a half that was forged inside a body was ended with {decision}, home {real_topic!r}")
            offset, forged = await _forge(talk, GIVEN_UP, real_topic)
            message_id = offset_message_id(forged.store_host, offset)
            answer = await talk.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHalfMessageRequest(
                msg_id=message_id).ext())
            if answer.code == ResponseCode.SUCCESS:
                field.find(f"a half that was forged as given up was resumed, home {real_topic!r}")
        for offset in OFFSETS:
            answer = await talk.ask(RequestCode.END_TRANSACTION, _end_transaction(offset, 0, COMMIT))
            if answer.code == ResponseCode.SUCCESS:
                field.find(f"a transaction at offset {offset} was ended")
    await scene.end()


async def places(field: Field) -> None:
    """Send offsets inside bodies and beyond the log, in all requests that read a message by its offset."""
    scene = Scene(field)
    scene.server.start()
    async with Talk(scene.server.port) as talk:
        await scene.begin(talk)
        forged, _ = await _forge(talk, "Honest", "Honest")
        for offset in (forged, forged + 1, *OFFSETS, *(field.chance.randrange(1 << 20) for _ in range(20))):
            answer = await talk.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequest(offset=offset).ext())
            if answer.code == ResponseCode.SUCCESS and offset in (forged, forged + 1):
                field.find("a record that was forged inside a body is shown as a message")
            back = ConsumerSendMsgBackRequest(offset=offset, group=GROUP, delay_level=field.chance.choice((0, -1, 1)))
            answer = await talk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back.ext())
            if answer.code == ResponseCode.SUCCESS and offset in (forged, forged + 1):
                field.find("a record that was forged inside a body was sent back as a message")
            for queue_id in QUEUE_IDS:
                header = PullMessageRequest(GROUP, "Honest", 0, 0, sys_flag=4, subscription="*")
                answer = await talk.ask(RequestCode.PULL_MESSAGE, {
                    **header.ext(), "queueId": str(queue_id), "queueOffset": str(offset)})
                if answer.code == ResponseCode.SUCCESS:
                    field.find(f"a pull at offset {offset} of queue {queue_id} found something")
    await scene.end()


async def names(field: Field) -> None:
    """Send names that would be paths, and queue ids that no topic has, in all requests that make or remove files."""
    scene = Scene(field)
    scene.server.start()
    async with Talk(scene.server.port) as talk, Talk(scene.server.name_server_port) as name_server:
        await scene.begin(talk)
        for name in scene.names:
            await _use_name(talk, name)
            await name_server.ask(RequestCode.PUT_KV_CONFIG, PutKvConfigRequest(
                namespace=name, key=name, value=name).ext())
        await talk.join(GROUP, "Honest")
        for queue_id in QUEUE_IDS:
            await talk.send("Honest", b"odd queue", queue_id)
            await talk.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequest(topic="Honest", queue_id=queue_id).ext())
            await talk.commit(GROUP, "Honest", queue_id, 1)
        await talk.ask(RequestCode.CLEAN_UNUSED_TOPIC)
        await talk.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    await scene.end()


async def _use_name(talk: Talk, name: str) -> None:
    for code in (RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER):
        header = UpdateAndCreateTopicRequest(topic=name, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1,
                                             perm=6)
        await talk.ask(code, header.ext())
    await talk.send(name, b"to a path")
    await talk.send("Delayed", b"to a path", properties={"DELAY": "1", "REAL_TOPIC": name, "REAL_QID": "0",
                                                         "RETRY_TOPIC": name})
    await talk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackRequest(
        offset=0, group=name, delay_level=-1).ext())
    await talk.join(name, name)
    await talk.commit(name, name, 0, 1)
