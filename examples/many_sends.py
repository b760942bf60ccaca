"""Sends many messages fast in three ways: many sends at once, explicit batches, and batches made by the producer."""

import asyncio
import sys
import time
from collections.abc import Awaitable

from regulus import Admin, Message, Producer, ProducerConfig
from regulus.model.topics import TopicConfig

COUNT = 2_000
TOPIC = "Readings"


async def many_at_once(producer: Producer, in_flight: int = 64) -> None:
    turns = iter(range(COUNT))

    async def send_some() -> None:
        for number in turns:
            await producer.send(Message(TOPIC, b"%d" % number))

    await asyncio.gather(*(send_some() for _ in range(in_flight)))


async def explicit_batches(producer: Producer, size: int = 100) -> None:
    for start in range(0, COUNT, size):
        await producer.send_batch([Message(TOPIC, b"%d" % number) for number in range(start, start + size)])


async def main(name_server: str = "127.0.0.1:9876") -> None:
    async with Admin(name_server) as admin:
        await admin.create_topic(TopicConfig(topic_name=TOPIC))
    async with Producer(name_server, "sensors") as producer:
        await timed("many at once", many_at_once(producer))
        await timed("explicit batches", explicit_batches(producer))
    gathering = ProducerConfig(auto_batch=True, batch_max_delay_ms=0)
    async with Producer(name_server, "sensors", gathering) as producer:
        await timed("gathered by the producer", many_at_once(producer))


async def timed(name: str, sending: Awaitable[None]) -> None:
    begun = time.perf_counter()
    await sending
    print(f"{name}: {COUNT / (time.perf_counter() - begun):,.0f} messages/s")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
