"""The tables of an outbox as Spark reads them, by the address that SQLAlchemy connects to.

PostgreSQL, MySQL and MariaDB are read by Spark's JDBC reader in parts of as many rows each, cut where an index has
them: stubs crowd in the hours of much business, so that equal stretches of time would be one part with nearly all. A
SQLite file is read by one task. A password goes to the driver alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Table,
    and_,
    column,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.exc import SQLAlchemyError

from regulus.errors import JobRefused
from regulus.pipeline.tables.jdbc import PARTITIONS_MAX
from regulus.pipeline.tables.outside import OutsideTable
from regulus.reliability import tables

if TYPE_CHECKING:
    from sqlalchemy import URL

_KINDS = ("sqlite", "postgresql", "mysql", "mariadb")
PART_ROWS = 50_000
"""A part has at least as many, where there are so many."""

_CUT_BY: Mapping[str, Column[Any]] = MappingProxyType({each.table.name: each for each in (
    tables.stubs.c.create_time, tables.attempts.c.attempt_id, tables.message_log.c.message_id,
    tables.confirmations.c.message_id)})
"""The first of an index, which has no nulls. Others have few rows and are read in one piece."""


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
        frame = self._table(table).read(spark, {name: name for name in columns}, where=where, parts=self.parts(table))
        # SQLite keeps truth as a number, of a type that it does not know.
        return frame.withColumn("is_manual", frame["is_manual"].cast("boolean")) if "is_manual" in columns else frame

    def parts(self, table: Table) -> tuple[str, ...]:
        """Conditions in this database's SQL, of which each row meets one, whatever is written meanwhile; none where the
        table is read in one piece. Raises JobRefused when it cannot be read."""
        cut_by = _CUT_BY.get(table.name)
        if cut_by is None or self.engine.dialect.name == "sqlite":
            return ()
        try:
            with self.engine.connect() as connection:
                ends = _ends(connection, cut_by)
        except SQLAlchemyError as error:
            raise JobRefused(f"{self.name}: {table.name} cannot be read: {error}") from error
        name = column(cut_by.name, cut_by.type)
        lows = [None, *(name >= literal(end, cut_by.type) for end in ends)]
        highs = [*(name < literal(end, cut_by.type) for end in ends), None]
        return tuple(self._said(and_(true(), *(each for each in pair if each is not None)))
                     for pair in zip(lows, highs, strict=True)) if ends else ()

    def _said(self, condition: ColumnElement[bool]) -> str:
        """With its values, for one who takes the text as it is."""
        text = str(condition.compile(dialect=self.engine.dialect, compile_kwargs={"literal_binds": True}))
        return text.replace("%%", "%")

    def _table(self, table: Table) -> OutsideTable:
        url = self.engine.url
        kind = url.get_backend_name()
        if kind not in _KINDS:
            raise JobRefused(f"{self.name}: outboxes are kept in {', '.join(_KINDS)}")
        if kind == "sqlite":
            if url.database in (None, "", ":memory:") or str(url.database).startswith("file:"):
                raise JobRefused(f"{self.name}: Spark reads a SQLite file by its path: sqlite:////path/shop.sqlite")
            return OutsideTable(kind, str(Path(str(url.database)).absolute()), table.name)
        return OutsideTable(kind, _place(kind, url), table.name,
                            password=None if url.password is None else str(url.password))


def _ends(connection: Connection, cut_by: Column[Any]) -> list[Any]:
    """Where parts begin behind the first: values between which there are as many rows, by one walk over the index."""
    count = connection.execute(select(func.count()).select_from(cut_by.table)).scalar_one()
    parts = min(PARTITIONS_MAX, count // PART_ROWS + 1)
    ends: list[Any] = []
    for _ in range(parts - 1):
        on = select(cut_by).order_by(cut_by).limit(1)
        behind = on.where(cut_by >= ends[-1]) if ends else on
        end = connection.execute(behind.offset(count // parts)).scalar_one_or_none()
        if ends and end == ends[-1]:    # more rows than a part has are of one value
            end = connection.execute(on.where(cut_by > end)).scalar_one_or_none()
        if end is None:
            break
        ends.append(end)
    return ends


def _place(kind: str, url: "URL") -> str:
    """As other jobs name databases, without the password."""
    user = f"{quote(url.username, safe='')}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    # PyMySQL's own parameters say nothing of how the database is reached; those that do are looked at.
    given = {name: value for name, value in url.query.items() if kind == "postgresql" or name.startswith("ssl")}
    query = f"?{urlencode(given, doseq=True)}" if given else ""
    return f"{kind}://{user}{url.host or ''}{port}/{url.database or ''}{query}"
