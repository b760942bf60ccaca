"""Sends transactional messages: consumers get the message of an order exactly if the order is in the database.

The third order shows what happens when the process dies before it can commit the message. The broker asks a member of
the producer group, here the same process, which looks into the database. The first question comes after 6 to 36 s, as
in RocketMQ. To see it at once, configure the broker to ask soon:
transactionCheckInterval=200
transactionTimeOut=200
"""

import asyncio
import sqlite3
import sys

from regulus import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageExt,
    PushConsumer,
    PushConsumerConfig,
    TransactionProducer,
    TransactionState,
)


async def main(name_server: str = "127.0.0.1:9876") -> None:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE TABLE orders (message_id TEXT PRIMARY KEY, item TEXT)")
    billed: list[str] = []
    all_billed = asyncio.Event()

    async def book(message: Message) -> TransactionState:
        item = message.body.decode()
        if item == "a unicorn":
            return TransactionState.ROLLBACK        # out of stock
        with database:
            database.execute("INSERT INTO orders VALUES (?, ?)", (message.message_id, item))
        if item == "a book":
            raise ConnectionError("booked, and then the process died")
        return TransactionState.COMMIT

    async def was_booked(message: MessageExt) -> TransactionState:
        row = database.execute("SELECT 1 FROM orders WHERE message_id = ?", (message.message_id,)).fetchone()
        print(f"asked for {message.body.decode()}: {'it was booked' if row else 'never booked'}")
        return TransactionState.COMMIT if row else TransactionState.ROLLBACK

    async def bill(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        billed.extend(message.body.decode() for message in messages)
        if set(billed) >= {"a pen", "a book"}:
            all_billed.set()
        return ConsumeStatus.CONSUME_SUCCESS

    async with TransactionProducer(name_server, "shop", was_booked) as producer:
        for item in ("a pen", "a unicorn", "a book"):
            result = await producer.send_in_transaction(Message("Orders", item.encode()), book)
            print(f"{item}: {result.state}, {'ended' if result.is_ended else 'the broker will ask'}")
        consumer = PushConsumer(name_server, "billing", bill, PushConsumerConfig(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
        consumer.subscribe("Orders")
        async with consumer:
            await all_billed.wait()
    print(f"billed: {', '.join(sorted(billed))}")
    assert "a unicorn" not in billed


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
