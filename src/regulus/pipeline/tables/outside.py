"""Tables that are not the log: stubs, inboxes, effects, wherever a user keeps them.

    sqlite:/path/board.sqlite#departures                 a file that SQLite wrote
    postgresql://user@host:5432/shop#outbox              PostgreSQL
    mysql://user@host:3306/shop#outbox                   MySQL or MariaDB, which may be written mariadb:// too
    jdbc:<url>#<table>                                   whatever Spark was given a driver for
    parquet:/path                                        Parquet files
    table:<name>                                         a table or view that Spark knows

Behind the table of a database stand options of Spark's reader and of its driver: `#outbox?partitionColumn=id`.
A password belongs into PGPASSWORD or ~/.pgpass, into MYSQL_PWD, or for other databases into Spark's configuration of a
catalog whose tables are named as table:<name>; never into the text, which may be logged.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl, unquote
from zoneinfo import available_timezones

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused
from regulus.pipeline.tables import jdbc as jdbc_tables
from regulus.pipeline.tables import sql as sql_tables
from regulus.pipeline.tables import sqlite as sqlite_tables

KINDS = ("sqlite", *jdbc_tables.NAMED, "parquet", "table")

_PASSWORD = re.compile(r"//[^/?;@\s]*:[^/?;@\s]+@|(?i:^oracle:.*:[^/:@\s]+/[^/@\s]+@)")
"""As in `//user:password@host`, as in Oracle's `user/password@host`."""
_SECRET = re.compile(r"(?i)[?&;:,(]\s*[\w.-]*((secret|token)[\w.-]*|(password|passwd|pwd|passphrase)\d*)\s*=")
"""A parameter, by how those of drivers are called: sslpassword, accessToken, trustStorePassword, password1."""

_WITHOUT_ZONE = ("date", "timestamp_ntz")
_SAYS_ZONE = r":\d\d(\.\d+)? ?(Z|UTC|GMT|[+-]\d{1,2}(:?\d{2})?|[A-Za-z]+/[A-Za-z_/+-]+)$"
"""Behind a time of day; a date alone ends like an offset."""

_HOW_TO_KEEP_PASSWORDS = {
    "postgresql": "set PGPASSWORD or write ~/.pgpass",
    "mysql": "set MYSQL_PWD",
    "mariadb": "set MYSQL_PWD",
    "jdbc": "let the driver find it elsewhere, as PostgreSQL's does in ~/.pgpass, or give it to a JDBC catalog in "
            "Spark's configuration and write table:name",
}
_WITHOUT_PASSWORDS = ("sqlite", "parquet", "table")
_OTHER_NAMES = {"postgres": "postgresql"}


@dataclass(frozen=True, slots=True)
class OutsideTable:
    """`options`: what stands behind the table of a database. `password`: of PostgreSQL, MySQL or MariaDB, to read it,
    where the environment does not have it."""

    kind: str
    place: str
    table: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    password: str | None = field(default=None, repr=False)

    def read(self, spark: SparkSession, columns: Mapping[str, str], condition: str | None = None,
             where: str | None = None, parts: Sequence[str] = ()) -> DataFrame:
        """The table's columns under new names, new -> old, and with a condition in SQL over the table a column
        `is_chosen`. `where`: the database gives those rows alone. `parts`: see `JdbcTable.read`. Raises JobRefused when
        a column is not there.
        """
        wanted = list(dict.fromkeys(columns.values()))
        frame = self._load(spark, columns.get("key", ""), wanted if condition is None else None, where, parts)
        _check_columns(wanted, frame.columns, self.table or self.place)
        read_as = dict(columns)
        if sqlite_tables.KEY_TEXT in frame.columns:
            read_as["key"] = sqlite_tables.KEY_TEXT
        named = [F.col(f"`{old}`").alias(new) for new, old in read_as.items()]
        if condition is not None:
            named.append(F.coalesce(F.expr(condition).cast("boolean"), F.lit(False)).alias("is_chosen"))
        return frame.select(*named)

    def provide_driver(self, spark: SparkSession) -> None:
        """Have Spark fetch the driver that it needs for `read`, where that cannot. Raises JobRefused."""
        if self.kind in jdbc_tables.NAMED:
            self.jdbc().provide_driver(spark)

    def jdbc(self) -> jdbc_tables.JdbcTable:
        """Of a database that Spark itself reads. Raises JobRefused for an address that its driver does not take."""
        return replace(jdbc_tables.NAMED[self.kind](self.place, self.table, self.options), password=self.password)

    def _load(self, spark: SparkSession, key: str, wanted: Sequence[str] | None, where: str | None,
              parts: Sequence[str]) -> DataFrame:
        """All columns where none are named, and where Spark itself reads no more of them than are used."""
        if self.kind in (*jdbc_tables.NAMED, "parquet", "table"):
            frame = self.jdbc().read(spark, key, parts) if self.kind in jdbc_tables.NAMED else (
                spark.read.parquet(self.place) if self.kind == "parquet" else spark.table(self.table))
            return frame if where is None else frame.where(where)
        known = sqlite_tables.columns_of(self.place, self.table)
        wanted = list(known) if wanted is None else wanted
        _check_columns(wanted, list(known), self.table)
        chosen = {name: known[name] for name in wanted}
        texts = {sqlite_tables.KEY_TEXT: "string"} if key else {}
        schema = ", ".join(f"`{name}` {kind}" for name, kind in {**chosen, **texts}.items())
        return spark.range(1, numPartitions=1).mapInArrow(
            sqlite_tables.reader(self.place, self.table, chosen, key, where), schema)

    def upsert(self, columns: Mapping[str, type], key: str, rows: Iterable[Mapping[str, Any]]) -> int:
        """Insert rows, or renew those that have the same `key`, but for what is None; all or none. See sql_tables."""
        return sql_tables.upsert(self.kind, self.place, self.table, columns, key, rows)

    def mark(self, key: str, column: str, rows: Iterable[Mapping[str, Any]]) -> int:
        """Set `column` of the rows whose `key` is given, all or none; the number of rows. See sql_tables."""
        return sql_tables.mark(self.kind, self.place, self.table, key, column, rows)


