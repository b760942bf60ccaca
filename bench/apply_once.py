"""Measures what it costs to apply each message once: effects a second with and without protection, and their ratio.

    python -m bench.apply_once [--effects N] [--threads N ...] [--at-once N ...] [--rounds N]

The effect is one insert in a transaction of its own. Threads of this process call a listener as a push consumer does,
with a number of messages at once; there is no broker. PostgreSQL (the one of the tests) and SQLite wait for the disk at
each commit, as they must where money is counted. The listeners take turns, and each figure is the median of its rounds.
"""

import argparse
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import redis
from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, create_engine, func, insert, select
from tests.unit.pipeline import postgresql
from tests.unit.reliability import redis_server

from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.model import message_properties as names
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.reliability import outbox_table, tables
from regulus.reliability.claims import RedisClaims
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.outbox import new_message_id, stub_values

GROUP = "billing"
BODY = b"x" * 200
STUBS_AT_ONCE = 1_000               # stubs written in one statement
QUEUES = 4

_shop = MetaData()
_bookings = Table("bookings", _shop, Column("order_id", String(40)))

Listener = Callable[[list[MessageExt], ConsumeContext], ConsumeStatus]


def book(connection: Connection, message: MessageExt) -> None:
    connection.execute(insert(_bookings).values(order_id=message.properties[names.BUSINESS_ID]))


def unprotected(engine: Engine) -> Listener:
    def listener(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
        for message in messages:
            with engine.begin() as connection:
                book(connection, message)
        return ConsumeStatus.CONSUME_SUCCESS
    return listener


def listeners(engine: Engine, redis_client: redis.Redis | None) -> Iterator[tuple[str, Listener]]:
    yield "unprotected", unprotected(engine)
    yield "apply_once", ApplyOnce(engine, book)
    if redis_client is not None:
        yield "apply_once, Redis", ApplyOnce(engine, book, claims=RedisClaims(redis_client, GROUP))


def committed(engine: Engine, count: int) -> list[MessageExt]:
    """Messages as a consumer gets them; their stubs are in the database."""
    messages = []
    with engine.begin() as connection:
        for start in range(0, count, STUBS_AT_ONCE):
            rows = [stub_values(Message("orders", BODY), new_message_id())
                    for _ in range(min(STUBS_AT_ONCE, count - start))]
            connection.execute(outbox_table.add(), rows)
            messages += [MessageExt("orders", BODY, {names.BUSINESS_ID: row["message_id"]}) for row in rows]
    return messages


def effects_per_second(engine: Engine, listener: Listener, count: int, threads: int, at_once: int) -> float:
    messages = committed(engine, count)
    queues = [MessageQueue("orders", "broker-a", number) for number in range(QUEUES)]
    calls = [(messages[start:start + at_once], ConsumeContext(queues[number % QUEUES], GROUP))
             for number, start in enumerate(range(0, count, at_once))]
    before = booked(engine)
    with ThreadPoolExecutor(threads) as pool:
        begun = time.monotonic()
        answers = list(pool.map(lambda call: listener(*call), calls))
        seconds = time.monotonic() - begun
    assert set(answers) == {ConsumeStatus.CONSUME_SUCCESS}
    assert booked(engine) == before + count
    return count / seconds


def booked(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(_bookings)).scalar_one()


def compare(name: str, engine: Engine, redis_client: redis.Redis | None, arguments: argparse.Namespace) -> None:
    with engine.begin() as connection:
        tables.create(connection)
        _shop.create_all(connection)
    ways = dict(listeners(engine, redis_client))
    for threads in arguments.threads:
        for at_once in arguments.at_once:
            figures: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(arguments.rounds):
                for way, listener in ways.items():
                    figures[way].append(effects_per_second(engine, listener, arguments.effects, threads, at_once))
            medians = {way: statistics.median(values) for way, values in figures.items()}
            told = "; ".join(f"{way} {median:,.0f}/s ({medians['unprotected'] / median:.2f} x)"
                             for way, median in medians.items())
            print(f"{name}, {threads} threads, {at_once} at once: {told}", flush=True)
    engine.dispose()


@contextmanager
def databases(home: str) -> Iterator[Iterator[tuple[str, str]]]:
    with postgresql.running(is_durable=True) as address:
        yield iter([("PostgreSQL", address.replace("postgresql://", "postgresql+psycopg://")),
                    ("SQLite", f"sqlite:///{home}/shop.sqlite?timeout=60")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effects", type=int, default=2_000)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", choices=["PostgreSQL", "SQLite"], nargs="+", default=["PostgreSQL", "SQLite"])
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} processors, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        redis_client = stack.enter_context(redis_server.running()).client() if shutil.which("redis-server") else None
        with databases(home) as each:
            for name, address in each:
                if name in arguments.database:
                    compare(name, create_engine(address, pool_size=max(arguments.threads)), redis_client, arguments)


if __name__ == "__main__":
    main()
