"""The tables by Alembic, step by step, so that a database of an earlier version is upgraded in place.

A business that uses Alembic itself may generate its migrations from `regulus.reliability.tables.metadata` instead.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Inspector, inspect

from regulus.reliability import tables

VERSION_TABLE = "regulus_version"
_BROUGHT: tuple[tuple[str, Callable[[Inspector], bool]], ...] = (
    ("0001", lambda found: found.has_table("regulus_stub")),
    ("0002", lambda found: all(map(found.has_table, tables.metadata.tables))),
    ("0003", lambda found: _has_column(found, "regulus_alarm", "due_time")),
    ("0004", lambda found: _columns_of_new(found) is not None),
    ("0005", lambda found: _has_column(found, "regulus_stub", "first_send_time")),
    ("0006", lambda found: _has_column(found, "regulus_inbox", "digest")),
    ("0007", lambda found: found.dialect.name not in ("mysql", "mariadb") or all(
        "utf8mb4_bin" in found.get_table_options(table).values() for table in tables.metadata.tables)),
    ("0008", lambda found: "is_manual" in (_columns_of_new(found) or ())),
)
"""How to recognize the versions of tables made by `tables.create`, which records none. Later steps skip what exists."""


def upgrade(connection: Connection) -> tuple[str | None, str]:
    """Upgrade the tables of the database; returns the version before, and now. Runs in one transaction if the database
    supports that for tables. Raises ReliabilityRefused when the result is not what this version needs."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    before = _version(connection)
    if before is None and (present := _made_without_versions(connection)) is not None:
        command.stamp(config, present)
    command.upgrade(config, "head")
    tables.create_indexes(connection)       # of a table that existed when `tables.create` made the others
    tables.check(connection, *tables.metadata.sorted_tables)
    now = _version(connection)
    assert now is not None
    return before, now


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _made_without_versions(connection: Connection) -> str | None:
    found = inspect(connection)
    made = [version for version, _ in takewhile(lambda brought: brought[1](found), _BROUGHT)]
    return made[-1] if made else None


def _columns_of_new(found: Inspector) -> Sequence[str | None] | None:
    """The columns of the index of new stubs, if it exists."""
    return next((index["column_names"] for index in found.get_indexes("regulus_stub")
                 if index["name"] == "regulus_stub_new"), None)


def _has_column(found: Inspector, table: str, name: str) -> bool:
    return any(column["name"] == name for column in found.get_columns(table))
