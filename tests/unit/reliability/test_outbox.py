"""A message is stored with what it speaks of, by whatever connection that is written with, or not at all."""

import sqlite3

import psycopg
import pytest
from sqlalchemy import String, create_engine, insert, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column, scoped_session, sessionmaker

from regulus.errors import MessageIllegal, ReliabilityRefused
from regulus.model import message_properties as names
from regulus.model.message import Message
from regulus.reliability import tables
from regulus.reliability.outbox import CHANNEL, Outbox, stub_values
from regulus.reliability.outbox_table import Position
from regulus.reliability.relay import DueStubs, RelayConfig

from .shop import count_stubs, orders, stub

ORDER = Message("orders", b"one tea", "new", ["vip"], {"COLOUR": "green"}, flag=3)


@pytest.fixture
def driver_connection(engine):
    """Of the driver alone."""
    if engine.dialect.name == "sqlite":
        connection = sqlite3.connect(engine.url.database)
    else:
        connection = psycopg.connect(engine.url.set(drivername="postgresql").render_as_string())
    yield connection
    connection.close()


def test_a_stub_is_unconfirmed_and_due_and_has_all_that_a_send_needs(engine):
    with engine.begin() as connection:
        message_id = Outbox().add(connection, ORDER)
    row = stub(engine, message_id)
    assert (row.topic, row.tags, bytes(row.body), row.flag) == ("orders", "new", b"one tea", 3)
    assert names.parse(row.properties) == {"KEYS": f"{message_id} vip", "COLOUR": "green", "BUSINESS_ID": message_id}
    assert (row.status, row.send_count, row.is_manual, row.version) == ("UNCONFIRMED", 0, False, 1)
    assert (row.broker_name, row.queue_id, row.queue_offset, row.last_error) == (None, None, None, None)
    assert abs(row.create_time - row.resend_time) <= 1000
    assert ORDER.properties == {"TAGS": "new", "KEYS": "vip", "COLOUR": "green"}    # the caller's is left as it is


def test_w1_a_stub_is_rolled_back_with_its_business(engine):
    with pytest.raises(RuntimeError), engine.begin() as connection:     # noqa: PT012
        connection.execute(insert(orders).values(id="1"))
        Outbox().add(connection, ORDER)
        raise RuntimeError("before the commit")
    assert count_stubs(engine) == 0


def test_sessions_take_stubs(engine):
    with Session(engine) as session, session.begin():
        message_id = Outbox().add(session, ORDER, message_id="order-7")
    assert message_id == "order-7"
    assert stub(engine, "order-7").topic == "orders"


def test_sessions_of_a_scope_take_stubs(engine):
    session = scoped_session(sessionmaker(engine))
    Outbox().add(session, ORDER)
    session.rollback()
    Outbox().add(session, ORDER)
    session.commit()
    session.remove()
    assert count_stubs(engine) == 1


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id = mapped_column(String, primary_key=True)


@pytest.fixture
def other(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path / 'other.sqlite'}")
    yield engine
    engine.dispose()


@pytest.mark.parametrize("scope", [lambda make: make(), scoped_session])
def test_a_session_of_several_databases_is_refused_with_the_way_to_write(engine, other, scope):
    """Its stub would be committed in one, its order in another."""
    session = scope(sessionmaker(engine, binds={Order: other}))
    with pytest.raises(ReliabilityRefused, match=r"several engines, .* session\.connection\(bind_arguments="):
        Outbox().add(session, ORDER)
    session.close()
    assert count_stubs(engine) == 0


def test_a_session_whose_binds_are_one_database_takes_stubs(engine):
    with Session(engine, binds={Order: engine}) as session, session.begin():
        session.add(Order(id="1"))
        Outbox().add(session, ORDER)
    assert count_stubs(engine) == 1
    slow = engine.execution_options(statement="slow")       # by which SQLAlchemy begins a transaction of its own
    with Session(engine, binds={Order: slow}) as session, pytest.raises(ReliabilityRefused, match="several engines"):
        Outbox().add(session, ORDER)


