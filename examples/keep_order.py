"""Send the events of each order to one queue, so that they are stored in the order in which they were sent."""

import asyncio
import sys

from regulus import Message, MessageQueue, Producer
from regulus.client.core.queue_selector import select_by_hash


async def main(name_server: str = "127.0.0.1:9876") -> None:
    places: dict[str, list[tuple[MessageQueue, int]]] = {}
    async with Producer(name_server, "order-service") as producer:
        for event in ("created", "paid", "shipped"):
            for order in ("order-1", "order-2", "order-3"):
                # The same argument gives the same queue, here and in Java. A failed send is not retried elsewhere.
                result = await producer.send(Message("OrderEvents", event.encode(), keys=order),
                                             selector=select_by_hash, argument=order)
                places.setdefault(order, []).append((result.message_queue, result.queue_offset))
    for order, stored in places.items():
        assert len({queue for queue, _ in stored}) == 1
        assert [offset for _, offset in stored] == sorted(offset for _, offset in stored)
        print(f"{order} is in queue {stored[0][0].queue_id} at offsets {[offset for _, offset in stored]}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
