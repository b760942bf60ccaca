"""Steps of migrations that skip what already exists.

MySQL and MariaDB commit each step at once: a migration that was interrupted, as `tables.create` may be, has done a part
of its steps when it is started again.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

_EXACT: dict[str, Any] = {f"{name}_{option}": value for name in ("mysql", "mariadb") for option, value in (
    ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))}
"""The default collations take `a` and `A` for the same id, group or topic; the default engine may lack
rollback."""


def create_table(name: str, *columns: sa.schema.SchemaItem, **options: Any) -> None:
    if not _found().has_table(name):
        op.create_table(name, *columns, **_EXACT, **options)


def create_index(name: str, table: str, columns: Sequence[str], **where: Any) -> None:
    if name not in {each["name"] for each in _found().get_indexes(table)}:
        op.create_index(name, table, columns, **where)


def _found() -> sa.Inspector:
    """A new inspector, because an inspector caches what it has read."""
    return sa.inspect(op.get_bind())
