"""Measures what waiting stubs cost relays and the business.

    python -m bench.outbox_waiting postgresql|mariadb [WAITING] [NEW] [--at URL] [--rate N] [--turns N]

WAITING stubs were sent and are not due; NEW ones were never sent. It prints the query plan and the time of a review,
how fast new stubs are claimed while the others wait, and how many transactions a second a business commits with four
relays and without, in turns. PostgreSQL (the one of the tests, without fsync) or MariaDB (the one of `make interop`,
which syncs its log once a second) shares this machine. With `--at URL` it uses an existing database and recreates its
tables. With `--rate N` the business begins N transactions a second instead of as many as it can.
"""

import argparse
import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path
from statistics import median

from sqlalchemy import Engine, create_engine, event, text
from tests.unit.pipeline import postgresql

from regulus.model.message import Message
from regulus.reliability import tables
from regulus.reliability.outbox import Outbox
from regulus.reliability.relay import DueStubs, RelayConfig
from regulus.reliability.retry_policy import ResendPolicy

PATIENT = RelayConfig(policy=ResendPolicy(interval_ms=86_400_000, interval_ms_max=86_400_000))
"""A relay configuration whose claimed stubs do not become due again during the measurement."""
ROWS_AT_ONCE = 500_000              # stubs written in one statement
REVIEWS = 50
RELAYS = 4
TURNS, TURN_S = 20, 3.0
_ROW = ("message_id, topic, tags, body, properties, flag, status, send_count, resend_time, first_send_time, "
        "broker_name, queue_id, queue_offset, create_time, version")
_FILL = {
    "postgresql": "INSERT INTO regulus_stub ({row}) SELECT '{prefix}' || lpad(n::text, 12, '0'), {values} "
                  "FROM generate_series({first}, {last}) AS n",
    "mysql": "INSERT INTO regulus_stub ({row}) SELECT concat('{prefix}', lpad(seq, 12, '0')), {values} "
             "FROM seq_{first}_to_{last}",
}
_BODY = {"postgresql": "decode(repeat('78', 200), 'hex')", "mysql": "repeat('x', 200)"}
_VALUES = "'orders', 'new', {body}, '', 0, 'UNCONFIRMED', {sent}, {due}, {due}, 'broker-a', 0, 1, {due}, 1"


@contextmanager
def database(name: str, at: str | None) -> Iterator[Engine]:
    if at:
        yield create_engine(at)
    elif name == "postgresql":
        with postgresql.running() as address:
            yield create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    else:
        sys.path.append(str(Path(__file__).parents[1] / "tests" / "interop"))
        import mariadb

        with mariadb.running("nobody") as server:
            yield create_engine(f"mysql+pymysql://root@127.0.0.1:{server.port}/shop?charset=utf8mb4")


def fill(engine: Engine, prefix: str, count: int, *, sent: int, due_ms: int) -> None:
    """Write stubs, each of which is due a millisecond after the one before it."""
    number = "n" if engine.dialect.name == "postgresql" else "seq"
    values = _VALUES.format(body=_BODY[engine.dialect.name], sent=sent, due=f"{due_ms} + {number}")
    for first in range(1, count + 1, ROWS_AT_ONCE):
        with engine.begin() as connection:
            connection.execute(text(_FILL[engine.dialect.name].format(
                row=_ROW, values=values, prefix=prefix, first=first, last=min(count, first + ROWS_AT_ONCE - 1))))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE regulus_stub" if engine.dialect.name == "postgresql"
                                else "ANALYZE TABLE regulus_stub")).close()


def review_ms(engine: Engine) -> float:
    due = DueStubs(engine, PATIENT)
    due.review()
    times = []
    for _ in range(REVIEWS):
        begun = time.monotonic()
        assert due.review().stubs == 0
        times.append((time.monotonic() - begun) * 1000)
    return median(times)


def plan(engine: Engine) -> str:
    """The query plan of the statement by which a review finds due stubs."""
    looked: list[tuple[str, object]] = []

    def note(*given: object) -> None:
        if "ORDER BY" in str(given[2]):
            looked.append((str(given[2]), given[3]))

    event.listen(engine, "before_cursor_execute", note)
    DueStubs(engine, PATIENT).review()
    event.remove(engine, "before_cursor_execute", note)
    statement, values = looked[0]
    explain = "EXPLAIN ANALYZE" if engine.dialect.name == "postgresql" else "ANALYZE"
    with engine.begin() as connection:
        rows = connection.exec_driver_sql(f"{explain} {statement}", values).all()       # type: ignore[call-overload]
    return "\n".join(" ".join(map(str, row)) for row in rows)