def test_the_connection_that_is_named_takes_stubs_of_a_session_of_several_databases(engine, other):
    with Session(other, binds={Order: engine}) as session, session.begin():
        session.add(Order(id="1"))
        Outbox().add(session.connection(bind_arguments={"mapper": Order}), ORDER)
    assert count_stubs(engine) == 1


def test_a_transaction_of_two_phases_takes_stubs(engine, other):
    """PostgreSQL prepares none that told anything."""
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one phase")
    with Session(engine, twophase=True) as session:
        session.add(Order(id="1"))
        Outbox().add(session, ORDER)
        session.commit()
        assert Session(engine, binds={Order: other}, twophase=True).twophase
    assert count_stubs(engine) == 1


def test_tables_in_a_schema_that_is_named_for_the_connection_are_found(engine):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no schemas")
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA IF EXISTS elsewhere CASCADE"))
        connection.execute(text("CREATE SCHEMA elsewhere"))
        connection.execute(text("DROP TABLE regulus_stub"))
    there = engine.execution_options(schema_translate_map={None: "elsewhere"})
    with there.begin() as connection:
        with pytest.raises(ReliabilityRefused, match="has no table regulus_stub"):
            Outbox().add(connection, ORDER)
        tables.create(connection)
        tables.create(connection)
        Outbox().add(connection, ORDER, message_id="1")
    due = DueStubs(there, RelayConfig())
    due.check()
    assert [each.message_id for each in due.claim()] == ["1"]
    due.store([Position("1", 1, "broker-a", 0, 7)])
    assert stub(there, "1").queue_offset == 7
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA elsewhere CASCADE"))


@pytest.mark.parametrize("kept", [True, False])
def test_drivers_connections_take_stubs_in_their_transaction(engine, driver_connection, kept):
    driver_connection.cursor().execute("INSERT INTO orders(id) VALUES ('1')")
    outbox = Outbox()
    for _ in range(2):      # the table is looked at before the first alone
        outbox.add(driver_connection, ORDER)
    if kept:
        driver_connection.commit()
    else:
        driver_connection.rollback()
    assert count_stubs(engine) == (2 if kept else 0)
    assert count_stubs(engine, status="UNCONFIRMED", send_count=0) == (2 if kept else 0)


def test_a_commit_of_a_driver_s_connection_is_told_to_relays(engine, driver_connection):
    if engine.dialect.name != "postgresql":
        pytest.skip("PostgreSQL alone tells of commits")
    listening = engine.raw_connection().driver_connection
    listening.autocommit = True
    listening.execute(f"LISTEN {CHANNEL}")
    Outbox().add(driver_connection, ORDER)
    driver_connection.commit()
    assert [told.channel for told in listening.notifies(timeout=10, stop_after=1)] == [CHANNEL]
    listening.close()


async def test_asyncio_takes_stubs_by_its_own_call(tmp_path):
    pytest.importorskip("aiosqlite")
    pytest.importorskip("greenlet")
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.sqlite'}")
    try:
        async with engine.begin() as connection:
            await connection.run_sync(tables.create)
            await Outbox().add_async(connection, ORDER)
        async with AsyncSession(engine) as session, session.begin():
            await Outbox().add_async(session, ORDER)
    finally:
        await engine.dispose()
    assert count_stubs(create_engine(f"sqlite:///{tmp_path / 'shop.sqlite'}")) == 2


def test_a_connection_that_commits_each_statement_is_refused(engine):
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection, \
            pytest.raises(ReliabilityRefused, match=r"commits each statement by itself.*begin a transaction before"):
        Outbox().add(connection, ORDER)
    assert count_stubs(engine) == 0


def test_a_driver_that_commits_each_statement_is_refused_until_it_is_in_a_transaction(engine, driver_connection):
    if engine.dialect.name == "sqlite":
        driver_connection.isolation_level = None
    else:
        driver_connection.autocommit = True
    with pytest.raises(ReliabilityRefused, match="commits each statement by itself"):
        Outbox().add(driver_connection, ORDER)
    driver_connection.execute("BEGIN")
    Outbox().add(driver_connection, ORDER)
    driver_connection.execute("ROLLBACK")
    assert count_stubs(engine) == 0


