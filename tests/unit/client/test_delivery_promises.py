"""What producers and consumers keep to when others fail, as their broker sees it, whose answers a test writes.

Long waits pass by a clock that the test moves forward; the event loop goes by it too.
"""

import asyncio
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.config import ConsumeFromWhere, ProducerConfig, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.errors import SendFailed
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.record import message_record
from regulus.wire.bodies import GetConsumerListByGroupResponseBody, LockBatchResponseBody
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.ladder import server_with_ladder
from tests.unit.client.scripted_servers import refused, scripted_cluster, stored
from tests.virtual_time import in_virtual_time
from tests.waiting import until

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER
QUEUE = MessageQueue("T", "a", 0)
CLIENT_ID = "10.0.0.5@me"
TIME_LIMIT = 20


@pytest.fixture
def pass_time(monkeypatch):
    """Moves the steady clock so many seconds forward."""
    monotonic, ahead = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + ahead[0])

    def forward(seconds):
        ahead[0] += seconds

    return forward


# --- sending ---------------------------------------------------------------------------------------------------------


async def test_a_send_that_is_cancelled_is_not_attempted_again():
    async with scripted_cluster() as cluster:
        brokers = [await cluster.add_broker(name, lambda command: None) for name in ("a", "b")]
        async with Producer(cluster.name_server.address, "PG") as producer:
            sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
            await until(lambda: any(broker.sends() for broker in brokers))
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        assert sum(len(broker.sends()) for broker in brokers) == 1


@in_virtual_time
async def test_after_a_refusal_that_is_no_throttling_the_next_attempt_comes_at_once():
    """A rest of a second would not fit into this send's time."""
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", lambda command: refused(command, ResponseCode.SYSTEM_ERROR))
        async with Producer(cluster.name_server.address, "PG", ProducerConfig(send_msg_timeout=900)) as producer:
            with pytest.raises(SendFailed):
                await producer.send(Message("T", b"x"))
        assert len(broker.sends()) == 3


# --- consuming -------------------------------------------------------------------------------------------------------


class Group:
    """A broker's part in the life of a group whose one queue has so many messages, and its only member CLIENT_ID."""

    def __init__(self, *offsets):
        self.offsets = offsets
        self.passes_to = 0      # what is before has none of the wanted tags
        self.members = [CLIENT_ID]
        self.refuses = set()
        self.grants = True
        self.may_pull = asyncio.Event()
        self.may_pull.set()

    async def __call__(self, command):
        code = RequestCode(command.code)
        if code in self.refuses:
            return refused(command, ResponseCode.SYSTEM_ERROR)
        if code is RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            body = GetConsumerListByGroupResponseBody(consumer_id_list=self.members).encode()
            return command.response(ResponseCode.SUCCESS, body=body)
        if code is RequestCode.QUERY_CONSUMER_OFFSET:
            return command.response(ResponseCode.SUCCESS, ext={"offset": "0"})
        if code is RequestCode.LOCK_BATCH_MQ:
            body = LockBatchResponseBody(lock_ok_mq_set=[QUEUE] if self.grants else []).encode()
            return command.response(ResponseCode.SUCCESS, body=body)
        if code is RequestCode.PULL_MESSAGE:
            return await self._pulled(command)
        return command.response(ResponseCode.SUCCESS)

    async def _pulled(self, command):
        start = int(command.ext["queueOffset"])
        left = [offset for offset in self.offsets if offset >= start]
        place = {"minOffset": "0", "maxOffset": "100", "suggestWhichBrokerId": "0"}
        if command.ext["topic"] == "T" and start < self.passes_to:
            return command.response(ResponseCode.PULL_RETRY_IMMEDIATELY, ext={
                "nextBeginOffset": str(self.passes_to), **place})
        if command.ext["topic"] != "T" or not left:
            return None
        await self.may_pull.wait()
        body = b"".join(message_record.encode(MessageExt(
            "T", b"%d" % offset, {"UNIQ_KEY": f"U{offset}"}, queue_offset=offset, physical_offset=1000 + offset,
            store_host=host_bytes("127.0.0.1", 10911))) for offset in left)
        return command.response(ResponseCode.SUCCESS, ext={"nextBeginOffset": str(left[-1] + 1), **place}, body=body)


@asynccontextmanager
async def consuming(group, listener, sends=stored, **settings):
    """The member, and the broker whose `requests` tell what it did."""
    async with scripted_cluster(queue_count=1) as cluster:
        broker = await cluster.add_broker("a", sends, group)
        consumer = PushConsumer(cluster.name_server.address, "CG", listener, PushConsumerConfig(
            client_ip="10.0.0.5", instance_name="me", await_termination_millis_when_shutdown=TIME_LIMIT * 1000,
            consumer_timeout_when_suspend=3_600_000, **settings))
        consumer.subscribe("T")
        async with consumer:
            yield consumer, broker