def claims_a_second(engine: Engine, count: int) -> str:
    """Claim all `count` new stubs; shows the median rate of all batches, of the first tenth and of the last tenth."""
    due = DueStubs(engine, PATIENT)
    rates, claimed, begun = [], 0, time.monotonic()
    while found := due.claim():
        claimed += len(found)
        rates.append(len(found) / (time.monotonic() - begun))
        begun = time.monotonic()
    assert claimed == count, claimed
    tenth = max(1, len(rates) // 10)
    return f"{median(rates):,.0f} ({median(rates[:tenth]):,.0f} at first, {median(rates[-tenth:]):,.0f} at last)"


def commits(engine: Engine, prefix: str, seconds: float, rate: int) -> list[float]:
    """The times in ms of transactions, each with an order and its stub, that one thread commits.

    `rate` transactions begin a second, and the time of a late one is counted from when it should have begun. With 0
    each begins as soon as the one before it has ended."""
    outbox = Outbox()
    begun = due = time.monotonic()
    took: list[float] = []
    while due < begun + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO orders(id) VALUES (:id)"), {"id": f"{prefix}-{len(took)}"})
            outbox.add(connection, Message("orders", b"x" * 200), message_id=f"{prefix}-{len(took)}")
        took.append((time.monotonic() - due) * 1000)
        due = begun + len(took) / rate if rate else time.monotonic()
    return took


@contextmanager
def relaying(engine: Engine) -> Iterator[None]:
    """Run relays that claim and review once a second, without a broker, in a process of their own."""
    spawning = multiprocessing.get_context("spawn")
    ready, over = spawning.Semaphore(0), spawning.Event()
    process = spawning.Process(target=relay, args=(engine.url.render_as_string(hide_password=False), ready, over))
    process.start()
    for _ in range(RELAYS):
        ready.acquire()
    try:
        yield
    finally:
        over.set()
        process.join()


def relay(address: str, ready: Semaphore, over: Event) -> None:
    engine = create_engine(address)

    def work() -> None:
        due = DueStubs(engine, PATIENT)
        due.check()
        ready.release()
        while not over.wait(1):
            due.claim()
            due.review()

    threads = [threading.Thread(target=work) for _ in range(RELAYS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=("postgresql", "mariadb"))
    parser.add_argument("waiting", type=int, nargs="?", default=1_000_000)
    parser.add_argument("new", type=int, nargs="?", default=100_000)
    parser.add_argument("--at")
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--turns", type=int, default=TURNS)
    asked = parser.parse_args()
    later, before = int(time.time() * 1000) + 86_400_000, int(time.time() * 1000) - 86_400_000
    with database(asked.name, asked.at) as engine:
        with engine.begin() as connection:
            tables.metadata.drop_all(connection)
            tables.create(connection)
            connection.execute(text("DROP TABLE IF EXISTS orders"))
            connection.execute(text("CREATE TABLE orders(id VARCHAR(60) PRIMARY KEY)"))
        few = min(asked.new, 20_000)
        fill(engine, "a", few, sent=0, due_ms=before)
        print(f"empty table: {claims_a_second(engine, few)} new stubs claimed a second", flush=True)
        begun = time.monotonic()
        fill(engine, "w", asked.waiting, sent=1, due_ms=later)
        print(f"{asked.waiting:,} waiting stubs written in {time.monotonic() - begun:.0f} s", flush=True)
        print(plan(engine))
        print(f"{review_ms(engine):.2f} ms a review, median of {REVIEWS}", flush=True)
        fill(engine, "n", asked.new, sent=0, due_ms=before)
        print(f"{review_ms(engine):.2f} ms a review with {asked.new:,} new stubs", flush=True)
        print(f"{claims_a_second(engine, asked.new)} of {asked.new:,} new stubs claimed a second", flush=True)
        alone, beside = [], []
        for turn in range(asked.turns):
            alone.append(commits(engine, f"alone-{turn}", TURN_S, asked.rate))
            with relaying(engine):
                beside.append(commits(engine, f"beside-{turn}", TURN_S, asked.rate))
        for name, found in (("alone", alone), (f"beside {RELAYS} relays", beside)):
            all_of_them = sorted(each for turn in found for each in turn)
            print(f"{name}: {median(map(len, found)) / TURN_S:,.0f} commits a second; the median takes "
                  f"{median(all_of_them):.1f} ms, 99 of 100 {all_of_them[len(all_of_them) * 99 // 100]:.1f} ms, the "
                  f"longest {all_of_them[-1]:.0f} ms")
        engine.dispose()


if __name__ == "__main__":
    main()
