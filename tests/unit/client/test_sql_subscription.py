"""A consumer that subscribes by a condition, at a broker that reads them."""

import asyncio

import pytest

from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.errors import BrokerRefused
from regulus.model.message import Message
from tests.unit.client.ladder import server_with_ladder


@pytest.fixture
def server(tmp_path):
    with server_with_ladder(tmp_path / "store", "10ms 10ms 10ms 10ms", enable_property_filter=True) as running:
        yield running


def priced(*prices):
    return [Message("T", b"%d" % price, properties={"price": str(price)}) for price in prices]


class Listener:
    def __init__(self, fails_once=()):
        self.bodies = []
        self._fails = set(fails_once)
        self._came = asyncio.Condition()

    async def __call__(self, messages, context):
        async with self._came:
            self.bodies += [message.body for message in messages]
            self._came.notify_all()
        failed = [message.body for message in messages if message.body in self._fails]
        self._fails.difference_update(failed)
        return ConsumeStatus.RECONSUME_LATER if failed else ConsumeStatus.CONSUME_SUCCESS

    async def until(self, *bodies):
        async with asyncio.timeout(60), self._came:
            await self._came.wait_for(lambda: sorted(self.bodies) == sorted(bodies))


async def test_a_condition_passes_what_it_does_not_want(server):
    listener = Listener()
    consumer = PushConsumer(server.name_server_address, "CG", listener)
    consumer.subscribe("T", "price > 5", "SQL92")
    async with Producer(server.name_server_address, "PG") as producer, consumer:
        for message in priced(1, 9, 5, 6, 2):
            await producer.send(message)
        await listener.until(b"9", b"6")


async def test_a_retry_comes_whatever_the_condition_says_by_then(server):
    listener = Listener(fails_once=[b"9"])
    consumer = PushConsumer(server.name_server_address, "CG", listener)
    consumer.subscribe("T", "price > 5", "SQL92")
    async with Producer(server.name_server_address, "PG") as producer, consumer:
        await producer.send(*priced(9))
        await listener.until(b"9", b"9")


async def test_a_wrong_condition_fails_the_start_with_its_place(server):
    async with Producer(server.name_server_address, "PG") as producer:
        await producer.send(*priced(1))
    consumer = PushConsumer(server.name_server_address, "CG", Listener())
    consumer.subscribe("T", "price >", "SQL92")
    with pytest.raises(BrokerRefused, match="character 8"):
        await consumer.start()
