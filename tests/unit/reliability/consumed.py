"""What lies in a topic, and waiting for what has to come."""

import asyncio
from typing import Any

from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.model.message import MessageExt
from tests.waiting import until

FROM_FIRST = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


async def consumed_bodies(server: Any, topic: str, count: int) -> list[str]:
    """The bodies of a topic that holds `count` messages; what comes besides within a tenth of a second, too."""
    bodies: list[str] = []

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        bodies.extend(message.body.decode() for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(server.name_server_address, "reader", listen, FROM_FIRST)
    consumer.subscribe(topic)
    async with consumer:
        await until(lambda: len(bodies) >= count)
        await asyncio.sleep(0.1)
    return bodies
