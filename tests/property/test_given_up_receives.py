"""Receives that their callers give up at any step: what they took is others' at once, and was not delivered."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.client.both_protocols import BothProtocols, both_protocols

from regulus.client.config import ConsumeFromWhere, SimpleConsumerConfig
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.client.sending.producer import Producer
from regulus.model.message import Message

pytestmark = pytest.mark.once

FIRST = SimpleConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
HOUR_MS = 3_600_000
ROUNDS = 12
STEPS_MAX = 40
"""Of the loop, until a message that is sent has reached who waits for it."""


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BothProtocols]:
    async with both_protocols(tmp_path / "store") as made:
        await made.create_topic("orders")
        yield made


async def all_of(consumer: SimpleConsumer, count: int) -> list[tuple[bytes, int]]:
    """So many messages, acknowledged, with how often each was delivered."""
    found: list[tuple[bytes, int]] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            for message in await consumer.receive(32, HOUR_MS, await_duration_ms=2_000):
                found.append((message.body, message.delivery_attempt))
                await consumer.ack(message)
    return sorted(found)


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_callers_that_give_up_at_any_step_hide_no_message(broker: BothProtocols, seed: int,
                                                                in_order: bool) -> None:
    chance = random.Random(seed)
    await broker.create_group("kitchen", consume_message_orderly=in_order)
    address = broker.address("rocketmq")
    async with (Producer(broker.name_server, "senders") as producer,
                SimpleConsumer(address, "kitchen", {"orders": "*"}, FIRST) as consumer):
        assert await consumer.receive(1, HOUR_MS, await_duration_ms=0) == []
        seen: list[tuple[bytes, int]] = []
        for number in range(ROUNDS):
            receiving = asyncio.create_task(consumer.receive(1, HOUR_MS, await_duration_ms=5_000))
            for _ in range(chance.randrange(STEPS_MAX)):
                await asyncio.sleep(0)
            sending = asyncio.create_task(producer.send(Message("orders", b"%02d" % number)))
            for _ in range(chance.randrange(STEPS_MAX)):
                await asyncio.sleep(0)
            receiving.cancel()
            await asyncio.gather(sending, asyncio.wait([receiving]))
            if not receiving.cancelled():       # it had come before
                [message] = receiving.result()
                seen.append((message.body, message.delivery_attempt))
                await consumer.ack(message)
        seen += await all_of(consumer, ROUNDS - len(seen))
        assert sorted(seen) == [(b"%02d" % number, 1) for number in range(ROUNDS)]


@pytest.mark.parametrize("seed", range(6))
async def test_a_consumer_that_ends_at_any_step_hides_no_message(broker: BothProtocols, seed: int) -> None:
    """Its connection goes on to serve the producer."""
    chance = random.Random(seed)
    address = broker.address("rocketmq")
    async with Producer(broker.name_server, "senders") as producer:
        async with SimpleConsumer(address, "kitchen", {"orders": "*"}, FIRST) as consumer:
            assert await consumer.receive(1, HOUR_MS, await_duration_ms=0) == []
        seen: list[tuple[bytes, int]] = []
        for number in range(4):
            consumer = SimpleConsumer(address, "kitchen", {"orders": "*"}, FIRST)
            await consumer.start()
            receiving = asyncio.create_task(consumer.receive(1, HOUR_MS, await_duration_ms=3_000))
            sending = asyncio.create_task(producer.send(Message("orders", b"%02d" % number)))
            for _ in range(chance.randrange(STEPS_MAX)):
                await asyncio.sleep(0)
            if chance.random() < 0.5:
                receiving.cancel()
            await consumer.shutdown()
            await asyncio.gather(sending, asyncio.wait([receiving]))
            if not receiving.cancelled() and receiving.exception() is None:
                seen.append((receiving.result()[0].body, 1))    # it was told, and could not acknowledge it any more
        async with SimpleConsumer(address, "kitchen", {"orders": "*"}, FIRST) as consumer:
            seen += await all_of(consumer, 4 - len(seen))
        assert sorted(seen) == [(b"%02d" % number, 1) for number in range(4)]
