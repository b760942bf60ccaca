"""What tests do with our own clients for RocketMQ 5, and how patient they are."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from regulus import SimpleConsumer, SimpleConsumerConfig
from regulus.client.config import ConsumeFromWhere
from regulus.client.received_message import ReceivedMessage
from regulus.errors import ClientError

PATIENT_MS = 30_000         # of each request: the servers share this machine with others
WITHIN_S = 90.0
LATE_S = 25.0
"""How late a message may be: RocketMQ looks once a second, in several steps; a poll may miss it. Twice as long is less
than a message is invisible."""
SIMPLE = SimpleConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, await_duration=5_000,
                              request_timeout=PATIENT_MS)


async def received(consumer: SimpleConsumer, invisible_ms: int = 60_000, **options: Any) -> list[ReceivedMessage]:
    """Once; the proxy may learn of a topic some time after its broker has it."""
    until = time.monotonic() + WITHIN_S
    while True:
        try:
            return await consumer.receive(16, invisible_ms, **options)
        except ClientError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(1)


async def coming(consumer: SimpleConsumer, count: int, invisible_ms: int = 60_000) -> AsyncIterator[ReceivedMessage]:
    until = time.monotonic() + WITHIN_S
    while count > 0:
        assert time.monotonic() < until, f"{count} messages did not come"
        for message in await received(consumer, invisible_ms):
            count -= 1
            yield message


async def first(consumer: SimpleConsumer, invisible_ms: int = 60_000) -> ReceivedMessage:
    [message] = [message async for message in coming(consumer, 1, invisible_ms)]
    return message


async def until(condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.05)
