import asyncio
import gc
from itertools import chain, repeat

import pytest

from regulus.client.sending.bulk_sender import BulkConfig, BulkSend, BulkSender
from regulus.errors import BrokerRefused, ClientClosed, ConnectFailed, NoRoute, RequestTimeout, SendFailed
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.wire import message_batch
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import closed_address, refused, scripted_cluster, stored
from tests.virtual_time import in_virtual_time

QUEUE = MessageQueue("T", "a", 1)


def sender_of(cluster, **settings):
    return BulkSender(cluster.name_server.address, "PG", BulkConfig(**settings))


def batch(*bodies: bytes, queue: MessageQueue = QUEUE, **fields) -> BulkSend:
    body = message_batch.encode([Message("T", each) for each in bodies])
    return BulkSend(queue=queue, body=body, count=len(bodies), **fields)


def never(command):
    return None


def bodies_of(broker) -> list[list[bytes]]:
    return [[message.body for message in message_batch.decode(request.body)] for request in broker.requests_of(
        RequestCode.SEND_BATCH_MESSAGE)]


async def test_batches_and_single_messages_reach_their_queue():
    answers = []
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with sender_of(cluster) as sender:
            await sender.submit(batch(b"1", b"2", properties={"SINK": "s/0"}))
            await sender.submit(BulkSend(
                queue=QUEUE, body=b"3", flag=5, sys_flag=4, properties={"KEYS": "k"},
                on_stored=lambda queue, answer: answers.append((queue, answer.ext["queueId"]))))
            await sender.flush()
            assert (sender.stored, sender.duplicates, sender.retries) == (3, 0, 0)
    many, one = broker.sends()
    assert (many.batch, many.queue_id, many.producer_group, many.properties) == (True, 1, "PG", {"SINK": "s/0"})
    assert (one.batch, one.flag, one.sys_flag, one.properties) == (False, 5, 4, {"KEYS": "k"})
    assert bodies_of(broker) == [[b"1", b"2"]]
    assert answers == [(QUEUE, "1")]


@pytest.mark.parametrize("limit", [{"in_flight_max": 4}, {"in_flight_size_max": len(batch(b"1", b"2").body) * 2}])
async def test_no_more_is_under_way_than_allowed(limit):
    waiting: list[asyncio.Future] = []

    async def held(command):
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]
        return stored(command)

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", held)
        async with sender_of(cluster, **limit) as sender:
            await sender.submit(batch(b"1", b"2"))
            await sender.submit(batch(b"3", b"4"))
            third = asyncio.ensure_future(sender.submit(batch(b"5")))
            while len(waiting) < 2:
                await asyncio.sleep(0)
            assert not third.done()
            waiting[0].set_result(None)
            await third
            while len(waiting) < 3:
                await asyncio.sleep(0)
            for each in waiting[1:]:
                each.set_result(None)
            await sender.flush()
    assert len(broker.sends()) == 3


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE,
                                  ResponseCode.FLUSH_DISK_TIMEOUT])
async def test_a_broker_that_cannot_now_is_asked_again(code):
    scripts = [lambda command: refused(command, code), stored]
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", lambda command: scripts.pop(0)(command))
        async with sender_of(cluster) as sender:
            await sender.submit(batch(b"1"))
            await sender.flush()
            assert (sender.stored, sender.retries) == (1, 1)
    assert bodies_of(broker) == [[b"1"], [b"1"]]


async def test_sends_of_a_lane_are_tried_again_in_their_order():
    failed_once: set[bytes] = set()

    def fails_once(command):
        if command.body in failed_once:
            return stored(command)
        failed_once.add(command.body)
        return refused(command, ResponseCode.SYSTEM_BUSY)

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", fails_once)
        async with sender_of(cluster) as sender:
            for number in range(6):
                await sender.submit(batch(b"%d" % number, lane="one"))
            await sender.flush()
    assert [bodies[0] for bodies in bodies_of(broker)] == [b"%d" % number for number in range(6)] * 2


