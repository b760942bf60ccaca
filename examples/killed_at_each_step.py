"""Kills the process that books an order at each step of the booking, and checks that each order is booked once.

Needs the extra `sql`.

    regulus up &
    python examples/killed_at_each_step.py
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable

from sqlalchemy import Connection, Engine, create_engine, text

from regulus import ConsumeFromWhere, Message, MessageExt, PushConsumer, PushConsumerConfig
from regulus.reliability import tables
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.outbox import Outbox
from regulus.reliability.relay_loop import Relay
from regulus.testing import crash_points


def work(database: str, name_server: str, order: str) -> None:
    """The process that is killed: it stores the order unless that is done, relays its message and books it."""
    asyncio.run(take_and_book(create_engine(database), name_server, order))


async def take_and_book(engine: Engine, name_server: str, order: str) -> None:
    with engine.begin() as connection:
        if not connection.execute(text("SELECT id FROM orders WHERE id = :id"), {"id": order}).first():
            connection.execute(text("INSERT INTO orders VALUES (:id)"), {"id": order})
            Outbox().add(connection, Message("KilledOrders", order.encode()), message_id=order)
    first = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer(name_server, "killed-billing", ApplyOnce(engine, book), first)
    consumer.subscribe("KilledOrders")
    async with Relay(engine, name_server), consumer:
        await asyncio.to_thread(crash_points.await_settled, engine, [order])


def book(connection: Connection, message: MessageExt) -> None:
    connection.execute(text("INSERT INTO bookings VALUES (:id)"), {"id": message.body.decode()})


def bookings_in(engine: Engine) -> Callable[[str], int]:
    def count(order: str) -> int:
        with engine.connect() as connection:
            counted = connection.execute(text("SELECT count(*) FROM bookings WHERE id = :id"), {"id": order})
            return int(counted.scalar_one())
    return count


def main(name_server: str = "127.0.0.1:9876") -> None:
    with tempfile.TemporaryDirectory() as directory:
        database = f"sqlite:///{directory}/shop.sqlite"
        engine = create_engine(database)
        with engine.begin() as connection:
            tables.create(connection)
            connection.execute(text("CREATE TABLE orders(id TEXT)"))
            connection.execute(text("CREATE TABLE bookings(id TEXT)"))
        orders = []
        for point in crash_points.of_steps("C5", "C6"):
            order = str(point).replace(" ", "-")
            print(crash_points.kill_at(point, work, database, name_server, order, message_id=order))
            crash_points.run(work, database, name_server, order)
            orders.append(order)
        crash_points.check_once(engine, orders, bookings_in(engine))
        print(f"{len(orders)} orders, each booked once")
        engine.dispose()


if __name__ == "__main__":
    main(*sys.argv[1:])