@pytest.mark.parametrize(("definition", "fault"), [
    (None, "has no table regulus_stub"),
    ("CREATE TABLE regulus_stub(message_id VARCHAR(128))", "is older than this version: it has no column topic")])
def test_tables_that_are_missing_or_older_are_refused_by_each_way(engine, driver_connection, definition, fault):
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE regulus_stub"))
        if definition:
            connection.execute(text(definition))
    with engine.begin() as connection, pytest.raises(ReliabilityRefused, match=fault):
        Outbox().add(connection, ORDER)
    with pytest.raises(ReliabilityRefused, match=fault):
        Outbox().add(driver_connection, ORDER)


@pytest.mark.parametrize("table", ["regulus_stub", "regulus_confirmation"])
def test_a_table_that_is_gone_is_named_by_each_way_also_when_it_was_there(engine, driver_connection, table):
    """As in another database than the first that an outbox of the program wrote to."""
    outbox = Outbox(groups=["billing"])
    with engine.begin() as connection:
        outbox.add(connection, ORDER)
    with engine.begin() as connection:
        connection.execute(text(f"DROP TABLE {table}"))
    remedy = rf"no table {table}; make it with `regulus outbox migrate`, with regulus.reliability.tables.create"
    with engine.begin() as connection, pytest.raises(ReliabilityRefused, match=remedy):
        outbox.add(connection, ORDER)
    with pytest.raises(ReliabilityRefused, match=remedy):
        outbox.add(driver_connection, ORDER)


def test_another_failure_of_the_database_is_its_own(engine):
    with engine.begin() as connection:
        Outbox().add(connection, ORDER, message_id="1")
    with engine.begin() as connection, pytest.raises(IntegrityError):
        Outbox().add(connection, ORDER, message_id="1")


@pytest.mark.parametrize("connection", [object(), None])
def test_what_is_no_connection_is_refused_with_what_is(connection):
    with pytest.raises(ReliabilityRefused, match="give a session or connection of SQLAlchemy"):
        Outbox().add(connection, ORDER)


def test_an_engine_is_refused_with_all_that_is_taken(engine):
    with pytest.raises(ReliabilityRefused, match=r"Engine is not a connection .*asyncio: to add_async.*, "
                                                 r"django\.db\.connection, or one of sqlite3 or psycopg"):
        Outbox().add(engine, ORDER)


@pytest.mark.parametrize(("message", "message_id", "fault"), [
    (Message("orders", b""), "1", "has no body"),
    (Message("orders", b"x" * 11), "1", "11 bytes, more than max_message_size 10"),
    (Message("no topic", b"x"), "1", "topic"),
    (Message("orders", b"x", "t" * 256), "1", "tag has 256 characters"),
    (Message("orders", b"x", properties={"a": "b" * 32_000}), "1", "properties have .* put large values into the body"),
    (Message("orders", b"x", properties={"a": "b\x02c"}), "1", "0x01 or 0x02, which separate"),
    (Message("orders", b"x", properties={"a": "b\0"}), "1", "0x00, which databases do not store"),
    (Message("orders", b"x"), "i" * 129, "up to 128 printable characters"),
    (Message("orders", b"x"), "1 2", "without spaces")])
def test_what_no_broker_takes_never_becomes_a_stub(message, message_id, fault):
    with pytest.raises(MessageIllegal, match=fault):
        stub_values(message, message_id, 10)


def test_one_id_makes_one_stub(engine):
    with engine.begin() as connection:
        Outbox().add(connection, ORDER, message_id="a")
        Outbox().add(connection, ORDER, message_id="A")
    with pytest.raises(IntegrityError), engine.begin() as connection:
        Outbox().add(connection, ORDER, message_id="a")
