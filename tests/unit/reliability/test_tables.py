"""The stub table: made by one call or by migrations, told when it is older, in the words of each database."""

import time

import pytest
from sqlalchemy import create_engine, event, insert, inspect, select, text
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable

from regulus.errors import ReliabilityRefused
from regulus.reliability import outbox_table, tables
from regulus.reliability.retry_policy import ResendPolicy


def test_to_make_tables_that_are_there_is_fine(engine):
    with engine.begin() as connection:
        tables.create(connection)
    assert "regulus_stub" in inspect(engine).get_table_names()


def test_an_older_table_is_told_by_what_it_lacks(engine):
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE regulus_stub"))
        connection.execute(text("CREATE TABLE regulus_stub(message_id VARCHAR(128) PRIMARY KEY, topic VARCHAR(127))"))
    with engine.begin() as connection, pytest.raises(ReliabilityRefused, match=r"older .* has no column tags, body"):
        tables.create(connection)


def test_a_missing_table_is_told_with_the_way_to_make_it(tmp_path):
    with create_engine(f"sqlite:///{tmp_path / 'empty'}").connect() as connection, \
            pytest.raises(ReliabilityRefused, match=r"regulus_stub; make it with `regulus outbox migrate`, .*create\("):
        tables.check(connection)


def test_the_clock_is_that_of_the_database_in_ms(engine):
    with engine.connect() as connection:
        before = time.time() * 1000
        told = connection.execute(select(tables.now_ms())).scalar_one()
    assert isinstance(told, int)
    assert before - 50 < told < time.time() * 1000 + 50


def test_a_condition_on_the_clock_finds_its_index(engine):
    """One that may give another time for each row would have each row looked at."""
    old = select(tables.stubs.c.message_id).where(tables.stubs.c.create_time < tables.now_ms() - 5).compile(
        engine, compile_kwargs={"literal_binds": True})
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = str(connection.execute(text(
            f"EXPLAIN {'QUERY PLAN ' if engine.dialect.name == 'sqlite' else ''}{old}")).all())
    assert ("create_time<?" if engine.dialect.name == "sqlite" else "Index Cond: (create_time <") in plan


def test_the_clock_goes_on_within_a_transaction(engine):
    """A lease that began with the transaction would be over before it is committed."""
    deadline = time.monotonic() + 60
    with engine.begin() as connection:
        first = connection.execute(select(tables.now_ms())).scalar_one()
        while connection.execute(select(tables.now_ms())).scalar_one() == first:
            assert time.monotonic() < deadline


@pytest.mark.parametrize(("which", "index"), [("claim", "regulus_stub_new"), ("review", "regulus_stub_due")])
def test_each_look_at_what_is_due_uses_its_index(engine, which, index):
    """One whose condition the statement does not repeat word by word would never be used."""
    statements = []
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2:4]))
    with engine.begin() as connection:
        getattr(outbox_table, which)(connection, ResendPolicy(), 10)
        told, values = next((text, values) for text, values in statements if "ORDER BY" in text)
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = str(connection.exec_driver_sql(
            f"EXPLAIN {'QUERY PLAN ' if engine.dialect.name == 'sqlite' else ''}{told}", values).all())
    assert index in plan
    within = "resend_time<?" if engine.dialect.name == "sqlite" else "(resend_time <="
    assert (within in plan.partition("Filter")[0]) == (which == "review")       # or it looks at all that wait


@pytest.mark.parametrize("table", tables.metadata.sorted_tables, ids=str)
def test_mysql_tells_letters_apart_and_keeps_transactions_in_every_table(table):
    assert str(CreateTable(table).compile(dialect=mysql.dialect())).strip().endswith(
        ")CHARSET=utf8mb4 ENGINE=InnoDB COLLATE utf8mb4_bin")


def test_mysql_gets_room_for_bodies():
    made = str(CreateTable(tables.stubs).compile(dialect=mysql.dialect()))
    assert "`body` BLOB(4194304) NOT NULL" in made
    claim = outbox_table._free(tables.stubs.c.send_count < ResendPolicy().attempts_max).limit(10)
    assert "FOR UPDATE SKIP LOCKED" in str(claim.compile(dialect=mysql.dialect()))


def test_the_next_time_is_set_before_the_count_that_it_follows_from():
    """MySQL and MariaDB see in each part of a SET what those before it have set."""
    bump = str(outbox_table._bump(ResendPolicy(), ["1"]).compile(dialect=mysql.dialect()))
    assert bump.index("resend_time=") < bump.index("send_count=")


@pytest.mark.parametrize("name", ["regulus_confirmation", "regulus_inbox", "regulus_message_log", "regulus_watermark",
                                  "regulus_attempt", "regulus_action", "regulus_alarm"])
def test_each_table_that_is_older_is_told(engine, name):
    with engine.begin() as connection:
        connection.execute(text(f"DROP TABLE {name}"))
        connection.execute(text(f"CREATE TABLE {name}(consumer_group VARCHAR(255))"))
    with engine.begin() as connection, pytest.raises(ReliabilityRefused, match=f"{name} is older"):
        tables.create(connection)


def test_an_alarm_that_is_open_is_there_once(engine):
    row = {"kind": "MANUAL", "subject": "1", "detail": "", "raise_time": 1}
    with engine.begin() as connection:
        connection.execute(insert(tables.alarms),
                           [row | {"open_key": key} for key in ("MANUAL 1", None, None)])
    with engine.begin() as connection, pytest.raises(IntegrityError):
        connection.execute(insert(tables.alarms), row | {"open_key": "MANUAL 1"})
