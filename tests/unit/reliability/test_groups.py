"""Several groups consume one stub: each has its own effect once, and the stub is done with the last of them."""

import sqlite3
import threading

import psycopg
import pytest
from sqlalchemy import insert

from regulus.client.listener import ConsumeStatus
from regulus.errors import ConfigError, ReliabilityRefused
from regulus.model.message import Message
from regulus.reliability import operator, tables
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.outbox import Outbox

from .deliveries import context, message, rows
from .shop import book, booked, bookings, orders, set_stub, stub

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER
GROUPS = ("billing", "stock")


@pytest.fixture
def committed(engine):
    with engine.begin() as connection:
        connection.execute(insert(orders).values(id="1"))
        Outbox(groups=GROUPS).add(connection, Message("orders", b"1"), message_id="1")
    return engine


def states(engine):
    return dict(rows(engine, tables.confirmations, "consumer_group", "status"))


def test_a_row_for_each_group_is_committed_with_the_stub(committed):
    assert states(committed) == dict.fromkeys(GROUPS, "UNCONFIRMED")


def test_a_plain_connection_writes_the_rows_too(engine):
    if engine.dialect.name not in ("sqlite", "postgresql"):
        pytest.skip("of MariaDB no plain connections are taken")
    connection = (sqlite3.connect(engine.url.database) if engine.dialect.name == "sqlite"
                  else psycopg.connect(engine.url.set(drivername="postgresql").render_as_string()))
    connection.cursor().execute("INSERT INTO orders(id) VALUES ('1')")
    Outbox(groups=GROUPS).add(connection, Message("orders", b"1"), message_id="1")
    assert states(engine) == {}
    connection.commit()
    connection.close()
    assert states(engine) == dict.fromkeys(GROUPS, "UNCONFIRMED")


def test_the_stub_is_confirmed_with_the_last_group(committed):
    listener = ApplyOnce(committed, book)
    for group, status in zip(GROUPS, ("UNCONFIRMED", "CONFIRMED"), strict=True):
        assert [listener([message("1")], context(group)) for _ in range(2)] == [SUCCESS] * 2
        assert stub(committed, "1").status == status
    assert booked(committed) == ["1", "1"]
    assert states(committed) == dict.fromkeys(GROUPS, "CONFIRMED")


def test_stubs_whose_effects_share_a_commit_are_confirmed_with_the_last_group(committed):
    with committed.begin() as connection:
        connection.execute(insert(orders).values(id="2"))
        Outbox(groups=GROUPS).add(connection, Message("orders", b"2"), message_id="2")
    for group, status in zip(GROUPS, ("UNCONFIRMED", "CONFIRMED"), strict=True):
        assert ApplyOnce(committed, book)([message("1"), message("2")], context(group)) is SUCCESS
        assert {stub(committed, each).status for each in "12"} == {status}
    assert booked(committed) == ["1", "1", "2", "2"]


def test_a_group_that_fails_is_open_alone(committed):
    def fails(connection, message):
        book(connection, message)
        raise ValueError("no stock")

    ApplyOnce(committed, book)([message("1")], context("billing"))
    with pytest.raises(ValueError):
        ApplyOnce(committed, fails)([message("1")], context("stock"))
    assert states(committed) == {"billing": "CONFIRMED", "stock": "UNCONFIRMED"}
    assert (stub(committed, "1").status, booked(committed)) == ("UNCONFIRMED", ["1"])


def test_a_group_that_nobody_named_has_no_effect(committed):
    listener = ApplyOnce(committed, book)
    given = context("stranger")
    assert listener([message("1", times=2)], given) is LATER
    assert (given.delay_level_when_next_consume, booked(committed)) == (-1, [])


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_groups_that_end_at_one_moment_leave_no_stub_open(committed, isolation):
    """Each sees the other's row unconfirmed until it commits, or for as long as its transaction lasts."""
    if committed.dialect.name != "postgresql":
        pytest.skip("SQLite has one writer at a time, and InnoDB locks each row that it looks at")
    both, begun = threading.Barrier(2), set()

    def effect(connection, message):
        connection.execute(insert(bookings).values(order_id="1"))
        if threading.get_ident() not in begun:      # not when it is made anew
            begun.add(threading.get_ident())
            both.wait(60)

    listener = ApplyOnce(committed.execution_options(isolation_level=isolation), effect)
    workers = [threading.Thread(target=listener, args=([message("1")], context(group))) for group in GROUPS]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert (stub(committed, "1").status, booked(committed)) == ("CONFIRMED", ["1", "1"])


@pytest.mark.parametrize(("act", "status"), [(operator.void, "VOIDED"), (operator.confirm, "CONFIRMED")])
def test_w21_what_a_human_ends_is_applied_by_no_group_that_was_open(committed, act, status):
    listener = ApplyOnce(committed, book)
    listener([message("1")], context("billing"))
    with committed.begin() as connection:
        act(connection, "1", operator="ann", reason="the customer left")
    assert listener([message("1")], context("stock")) is SUCCESS
    assert (booked(committed), stub(committed, "1").status) == (["1"], status)


def test_a_group_that_nobody_named_has_none_when_the_others_are_done_either(committed):
    listener = ApplyOnce(committed, book)
    for group in GROUPS:
        listener([message("1")], context(group))
    assert listener([message("1")], context("stranger")) is LATER
    assert booked(committed) == ["1", "1"]


def test_a_human_and_a_consumer_do_not_wait_for_each_other(committed):
    """Both take the group's row first and the stub behind it."""
    if committed.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    in_effect, acted = threading.Event(), threading.Event()

    def effect(connection, message):
        book(connection, message)
        in_effect.set()
        acted.wait(0.2)     # the human waits for our row by then

    worker = threading.Thread(target=ApplyOnce(committed, effect), args=([message("1")], context("billing")))
    worker.start()
    assert in_effect.wait(60)
    with committed.begin() as connection:
        operator.void(connection, "1", operator="ann", reason="the customer left")
    acted.set()
    worker.join(60)
    assert states(committed) == {"billing": "CONFIRMED", "stock": "VOIDED"}
    assert (stub(committed, "1").status, booked(committed)) == ("VOIDED", ["1"])


def test_a_stub_without_rows_is_judged_by_itself(engine):
    with engine.begin() as connection:
        connection.execute(insert(orders).values(id="1"))
        Outbox().add(connection, Message("orders", b"1"), message_id="1")
    listener = ApplyOnce(engine, book)
    assert [listener([message("1")], context(group)) for group in GROUPS] == [SUCCESS] * 2
    assert booked(engine) == ["1"]


def test_a_voided_stub_has_no_effect_in_a_group_whose_row_is_open(committed):
    set_stub(committed, "1", status="VOIDED")
    assert ApplyOnce(committed, book)([message("1")], context("billing")) is SUCCESS
    assert booked(committed) == []


@pytest.mark.parametrize("groups", ["billing", ("billing", "billing"), ("",)])
def test_odd_groups_are_refused(groups):
    with pytest.raises(ConfigError, match="names of the consuming groups"):
        Outbox(groups=groups)


def test_a_database_without_the_table_is_told(engine):
    tables.confirmations.drop(engine)
    with engine.begin() as connection:
        connection.execute(insert(orders).values(id="1"))
        with pytest.raises(ReliabilityRefused, match="no table regulus_confirmation"):
            Outbox(groups=GROUPS).add(connection, Message("orders", b"1"))
