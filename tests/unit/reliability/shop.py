"""A business with orders, and bookings that follow from them; and what tests do with its stubs."""

import time
from typing import Any

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, func, insert, select, update

from regulus.model.message import Message, MessageExt
from regulus.reliability import tables
from regulus.reliability.outbox import Outbox

shop = MetaData()
orders = Table("orders", shop, Column("id", String(40), primary_key=True))
bookings = Table("bookings", shop, Column("order_id", String(40)))


def place_orders(engine: Engine, *ids: str, topic: str = "orders") -> None:
    """Each with a stub of the same id, in one transaction."""
    outbox = Outbox()
    with engine.begin() as connection:
        for each in ids:
            connection.execute(insert(orders).values(id=each))
            outbox.add(connection, Message(topic, each.encode(), "new", "vip"), message_id=each)


def book(connection: Connection, message: MessageExt) -> None:
    connection.execute(insert(bookings).values(order_id=message.body.decode()))


def booked(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return sorted(connection.execute(select(bookings.c.order_id)).scalars())


def stub(engine: Engine, message_id: str) -> Any:
    with engine.connect() as connection:
        return connection.execute(select(tables.stubs).where(tables.stubs.c.message_id == message_id)).one()


def count_stubs(engine: Engine, **values: object) -> int:
    found = select(func.count()).select_from(tables.stubs).filter_by(**values)
    with engine.connect() as connection:
        return connection.execute(found).scalar_one()


def set_stub(engine: Engine, message_id: str, **values: object) -> None:
    with engine.begin() as connection:
        connection.execute(update(tables.stubs).where(tables.stubs.c.message_id == message_id).values(**values))


def be_stored(engine: Engine, message_id: str, queue_offset: int) -> None:
    """As if a relay had sent it just now, to the first queue of broker-a."""
    now = round(time.time() * 1000)
    place = {"broker_name": "broker-a", "queue_id": 0, "queue_offset": queue_offset}
    set_stub(engine, message_id, send_count=1, first_send_time=now, resend_time=now + 60_000, **place)
    with engine.begin() as connection:
        connection.execute(insert(tables.attempts).values(
            message_id=message_id, kind="SEND", number=1, begin_time=now, end_time=now, outcome="STORED", **place))


def make_due(engine: Engine) -> None:
    """As if every interval had passed."""
    with engine.begin() as connection:
        connection.execute(update(tables.stubs).values(resend_time=0))


def pass_all(engine: Engine, group: str = "billing") -> None:
    """As if the group had received all that is stored, and more, in whatever queue a next send is stored."""
    place = (tables.stubs.c.topic, tables.stubs.c.broker_name)
    with engine.begin() as connection:
        topics = connection.execute(select(*place).where(tables.stubs.c.queue_offset.is_not(None)).distinct()).all()
        connection.execute(insert(tables.watermarks), [
            {"consumer_group": group, "topic": topic, "broker_name": broker, "queue_id": queue,
             "queue_offset_max": 1 << 40, "move_time": 1 << 50} for topic, broker in topics for queue in range(16)])
