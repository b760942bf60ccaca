"""Measures how fast `regulus job outbox` judges the stubs of a database.

    python bench/outbox_reconcile.py [STUBS] [DATABASE]

The database is `sqlite` or `postgresql` (the one of the tests, without fsync). It is filled with stubs of 200 bytes and
their attempts, and a store with their messages. All stubs are sent, delivered and confirmed except one in a hundred,
and one in a thousand is lost. All files were just written, so the page cache is as warm as memory allows. Memory is the
largest sum of private memory of this process and all its children, JVM and workers included, sampled each half second.
"""

import argparse
import itertools
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from spark_bench import HOST, headline, parser_of, timed
from sqlalchemy import Engine, create_engine, text
from tests.unit.pipeline import postgresql

from regulus.cli.spark_session import command_session
from regulus.model import message_properties as names
from regulus.model.message import Message, MessageExt
from regulus.pipeline.jobs.log_source import LogSource
from regulus.pipeline.jobs.outbox_reconcile import OutboxRequest, reconcile_outbox
from regulus.pipeline.tables.outbox_database import OutboxDatabase
from regulus.reliability import tables
from regulus.reliability.outbox import stub_values
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

BODY = b"x" * 200
QUEUES = 8
OPEN_EACH, LOST_EACH = 100, 1_000
ROWS_AT_ONCE = 10_000               # rows of one commit
_LOOK_S = 0.5                       # pause between two samples of memory

Row = tuple[object, ...]
STUB = ("message_id", "topic", "tags", "body", "properties", "flag", "status", "send_count", "resend_time",
        "first_send_time", "broker_name", "queue_id", "queue_offset", "create_time", "is_manual", "version")
ATTEMPT = ("message_id", "kind", "consumer_group", "number", "broker_name", "queue_id", "queue_offset", "begin_time",
           "end_time", "outcome")


def message_id(number: int) -> str:
    """An id like those of the outbox: later ones are larger, so that indexes grow at their end."""
    return f"{number // 1_000:012X}{number * 0x9E3779B97F4A7C15 % (1 << 80):020X}"


def committed(number: int, count: int, now: int) -> int:
    """Time of commit in ms: a thousand stubs a second, the last one a minute ago."""
    return now - 60_000 - count + number


