"""Pulling one queue: pauses, wake-ups and refusals, against a scripted broker."""

import asyncio
from types import SimpleNamespace

import pytest

from regulus.client import client_instance
from regulus.client.config import ClientConfig, PushConsumerConfig
from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.flow_control import FlowLimits
from regulus.client.core.process_queue import ProcessQueue
from regulus.client.queue_puller import QueuePuller
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.record import message_record
from regulus.wire.bodies import SubscriptionData
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_servers import refused, scripted_cluster

QUEUE = MessageQueue("T", "a", 0)


class Consumer:
    """The consumer's side of a puller: keeps what it gets."""

    def __init__(self, **settings):
        self.group = "CG"
        self.config = PushConsumerConfig(pull_time_delay_when_exception=5, **settings)
        self.is_suspended = False
        self.flow_limits = FlowLimits(count_max=3)
        self.commit = 0
        self.passed = []
        self.got = []
        self.is_locked = True

    def may_consume(self, process_queue):
        return self.is_locked

    def subscription(self, topic):
        return SubscriptionData.compile(topic, "A || B", 77)

    def statistics(self, topic):
        return TopicStatistics()

    def limits(self, topic):
        return self.flow_limits

    def commit_offset_for_pull(self, queue):
        return self.commit

    def received(self, queue, process_queue, messages):
        self.got += process_queue.put(messages)

    def nothing_left(self, queue, process_queue, next_offset):
        self.passed.append(next_offset)

    async def offset_moved(self, queue, process_queue, offset):
        process_queue.dropped = True
        self.passed.append(offset)


def found(command, count, tags="A"):
    start = int(command.ext["queueOffset"])
    body = b"".join(message_record.encode(MessageExt("T", b"x", {"TAGS": tags}, queue_offset=offset))
                    for offset in range(start, start + count))
    return placed(command, ResponseCode.SUCCESS, start + count, body)


def placed(command, code, next_offset, body=b""):
    return command.response(code, ext={"nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "100",
                                       "suggestWhichBrokerId": "0"}, body=body)


@pytest.fixture
async def pulling():
    """Starts a puller whose pulls are answered by a script; gives (consumer, process queue, puller, pulls so far)."""
    started = []
    async with scripted_cluster(queue_count=1) as cluster:
        async def start(script, consumer=None, offset=0):
            def others(command):
                return script(command) if command.code == RequestCode.PULL_MESSAGE else command.response(0)
            broker = await cluster.add_broker("a", others=others)
            instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
            consumer = consumer or Consumer()
            process_queue = ProcessQueue()
            puller = QueuePuller(consumer, instance, QUEUE, process_queue, offset)
            task = asyncio.ensure_future(puller.run())
            started.append((task, instance))
            return SimpleNamespace(consumer=consumer, process_queue=process_queue, puller=puller, task=task,
                                   pulls=lambda: broker.requests_of(RequestCode.PULL_MESSAGE))
        yield start
        for task, instance in started:
            task.cancel()
            await asyncio.wait([task])
            await client_instance.release(instance)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_pull_says_who_what_and_where(pulling):
    consumer = Consumer()
    consumer.commit = 4
    run = await pulling(lambda command: None, consumer, offset=7)
    await until(run.pulls)
    assert run.pulls()[0].ext == {
        "consumerGroup": "CG", "topic": "T", "queueId": "0", "queueOffset": "7", "maxMsgNums": "32", "sysFlag": "3",
        "commitOffset": "4", "suspendTimeoutMillis": "15000", "subVersion": "77", "expressionType": "TAG", "bname": "a"}


async def test_with_post_subscription_the_expression_travels_too(pulling):
    run = await pulling(lambda command: None, Consumer(post_subscription_when_pull=True))
    await until(run.pulls)
    assert (run.pulls()[0].ext["subscription"], run.pulls()[0].ext["sysFlag"]) == ("A || B", "6")


async def test_above_a_limit_it_pauses_and_goes_on_when_there_is_room(pulling):
    run = await pulling(lambda command: found(command, 2) if int(command.ext["queueOffset"]) < 6 else None)
    await until(lambda: run.process_queue.count == 4)
    assert run.consumer.limits("T").exceeded(run.process_queue) == "count"
    assert len(run.pulls()) == 2
    run.process_queue.remove(run.consumer.got[:2])
    run.puller.has_room()
    await until(lambda: len(run.pulls()) >= 3)
    assert run.pulls()[2].ext["queueOffset"] == "4"


async def test_messages_with_other_tags_are_passed(pulling):
    run = await pulling(lambda command: found(command, 3, tags="C") if command.ext["queueOffset"] == "0" else None)
    await until(lambda: run.consumer.passed)
    assert run.consumer.passed == [3]
    assert run.consumer.got == []


@pytest.mark.parametrize("code", [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY])
async def test_when_nothing_is_found_it_pulls_on_behind_at_once(pulling, code):
    run = await pulling(lambda command: placed(command, code, 5) if command.ext["queueOffset"] == "0" else None)
    await until(lambda: len(run.pulls()) == 2)
    assert run.pulls()[1].ext["queueOffset"] == "5"
    assert run.consumer.passed == [5]


async def test_a_moved_offset_ends_the_pulling(pulling):
    run = await pulling(lambda command: placed(command, ResponseCode.PULL_OFFSET_MOVED, 9))
    await until(run.task.done)
    assert run.consumer.passed == [9]
    assert len(run.pulls()) == 1


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.SUBSCRIPTION_NOT_EXIST,
                                  ResponseCode.FLOW_CONTROL, ResponseCode.SYSTEM_BUSY])
async def test_a_refused_pull_is_repeated_after_a_pause(pulling, code):
    run = await pulling(lambda command: refused(command, code))
    await until(lambda: len(run.pulls()) >= 3)
    assert {pull.ext["queueOffset"] for pull in run.pulls()} == {"0"}


async def test_an_answer_that_cannot_be_read_is_logged_and_the_pull_repeated(pulling, caplog):
    run = await pulling(lambda command: placed(command, ResponseCode.SUCCESS, 5, b"no record"))
    await until(lambda: len(run.pulls()) >= 2)
    assert "cannot be read" in caplog.text
    assert run.consumer.got == []


async def test_without_its_lock_a_queue_is_not_pulled(pulling):
    consumer = Consumer()
    consumer.is_locked = False
    run = await pulling(lambda command: None, consumer)
    await asyncio.sleep(0.02)
    assert run.pulls() == []
    consumer.is_locked = True
    await until(run.pulls)
