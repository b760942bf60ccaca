"""Sends messages with priorities: the most urgent one is received first, whenever it was sent.

With an address such as `grpc://127.0.0.1:8081` the program uses gRPC; the topic must exist then.
"""

import asyncio
import sys

from regulus import Admin, ConsumeFromWhere, Message, Producer, SimpleConsumer, SimpleConsumerConfig
from regulus.model.topics import TopicConfig

TOPIC = TopicConfig(topic_name="Calls", read_queue_nums=4, write_queue_nums=4, attributes={"message.type": "PRIORITY"})
"""Four queues, one for each priority from 0 to 3."""


async def main(address: str = "127.0.0.1:9876") -> None:
    if not address.startswith("grpc://"):
        async with Admin(address) as admin:
            await admin.create_topic(TOPIC)
    config = SimpleConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with (SimpleConsumer(address, "doctors", {"Calls": "*"}, config) as consumer,
                Producer(address, "reception") as producer):
        for priority, call in ((1, "a cough"), (0, "a prescription"), (3, "a heart attack"), (1, "a sore throat")):
            await producer.send(Message("Calls", call.encode(), priority=priority))
        waiting = 4
        while waiting:
            for message in await consumer.receive(1):
                print(message.priority, message.body.decode())
                await consumer.ack(message)
                waiting -= 1


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
