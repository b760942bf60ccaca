"""Consuming in order, against a real server."""

import asyncio
import time
from collections import defaultdict
from contextlib import asynccontextmanager

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.core.queue_selector import select_by_hash
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig, dlq_topic
from regulus.wire.bodies import LockBatchResponseBody
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.consuming.test_rebalancer import GroupScript, first_pull
from tests.unit.client.consuming.test_rebalancer import consuming as consuming_scripted
from tests.unit.client.ladder import server_with_ladder
from tests.waiting import until

SUCCESS, SUSPEND = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
TIME_LIMIT = 60


@pytest.fixture
def server(tmp_path):
    with server_with_ladder(tmp_path / "store", "10ms 10ms 10ms") as running:
        yield running


@pytest.fixture
async def admin(server):
    async with Admin(server.name_server_address) as client:
        yield client


@asynccontextmanager
async def consuming(server, listener, **settings):
    settings = {"consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, "consume_orderly": True,
                "suspend_current_queue_time_millis": 10, **settings}
    consumer = PushConsumer(server.name_server_address, "CG", listener, PushConsumerConfig(**settings))
    consumer.subscribe("T")
    async with consumer:
        yield consumer


async def prepare(server, admin, queue_count, keys, per_key):
    """Messages `key/number`, those of a key in one queue."""
    await admin.create_topic(TopicConfig(topic_name="T", read_queue_nums=queue_count, write_queue_nums=queue_count))
    async with Producer(server.name_server_address, "PG") as producer:
        for number in range(per_key):
            for key in keys:
                await producer.send(Message("T", f"{key}/{number}".encode()), selector=select_by_hash, argument=key)


@pytest.mark.parametrize("jump_s", [3600, -3600])
async def test_a_clock_that_is_set_takes_no_lock_away(server, admin, monkeypatch, jump_s):
    seen = []

    async def listener(messages, context):
        seen.extend(messages)
        return SUCCESS

    await prepare(server, admin, 1, ["a"], 1)
    async with consuming(server, listener):
        await until(lambda: len(seen) == 1)
        set_to = time.time() + jump_s
        monkeypatch.setattr(time, "time", lambda: set_to)
        await prepare(server, admin, 1, ["b"], 3)
        async with asyncio.timeout(15):     # less than until a lock is renewed
            await until(lambda: len(seen) == 4)


async def test_each_key_is_consumed_in_the_order_in_which_it_was_sent(server, admin):
    keys = [f"key-{number}" for number in range(6)]
    await prepare(server, admin, 4, keys, 20)
    seen, running = defaultdict(list), set()

    async def listen(messages, context):
        queue = messages[0].queue_id
        assert queue not in running
        running.add(queue)
        await asyncio.sleep(0)
        key, number = messages[0].body.decode().split("/")
        seen[key].append(int(number))
        running.discard(queue)
        return SUCCESS

    async with consuming(server, listen):
        await until(lambda: sum(map(len, seen.values())) == 120)
    assert dict(seen) == {key: list(range(20)) for key in keys}
    assert (await admin.progress("CG", "T")).lag == 0


@pytest.mark.parametrize("failure", [SUSPEND, None, RuntimeError("no")], ids=["suspend", "none", "exception"])
async def test_a_failed_message_comes_again_before_anything_behind_it(server, admin, failure):
    await prepare(server, admin, 1, ["k"], 3)
    seen = []

    async def listen(messages, context):
        message = messages[0]
        seen.append((message.body, message.reconsume_times))
        if message.body == b"k/1" and message.reconsume_times < 2:
            if isinstance(failure, Exception):
                raise failure
            return failure
        return SUCCESS

    async with consuming(server, listen):
        await until(lambda: len(seen) == 5)
    assert seen == [(b"k/0", 0), (b"k/1", 0), (b"k/1", 1), (b"k/1", 2), (b"k/2", 0)]


async def test_after_the_last_try_the_message_is_a_dead_letter_and_the_queue_goes_on(server, admin):
    await prepare(server, admin, 1, ["k"], 2)
    seen = []

    async def listen(messages, context):
        seen.append(messages[0].body)
        return SUSPEND if messages[0].body == b"k/0" else SUCCESS

    async with consuming(server, listen, max_reconsume_times=3):
        await until(lambda: seen[-1:] == [b"k/1"])
    assert seen == [b"k/0"] * 4 + [b"k/1"]
    (queue,) = await admin.queues(dlq_topic("CG"))
    dead = await admin.message_at(queue, 0)
    assert (dead.body, dead.properties["RETRY_TOPIC"]) == (b"k/0", "T")
    assert {name: cause for name, cause in dead.properties.items() if name.startswith("CAUSE_")} == {
        f"CAUSE_{attempt}": "RECONSUME_LATER" for attempt in range(1, 5)}
    assert (await admin.progress("CG", "T")).lag == 0


async def test_order_holds_when_members_come_and_go(server, admin):
    keys = [f"key-{number}" for number in range(8)]
    await prepare(server, admin, 4, keys, 30)
    seen, running = defaultdict(list), set()

    async def listen(messages, context):
        queue = messages[0].queue_id
        assert queue not in running, "two members consume a queue at the same time"
        running.add(queue)
        await asyncio.sleep(0.003)
        running.discard(queue)
        key, number = messages[0].body.decode().split("/")
        seen[key].append(int(number))
        return SUCCESS

    async with consuming(server, listen):
        await until(lambda: sum(map(len, seen.values())) > 40)
        async with consuming(server, listen) as second:
            await until(lambda: sum(queue.topic == "T" for queue in second.assigned_queues()) == 2)
            await until(lambda: sum(map(len, seen.values())) > 120)
        await until(lambda: sum(map(len, seen.values())) >= 240)
    # Results of calls under way at a handover count, so nothing comes twice.
    assert dict(seen) == {key: list(range(30)) for key in keys}


async def test_locks_are_given_back_at_the_end(server, admin):
    await prepare(server, admin, 2, ["k"], 1)
    for _ in range(2):
        done = asyncio.Event()

        async def listen(messages, context, done=done):
            done.set()
            return SUCCESS

        async with consuming(server, listen) as consumer:
            await until(lambda consumer=consumer: len(consumer.assigned_queues()) == 3)
        await admin.reset_offset_by_timestamp("T", "CG", 0)


class LockScript(GroupScript):
    """Grants the locks of the queues in `free` only."""

    def __init__(self, free):
        super().__init__()
        self.free = free

    def __call__(self, command):
        if command.code == RequestCode.LOCK_BATCH_MQ:
            return command.response(ResponseCode.SUCCESS, body=LockBatchResponseBody(lock_ok_mq_set=self.free).encode())
        return super().__call__(command)


async def test_a_queue_that_another_member_holds_is_not_taken_before_it_is_free():
    script = LockScript(free=[])
    async with consuming_scripted(script, consume_orderly=True) as (consumer, broker):
        await until(lambda: broker.requests_of(RequestCode.LOCK_BATCH_MQ))
        assert consumer.assigned_queues() == []
        assert not broker.requests_of(RequestCode.PULL_MESSAGE)
        script.free = [MessageQueue("T", "a", 0)]
        await first_pull(broker)
        assert consumer.assigned_queues() == [MessageQueue("T", "a", 0)]
    assert broker.requests_of(RequestCode.UNLOCK_BATCH_MQ)
