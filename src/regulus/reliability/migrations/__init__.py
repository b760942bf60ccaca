"""The tables by Alembic, one module a version.

A business with an Alembic of its own may have its migrations made from `regulus.reliability.tables.metadata` instead.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from regulus.reliability import tables

VERSION_TABLE = "regulus_version"


def upgrade(connection: Connection) -> tuple[str | None, str]:
    """Bring the tables of the database up to date; the version before, and now. In one transaction where the database
    has them for tables. Raises ReliabilityRefused when the result is not what this version needs.

    `tables.create` notes no version. The steps of the first one leave its tables and indexes as they are."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    before = _version(connection)
    command.upgrade(config, "head")
    tables.create_indexes(connection)       # those that went since a version was noted
    tables.check(connection, *tables.metadata.sorted_tables)
    now = _version(connection)
    assert now is not None
    return before, now


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
