"""Runs two services, orders and payments, each with its own database. Needs `pip install '.[sql]' fastapi httpx`.

    regulus up &
    python examples/orders_and_payments.py

The order and its message are committed in one transaction. The payment is booked once, in one transaction with its
answer, and the answer is recorded once. docs/cookbook/orders-and-payments.md has a diagram.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy import Connection, Engine, MetaData, create_engine, insert, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from regulus import Admin, ConsumeFromWhere, Message, MessageExt, PushConsumer, PushConsumerConfig
from regulus.client import sync
from regulus.client.listener import MessageListener
from regulus.model.topics import TopicConfig, dlq_topic
from regulus.reliability import tables
from regulus.reliability.broker_watch import BrokerWatch
from regulus.reliability.confirms import ConfirmationListener, MessageConfirms
from regulus.reliability.dead_letters import DeadLetterListener
from regulus.reliability.inbox import ApplyOnce, Effect
from regulus.reliability.ledger import Audit, audit
from regulus.reliability.outbox import Outbox
from regulus.reliability.relay_loop import Relay

LIMIT_CENTS = 100_000
FROM_FIRST = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@dataclass(frozen=True)
class Service:
    """A service with the topics that it sends and consumes, and its database. Its consumer group has its name."""

    name: str
    sends: str
    consumes: str
    consumer: str       # the group that consumes what it sends
    engine: Engine
    name_server: str

    def make_tables(self, metadata: MetaData) -> None:
        with self.engine.begin() as connection:
            tables.create(connection)
            metadata.create_all(connection)

    @asynccontextmanager
    async def at_work(self, effect: Effect) -> AsyncIterator[None]:
        """Run the relay of the service's stubs, the broker watch, and all consumers of the service."""
        # Sends confirmations to the service that sent the message, because the stubs are in its database.
        answers = sync.Producer(self.name_server, f"{self.name}-confirms")
        listener = ApplyOnce(self.engine, effect, confirms=MessageConfirms(answers, f"{self.consumes}_confirmed"))
        confirmed, given_up = f"{self.sends}_confirmed", dlq_topic(self.consumer)
        await asyncio.to_thread(answers.start)
        try:
            async with (Relay(self.engine, self.name_server, f"{self.name}-relay"),
                        BrokerWatch(self.engine, self.name_server, [self.consumer]),
                        self._consumer(self.name, listener, self.consumes),
                        self._consumer(f"{self.name}-confirmed", ConfirmationListener(self.engine), confirmed),
                        self._consumer(f"{self.name}-given-up", DeadLetterListener(self.engine), given_up)):
                yield
        finally:
            await asyncio.to_thread(answers.shutdown)

    def _consumer(self, group: str, listener: MessageListener, topic: str) -> PushConsumer:
        consumer = PushConsumer(self.name_server, group, listener, FROM_FIRST)
        consumer.subscribe(topic)
        return consumer


# --- orders ----------------------------------------------------------------------------------------------------------


class OrderTables(DeclarativeBase):
    pass


class Order(OrderTables):
    __tablename__ = "orders"
    order_id: Mapped[str] = mapped_column(primary_key=True)
    cents: Mapped[int]
    state: Mapped[str] = mapped_column(default="PLACED")


class NewOrder(BaseModel):
    cents: int = Field(gt=0)


def orders_app(service: Service) -> FastAPI:
    service.make_tables(OrderTables.metadata)
    outbox = Outbox()

    def note_payment(connection: Connection, message: MessageExt) -> None:
        paid = json.loads(message.body)
        connection.execute(update(Order).where(Order.order_id == paid["order_id"]).values(state=paid["state"]))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.at_work(note_payment):
            yield

    app = FastAPI(lifespan=lifespan)

    @app.put("/orders/{order_id}", status_code=202)
    def place(order_id: str, new: NewOrder) -> dict[str, str]:
        """Place an order. The client chooses its id, so that a client without an answer can repeat the request."""
        with Session(service.engine) as session, session.begin():       # order and message in one transaction
            order = session.get(Order, order_id)
            if order is None:
                order = Order(order_id=order_id, cents=new.cents, state="PLACED")
                session.add(order)
                body = json.dumps({"order_id": order_id, "cents": new.cents}).encode()
                outbox.add(session, Message(service.sends, body), message_id=order_id)
            return {"state": order.state}

    @app.get("/orders/{order_id}")
    def show(order_id: str) -> dict[str, str]:
        with Session(service.engine) as session:
            order = session.get(Order, order_id)
            if order is None:
                raise HTTPException(404)
            return {"state": order.state}

    return app


