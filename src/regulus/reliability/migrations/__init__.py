"""The tables by Alembic, one module for each version.

A business that uses Alembic itself may generate its migrations from `regulus.reliability.tables.metadata` instead.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from regulus.reliability import tables

VERSION_TABLE = "regulus_version"


def upgrade(connection: Connection) -> tuple[str | None, str]:
    """Upgrade the tables of the database; returns the version before, and now. Runs in one transaction if the database
    supports that for tables. Raises ReliabilityRefused when the result is not what this version needs.

    `tables.create` records no version. The steps of the first one leave its tables and indexes as they are."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    before = _version(connection)
    command.upgrade(config, "head")
    tables.create_indexes(connection)       # those dropped since a version was recorded
    tables.check(connection, *tables.metadata.sorted_tables)
    now = _version(connection)
    assert now is not None
    return before, now


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
