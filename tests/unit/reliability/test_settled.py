"""What an open transaction may still commit is behind no audit's end; what cannot be known of it is said."""

import threading
import time

import pytest
from sqlalchemy import QueuePool, create_engine, insert, select, text

from regulus.model.message import Message
from regulus.reliability import ledger, tables
from regulus.reliability.outbox import Outbox
from regulus.reliability.settled import settled

from .shop import orders, place_orders, set_stub
from .test_ledger import audited, audited_now, settle


def place(connection, order):
    connection.execute(insert(orders).values(id=order))
    Outbox().add(connection, Message("orders", b"x"), message_id=order)


def held_back(engine, effects=None):
    """The audit that an open transaction holds back, as soon as its beginning is in the past."""
    deadline = time.monotonic() + 60
    while not (found := audited_now(engine, effects)).is_held_back:
        assert time.monotonic() < deadline
    return found


@pytest.fixture
def engine(engine):
    """One that does not wait for another's transaction."""
    if engine.dialect.name != "sqlite":
        yield engine
        return
    impatient = create_engine(engine.url, connect_args={"timeout": 0.05})
    yield impatient
    impatient.dispose()


def test_audits_from_end_to_end_miss_nothing_that_was_committed_late(engine):
    """SQLite cannot tell since when its one writer writes: the audit says that it is there."""
    place_orders(engine, "early")
    set_stub(engine, "early", create_time=5_000)
    with engine.connect() as late:
        with late.begin():
            place(late, "late")
            if engine.dialect.name == "sqlite":
                first = audited_now(engine)
                assert (first.is_held_back, first.unseen) == (False, ["a transaction that is open: database is locked"])
                assert first.next_since_ms is None
                return
            first = held_back(engine)
            assert (first.committed, first.unseen) == (1, [])
            assert audited_now(engine, since=first.until_ms).committed == 0
        second = audited(engine, since=first.until_ms)
    assert (second.committed, second.is_held_back, second.unseen) == (1, False, [])
    assert second.next_since_ms > first.next_since_ms


def test_what_is_written_behind_the_end_is_for_the_next_audit(engine, monkeypatch):
    place_orders(engine, "early")
    set_stub(engine, "early", create_time=5_000)

    def and_then_one_is_written(connection, table):
        found = settled(connection, table)
        place_orders(engine, "behind")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "settled", and_then_one_is_written)
        first = audited_now(engine)
    assert (first.committed, audited(engine, since=first.until_ms).committed) == (1, 1)


def test_an_audit_waits_for_the_one_writer_of_sqlite(engine):
    if engine.dialect.name != "sqlite":
        pytest.skip("others have many writers")
    patient = create_engine(engine.url, connect_args={"timeout": 60})
    found = []
    with engine.connect() as late:
        with late.begin():
            place(late, "late")
            settling = threading.Thread(target=lambda: found.append(audited_now(patient)))
            settling.start()
        settling.join(60)
    assert found[0].unseen == []
    assert audited(patient).committed == 1
    patient.dispose()


def test_who_only_reads_holds_nothing_back(engine):
    place_orders(engine, "1")
    settle(engine)
    with engine.connect() as reader, reader.begin():
        reader.execute(select(tables.stubs.c.message_id)).all()
        assert audited(engine).is_held_back is False


def test_an_end_that_is_given_is_kept_unless_something_is_open_before_it(engine):
    place_orders(engine, "1")
    settle(engine)
    with engine.connect() as connection:
        assert ledger.audit(connection, 0, 5_000).until_ms == 5_000
    with engine.connect() as late, late.begin():
        place(late, "late")
        with engine.connect() as connection:
            found = ledger.audit(connection, 0, 5_000)
    assert (found.until_ms, found.is_held_back) == (5_000, False)


def test_effects_that_are_committed_late_hold_an_audit_back(engine, tmp_path):
    if engine.dialect.name == "sqlite":
        pytest.skip("it says so instead")
    business = create_engine(f"sqlite:///{tmp_path / 'business.sqlite'}")
    with business.begin() as connection:
        tables.create(connection)
    with engine.connect() as late:
        with late.begin():
            late.execute(insert(tables.inbox).values(message_id="stray", consumer_group="billing", broker_name="a",
                                                     queue_id=0, queue_offset=0, apply_time=tables.now_ms()))
            first = held_back(business, engine)
            assert first.unmade.count == 0
        assert audited(business, engine, first.until_ms).unmade.names == ["stray"]
    business.dispose()


