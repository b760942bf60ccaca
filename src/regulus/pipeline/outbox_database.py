"""The tables of an outbox as Spark reads them, by the address that SQLAlchemy connects to.

PostgreSQL, MySQL and MariaDB are read by Spark's JDBC reader in parts, cut by a number that each row has; a SQLite file
by one task. A password goes to the driver alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Engine, Table, select

from regulus.errors import JobRefused
from regulus.pipeline.outside_tables import OutsideTable
from regulus.reliability import tables

if TYPE_CHECKING:
    from sqlalchemy import URL

_KINDS = ("sqlite", "postgresql", "mysql", "mariadb")
_CUT_BY: Mapping[str, str] = MappingProxyType({
    tables.stubs.name: "create_time", tables.attempts.name: "attempt_id", tables.message_log.name: "receive_time"})
"""The others are read in one piece: they have no number, or few rows."""


@dataclass(frozen=True, slots=True)
class OutboxDatabase:
    """`engine`: a blocking one, of the database with the tables of the reliability layer."""

    engine: Engine

    @property
    def name(self) -> str:
        return self.engine.url.render_as_string(hide_password=True)

    def check(self, *needed: Table) -> None:
        """Raises ReliabilityRefused for tables that are missing or older; JobRefused for a database that Spark does not
        read."""
        table = self._table(tables.stubs)
        if table.kind != "sqlite":
            table.jdbc()
        with self.engine.connect() as connection:
            tables.check(connection, *needed)

    def now_ms(self) -> int:
        with self.engine.connect() as connection:
            return connection.execute(select(tables.now_ms())).scalar_one()

    def topics(self) -> list[str]:
        """Of the stubs."""
        with self.engine.connect() as connection:
            return sorted(connection.execute(select(tables.stubs.c.topic).distinct()).scalars())

    def groups(self) -> list[str]:
        """That received something."""
        with self.engine.connect() as connection:
            return sorted(connection.execute(select(tables.watermarks.c.consumer_group).distinct()).scalars())

    def read(self, spark: SparkSession, table: Table, columns: Sequence[str], where: str | None = None) -> DataFrame:
        """Raises JobRefused when it cannot be read."""
        frame = self._table(table).read(spark, {name: name for name in columns}, where=where)
        # SQLite keeps truth as a number, of a type that it does not know.
        return frame.withColumn("is_manual", frame["is_manual"].cast("boolean")) if "is_manual" in columns else frame

    def _table(self, table: Table) -> OutsideTable:
        url, cut_by = self.engine.url, _CUT_BY.get(table.name)
        kind = url.get_backend_name()
        if kind not in _KINDS:
            raise JobRefused(f"{self.name}: outboxes are kept in {', '.join(_KINDS)}")
        if kind == "sqlite":
            if url.database in (None, "", ":memory:") or str(url.database).startswith("file:"):
                raise JobRefused(f"{self.name}: Spark reads a SQLite file by its path: sqlite:////path/shop.sqlite")
            return OutsideTable(kind, str(Path(str(url.database)).absolute()), table.name)
        return OutsideTable(kind, _place(kind, url), table.name, {"partitionColumn": cut_by} if cut_by else {},
                            None if url.password is None else str(url.password))


def _place(kind: str, url: "URL") -> str:
    """As other jobs name databases, without the password."""
    user = f"{quote(url.username, safe='')}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    # PyMySQL's own parameters say nothing of how the database is reached; those that do are looked at.
    given = {name: value for name, value in url.query.items() if kind == "postgresql" or name.startswith("ssl")}
    query = f"?{urlencode(given, doseq=True)}" if given else ""
    return f"{kind}://{user}{url.host or ''}{port}/{url.database or ''}{query}"