async def test_an_answer_that_will_not_change_fails_the_sender():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", lambda command: refused(command, ResponseCode.MESSAGE_ILLEGAL))
        async with sender_of(cluster) as sender:
            await sender.submit(batch(b"1"))
            with pytest.raises(BrokerRefused, match="13"):
                await sender.flush()
            with pytest.raises(BrokerRefused):
                await sender.submit(batch(b"2"))
    assert len(broker.sends()) == 1


async def test_what_waits_behind_a_send_that_failed_is_not_sent():
    arrived, may_fail = asyncio.Event(), asyncio.Event()

    async def fails_slowly(command):
        arrived.set()
        await may_fail.wait()
        return refused(command, ResponseCode.MESSAGE_ILLEGAL)

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", fails_slowly)
        async with sender_of(cluster) as sender:
            await sender.submit(batch(b"1", lane="one"))
            await arrived.wait()
            await sender.submit(batch(b"2", lane="one"))
            # The first fails before the second, which was taken, has begun.
            sender._failure = BrokerRefused(int(ResponseCode.MESSAGE_ILLEGAL), "as the test wants it", "a")
            may_fail.set()
            async with asyncio.timeout(10):
                await asyncio.gather(*sender._tasks, return_exceptions=True)
            with pytest.raises(BrokerRefused):
                await sender.flush()
    assert bodies_of(broker) == [[b"1"]]


async def test_sends_that_fail_together_are_one_failure_and_no_noise():
    reports = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context["message"]))
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", lambda command: refused(command, ResponseCode.MESSAGE_ILLEGAL))
        async with sender_of(cluster) as sender:
            for number in range(3):
                await sender.submit(batch(b"%d" % number, lane=number))
            await asyncio.wait(sender._tasks)
            with pytest.raises(BrokerRefused):
                await sender.flush()
    gc.collect()
    assert reports == []


@in_virtual_time
async def test_when_the_budget_is_spent_the_sender_fails_and_says_with_what():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", lambda command: refused(command, ResponseCode.SYSTEM_BUSY))
        async with sender_of(cluster, retry_budget_ms=200) as sender:
            for number in range(3):
                await sender.submit(batch(b"%d" % number, lane="one"))
            with pytest.raises(SendFailed, match=r"send to T failed after \d+ attempts"):
                await sender.flush()
            assert sender.stored == 0


@in_virtual_time
async def test_a_lost_answer_is_asked_for_again():
    scripts = chain([never], repeat(stored))
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", lambda command: next(scripts)(command))
        async with sender_of(cluster, send_timeout_ms=1000) as sender:
            await sender.submit(batch(b"1"))
            await sender.flush()
            assert (sender.stored, sender.retries) == (1, 1)


@pytest.mark.parametrize(("script", "error"), [
    (never, RequestTimeout),
    (lambda command: refused(command, ResponseCode.FLUSH_DISK_TIMEOUT), BrokerRefused)])
@in_virtual_time
async def test_what_may_be_stored_already_is_not_sent_again_where_once_matters(script, error):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", script)
        async with sender_of(cluster, repeats=False, send_timeout_ms=1000) as sender:
            await sender.submit(BulkSend(queue=QUEUE, body=b"1"))
            with pytest.raises(error):
                await sender.flush()
    assert len(broker.sends()) == 1


@pytest.mark.parametrize("reroutes", [True, False])
@in_virtual_time
async def test_only_where_the_queue_does_not_matter_another_broker_is_tried(reroutes):
    async with scripted_cluster() as cluster:
        cluster.add_unreachable_broker("a", closed_address())
        other = await cluster.add_broker("b")
        async with sender_of(cluster, reroutes=reroutes, retry_budget_ms=10_000 if reroutes else 200) as sender:
            await sender.submit(batch(b"1"))
            if reroutes:
                await sender.flush()
            else:
                with pytest.raises(SendFailed, match="brokers a"):
                    await sender.flush()
    assert len(other.sends()) == int(reroutes)


def with_fewer_queues(code=ResponseCode.INVALID_PARAMETER):
    """The broker of a topic that has two queues now."""
    def script(command):
        queue_id = int(command.ext["e"])
        if queue_id < 2:
            return stored(command)
        return command.response(code, f"request queueId[{queue_id}] is illegal, topic [T] has 2 queues")
    return script


