"""A start of a consumer that pops returns when its group has its place in each queue, by both protocols."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regulus import ConsumeContext, ConsumeStatus, Message, MessageExt, Producer, PushConsumer
from regulus.client.administration.admin import Admin
from regulus.client.config import MessageRequestMode, ProducerConfig, PushConsumerConfig
from regulus.client.consuming.simple_consumer import SimpleConsumer
from tests.unit.client.both_protocols import PROTOCOLS, BothProtocols, both_protocols

QUEUES = 2
STARTS = 10
"""Each is of a group of its own."""


@pytest.fixture
async def aged(tmp_path: Path) -> AsyncIterator[BothProtocols]:
    """The queues of its topic have lost their first messages with old files of the log."""
    async with both_protocols(tmp_path, {"min_invisible_time_mills_for_recv": 10}, log_file_size=1 << 20,
                              file_reserved_time=0, delete_commit_log_files_interval=0) as broker:
        await broker.create_topic("orders", queues=QUEUES)
        server = broker.server.regulus.broker_server
        plain = ProducerConfig(compress_msg_body_over_howmuch=1 << 30)
        async with Producer(broker.name_server, "senders", plain) as producer, Admin(broker.name_server) as admin:
            while any(server.store.min_offset("orders", queue_id) == 0 for queue_id in range(QUEUES)):
                for _ in range(8):
                    await producer.send(Message("orders", bytes(100_000)))
                await admin.delete_expired_commit_log(f"127.0.0.1:{server.port}")
        yield broker


async def send(broker: BothProtocols, number: int) -> set[bytes]:
    """Two to each queue: of a queue that lost its first messages a first pop takes the last one."""
    bodies = [b"%d-%d" % (number, each) for each in range(2 * QUEUES)]
    async with Producer(broker.name_server, "senders") as producer:
        for body in bodies:
            await producer.send(Message("orders", body))
    return set(bodies)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_simple_consumer_gets_what_is_sent_after_its_start(aged: BothProtocols, protocol: str) -> None:
    for number in range(STARTS):
        async with SimpleConsumer(aged.address(protocol), f"kitchen-{number}", {"orders": "*"}) as consumer:
            sent = await send(aged, number)
            got: set[bytes] = set()
            while came := await consumer.receive(32, 30_000, await_duration_ms=0):
                got.update(message.body for message in came)
        assert sent <= got


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_push_consumer_gets_what_is_sent_after_its_start(aged: BothProtocols, protocol: str) -> None:
    """It pops nothing before that was sent."""
    for number in range(STARTS):
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def listen(messages: list[MessageExt], context: ConsumeContext,
                         got: asyncio.Queue[bytes] = got) -> ConsumeStatus:
            for message in messages:
                got.put_nowait(message.body)
            return ConsumeStatus.CONSUME_SUCCESS

        consumer = PushConsumer(aged.address(protocol), f"kitchen-{number}", listen,
                                PushConsumerConfig(message_request_mode=MessageRequestMode.POP))
        consumer.subscribe("orders")
        consumer.suspend()
        async with consumer:
            left = await send(aged, number)
            consumer.resume()
            async with asyncio.timeout(20):
                while left:
                    left.discard(await got.get())
