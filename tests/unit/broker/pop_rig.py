"""A broker with a topic that is popped, by a virtual clock."""

from collections.abc import Callable

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import Reply
from regulus.broker.state import BrokerState
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.model.receipt_handle import ReceiptHandle, encode
from regulus.model.topics import TopicConfig
from regulus.record import message_record
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.memory_store import MemoryStore
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import AckMessageRequest, ChangeMessageInvisibletimeRequest, PopMessageRequest
from regulus.wire.remoting_command import RemotingCommand

NOW = 1_700_000_000_000
HOST = host_bytes("10.0.0.1", 10911)
PEER = Peer(1, host_bytes("10.0.0.5", 40000), HOST, "10.0.0.5:40000", "10.0.0.1")
PRECISION = 100


class Rig:
    """`before_open`: what is done before the timers begin, as to load documents."""

    def __init__(self, store: MemoryStore | FileMessageStore | None = None, now_ms: int = NOW,
                 before_open: Callable[[], None] | None = None, **fields: object) -> None:
        self.store = store or MemoryStore()
        self.store.timers.precision_ms = PRECISION
        config = BrokerConfig(listen_port=10911, timer_precision_ms=PRECISION, **fields)
        self.broker = BrokerState(config, self.store, now_ms=now_ms, seed=1)
        self.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2), now_ms)
        self.now_ms = now_ms
        if before_open is not None:
            before_open()
        self.broker.timers.open(now_ms)

    def send(self, *bodies: str, queue_id: int = 0, tags: str = "") -> None:
        for body in bodies:
            properties = {"UNIQ_KEY": body[:64], **({"TAGS": tags} if tags else {})}
            self.broker.storing.store(MessageExt("T", body.encode(), properties, queue_id, 0, 0, self.now_ms, HOST,
                                                 HOST, 0), self.now_ms)
        self.settle()

    def settle(self) -> None:
        self.store.dispatch(1 << 20)

    def run_to(self, now_ms: int, step: int = 50) -> None:
        while self.now_ms < now_ms:
            self.now_ms = min(self.now_ms + step, now_ms)
            self.broker.steady_ms = self.now_ms
            for _ in range(20):
                wait_ms = self.broker.tick(self.now_ms)
                self.settle()
                if wait_ms:
                    break

    def shown(self, topic: str, queue_id: int = 0) -> list[MessageExt]:
        """All that a queue has."""
        return [self.store.look_message(unit.physical_offset)
                for unit in self.store.queue_units(topic, queue_id, 0, 1 << 20)]

    def note(self, body: bytes, queue_id: int = 0, tag: str = "ck") -> None:
        """A record of the revive topic, whoever wrote it."""
        self.broker.storing.append(MessageExt(self.broker.pop_flights.revive_topic, body, {"TAGS": tag}, queue_id, 0, 0,
                                              self.now_ms, HOST, HOST, 0), self.now_ms)
        self.settle()

    def told(self) -> dict[str, list[str]]:
        """What revival could not do."""
        return {kind: each.names for kind, each in self.broker.pop_revival.happenings.take().items()}

    def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand | None:
        """None when it is held."""
        outcome = request_table.handle(RemotingCommand.request(int(code), ext, body), PEER, self.broker, self.now_ms)
        self.settle()
        if not isinstance(outcome, Reply):
            reply = getattr(outcome, "reply", None)
            return reply.answer if reply is not None else None
        return outcome.answer

    def pop(self, count: int = 32, invisible: int = 30_000, queue_id: int = -1, group: str = "G", poll: int = 0,
            **fields: object) -> list[tuple[MessageExt, ReceiptHandle]]:
        header = PopMessageRequest(consumer_group=group, topic="T", queue_id=queue_id, max_msg_nums=count,
                                   invisible_time=invisible, poll_time=poll, born_time=self.now_ms, init_mode=0,
                                   **fields)
        answer = self.ask(Code.POP_MESSAGE, header.ext())
        assert answer is not None
        return self.taken(answer)

    def taken(self, answer: RemotingCommand) -> list[tuple[MessageExt, ReceiptHandle]]:
        if answer.code == ResponseCode.POLLING_TIMEOUT:
            return []
        assert answer.code == 0, answer.remark
        starts = {(flag, int(queue)): int(start) for flag, queue, start in
                  (each.split(" ") for each in answer.ext["startOffsetInfo"].split(";"))}
        offsets = [(flag, int(queue), int(offset)) for flag, queue, texts in
                   (each.split(" ") for each in answer.ext["msgOffsetInfo"].split(";"))
                   for offset in texts.split(",")]
        messages = message_record.decode_all(answer.body)
        assert len(messages) == len(offsets)
        return [(message, ReceiptHandle(starts[flag, queue], int(answer.ext["popTime"]),
                                        int(answer.ext["invisibleTime"]), int(answer.ext["reviveQid"]), flag,
                                        "broker-a", queue, offset))
                for message, (flag, queue, offset) in zip(messages, offsets, strict=True)]

    def ack(self, handle: ReceiptHandle, group: str = "G", **changed: object) -> RemotingCommand:
        handle = handle._replace(**changed)
        topic = "T" if handle.retry == "0" else f"%RETRY%{group}_T"
        answer = self.ask(Code.ACK_MESSAGE, AckMessageRequest(
            consumer_group=group, topic=topic, queue_id=handle.queue_id, extra_info=encode(handle),
            offset=handle.queue_offset).ext())
        assert answer is not None
        return answer

    def change(self, handle: ReceiptHandle, invisible: int, group: str = "G") -> RemotingCommand:
        topic = "T" if handle.retry == "0" else f"%RETRY%{group}_T"
        answer = self.ask(Code.CHANGE_MESSAGE_INVISIBLETIME, ChangeMessageInvisibletimeRequest(
            consumer_group=group, topic=topic, queue_id=handle.queue_id, extra_info=encode(handle),
            offset=handle.queue_offset, invisible_time=invisible).ext())
        assert answer is not None
        return answer

    def restarted(self, *, is_killed: bool = False) -> "Rig":
        """On the same log, with documents as they are now, or none where it was killed."""
        if not is_killed:
            self.broker.pop_flights.stop(HOST, self.now_ms)
            self.settle()
        self.broker.timers.stop(self.now_ms)
        self.store.timers.check = self.store.timers.taken
        documents = self.broker.documents()
        again = Rig(self.store, self.now_ms)
        again.broker.load_documents(documents)
        again.broker.lower_offsets(self.now_ms)
        again.broker.timers.open(self.now_ms)
        return again


def bodies(popped: list[tuple[MessageExt, ReceiptHandle]]) -> list[str]:
    return [message.body.decode() for message, _ in popped]