@pytest.mark.parametrize("code", [ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR])
@pytest.mark.parametrize("is_told", [True, False], ids=["the name server knows", "the name server knows later"])
@in_virtual_time
async def test_where_the_queue_does_not_matter_one_that_is_gone_is_replaced(code, is_told):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", with_fewer_queues(code))
        await cluster.add_broker("b")
        async with sender_of(cluster, reroutes=True) as sender:
            await sender.submit(batch(b"0"))        # the sender has the route with four queues
            await sender.flush()
            if is_told:
                cluster.queue_count = 2
            for number in range(3):
                await sender.submit(batch(b"%d" % number, queue=MessageQueue("T", "a", 2), lane="one"))
                await sender.flush()
                cluster.queue_count = 2
            assert sender.stored == 4
    # A route that is behind may lead to another queue that is gone.
    assert [send.queue_id for send in broker.sends()] == [1, 2, *([] if is_told else [3]), 0, 0, 0]
    assert [bodies[0] for bodies in bodies_of(broker)][-2:] == [b"1", b"2"]
    assert bodies_of(cluster.brokers["b"]) == []


@in_virtual_time
async def test_sends_of_a_lane_whose_queue_is_gone_keep_their_order():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", with_fewer_queues())
        async with sender_of(cluster, reroutes=True) as sender:
            await sender.submit(batch(b"0"))
            await sender.flush()
            cluster.queue_count = 2
            for number in range(1, 5):
                await sender.submit(batch(b"%d" % number, queue=MessageQueue("T", "a", 3), lane="one"))
            await sender.flush()
    kept = [bodies for send, bodies in zip(broker.sends(), bodies_of(broker), strict=True) if send.queue_id < 2]
    assert kept == [[b"%d" % number] for number in range(5)]


async def test_where_the_queue_matters_one_that_is_gone_fails_the_sender():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", with_fewer_queues())
        async with sender_of(cluster) as sender:
            await sender.submit(batch(b"1", queue=MessageQueue("T", "a", 3)))
            with pytest.raises(BrokerRefused, match=r"request queueId\[3\] is illegal"):
                await sender.flush()
    assert len(broker.sends()) == 1


async def test_duplicates_are_counted():
    def again(command):
        answer = stored(command)
        answer.ext = {**answer.ext, "duplicate": "true"}
        return answer

    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", again)
        async with sender_of(cluster) as sender:
            await sender.submit(batch(b"1", b"2"))
            await sender.flush()
            assert (sender.stored, sender.duplicates) == (2, 2)


async def test_queues_are_those_that_take_sends():
    async with scripted_cluster(queue_count=2) as cluster:
        await cluster.add_broker("a")
        cluster.topics_unknown.update(("T", "TBW102"))
        async with sender_of(cluster) as sender:
            assert await sender.publish_queues("U") == (MessageQueue("U", "a", 0), MessageQueue("U", "a", 1))
            with pytest.raises(NoRoute):
                await sender.publish_queues("T")


@in_virtual_time
async def test_a_broker_that_is_away_is_waited_for_with_a_question_too():
    async with scripted_cluster() as cluster:
        cluster.add_unreachable_broker("a", closed_address())
        async with sender_of(cluster, retry_budget_ms=100) as sender:
            with pytest.raises(ConnectFailed):
                await sender.request("a", "T", RemotingCommand.request(RequestCode.GET_SINK_MARKS))
        scripts = chain([never], repeat(lambda command: command.response(7)))
        await cluster.add_broker("b", others=lambda command: next(scripts)(command))
        async with sender_of(cluster, send_timeout_ms=1000) as sender:
            answer = await sender.request("b", "T", RemotingCommand.request(RequestCode.GET_SINK_MARKS))
    assert answer.code == 7


async def test_before_it_runs_nothing_is_sent():
    sender = BulkSender("127.0.0.1:1", "PG")
    with pytest.raises(ClientClosed):
        await sender.publish_queues("T")
