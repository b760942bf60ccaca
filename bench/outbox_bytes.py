"""Measures what one stub writes from its commit to its confirmed effect, by step, in bytes of the database's log.

    python -m bench.outbox_bytes [--stubs N] [--a-commit N] [--at-once N] [--database NAME...]

A business commits `--a-commit` stubs at a time. A relay claims them and records their positions. A consumer with a
database of its own gets `--at-once` messages at a time, applies each with one insert, and confirms it. There is no
broker, and no message is sent again.

SQLite's bytes are those of its write-ahead log, without checkpoints, and PostgreSQL's come from pg_current_wal_lsn.
MariaDB's are those of InnoDB's redo log and the binary log in row format, or of the redo log alone (MariaDB-redo). Ids
are generated in ascending order, or with `--own-ids` in random order, like those of a business. `--page-size` is the
page size of SQLite in bytes.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, create_engine, event, insert, text
from tests.unit.pipeline import postgresql

from regulus.client.listener import ConsumeContext
from regulus.model import message_properties as names
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.reliability import tables
from regulus.reliability.confirms import StubConfirms
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.outbox import Outbox, new_message_id
from regulus.reliability.outbox_table import Position
from regulus.reliability.relay import DueStubs, RelayConfig

GROUP, TOPIC = "billing", "orders"
BODY = b"x" * 200
QUEUE = MessageQueue(TOPIC, "broker-a", 0)

_shop = MetaData()
_bookings = Table("bookings", _shop, Column("order_id", String(40), primary_key=True))

Written = Callable[[], int]


def book(connection: Connection, message: MessageExt) -> None:
    connection.execute(insert(_bookings).values(order_id=message.properties[names.BUSINESS_ID]))


@contextmanager
def sqlite(home: Path, page_size: int) -> Iterator[tuple[Engine, Engine, Written]]:
    """The databases of the business and of the consumer, and a function that returns the bytes that both wrote."""
    paths = [home / "business.sqlite", home / "consumer.sqlite"]
    engines = [create_engine(f"sqlite:///{path}") for path in paths]

    def settle(connection, _) -> None:
        connection.execute(f"PRAGMA page_size={page_size}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")

    for engine in engines:
        event.listen(engine, "connect", settle)
    held = [engine.connect() for engine in engines]     # the last connection to close would move the log into the file
    for connection in held:
        connection.execute(text("SELECT 1"))
    yield engines[0], engines[1], lambda: sum(Path(f"{path}-wal").stat().st_size for path in paths)
    for connection in held:
        connection.close()


@contextmanager
def postgres(_: Path, __: int) -> Iterator[tuple[Engine, Engine, Written]]:
    """Both databases in one server; the bytes are those of the server's log."""
    with postgresql.running() as address:
        admin = create_engine(address.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            for name in ("business", "consumer"):
                connection.execute(text(f"CREATE DATABASE {name}"))
        both = [create_engine(admin.url.set(database=name)) for name in ("business", "consumer")]

        def written() -> int:
            with admin.connect() as connection:
                return int(connection.execute(text("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")).scalar_one())
        yield both[0], both[1], written


@contextmanager
def maria(_: Path, __: int, *, binary_log: bool = True) -> Iterator[tuple[Engine, Engine, Written]]:
    """Both databases in one server; the bytes are those of the server's logs."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "interop"))
    import mariadb

    with mariadb.running("nobody", binary_log=binary_log) as server:
        admin = mariadb.engine_of(server).execution_options(isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            for name in ("business", "consumer"):
                connection.execute(text(f"CREATE DATABASE {name}"))
        both = [create_engine(admin.url.set(database=name)) for name in ("business", "consumer")]

        def written() -> int:
            with admin.connect() as connection:
                connection.execute(text("FLUSH ENGINE LOGS"))
                redo = connection.execute(text("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'")).one()[1]
                binary = (sum(int(row[1]) for row in connection.execute(text("SHOW BINARY LOGS")))
                          if binary_log else 0)
            return int(redo) + binary
        yield both[0], both[1], written


_DATABASES = {"SQLite": sqlite, "PostgreSQL": postgres, "MariaDB": maria,
              "MariaDB-redo": partial(maria, binary_log=False)}


def play(business: Engine, consumer: Engine, written: Written,
         arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Run all steps; yields the name of each and the bytes that it wrote."""
    for engine in (business, consumer):
        with engine.begin() as connection:
            tables.create(connection)
            _shop.create_all(connection)
    ids = [new_message_id() for _ in range(arguments.stubs)]
    if arguments.own_ids:
        random.Random(1).shuffle(ids)
    outbox = Outbox()
    before = written()

    def step(name: str) -> tuple[str, int]:
        nonlocal before
        now = written()
        before, wrote = now, now - before
        return name, wrote

    for start in range(0, len(ids), arguments.a_commit):
        with business.begin() as connection:
            for message_id in ids[start:start + arguments.a_commit]:
                outbox.add(connection, Message(TOPIC, BODY), message_id=message_id)
    yield step("commit")
    due = DueStubs(business, RelayConfig(batch_max=500))
    offset, messages = 0, []
    while claimed := due.claim():
        yield step("claim")
        positions = []
        for each in claimed:
            positions.append(Position(each.message_id, each.send_count, QUEUE.broker_name, 0, offset,
                                      each.first_send_time))
            messages.append(MessageExt(TOPIC, BODY, {names.BUSINESS_ID: each.message_id}, queue_offset=offset))
            offset += 1
        due.store(positions)
        yield step("place")
    calls = [messages[start:start + arguments.at_once] for start in range(0, len(messages), arguments.at_once)]
    listener = ApplyOnce(consumer, book, confirms=StubConfirms(business))
    for call in calls:
        listener(call, ConsumeContext(QUEUE, GROUP))
    yield step("receipt, effect, confirmation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stubs", type=int, default=2_000)
    parser.add_argument("--a-commit", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--own-ids", action="store_true")
    parser.add_argument("--database", choices=_DATABASES, nargs="+", default=list(_DATABASES))
    parser.add_argument("--page-size", type=int, default=4096)
    arguments = parser.parse_args()
    for name in arguments.database:
        with (tempfile.TemporaryDirectory() as home,
              _DATABASES[name](Path(home), arguments.page_size) as (business, consumer, written)):
            wrote: dict[str, int] = {}
            begun = time.monotonic()
            for step, count in play(business, consumer, written, arguments):
                wrote[step] = wrote.get(step, 0) + count
            told = ", ".join(f"{step} {count / arguments.stubs:,.0f}" for step, count in wrote.items())
            print(f"{name}, {arguments.a_commit} a commit, {arguments.at_once} at once: "
                  f"{sum(wrote.values()) / arguments.stubs:,.0f} bytes a stub ({told}), "
                  f"{arguments.stubs / (time.monotonic() - begun):,.0f} a second", flush=True)
            for engine in (business, consumer):
                engine.dispose()


if __name__ == "__main__":
    main()