def committed(broker):
    """What the member ever told the broker of its offset in the queue, by itself or with a pull."""
    told = [(request.ext["topic"], int(request.ext["commitOffset"]))
            for request in broker.requests_of(RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.PULL_MESSAGE)]
    return {offset for topic, offset in told if topic == "T"}


def sent_back(broker):
    return broker.requests_of(RequestCode.CONSUMER_SEND_MSG_BACK)


async def test_above_its_limit_a_queue_is_not_pulled_before_there_is_room():
    begun, release = asyncio.Event(), asyncio.Event()

    async def listen(messages, context):
        begun.set()
        await release.wait()
        return SUCCESS

    def pulls_on():
        return any(pull.ext["queueOffset"] == "2" for pull in broker.requests_of(RequestCode.PULL_MESSAGE))

    async with consuming(Group(0, 1), listen, pull_threshold_for_queue=1) as (_, broker):
        await asyncio.wait_for(begun.wait(), TIME_LIMIT)
        for _ in range(20):     # turns of the loop, of which another pull would need a few
            await asyncio.sleep(0.001)
        assert not pulls_on()
        release.set()
        await until(pulls_on)


async def test_a_queue_whose_offset_the_broker_does_not_tell_is_not_consumed_until_it_does(pass_time):
    group = Group(0)
    group.refuses = {RequestCode.QUERY_CONSUMER_OFFSET}
    seen = []

    async def listen(messages, context):
        seen.append(set(group.refuses))
        return SUCCESS

    async with consuming(group, listen) as (consumer, broker):
        await until(lambda: any(query.ext["topic"] == "T"
                                for query in broker.requests_of(RequestCode.QUERY_CONSUMER_OFFSET)))
        for _ in range(20):     # turns of the loop, of which a pull would need a few
            await asyncio.sleep(0.001)
        assert (consumer.assigned_queues(), broker.requests_of(RequestCode.PULL_MESSAGE)) == ([], [])
        group.refuses = set()
        pass_time(1.1)
        await until(lambda: seen)
    assert seen == [set()]


async def test_the_offset_passes_what_has_none_of_the_wanted_tags():
    async def listen(messages, context):
        return SUCCESS

    group = Group()
    group.passes_to = 3
    async with consuming(group, listen) as (_, broker):
        await until(lambda: any(pull.ext["queueOffset"] == "3"
                                for pull in broker.requests_of(RequestCode.PULL_MESSAGE)))
    assert max(committed(broker)) == 3


@pytest.mark.parametrize("result", [SUCCESS, LATER])
async def test_the_result_of_a_queue_that_went_to_another_member_counts_for_nothing(result):
    group = Group(0, 1)
    release, begun = asyncio.Event(), asyncio.Event()

    async def listen(messages, context):
        begun.set()
        await release.wait()
        return result

    async with consuming(group, listen) as (consumer, broker):
        await asyncio.wait_for(begun.wait(), TIME_LIMIT)
        group.members = ["10.0.0.5@other"]
        broker.connections[-1].send(RemotingCommand.request(
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "CG"}, oneway=True))
        await until(lambda: consumer.assigned_queues() == [])
        release.set()
    assert (committed(broker) - {0}, sent_back(broker), broker.sends()) == (set(), [], [])


async def test_what_no_broker_takes_back_comes_again_here_and_holds_the_offset_back(pass_time):
    group = Group(0)
    group.refuses = {RequestCode.CONSUMER_SEND_MSG_BACK}
    tries, told = [], []

    async def listen(messages, context):
        tries.append(messages[0].reconsume_times)
        told.append(committed(broker))
        return SUCCESS if messages[0].reconsume_times else LATER

    async with consuming(group, listen, lambda send: refused(send, ResponseCode.MESSAGE_ILLEGAL)) as (_, broker):
        await until(lambda: broker.sends())
        for _ in range(20):     # turns of the loop, of which the refusal of the send needs a few
            await asyncio.sleep(0.001)
        pass_time(5.1)
        await until(lambda: len(tries) == 2)
    assert tries == [0, 1]
    assert told[1] <= {0}
    assert max(committed(broker)) == 1


async def test_a_member_that_keeps_its_limit_to_itself_sends_it_with_each_request():
    async def listen(messages, context):
        return LATER

    settings = {"max_reconsume_times": 5, "share_max_reconsume_times": False}
    async with consuming(Group(0), listen, **settings) as (_, broker):
        await until(lambda: sent_back(broker))
    assert [request.ext["maxReconsumeTimes"] for request in sent_back(broker)] == ["5"]
    assert broker.requests_of(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP) == []


