"""Sends the events of each order to one queue, and consumes each queue in order: created, paid, shipped."""

import asyncio
import sys
from collections import defaultdict

from regulus import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    PushConsumerConfig,
)
from regulus.client.core.queue_selector import select_by_hash

EVENTS = ("created", "paid", "shipped")
ORDERS = ("order-1", "order-2", "order-3")


async def main(name_server: str = "127.0.0.1:9876") -> None:
    async with Producer(name_server, "order-service") as producer:
        for event in EVENTS:
            for order in ORDERS:
                # Equal arguments always give the same queue, also in Java. A failed send is not retried at another one.
                await producer.send(Message("OrderEvents", event.encode(), keys=order), selector=select_by_hash,
                                    argument=order)

    seen: dict[str, list[str]] = defaultdict(list)
    done = asyncio.Event()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        message = messages[0]
        if message.body == b"paid" and message.reconsume_times == 0:
            # Later messages of this queue wait until this one succeeds.
            context.suspend_current_queue_time_millis = 50
            return ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        seen[message.keys].append(message.body.decode())
        if sum(map(len, seen.values())) == len(EVENTS) * len(ORDERS):
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(name_server, "warehouse", listen, PushConsumerConfig(
        consume_orderly=True, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
    consumer.subscribe("OrderEvents")
    async with consumer:
        await done.wait()
    for order, events in sorted(seen.items()):
        assert events == list(EVENTS)
        print(f"{order}: {' -> '.join(events)}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
