"""Sends ten orders and consumes them.

    regulus up &
    python examples/send_and_consume.py
"""

import asyncio
import sys

from regulus import ConsumeContext, ConsumeStatus, Message, MessageExt, Producer, PushConsumer


async def main(name_server: str = "127.0.0.1:9876") -> None:
    done = asyncio.Event()
    consumed: set[str] = set()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            print(f"consumed {message.body.decode()} of {message.tags} from queue {message.queue_id}")
            consumed.add(message.message_id)     # a message may be delivered twice, with the same id
        if len(consumed) == 10:
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    async with Producer(name_server, "order-service") as producer:
        for number in range(10):
            order = Message("Orders", f"order {number}".encode(), tags="new", keys=f"order-{number}")
            result = await producer.send(order)
            print(f"sent order {number}: {result.send_status}, offset {result.queue_offset}")

    consumer = PushConsumer(name_server, "billing", listen)
    consumer.subscribe("Orders", "new || changed")
    async with consumer:
        await done.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
