"""Relays beside a business in a real MariaDB: what they look at, what they lock, and what its clock tells them."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import mariadb
import pytest
from sqlalchemy import Connection, Engine, event, insert, select, text, update
from tests.unit.reliability.conftest import with_empty_tables
from tests.unit.reliability.deliveries import context, message
from tests.unit.reliability.shop import book, booked, count_stubs, make_due, orders, place_orders, set_stub, stub
from tests.unit.reliability.test_effect_transaction import Unheard
from tests.unit.reliability.test_inbox import SUCCESS, deliver

from regulus.model.message import Message
from regulus.reliability import delivery_log, operator, tables
from regulus.reliability.alarms import AlarmKind, close_alarm, raise_alarm
from regulus.reliability.applying import deliveries_of
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.inbox_purge import purge_inbox
from regulus.reliability.outbox import Outbox
from regulus.reliability.outbox_table import Failure, Position
from regulus.reliability.relay import DueStubs, RelayConfig
from regulus.reliability.stub_purge import purge_stubs

RELAYS = 4
COMMITS = 1_000
ROWS = 30_000
SUMMER_S = 1_792_888_200
"""2026-10-25 02:30 in Berlin, before the clocks are set back; an hour later it is that again."""


@pytest.fixture(scope="module")
def server() -> Iterator[mariadb.Server]:
    with mariadb.running("tell-nobody", zone="Europe/Berlin") as started:
        yield started


@pytest.fixture
def engine(server: mariadb.Server) -> Iterator[Engine]:
    """At the server's own isolation, REPEATABLE READ."""
    yield from with_empty_tables(mariadb.engine_of(server))


# --- what they lock --------------------------------------------------------------------------------------------------


def test_relays_cost_the_business_no_transaction(engine: Engine) -> None:
    """`python -m bench.outbox_waiting mariadb` counts the same of many more."""
    over = threading.Event()

    def relay() -> None:
        due = DueStubs(engine, RelayConfig(batch_max=50))
        while not over.is_set():
            for claimed in (due.claim(), due.review().claimed):
                half = len(claimed) // 2
                due.store([Position(each.message_id, each.send_count, "broker-a", 0, 7) for each in claimed[:half]])
                due.store([Failure(each.message_id, each.send_count, "no broker") for each in claimed[half:]])

    def business(first: int) -> None:
        for number in range(first, first + COMMITS):
            place_orders(engine, f"order-{number}")
            if number % 7 == 0:
                set_stub(engine, f"order-{number}", resend_time=0)

    with ThreadPoolExecutor(RELAYS + 2) as threads:
        relays = [threads.submit(relay) for _ in range(RELAYS)]
        try:
            for ended in [threads.submit(business, start) for start in (0, COMMITS)]:
                ended.result()      # a transaction that was ended for a relay's sake raises here
        finally:
            over.set()
        for each in relays:
            each.result()
    assert count_stubs(engine) == 2 * COMMITS


OLD_MS = 1_600_000_000_000


