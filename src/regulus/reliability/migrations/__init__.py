"""The tables by Alembic, step by step, so that a database of an earlier version is brought up to date in its place.

A business with an Alembic of its own may have its migrations made from `regulus.reliability.tables.metadata` instead.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, inspect

from regulus.reliability import tables

VERSION_TABLE = "regulus_version"
_STUBS_ALONE = "0001"
"""What `tables.create` made before there were migrations."""


def upgrade(connection: Connection) -> tuple[str | None, str]:
    """Bring the tables of the database up to date; the version before, and now. In one transaction where the database
    has them for tables. Raises ReliabilityRefused when the result is not what this version needs."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    before = _version(connection)
    if before is None and (present := _made_without_versions(connection)) is not None:
        command.stamp(config, present)
    command.upgrade(config, "head")
    tables.check(connection, *tables.metadata.sorted_tables)
    now = _version(connection)
    assert now is not None
    return before, now


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _made_without_versions(connection: Connection) -> str | None:
    present = set(inspect(connection).get_table_names())
    if present.issuperset(tables.metadata.tables):
        return "head"
    return _STUBS_ALONE if tables.stubs.name in present else None
