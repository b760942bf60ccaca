"""Receives messages for a limited time: a message that is not acknowledged in time is delivered again.

With an address such as `grpc://127.0.0.1:8081` the program uses gRPC.
"""

import asyncio
import sys

from regulus import Message, Producer, SimpleConsumer


async def main(address: str = "127.0.0.1:9876") -> None:
    async with (SimpleConsumer(address, "kitchen", {"Orders": "*"}) as consumer,
                Producer(address, "waiters") as producer):
        await producer.send(Message("Orders", b"one tea"))
        attempts = 0
        while attempts < 2:
            for message in await consumer.receive(16, invisible_duration_ms=30_000):
                attempts = message.delivery_attempt
                print(f"{message.body.decode()}, delivery {attempts}")
                if attempts == 1:       # too busy now: let any consumer receive it again at once
                    await consumer.change_invisible_duration(message, 0)
                else:
                    await consumer.ack(message)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