def test_what_a_user_may_not_see_is_said(engine):
    """A role of PostgreSQL sees its own transactions, and of others only that they are there."""
    if engine.dialect.name != "postgresql":
        pytest.skip("SQLite knows no users; of MariaDB's another test tells")
    with engine.begin() as connection:
        connection.execute(text("DROP ROLE IF EXISTS auditor"))
        connection.execute(text("CREATE ROLE auditor"))
        connection.execute(text("GRANT SELECT ON ALL TABLES IN SCHEMA public TO auditor"))
    auditing = create_engine(engine.url, connect_args={"options": "-c role=auditor"})
    try:
        with engine.connect() as late, late.begin():
            place(late, "late")
            found = audited(auditing)
        assert found.is_held_back is False
        [unseen] = found.unseen
        assert unseen.startswith("since when 1 transactions write to regulus_stub, prepared ones or another user's: ")
        assert audited(auditing).unseen == []
    finally:
        auditing.dispose()
        with engine.begin() as connection:
            connection.execute(text("DROP OWNED BY auditor"))
            connection.execute(text("DROP ROLE auditor"))


def test_a_transaction_that_began_before_a_snapshot_is_seen_by_it(engine):
    """What keeps to the moment of its first look takes that behind the others' end."""
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    place_orders(engine, "1")
    settle(engine)
    keeping = engine.execution_options(isolation_level="REPEATABLE READ")
    with keeping.connect() as connection:
        found = settled(connection, tables.stubs)
        place_orders(engine, "2")
        assert connection.execute(select(tables.stubs.c.message_id)).scalars().all() == ["1", "2"]
    assert found.unseen == ""


def test_an_audit_does_with_one_connection(engine):
    """As of a pool that has no other."""
    place_orders(engine, "1")
    settle(engine)
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        if engine.dialect.name == "sqlite" and level != "SERIALIZABLE":
            continue
        small = create_engine(engine.url, pool_size=1, max_overflow=0, pool_timeout=0.1, isolation_level=level,
                              poolclass=QueuePool)
        try:
            found = audited(small)
            with small.begin() as connection:
                assert connection.get_isolation_level() == level
                assert ledger.audit(connection, 0, 1 << 60).committed == 1
                assert connection.get_isolation_level() == level
        finally:
            small.dispose()
        assert (found.committed, found.unseen) == (1, [])


def test_an_audit_by_a_connection_that_commits_each_statement_keeps_to_no_look(engine):
    """Whatever the database's level is, and whoever takes the connection from the engine so."""
    if engine.dialect.name != "postgresql":
        pytest.skip("MariaDB's looks begin nothing that is kept to, and SQLite has one level")
    place_orders(engine, "1")
    settle(engine)
    keeping = create_engine(engine.url, connect_args={"options": "-c default_transaction_isolation=serializable"})
    try:
        with keeping.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            assert connection.execute(text("SHOW transaction_isolation")).scalar_one() == "serializable"
            found = ledger.audit(connection, 0, 1 << 60)
    finally:
        keeping.dispose()
    assert (found.committed, found.unseen) == (1, [])


def test_a_transaction_that_wrote_is_not_ended_by_an_audit_and_told_what_it_cannot_see(engine):
    if engine.dialect.name != "postgresql":
        pytest.skip("MariaDB's looks begin nothing that is kept to, and SQLite has one writer")
    keeping = engine.execution_options(isolation_level="REPEATABLE READ")
    with keeping.begin() as connection:
        place(connection, "mine")
        [unseen] = ledger.audit(connection, 0, 1 << 60).unseen
        assert unseen.startswith("what others committed since this transaction looked first")
    with engine.connect() as connection:
        assert connection.execute(select(tables.stubs.c.message_id)).scalars().all() == ["mine"]


def test_an_audit_sees_a_writer_that_waits_for_its_lock(engine):
    """As while an index is built on the table: an insert has the time at which it came, and waits."""
    if engine.dialect.name != "postgresql":
        return
    outbox = Outbox()
    with engine.begin() as connection:
        outbox.add(connection, Message("orders", b"x"), message_id="first")

    def late():
        # As Django's connections do: values stand in the text of the statement, which is one message.
        import psycopg

        address = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(address, cursor_factory=psycopg.ClientCursor) as connection:
            outbox.add(connection, Message("orders", b"x"), message_id="late")

    with engine.connect() as builder:
        with builder.begin():
            builder.execute(text("LOCK TABLE regulus_stub IN SHARE MODE"))
            thread = threading.Thread(target=late)
            thread.start()
            deadline = time.monotonic() + 30
            while True:
                with engine.connect() as looking:
                    waits = looking.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one()
                if waits:
                    break
                assert time.monotonic() < deadline
            first = audited_now(engine)
        thread.join()
    assert first.unseen == []
    second = audited(engine, since=first.until_ms)
    assert first.committed + second.committed == 2