def in_each_purge(engine: Engine, purge: Callable[[Engine], object], business: Callable[[], None]) -> int:
    """How often `business` ran while a transaction of the purge had removed rows and held their locks."""
    removed: list[str] = []

    def note(connection: Connection, cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("DELETE"):
            removed.append(statement)

    def run(connection: Connection) -> None:
        if removed:
            times.append(len(removed))
            removed.clear()
            business()

    times: list[int] = []
    event.listen(engine, "after_cursor_execute", note)
    event.listen(engine, "commit", run)
    try:
        purge(engine)
    finally:
        event.remove(engine, "after_cursor_execute", note)
        event.remove(engine, "commit", run)
    return len(times)


def test_a_purge_holds_up_no_commit_of_the_business(server: mariadb.Server, engine: Engine) -> None:
    """It removes stubs, receipts and alarms, and what is new is committed beside each of its transactions."""
    place_orders(engine, "done", "under-way")
    set_stub(engine, "done", status="CONFIRMED", create_time=OLD_MS, resend_time=OLD_MS)
    place_orders(engine, "lately")
    set_stub(engine, "lately", status="CONFIRMED")
    with engine.begin() as connection:
        delivery_log.receive(connection, deliveries_of([message("lately")], context()))
        raise_alarm(connection, AlarmKind.MANUAL, "told", "why")
        close_alarm(connection, AlarmKind.MANUAL, "told")
        connection.execute(update(tables.alarms).values(closed_time=OLD_MS, sent_time=OLD_MS))
    impatient = mariadb.engine_of(server, "SET innodb_lock_wait_timeout = 1")
    numbers = itertools.count()

    def business() -> None:
        number = next(numbers)
        place_orders(impatient, *(f"{prefix}-{number}" for prefix in ("a", "done", "m", "zz")))
        with impatient.begin() as connection:
            delivery_log.receive(connection, deliveries_of([message(f"a-{number}"), message(f"zz-{number}")],
                                                           context()))
            raise_alarm(connection, AlarmKind.MANUAL, f"zz-{number}", "why")

    assert in_each_purge(engine, purge_stubs, business) == 3
    assert count_stubs(engine, message_id="done") == 0
    impatient.dispose()


def test_a_purge_of_an_inbox_holds_up_no_effect(server: mariadb.Server, engine: Engine) -> None:
    listener = ApplyOnce(engine, book, confirms=Unheard())
    for message_id in ("b", "d"):
        assert deliver(listener, message_id)[0] is SUCCESS
    with engine.begin() as connection:
        delivery_log.receive(connection, deliveries_of([message("c")], context()))
        for column in (tables.attempts.c.begin_time, tables.inbox.c.apply_time, tables.message_log.c.receive_time):
            connection.execute(update(column.table).values({column.name: OLD_MS}))
    impatient = mariadb.engine_of(server, "SET innodb_lock_wait_timeout = 1")
    numbers = itertools.count()

    def effects() -> None:
        number = next(numbers)
        applying = ApplyOnce(impatient, book, confirms=Unheard())
        for prefix in "abcde":
            assert deliver(applying, f"{prefix}{number}")[0] is SUCCESS

    assert in_each_purge(engine, purge_inbox, effects) == 3
    impatient.dispose()


# --- what they look at -----------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(engine: Engine) -> Engine:
    """Of each kind ROWS stubs: new, sent and not due, left to a human."""
    place_orders(engine, "1")
    columns = ", ".join(f"`{column.name}`" for column in tables.stubs.columns)
    for prefix, values in (("new", {}), ("sent", {"send_count": "1", "resend_time": str(1 << 50)}),
                           ("manual", {"send_count": "16", "is_manual": "1"})):
        values["message_id"] = f"concat('{prefix}-', seq)"
        chosen = ", ".join(values.get(column.name, f"`{column.name}`") for column in tables.stubs.columns)
        with engine.begin() as connection:
            connection.execute(text(f"INSERT INTO regulus_stub ({columns}) SELECT {chosen} FROM regulus_stub, "
                                    f"seq_1_to_{ROWS} WHERE message_id = '1'"))
    with engine.begin() as connection:
        connection.execute(text("ANALYZE TABLE regulus_stub")).close()
    return engine


_READ = text("SELECT sum(variable_value) FROM information_schema.session_status "
             "WHERE variable_name IN ('Handler_read_key', 'Handler_read_next', 'Handler_read_prev')")


def entries_read(engine: Engine, work: Callable[[], object]) -> int:
    """Of indexes: how many the server went to, or came past, in the transactions of `work`, one after another.
    The connection is the same for all, so that the server counts them together."""
    with engine.connect() as connection:
        before = int(connection.execute(_READ).scalar_one())
        number = connection.connection.driver_connection.thread_id()
    work()
    with engine.connect() as connection:
        assert connection.connection.driver_connection.thread_id() == number
        return int(connection.execute(_READ).scalar_one()) - before


def test_a_review_comes_past_nothing_that_only_waits(waiting: Engine) -> None:
    due = DueStubs(waiting, RelayConfig())
    assert entries_read(waiting, due.review) < 100
    set_stub(waiting, "sent-7", resend_time=0)
    set_stub(waiting, "sent-8", resend_time=0, send_count=3)
    assert {each.message_id for each in due.review().claimed} == {"sent-7", "sent-8"}


def test_a_claim_comes_past_no_more_than_it_takes(waiting: Engine) -> None:
    due = DueStubs(waiting, RelayConfig(batch_max=10))
    assert entries_read(waiting, due.claim) < 100


def test_what_waits_longest_is_reviewed_first_whatever_its_count(engine: Engine) -> None:
    place_orders(engine, *"abcd")
    for message_id, count, due_ms in (("a", 3, 30), ("b", 1, 40), ("c", 2, 10), ("d", 3, 20)):
        set_stub(engine, message_id, send_count=count, resend_time=due_ms)
    due = DueStubs(engine, RelayConfig(batch_max=2))
    assert [sorted(each.message_id for each in due.review().claimed) for _ in range(3)] == [["c", "d"], ["a", "b"], []]


# --- its clock -------------------------------------------------------------------------------------------------------


@pytest.fixture
def in_berlin(server: mariadb.Server) -> Iterator[Callable[[int], Engine]]:
    """Engines of sessions there for which it is a moment."""
    with ExitStack() as stack:
        def at(moment_s: int) -> Engine:
            engine = mariadb.engine_of(server, f"SET time_zone = 'SYSTEM', timestamp = {moment_s}")
            stack.callback(engine.dispose)
            return engine
        yield at


@pytest.mark.parametrize("moment_s", [SUMMER_S, SUMMER_S + 3_600])
def test_an_hour_that_comes_twice_is_two(in_berlin: Callable[[int], Engine], moment_s: int) -> None:
    with in_berlin(moment_s).connect() as connection:
        assert connection.execute(text("SELECT date_format(now(), '%H:%i')")).scalar_one() == "02:30"
        assert connection.execute(select(tables.now_ms())).scalar_one() == moment_s * 1000


def test_a_clock_that_is_set_back_keeps_no_new_stub_and_ends_no_lease(engine: Engine,
                                                                      in_berlin: Callable[[int], Engine]) -> None:
    place_orders(in_berlin(SUMMER_S), "1")
    later, earlier = in_berlin(SUMMER_S + 3_600), in_berlin(SUMMER_S - 3_600)
    assert [each.message_id for each in DueStubs(earlier, RelayConfig()).claim()] == ["1"]
    assert DueStubs(earlier, RelayConfig()).review().stubs == 0
    assert stub(engine, "1").resend_time == (SUMMER_S - 3_600 + 60) * 1000
    assert [each.message_id for each in DueStubs(later, RelayConfig()).review().claimed] == ["1"]


# --- other ways to speak ---------------------------------------------------------------------------------------------


def test_a_session_that_speaks_as_oracle_does_is_served(server: mariadb.Server) -> None:
    for engine in with_empty_tables(mariadb.engine_of(server, "SET sql_mode = ORACLE")):
        with engine.begin() as connection:
            connection.execute(insert(orders).values(id="1"))
            Outbox(groups=["billing"]).add(connection, Message("orders", b"1"), message_id="1")
        due = DueStubs(engine, RelayConfig())
        due.check()
        [claimed] = due.claim()
        due.store([Failure("1", 1, "no broker")])
        make_due(engine)
        assert [each.message.body for each in (claimed, *due.review().claimed)] == [b"1", b"1"]
        with engine.begin() as connection:
            operator.retry(connection, "1", operator="ann", reason="again")
        listener = ApplyOnce(engine, book)
        listener.check()
        assert deliver(listener, "1")[0] is SUCCESS
        assert booked(engine) == ["1"]
