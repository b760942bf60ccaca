"""Locks of queues at a scripted broker."""

import asyncio

import pytest

from regulus.client.config import ClientConfig
from regulus.client.connecting import client_instance
from regulus.client.consuming.queue_locks import QueueLocks
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import LockBatchRequestBody, LockBatchResponseBody
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_servers import scripted_cluster

QUEUE = MessageQueue("T", "a", 0)


class Broker:
    """Gives every lock, and answers when it `may_answer`."""

    def __init__(self):
        self.may_answer = asyncio.Event()
        self.seen = []

    async def __call__(self, command):
        if command.code not in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            return command.response(ResponseCode.SUCCESS)
        self.seen.append(RequestCode(command.code).name)
        await self.may_answer.wait()
        self.seen.append("answered")
        queues = LockBatchRequestBody.decode(command.body).mq_set
        return command.response(ResponseCode.SUCCESS, body=LockBatchResponseBody(lock_ok_mq_set=queues).encode())

    async def asked(self):
        async with asyncio.timeout(60):
            while not self.seen:
                await asyncio.sleep(0.001)


@pytest.fixture
async def locks():
    broker = Broker()
    async with scripted_cluster(1) as cluster:
        await cluster.add_broker("a", others=broker)
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
        yield QueueLocks(instance, "CG", lambda queues: None), broker
        await client_instance.release(instance)


async def test_a_lock_whose_caller_is_cancelled_is_answered_before_it_is_given_back(locks):
    made, broker = locks
    cancelled = asyncio.create_task(made.lock([QUEUE]))
    await broker.asked()
    cancelled.cancel()
    await asyncio.wait([cancelled])
    given_back = asyncio.create_task(made.unlock([QUEUE]))
    await asyncio.sleep(0.05)       # in which it could be sent too early
    broker.may_answer.set()
    await given_back
    assert broker.seen == ["LOCK_BATCH_MQ", "answered", "UNLOCK_BATCH_MQ", "answered"]
    assert not made.holds(QUEUE)
    await made.close()


async def test_what_is_given_back_is_not_held(locks):
    made, broker = locks
    broker.may_answer.set()
    assert await made.lock([QUEUE]) == {QUEUE: True}
    assert made.holds(QUEUE)
    await made.unlock([QUEUE])
    assert not made.holds(QUEUE)
    await made.close()
