"""Commits an order and its message in one transaction, and books it exactly once. Needs the extra `sql`.

    regulus up &
    python examples/commit_and_apply_once.py
"""

import asyncio
import sys
import tempfile

from sqlalchemy import Connection, create_engine, text

from regulus import ConsumeFromWhere, Message, MessageExt, PushConsumer, PushConsumerConfig
from regulus.reliability import tables
from regulus.reliability.inbox import apply_once
from regulus.reliability.outbox import Outbox
from regulus.reliability.relay_loop import Relay


async def main(name_server: str = "127.0.0.1:9876") -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = create_engine(f"sqlite:///{directory}/shop.sqlite")
        outbox = Outbox()
        with engine.begin() as connection:
            tables.create(connection)
            connection.execute(text("CREATE TABLE orders(id TEXT)"))
            connection.execute(text("CREATE TABLE bookings(id TEXT)"))

        with engine.begin() as connection:      # one transaction: both are stored, or neither
            connection.execute(text("INSERT INTO orders VALUES ('order-7')"))
            outbox.add(connection, Message("Orders", b"order-7"), message_id="order-7")

        @apply_once(engine)
        def book(connection: Connection, message: MessageExt) -> None:
            connection.execute(text("INSERT INTO bookings VALUES (:id)"), {"id": message.body.decode()})

        first = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer = PushConsumer(name_server, "billing", book, first)
        consumer.subscribe("Orders")
        async with Relay(engine, name_server), consumer:
            while not is_booked(engine.connect()):
                await asyncio.sleep(0.05)
        print("order-7 is booked, and its stub is confirmed in the same commit")
        engine.dispose()


def is_booked(connection: Connection) -> bool:
    with connection:
        return connection.execute(text("SELECT status FROM regulus_stub")).scalar_one() == "CONFIRMED"


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
