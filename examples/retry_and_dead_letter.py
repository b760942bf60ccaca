"""Shows retries: a message that fails once is delivered again, and one that can never succeed becomes a dead letter.

The first retry comes after 10 s, as in RocketMQ. To see it at once, configure the broker with short delays:
messageDelayLevel=100ms 200ms 300ms 400ms 500ms
"""

import asyncio
import sys

from regulus import (
    Admin,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    PushConsumerConfig,
)
from regulus.model.topics import dlq_topic

GROUP = "payments"


async def main(name_server: str = "127.0.0.1:9876") -> None:
    paid, unreadable = asyncio.Event(), asyncio.Event()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        message = messages[0]
        if not message.body.isdigit():
            context.delay_level_when_next_consume = -1      # to the dead letters at once, as a retry cannot help
            unreadable.set()
            return ConsumeStatus.RECONSUME_LATER
        if message.reconsume_times == 0:
            raise ConnectionError("the bank does not answer")    # has the effect of RECONSUME_LATER
        print(f"paid {message.body.decode()} at try {message.reconsume_times + 1}")
        paid.set()
        return ConsumeStatus.CONSUME_SUCCESS

    async with Producer(name_server, "shop") as producer:
        await producer.send(Message("Payments", b"100"))
        lost = await producer.send(Message("Payments", b"a hundred"))
    consumer = PushConsumer(name_server, GROUP, listen, PushConsumerConfig(
        max_reconsume_times=5, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
    consumer.subscribe("Payments")
    async with consumer:
        await asyncio.gather(paid.wait(), unreadable.wait())
    async with Admin(name_server) as admin:
        (queue,) = await admin.queues(dlq_topic(GROUP))
        letter = await admin.message_at(queue, await admin.max_offset(queue) - 1)
        assert letter.message_id == lost.message_id
        print(f"{letter.body!r} is a dead letter; it was meant for {letter.properties['RETRY_TOPIC']}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
