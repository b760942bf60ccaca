"""Migrations make what `tables` says, also where a part of it is there."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import event, inspect, text

from regulus.errors import ReliabilityRefused
from regulus.reliability import migrations, tables

HEAD = "0001"


@pytest.fixture
def empty(engine):
    with engine.begin() as connection:
        tables.metadata.drop_all(connection)
        connection.execute(text(f"DROP TABLE IF EXISTS {migrations.VERSION_TABLE}"))
    yield engine
    with engine.begin() as connection:
        connection.execute(text(f"DROP TABLE IF EXISTS {migrations.VERSION_TABLE}"))


def differences(connection):
    context = MigrationContext.configure(connection, opts={
        "version_table": migrations.VERSION_TABLE, # MySQL and MariaDB call bodies and booleans by other names.
        "compare_server_default": connection.dialect.name in ("sqlite", "postgresql"),
        "compare_type": connection.dialect.name in ("sqlite", "postgresql"),
        "include_object": lambda item, name, kind, reflected, other: name.startswith("regulus") or kind != "table"})
    return compare_metadata(context, tables.metadata)


def test_the_migrations_make_what_the_tables_are(empty):
    with empty.begin() as connection:
        assert migrations.upgrade(connection) == (None, HEAD)
    with empty.begin() as connection:
        assert differences(connection) == []
        assert migrations.upgrade(connection) == (HEAD, HEAD)


def made_by(engine, make):
    """The statements that make tables and indexes, with every check, default and option."""
    made = []

    def executed(connection, cursor, statement, *_):
        if statement.lstrip().startswith("CREATE") and migrations.VERSION_TABLE not in statement:
            made.append(" ".join(statement.split()))

    event.listen(engine, "after_cursor_execute", executed)
    with engine.begin() as connection:
        make(connection)
    event.remove(engine, "after_cursor_execute", executed)
    drop_all(engine)
    return sorted(made)


def test_the_migrations_make_each_table_as_the_metadata_does_to_the_letter(empty):
    made = made_by(empty, migrations.upgrade)
    assert made == made_by(empty, tables.create)
    assert len(made) == 8 + 7, "tables and indexes"


class CutShort(Exception):
    """As when the program dies; each step is committed, as MySQL and MariaDB do it."""


def cut_at(engine, number, make):
    """Whether the `number`th step that changes the tables was come to."""
    done = []

    def carried_out(connection, cursor, statement, *_):
        if statement.strip().startswith(("CREATE", "ALTER", "DROP", "INSERT", "UPDATE")):
            done.append(statement)
            if len(done) == number:
                raise CutShort

    one_by_one = engine.execution_options(isolation_level="AUTOCOMMIT")
    event.listen(one_by_one, "after_cursor_execute", carried_out)
    try:
        with one_by_one.connect() as connection:
            make(connection)
    except CutShort:
        return True
    finally:
        event.remove(one_by_one, "after_cursor_execute", carried_out)
    return False


def drop_all(engine):
    with engine.begin() as connection:
        tables.metadata.drop_all(connection)
        connection.execute(text(f"DROP TABLE IF EXISTS {migrations.VERSION_TABLE}"))


@pytest.mark.parametrize("make", [migrations.upgrade, tables.create], ids=["migrations", "tables.create"])
def test_what_was_cut_short_at_any_step_is_completed(empty, make):
    number = 1
    while cut_at(empty, number, make):
        with empty.begin() as connection:
            (migrations.upgrade if number % 3 else make)(connection)
            assert differences(connection) == [], number
        drop_all(empty)
        number += 1
    assert number > 8


@pytest.mark.parametrize("lacking", ["regulus_inbox", "regulus_watermark"])
def test_migrations_make_what_an_earlier_call_did_not_come_to(empty, lacking):
    with empty.begin() as connection:
        tables.create(connection)
        tables.metadata.tables[lacking].drop(connection)
    with empty.begin() as connection:
        migrations.upgrade(connection)
        assert differences(connection) == []


@pytest.mark.parametrize("make", [migrations.upgrade, tables.create], ids=["migrations", "tables.create"])
def test_an_index_that_a_table_lacks_is_made(empty, make):
    with empty.begin() as connection:
        make(connection)
        next(index for index in tables.stubs.indexes if index.name == "regulus_stub_time").drop(connection)
    with empty.begin() as connection:
        migrations.upgrade(connection)
        assert differences(connection) == []


def test_an_older_table_is_refused_and_nothing_is_made_next_to_it(empty):
    with empty.begin() as connection:
        tables.create(connection)
        tables.alarms.drop(connection)
        connection.execute(text("ALTER TABLE regulus_stub DROP COLUMN first_send_time"))
    with empty.begin() as connection, pytest.raises(ReliabilityRefused, match="has no column first_send_time"):
        tables.create(connection)
    assert not inspect(empty).has_table("regulus_alarm")
    with empty.begin() as connection, pytest.raises(ReliabilityRefused, match="has no column first_send_time"):
        migrations.upgrade(connection)


def test_a_table_that_went_since_its_version_was_written_down_is_told(empty):
    with empty.begin() as connection:
        migrations.upgrade(connection)
        tables.alarms.drop(connection)
    with empty.begin() as connection, pytest.raises(ReliabilityRefused, match="no table regulus_alarm"):
        migrations.upgrade(connection)


def test_tables_made_by_the_metadata_are_up_to_date(empty):
    with empty.begin() as connection:
        tables.create(connection)
        migrations.upgrade(connection)
        assert differences(connection) == []
    with empty.begin() as connection:
        assert migrations.upgrade(connection) == (HEAD, HEAD)


@pytest.mark.parametrize("make", [migrations.upgrade, tables.create], ids=["migrations", "tables.create"])
def test_pages_of_stubs_keep_room_in_postgresql(empty, make):
    if empty.dialect.name != "postgresql":
        pytest.skip("its pages alone are filled by a setting of the table")
    with empty.begin() as connection:
        make(connection)
        [options] = connection.execute(text("SELECT reloptions FROM pg_class WHERE relname = 'regulus_stub'")).one()
    assert options == [f"fillfactor={tables.STUB_FILL_PERCENT}"]


def test_what_is_rolled_back_leaves_the_database_as_it_was(empty):
    """SQLite's driver begins a transaction only where data changes; MySQL and MariaDB make tables without one."""
    if empty.dialect.name not in ("sqlite", "postgresql"):
        pytest.skip("tables are made at once")
    with empty.connect() as connection, connection.begin() as transaction:
        connection.exec_driver_sql("BEGIN") if empty.dialect.name == "sqlite" else None
        migrations.upgrade(connection)
        transaction.rollback()
    assert not [name for name in inspect(empty).get_table_names() if name.startswith("regulus")]
