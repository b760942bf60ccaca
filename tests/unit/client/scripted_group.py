"""A scripted broker with topic T, whose queues are all alike, and a consumer that is the only member of its group."""

import asyncio
from contextlib import asynccontextmanager

from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.model import sys_flag as flags
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.record import message_record
from regulus.wire.bodies import (
    GetConsumerListByGroupResponseBody,
    LockBatchRequestBody,
    LockBatchResponseBody,
    ResetOffsetBody,
)
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import refused, scripted_cluster, stored

QUEUE = MessageQueue("T", "a", 0)
ME, OTHER = "10.0.0.5@me", "10.0.0.5@other"
SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


class Shelf:
    """Serves the messages that were `put`, and remembers what is committed; a pull that finds nothing waits.

    `members`: of the group. `free`: whether locks are given. `send_back_code`, `send_code`: answers to those requests.
    `moves`: offsets whose pulls are told to go on elsewhere.
    """

    def __init__(self, count=0, committed=0):
        self.members = [ME]
        self.messages = []
        self.committed = committed
        self.free = True
        self.send_back_code = self.send_code = ResponseCode.SUCCESS
        self.moves = {}
        self._arrived = asyncio.Event()
        for _ in range(count):
            self.put()

    def put(self, body=b"x", **options):
        offset = len(self.messages)
        self.messages.append(message_record.encode(MessageExt(
            "T", body, {"UNIQ_KEY": f"U{offset}"}, queue_offset=offset,
            **{"physical_offset": 1000 + offset, **options})))
        self._arrived.set()

    def put_unreadable(self):
        self.put(b"no stream", sys_flag=flags.COMPRESSED | flags.COMPRESSION_ZLIB)

    def send(self, command):
        return stored(command) if self.send_code == ResponseCode.SUCCESS else refused(command, self.send_code)

    def __call__(self, command):
        code = RequestCode(command.code)
        if code is RequestCode.PULL_MESSAGE:
            return self._pull(command) if command.ext["topic"] == "T" else None
        if code is RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            body = GetConsumerListByGroupResponseBody(consumer_id_list=self.members).encode()
            return command.response(ResponseCode.SUCCESS, body=body)
        if code is RequestCode.QUERY_CONSUMER_OFFSET:
            return command.response(ResponseCode.SUCCESS, ext={"offset": str(self.committed)})
        if code is RequestCode.GET_MAX_OFFSET:
            return command.response(ResponseCode.SUCCESS, ext={"offset": str(len(self.messages))})
        if code is RequestCode.UPDATE_CONSUMER_OFFSET and command.ext["topic"] == "T":
            self.committed = int(command.ext["commitOffset"])
        if code is RequestCode.LOCK_BATCH_MQ:
            queues = LockBatchRequestBody.decode(command.body).mq_set if self.free else []
            return command.response(ResponseCode.SUCCESS, body=LockBatchResponseBody(lock_ok_mq_set=queues).encode())
        if code is RequestCode.CONSUMER_SEND_MSG_BACK and self.send_back_code != ResponseCode.SUCCESS:
            return refused(command, self.send_back_code)
        return command.response(ResponseCode.SUCCESS)

    async def _pull(self, command):
        offset = int(command.ext["queueOffset"])
        if offset in self.moves:
            return self._placed(command, ResponseCode.PULL_OFFSET_MOVED, self.moves[offset])
        while offset >= len(self.messages):
            self._arrived.clear()
            await self._arrived.wait()
        found = self.messages[offset:offset + int(command.ext["maxMsgNums"])]
        return self._placed(command, ResponseCode.SUCCESS, offset + len(found), b"".join(found))

    def _placed(self, command, code, next_offset, body=b""):
        return command.response(code, ext={
            "nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": str(len(self.messages)),
            "suggestWhichBrokerId": "0"}, body=body)


@asynccontextmanager
async def consuming(shelf, listener, queue_count=1, *, is_awaited=True, **settings):
    """`is_awaited`: its start, which waits until the broker says where each queue begins."""
    settings = {"consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, "client_ip": "10.0.0.5",
                "instance_name": "me", "persist_consumer_offset_interval": 5, "rebalance_interval": 20,
                "await_termination_millis_when_shutdown": 10_000, **settings}
    async with scripted_cluster(queue_count) as cluster:
        broker = await cluster.add_broker("a", shelf.send, others=shelf)
        consumer = PushConsumer(cluster.name_server.address, "CG", listener, PushConsumerConfig(**settings))
        consumer.subscribe("T")
        starting = asyncio.create_task(consumer.start())
        if is_awaited:
            await starting
        try:
            yield consumer, broker
        finally:
            await consumer.shutdown()
            await asyncio.wait([starting])


async def notify_members(broker):
    broker.connections[-1].send(RemotingCommand.request(
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "CG"}, oneway=True))


def push_reset(broker, offset, queue=QUEUE):
    """As an operator's reset arrives at every member."""
    broker.connections[-1].send(RemotingCommand.request(
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        {"topic": queue.topic, "isForce": "true", "group": "CG", "timestamp": "0"},
        ResetOffsetBody(offset_table={queue: offset}).encode(), oneway=True))


async def heard_all(broker):
    """Until the member has heard what the broker told it so far: it answers a question behind that."""
    await broker.connections[-1].request(RemotingCommand.request(
        RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "CG", "clientId": ME, "jstackEnable": "false"}), 5000)


def pulls_of(broker):
    return [int(pull.ext["queueOffset"]) for pull in broker.requests_of(RequestCode.PULL_MESSAGE)
            if pull.ext["topic"] == "T"]


def places_of(broker, code):
    """Where requests of T's queue with this code stand in the order in which requests came."""
    return [place for place, request in enumerate(broker.requests) if request.code == code
            and (request.ext.get("topic") == "T" or b'"topic":"T"' in request.body)]


class Held:
    """A listener whose calls end when the test says so; `most` is how many ran at the same time."""

    def __init__(self, answer=SUCCESS):
        self.answer = answer
        self.seen = []
        self.ended = []
        self.running = self.most = 0
        self._may_end = asyncio.Semaphore(0)

    async def __call__(self, messages, context):
        self.seen += [message.queue_offset for message in messages]
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self._may_end.acquire()
            self.ended += [message.queue_offset for message in messages]
        finally:
            self.running -= 1
        return self.answer

    def end(self, count=1):
        for _ in range(count):
            self._may_end.release()


def told_by_calls(caplog):
    """What the part that deals with messages said, but for failures of brokers and listeners."""
    return [text for record in caplog.records if record.name == "regulus.client.consuming.listener_calls"
            and "dropped" not in (text := record.getMessage())]