# --- payments --------------------------------------------------------------------------------------------------------


class PaymentTables(DeclarativeBase):
    pass


class Payment(PaymentTables):
    __tablename__ = "payments"
    payment_id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str]       # not unique, to show that apply_once alone prevents a second booking
    cents: Mapped[int]
    state: Mapped[str]


def payments_app(service: Service) -> FastAPI:
    service.make_tables(PaymentTables.metadata)
    outbox = Outbox()

    def pay(connection: Connection, message: MessageExt) -> None:
        """Store the payment and the answer in the transaction of apply_once.

        To call a bank here, give it the order's id as the idempotency key: calls outside the database may be made
        twice."""
        order = json.loads(message.body)
        state = "PAID" if order["cents"] <= LIMIT_CENTS else "DECLINED"
        connection.execute(insert(Payment).values(order_id=order["order_id"], cents=order["cents"], state=state))
        answer = json.dumps({"order_id": order["order_id"], "state": state}).encode()
        outbox.add(connection, Message(service.sends, answer), message_id=f"payment-of-{order['order_id']}")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.at_work(pay):
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/payments/{order_id}")
    def show(order_id: str) -> list[dict[str, str]]:
        with Session(service.engine) as session:
            return [{"state": each.state} for each in session.query(Payment).filter_by(order_id=order_id)]

    return app


# --- both, in one process --------------------------------------------------------------------------------------------


async def main(name_server: str = "127.0.0.1:9876") -> None:
    with tempfile.TemporaryDirectory() as directory:
        orders = Service("orders", "Orders", "Payments", "payments", database(directory, "orders"), name_server)
        payments = Service("payments", "Payments", "Orders", "orders", database(directory, "payments"), name_server)
        await make_topics(orders, payments)
        async with served(orders_app(orders)) as shop, served(payments_app(payments)) as bank:
            for order_id, cents in (("order-1", 4_200), ("order-1", 4_200), ("order-2", 420_000)):
                (await shop.put(f"/orders/{order_id}", json={"cents": cents})).raise_for_status()
            for order_id in ("order-1", "order-2"):
                while (state := (await shop.get(f"/orders/{order_id}")).json()["state"]) == "PLACED":
                    await asyncio.sleep(0.05)
                bookings = len((await bank.get(f"/payments/{order_id}")).json())
                print(f"{order_id} is {state}, by {bookings} booking")
            for sender, receiver in ((orders, payments), (payments, orders)):
                while (found := account(sender, receiver)).under_way:
                    await asyncio.sleep(0.05)
                print(f"{sender.name}: {found.verdict()}")
        for service in (orders, payments):
            service.engine.dispose()


def account(sender: Service, receiver: Service) -> Audit:
    """The report of `regulus ledger audit`."""
    with sender.engine.begin() as business, receiver.engine.begin() as effects:
        return audit(business, 0, 1 << 62, effects)


def database(directory: str, name: str) -> Engine:
    return create_engine(f"sqlite:///{Path(directory) / name}.sqlite", connect_args={"timeout": 30})


async def make_topics(*services: Service) -> None:
    async with Admin(services[0].name_server) as admin:
        for service in services:
            for topic in (service.sends, f"{service.sends}_confirmed", dlq_topic(service.name)):
                await admin.create_topic(TopicConfig(topic_name=topic))


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client that calls the app without a port. In production, `uvicorn` serves it over the network."""
    async with (app.router.lifespan_context(app),
                httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client):
        yield client


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