def parse_outside_table(text: str) -> OutsideTable:
    """Raises JobRefused when it is not one of the forms that this module knows."""
    kind, _, rest = text.partition(":")
    kind = _OTHER_NAMES.get(kind, kind)
    if kind == "parquet" and rest:
        return OutsideTable(kind, rest)
    if kind == "table" and rest:
        return OutsideTable(kind, "", rest)
    # Of a kind that nobody knows, too: it may be misspelt, and the refusal shows the whole text.
    if kind not in _WITHOUT_PASSWORDS and (_PASSWORD.search(rest) or _SECRET.search(unquote(rest))):
        mend = _HOW_TO_KEEP_PASSWORDS.get(kind, "leave it out")
        raise JobRefused(f"a password or other secret in a table's address would be logged: {mend}")
    place, _, table = rest.rpartition("#")
    options = ""
    if kind in jdbc_tables.NAMED:
        place = f"{kind}:{place}" if place else ""
        table, _, options = table.partition("?")
    if kind not in KINDS or not place or not table:
        raise JobRefused(f"{text!r} is no table: write sqlite:/path#table, postgresql://user@host/database#table, "
                         "mysql://user@host/database#table, jdbc:url#table, parquet:/path or table:name")
    given = dict(parse_qsl(options, keep_blank_values=True))
    return OutsideTable(kind, place, table, jdbc_tables.checked_options(given))


def as_time(frame: DataFrame, name: str, zone: str | None = None) -> Column:
    """A column as a timestamp: a number is ms since 1970, a text is ISO 8601, or null where it is not.

    `zone`: that of times which do not say theirs; the session's, which is UTC in our jobs, when None. Raises JobRefused
    for one that Spark does not know.
    """
    if zone is not None:
        _check_zone(frame.sparkSession, zone)
    kind = frame.schema[name].dataType.simpleString()
    column = F.col(name)
    if kind == "timestamp":
        return column
    if kind in _WITHOUT_ZONE:
        return column.cast("timestamp") if zone is None else _in_zone(column.cast("timestamp_ntz").cast("string"), zone)
    if kind != "string":
        return F.timestamp_millis(column.cast("bigint"))
    time = column.try_cast("timestamp")
    if zone is not None:
        time = F.when(column.rlike(_SAYS_ZONE), time).otherwise(_in_zone(column, zone))
    return F.coalesce(F.timestamp_millis(column.try_cast("bigint")), time)


def lacks_zone(frame: DataFrame, name: str) -> Column:
    """Whether a value is a time that does not say its zone."""
    kind = frame.schema[name].dataType.simpleString()
    column = F.col(name)
    if kind in _WITHOUT_ZONE:
        return column.isNotNull()
    if kind != "string":
        return F.lit(False)
    is_time = column.try_cast("bigint").isNull() & column.try_cast("timestamp").isNotNull()
    return F.coalesce(is_time & ~column.rlike(_SAYS_ZONE), F.lit(False))


def _check_zone(spark: SparkSession, zone: str) -> None:
    """With a zone that is none all times would be none."""
    time = F.lit(f"2026-01-01 00:00:00 {zone}").try_cast("timestamp")
    row = spark.range(1).select(time.isNotNull().alias("is_known")).first()
    if not zone.strip() or row is None or not row["is_known"]:
        near = get_close_matches(zone, available_timezones(), n=1)
        hint = f"did you mean {near[0]}?" if near else "write UTC, +01:00 or a name such as Europe/Paris"
        raise JobRefused(f"{zone!r} is no time zone: {hint}")


def _in_zone(text: Column, zone: str) -> Column:
    # A date alone takes a zone no better than with a time behind it.
    with_time = F.when(F.length(text) <= len("2026-01-01"), F.concat(text, F.lit(" 00:00:00"))).otherwise(text)
    return F.concat(with_time, F.lit(f" {zone}")).try_cast("timestamp")


def read_keys(spark: SparkSession, table: OutsideTable, key: str, time: str | None, time_name: str) -> DataFrame:
    """`key string, <time_name> timestamp`, the form of stubs and effects that the steps take."""
    frame = table.read(spark, {"key": key, **({"time": time} if time else {})})
    moment = as_time(frame, "time") if time else F.lit(None).cast("timestamp")
    return frame.select(F.col("key").cast("string").alias("key"), moment.alias(time_name))


def _check_columns(wanted: Sequence[str], known: Sequence[str], table: str) -> None:
    for name in wanted:
        if name not in known:
            raise JobRefused(f"table {table} has no column {name!r}; it has {', '.join(known)}")
