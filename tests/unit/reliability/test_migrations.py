"""Databases of earlier versions are brought to what `tables` says, step by step, with what is in them."""

from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import insert, inspect, text

from regulus.errors import ReliabilityRefused
from regulus.reliability import migrations, tables

from .shop import stub

VERSIONS = [f"{number:04}" for number in range(1, 9)]
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


def test_what_is_rolled_back_leaves_the_database_as_it_was(empty):
    """SQLite's driver begins a transaction only where data changes; MySQL and MariaDB make tables without one."""
    if empty.dialect.name not in ("sqlite", "postgresql"):
        pytest.skip("tables are made at once")
    with empty.connect() as connection, connection.begin() as transaction:
        connection.exec_driver_sql("BEGIN") if empty.dialect.name == "sqlite" else None
        migrations.upgrade(connection)
        transaction.rollback()
    assert not [name for name in inspect(empty).get_table_names() if name.startswith("regulus")]