async def test_a_call_that_takes_too_long_is_sent_back_at_level_3(pass_time):
    release, begun = asyncio.Event(), asyncio.Event()

    async def listen(messages, context):
        begun.set()
        await release.wait()
        return SUCCESS

    async with consuming(Group(0), listen) as (_, broker):
        await asyncio.wait_for(begun.wait(), TIME_LIMIT)
        pass_time(14.9 * 60)
        for _ in range(20):     # turns of the loop, of which a look at the running calls needs a few
            await asyncio.sleep(0.001)
        assert sent_back(broker) == []
        pass_time(60)
        await until(lambda: sent_back(broker))
        release.set()
    assert [request.ext["delayLevel"] for request in sent_back(broker)] == ["3"]


# --- in order --------------------------------------------------------------------------------------------------------


async def test_in_order_the_distance_of_what_is_cached_stops_no_pull():
    release = asyncio.Event()

    async def listen(messages, context):
        await release.wait()
        return SUCCESS

    async with consuming(Group(0, 5000), listen, consume_orderly=True) as (_, broker):
        await until(lambda: any(pull.ext["queueOffset"] == "5001"
                                for pull in broker.requests_of(RequestCode.PULL_MESSAGE)))
        release.set()


async def test_a_queue_rests_after_a_failure_in_order():
    calls = []

    async def listen(messages, context):
        calls.append((messages[0].queue_offset, time.monotonic()))
        return SUCCESS if len(calls) > 2 else LATER

    async with consuming(Group(0, 1), listen, consume_orderly=True, suspend_current_queue_time_millis=60):
        await until(lambda: len(calls) == 4)
    assert [offset for offset, _ in calls] == [0, 0, 0, 1]
    assert all(calls[number + 1][1] - calls[number][1] >= 0.059 for number in (0, 1))


async def test_under_a_lock_that_was_not_renewed_for_half_a_minute_nothing_is_consumed(pass_time):
    """Another member may have the queue half a minute later."""
    group = Group(0)
    group.may_pull.clear()
    seen = []

    async def listen(messages, context):
        seen.append(group.grants)
        return SUCCESS

    def locks():
        return len(broker.requests_of(RequestCode.LOCK_BATCH_MQ))

    async with consuming(group, listen, consume_orderly=True) as (consumer, broker):
        await until(lambda: consumer.assigned_queues() == [QUEUE]
                    and any(pull.ext["topic"] == "T" for pull in broker.requests_of(RequestCode.PULL_MESSAGE)))
        group.grants, before = False, locks()
        pass_time(31)
        await until(lambda: locks() > before)
        group.may_pull.set()
        for _ in range(50):     # turns of the loop, of which the pulled message needs a few to come to the listener
            await asyncio.sleep(0.001)
        assert seen == []
        group.grants = True
        pass_time(20)
        await until(lambda: seen)
    assert seen == [True]


# --- a member that dies ----------------------------------------------------------------------------------------------


CONSUME_AND_TELL = """
import asyncio, sys
from regulus import ConsumeStatus, PushConsumer
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig

async def listen(messages, context):
    print(messages[0].body.decode(), flush=True)
    return ConsumeStatus.CONSUME_SUCCESS

async def main():
    consumer = PushConsumer(sys.argv[1], "CG", listen, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, persist_consumer_offset_interval=3_600_000))
    consumer.subscribe("T")
    async with consumer:
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_what_a_killed_member_had_not_stored_comes_to_the_next_one(tmp_path):
    with server_with_ladder(tmp_path / "store", "10ms") as server:
        async with Admin(server.name_server_address) as admin, Producer(server.name_server_address, "PG") as producer:
            await admin.create_topic(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1))
            for number in range(5):
                await producer.send(Message("T", b"%d" % number))
            child = subprocess.Popen([sys.executable, "-c", CONSUME_AND_TELL, server.name_server_address],
                                     stdout=subprocess.PIPE, text=True)
            with child:
                told = [await asyncio.to_thread(child.stdout.readline) for _ in range(5)]
                child.kill()
            assert sorted(told) == [f"{number}\n" for number in range(5)]
            seen = []

            async def listen(messages, context):
                seen.append(messages[0].body)
                return SUCCESS

            consumer = PushConsumer(server.name_server_address, "CG", listen, PushConsumerConfig(
                consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
            consumer.subscribe("T")
            async with consumer:
                await until(lambda: len(seen) == 5)
    assert sorted(seen) == [b"%d" % number for number in range(5)]
