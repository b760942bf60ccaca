"""Sends reminders that are delivered later, and recalls one of them before its time.

    python examples/remind_and_recall.py 127.0.0.1:9876      # needs a broker with recallMessageEnable=true
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from regulus import ConsumeContext, ConsumeStatus, Message, MessageExt, Producer, PushConsumer


async def main(name_server: str) -> None:
    came: asyncio.Queue[str] = asyncio.Queue()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            await came.put(message.body.decode())
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(name_server, "phone", listen)
    consumer.subscribe("reminders", "*")
    async with Producer(name_server, "calendar") as producer, consumer:
        await producer.send(Message("reminders", b"call back", delay=timedelta(seconds=1)))
        lunch = await producer.send(Message("reminders", b"lunch", delay=timedelta(seconds=1)))
        await producer.send(Message("reminders", b"meeting", deliver_at=datetime.now(UTC) + timedelta(seconds=2)))
        await producer.recall("reminders", lunch.recall_handle)
        print("reminded to", await came.get())
        print("reminded to", await came.get())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