def stub_rows(count: int, now: int) -> Iterator[Row]:
    properties = str(stub_values(Message("orders", BODY), "0" * 20)["properties"])
    for number in range(count):
        status = "CONFIRMED" if number % OPEN_EACH else "UNCONFIRMED"
        yield (message_id(number), "orders", "", BODY, properties, 0, status, 1, now + 3_600_000, now - 60_000,
               "broker-a", number % QUEUES, number // QUEUES, committed(number, count, now), False, 2)


def attempt_rows(count: int, now: int) -> Iterator[Row]:
    for number in range(count):
        place = "broker-a", number % QUEUES, number // QUEUES
        begin = committed(number, count, now) + 1_000
        yield message_id(number), "SEND", None, 1, *place, begin, begin, "STORED"
        if number % OPEN_EACH:
            yield message_id(number), "DELIVERY", "billing", 0, *place, begin + 1_000, begin + 1_000, "APPLIED"


def fill_sqlite(path: Path, count: int, now: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for table, columns, rows in (("regulus_stub", STUB, stub_rows(count, now)),
                                     ("regulus_attempt", ATTEMPT, attempt_rows(count, now))):
            signs = ", ".join("?" * len(columns))
            while batch := list(itertools.islice(rows, ROWS_AT_ONCE)):
                connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({signs})", batch)
                connection.commit()


def fill_postgresql(engine: Engine, count: int, now: int) -> None:
    connection = engine.raw_connection()
    for table, columns, rows in (("regulus_stub", STUB, stub_rows(count, now)),
                                 ("regulus_attempt", ATTEMPT, attempt_rows(count, now))):
        with connection.cursor().copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    connection.commit()
    connection.close()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as analyzed:
        analyzed.execute(text("VACUUM ANALYZE"))


@contextmanager
def database(kind: str, home: Path, count: int, now: int) -> Iterator[Engine]:
    if kind == "postgresql":
        with postgresql.running() as address:
            engine = made(address.replace("postgresql://", "postgresql+psycopg://"))
            fill_postgresql(engine, count, now)
            yield engine
            engine.dispose()
        return
    engine = made(f"sqlite:///{home}/shop.sqlite")
    fill_sqlite(home / "shop.sqlite", count, now)
    yield engine
    engine.dispose()


def made(address: str) -> Engine:
    engine = create_engine(address)
    with engine.begin() as connection:
        tables.create(connection)
        connection.execute(tables.watermarks.insert(), [
            {"consumer_group": "billing", "topic": "orders", "broker_name": "broker-a", "queue_id": queue,
             "queue_offset_max": 1 << 40, "move_time": 1 << 50} for queue in range(QUEUES)])
    return engine


def fill_store(root: Path, count: int, now: int) -> None:
    """Write the messages of all stubs. At the position of each lost one there is another message."""
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(root), message_index_enable=False))
    store.open(time.monotonic)
    for number in range(count):
        its_id = message_id(number) if number % LOST_EACH else f"another-{number}"
        properties = {names.KEYS: its_id, names.UNIQUE_KEY: f"7F0000010A6B4E0E2F2A{number:012X}"}
        if number % LOST_EACH:
            properties[names.BUSINESS_ID] = its_id
        if store.wants_allocation:
            store.allocate_ahead()
        store.append(MessageExt("orders", BODY, properties, number % QUEUES, 0, 0, now - 59_000, HOST, HOST),
                     now - 59_000)
        if number % 512 == 511:
            store.dispatch(1024, ())
    while store.dispatch_behind_bytes():
        store.dispatch(1024, ())
    store.close()


class Memory:
    """Samples the private memory of this process and its children; `most` is the largest sum, in bytes."""

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look)

    def __enter__(self) -> "Memory":
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.most = max(self.most, sum(map(own_bytes, family())))


def family() -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= grown
    return found


def own_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_Dirty"))


def measure(engine: Engine, root: Path, arguments: argparse.Namespace) -> None:
    count = arguments.stubs
    settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": str(arguments.cores)}
    with command_session(f"local[{arguments.cores}]", settings) as spark:
        spark.range(1).count()
        for name, cap in (("dry run", None), ("made due", count)):
            request = OutboxRequest(source=LogSource({"storePath": str(root)}), database=OutboxDatabase(engine),
                                    cap=cap)

            def run(request: OutboxRequest = request) -> None:
                report = reconcile_outbox(spark, request)
                print(f"  {report.sentence()}")
                report.close()

            with Memory() as memory:
                seconds, cpu = timed(run)
            print(f"  {name:10} {seconds:7.1f} s {count / seconds:10,.0f} stubs/s {cpu / count * 1e6:7.1f} us of CPU "
                  f"a stub, {memory.most / 1e6:6,.0f} MB at most")


def main() -> None:
    parser = parser_of(__doc__, cores=2)
    parser.add_argument("stubs", type=int, nargs="?", default=1_000_000)
    parser.add_argument("database", choices=("sqlite", "postgresql"), nargs="?", default="sqlite")
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    now = time.time_ns() // 1_000_000
    with tempfile.TemporaryDirectory(prefix="regulus-bench-", dir=arguments.directory) as home:
        fill_store(Path(home, "store"), arguments.stubs, now)
        with database(arguments.database, Path(home), arguments.stubs, now) as engine:
            print(f"{headline()}\n{arguments.stubs} stubs in {arguments.database}, local[{arguments.cores}]")
            measure(engine, Path(home, "store"), arguments)
    print(f"load afterwards {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
