"""Tests an application in a simulated world: each order that is stored is cooked, whatever happens to the broker.

Each seed gives another course of kills, power cuts and slow networks. A failure names its seed, and the seed repeats
the run exactly.
"""

import asyncio

from regulus import (
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
    PushConsumerConfig,
    SendStatus,
)
from regulus.errors import ClientError
from regulus.testing import simulate

FROM_THE_FIRST = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


async def kitchen_and_shop(world):
    stored, cooked = set(), set()

    async def cook(messages, context):
        cooked.update(message.body for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    async def shop():
        async with Producer(world.name_server_address, "shop") as producer:
            for number in range(20):
                await asyncio.sleep(world.chance.uniform(0, 1.5))
                order = f"order {number}".encode()
                try:
                    result = await producer.send(Message("orders", order))
                except ClientError:
                    continue    # a real shop would ask the customer to try again later
                if result.send_status is SendStatus.SEND_OK:
                    stored.add(order)

    consumer = PushConsumer(world.name_server_address, "kitchen", cook, FROM_THE_FIRST)
    consumer.subscribe("orders")
    async with consumer:
        selling = world.start("shop", shop())
        await world.trouble(during_s=15)
        await selling.ended()
        await asyncio.sleep(60)
    assert stored <= cooked, f"never cooked: {sorted(stored - cooked)}"
    return len(stored)


if __name__ == "__main__":
    for seed in range(5):
        stored = simulate(kitchen_and_shop, seed=seed, sync_flush=True)
        print(f"seed {seed}: {stored} orders were stored, and all of them cooked")
