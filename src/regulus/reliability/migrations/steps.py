"""Steps of migrations that skip what already exists.

MySQL and MariaDB commit each step at once: a migration that was interrupted, as `tables.create` may be, has done a part
of its steps when it is started again.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

_TRANSACTIONAL: dict[str, Any] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}
"""The default engine may be one without rollback."""


def create_table(name: str, *columns: sa.schema.SchemaItem) -> None:
    if not _found().has_table(name):
        op.create_table(name, *columns, **_TRANSACTIONAL)


def create_index(name: str, table: str, columns: Sequence[str], **where: Any) -> None:
    if name not in _indexes(table):
        op.create_index(name, table, columns, **where)


def drop_index(name: str, table: str) -> None:
    if name in _indexes(table):
        op.drop_index(name, table)


def add_column(table: str, column: sa.Column[object]) -> None:
    if column.name not in {each["name"] for each in _found().get_columns(table)}:
        op.add_column(table, column)


def _indexes(table: str) -> set[str | None]:
    return {each["name"] for each in _found().get_indexes(table)}


def _found() -> sa.Inspector:
    """A new inspector, because an inspector caches what it has read."""
    return sa.inspect(op.get_bind())
