"""Databases of earlier versions are brought to what `tables` says, step by step, with what is in them."""

from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import MetaData, delete, event, insert, inspect, select, text

from regulus.errors import ReliabilityRefused
from regulus.reliability import migrations, tables

from .shop import stub

VERSIONS = [f"{number:04}" for number in range(1, 10)]
OLD_STUB = {"message_id": "1", "topic": "orders", "tags": "", "body": b"1", "properties": "", "flag": 0,
            "status": "UNCONFIRMED", "send_count": 1, "resend_time": 7, "create_time": 5, "is_manual": False,
            "version": 1}


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
        assert migrations.upgrade(connection) == (None, VERSIONS[-1])
    with empty.begin() as connection:
        assert differences(connection) == []
        assert migrations.upgrade(connection) == (VERSIONS[-1], VERSIONS[-1])


def made_at(connection, version):
    """As `tables.create` of that version made them, which wrote no version down."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, version)
    connection.execute(text(f"DROP TABLE {migrations.VERSION_TABLE}"))
    connection.execute(insert(tables.stubs).values(OLD_STUB))


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_of_any_version_that_was_not_written_down_are_brought_up_to_date(empty, version):
    with empty.begin() as connection:
        made_at(connection, version)
    with empty.begin() as connection:
        migrations.upgrade(connection)
        assert differences(connection) == []
    assert stub(empty, "1").body == b"1"


def test_a_stub_that_was_sent_has_its_commit_for_its_first_send(empty):
    with empty.begin() as connection:
        made_at(connection, "0004")
    with empty.begin() as connection:
        migrations.upgrade(connection)
    assert stub(empty, "1").first_send_time == 5


ROW = {"message_id": "1", "consumer_group": "billing", "topic": "orders", "tags": "", "body": b"1", "properties": "",
       "flag": 0, "status": "UNCONFIRMED", "send_count": 1, "resend_time": 7, "create_time": 5, "is_manual": False,
       "version": 1, "broker_name": "broker-a", "queue_id": 3, "queue_offset": 70, "apply_time": 8,
       "reconsume_times": 2, "receive_time": 9, "queue_offset_max": 71, "move_time": 10, "kind": "SEND", "number": 1,
       "begin_time": 11, "end_time": 12, "outcome": "STORED", "action": "RETRY", "operator": "ann",
       "reason": "why", "action_time": 13, "subject": "1", "detail": "d", "raise_time": 14, "open_key": "SEND 1"}
"""What a table's columns are filled with, where it has them."""


def row_of(table):
    return {each.name: ROW[each.name] for each in table.columns if each.name in ROW}


def found_tables(connection):
    found = MetaData()
    found.reflect(connection, only=lambda name, _: name in tables.metadata.tables)
    return found.tables


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_all_tables_outlive_the_migrations_from_any_version(empty, version):
    with empty.begin() as connection:
        made_at(connection, version)
        connection.execute(delete(tables.stubs))
        before = found_tables(connection)
        for table in before.values():
            connection.execute(insert(table).values(row_of(table)))
    with empty.begin() as connection:
        migrations.upgrade(connection)
        for name, table in found_tables(connection).items():
            if name in before:
                [row] = connection.execute(select(table)).mappings()
                expected = row_of(before[name])
                assert {each: row[each] for each in expected} == expected
            connection.execute(delete(table))
            connection.execute(insert(table).values(row_of(table)))


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


def test_an_index_that_a_table_lacks_beside_newer_ones_is_made(empty):
    with empty.begin() as connection:
        tables.create(connection)
        next(index for index in tables.stubs.indexes if index.name == "regulus_stub_time").drop(connection)
    with empty.begin() as connection:
        migrations.upgrade(connection)
        assert differences(connection) == []


def test_beside_an_older_table_nothing_is_made(empty):
    with empty.begin() as connection:
        made_at(connection, "0001")
    with empty.begin() as connection, pytest.raises(ReliabilityRefused, match="has no column first_send_time"):
        tables.create(connection)
    assert not inspect(empty).has_table("regulus_alarm")


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
        assert migrations.upgrade(connection) == (VERSIONS[-1], VERSIONS[-1])


@pytest.mark.parametrize("version", [*VERSIONS, None])
def test_pages_of_stubs_keep_room_in_postgresql(empty, version):
    if empty.dialect.name != "postgresql":
        pytest.skip("its pages alone are filled by a setting of the table")
    with empty.begin() as connection:
        tables.create(connection) if version is None else made_at(connection, version)
        if version is not None:
            migrations.upgrade(connection)
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
