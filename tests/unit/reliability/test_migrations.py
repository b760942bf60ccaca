"""Databases of earlier versions are brought to what `tables` says, step by step, with what is in them."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from regulus.reliability import migrations, tables

from .shop import place_orders, stub


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
        assert migrations.upgrade(connection) == (None, "0004")
    with empty.begin() as connection:
        assert differences(connection) == []
        assert migrations.upgrade(connection) == ("0004", "0004")


def test_a_stub_table_made_before_there_were_migrations_keeps_its_stubs(empty):
    with empty.begin() as connection:
        tables.stubs.create(connection)
        for index in tables.stubs.indexes:
            if index.name != "regulus_stub_due":
                index.drop(connection)
    place_orders(empty, "1")
    with empty.begin() as connection:
        migrations.upgrade(connection)
        assert differences(connection) == []
    assert stub(empty, "1").body == b"1"


def test_tables_made_by_the_metadata_are_up_to_date(empty):
    with empty.begin() as connection:
        tables.create(connection)
        migrations.upgrade(connection)
        assert differences(connection) == []
    with empty.begin() as connection:
        assert migrations.upgrade(connection) == ("0004", "0004")


def test_what_is_rolled_back_leaves_the_database_as_it_was(empty):
    """SQLite's driver begins a transaction only where data changes; MySQL and MariaDB make tables without one."""
    if empty.dialect.name not in ("sqlite", "postgresql"):
        pytest.skip("tables are made at once")
    with empty.connect() as connection, connection.begin() as transaction:
        connection.exec_driver_sql("BEGIN") if empty.dialect.name == "sqlite" else None
        migrations.upgrade(connection)
        transaction.rollback()
    assert not [name for name in inspect(empty).get_table_names() if name.startswith("regulus")]
