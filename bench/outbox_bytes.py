"""What one stub writes from its commit to its confirmed effect, step by step, in bytes of the database's log.

    python -m bench.outbox_bytes [--stubs N] [--a-commit N] [--at-once N] [--database NAME...]

A business commits stubs, as many as `--a-commit` together; a relay claims them and writes down where they are; a
consumer with a database of its own applies each with an insert of its own, handed as many as `--at-once`, and confirms
it. SQLite's bytes are those of its write-ahead log, without checkpoints; PostgreSQL's are by pg_current_wal_lsn;
MariaDB's are those of InnoDB's redo log and of the binary log, by rows, or of the first alone (MariaDB-redo). No broker
is asked, and nothing is sent again. Ids are drawn, or with `--own-ids` are as a business has them: in no order.
`--page-size`: of SQLite.
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
    """The business's database, the consumer's, and what both have written."""
    paths = [home / "business.sqlite", home / "consumer.sqlite"]
    engines = [create_engine(f"sqlite:///{path}") for path in paths]

    def settle(connection, _) -> None:
        connection.execute(f"PRAGMA page_size={page_size}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")

    for engine in engines:
        event.listen(engine, "connect", settle)
    held = [engine.connect() for engine in engines]     # the last one to leave would carry the log over
    for connection in held:
        connection.execute(text("SELECT 1"))
    yield engines[0], engines[1], lambda: sum(Path(f"{path}-wal").stat().st_size for path in paths)
    for connection in held:
        connection.close()


@contextmanager
def postgres(_: Path, __: int) -> Iterator[tuple[Engine, Engine, Written]]:
    """Both in one server, whose log it is."""
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
    """Both in one server, whose logs they are."""
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
    """Steps, and what each wrote."""
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
