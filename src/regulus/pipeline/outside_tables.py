"""Tables that are not the log: stubs, inboxes, effects, wherever a user keeps them.

    sqlite:/path/board.sqlite#departures                 a file that SQLite wrote
    postgresql://user@host:5432/shop#outbox              PostgreSQL, through the package psycopg
    jdbc:<url>#<table>                                   whatever Spark has a driver for
    parquet:/path                                        Parquet files
    table:<name>                                         a table or view that Spark knows

SQLite and PostgreSQL are read in Spark's tasks without a JDBC driver, and can be written to: verdicts go into a staging
table of their own and from there by one statement into the table that keeps them, so that a run leaves all or nothing.
A password belongs into PGPASSWORD or ~/.pgpass, or for other databases into Spark's configuration of a catalog whose
tables are named as table:<name>; never into the text, which may be logged.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused
from regulus.spark.extras import require_extra

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("sqlite", "postgresql", "jdbc", "parquet", "table")
BATCH_ROWS = 4096
STAGING_PREFIX = "regulus_staging_"

_SQLITE_TYPES = (("INT", "bigint"), ("CHAR", "string"), ("CLOB", "string"), ("TEXT", "string"), ("BLOB", "binary"),
                 ("REAL", "double"), ("FLOA", "double"), ("DOUB", "double"))
"""By the words that SQLite itself looks for in a declared type; any other is read as text."""

_PASSWORD = re.compile(r"(?i)[?&;:,(](password|pwd|passwd)\s*=|//[^/?;@\s]*:[^/?;@\s]+@|^oracle:.*:[^/:@\s]+/[^/@\s]+@")
"""As a parameter, as in `//user:password@host`, as in Oracle's `user/password@host`."""

_WITHOUT_ZONE = ("date", "timestamp_ntz")
_SAYS_ZONE = r":\d\d(\.\d+)? ?(Z|UTC|GMT|[+-]\d{1,2}(:?\d{2})?|[A-Za-z]+/[A-Za-z_/+-]+)$"
"""Behind a time of day; a date alone ends like an offset."""

_HOW_TO_KEEP_PASSWORDS = {
    "postgresql": "set PGPASSWORD or write ~/.pgpass",
    "jdbc": "let the driver find it elsewhere, as PostgreSQL's does in ~/.pgpass, or give it to a JDBC catalog in "
            "Spark's configuration and write table:name",
}

_POSTGRESQL_TYPES = {"smallint": "bigint", "integer": "bigint", "bigint": "bigint", "real": "double",
                     "double precision": "double", "bytea": "binary", "timestamp with time zone": "timestamp",
                     "timestamp without time zone": "timestamp_ntz"}
_MICROSECONDS = "(extract(epoch FROM {name}) * 1000000)::bigint"
_POSTGRESQL_READS = {"timestamp": _MICROSECONDS, "timestamp_ntz": _MICROSECONDS, "string": "{name}::text"}


@dataclass(frozen=True, slots=True)
class OutsideTable:
    kind: str
    place: str
    table: str = ""

    def read(self, spark: SparkSession, columns: Mapping[str, str], condition: str | None = None) -> DataFrame:
        """The table's columns under new names, new -> old, and with a condition in SQL over the table a column
        `is_chosen`. Raises JobRefused when a column is not there.
        """
        named = [F.col(f"`{old}`").alias(new) for new, old in columns.items()]
        if condition is None:
            return self._load(spark, list(dict.fromkeys(columns.values()))).select(*named)
        frame = self._load(spark, None)
        _check_columns(list(columns.values()), frame.columns, self.table or self.place)
        return frame.select(*named, F.coalesce(F.expr(condition).cast("boolean"), F.lit(False)).alias("is_chosen"))

    def columns(self) -> dict[str, str]:
        """Names and Spark types of a SQLite or PostgreSQL table. Raises JobRefused when there is no such table."""
        if self.kind == "sqlite":
            found = _sqlite_columns(self.place, self.table)
        else:
            with _postgresql(self.place) as connection:
                found = {name: _POSTGRESQL_TYPES.get(kind, "string") for name, kind in connection.execute(
                    "SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute a "
                    "WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped", [self.table])}
        if not found:
            raise JobRefused(f"{self.place} has no table {self.table!r}")
        return found

    def _load(self, spark: SparkSession, wanted: Sequence[str] | None) -> DataFrame:
        """All columns where none are named."""
        if self.kind in ("sqlite", "postgresql"):
            known = self.columns()
            wanted = list(known) if wanted is None else wanted
            _check_columns(wanted, list(known), self.table)
            schema = ", ".join(f"`{name}` {known[name]}" for name in wanted)
            read = _sqlite_reader(self, wanted, known) if self.kind == "sqlite" else _postgresql_reader(self, wanted,
                                                                                                       known)
            return spark.range(1, numPartitions=1).mapInArrow(read, schema)
        if self.kind == "jdbc":
            frame = spark.read.format("jdbc").options(url=f"jdbc:{self.place}", dbtable=self.table).load()
        elif self.kind == "parquet":
            frame = spark.read.parquet(self.place)
        else:
            frame = spark.table(self.table)
        _check_columns(wanted or (), frame.columns, self.table or self.place)
        return frame

    def upsert(self, schema: str, key: str, rows: Iterable[Mapping[str, Any]]) -> int:
        """Insert rows, or renew those that have the same `key`, in one statement; the number of rows.

        `schema`: the columns as both databases take them, `key TEXT, verdict TEXT`; the table is made when it is not
        there. Raises JobRefused when the database cannot be written to or is of another kind.
        """
        names = [part.split()[0] for part in schema.split(",")]
        renewed = ", ".join(f"{name} = excluded.{name}" for name in names if name != key)
        return self._staged(schema, names, rows, (
            f"CREATE TABLE IF NOT EXISTS {_quoted(self.table)} ({schema}, PRIMARY KEY ({key}))",
            (f"INSERT INTO {_quoted(self.table)} ({', '.join(names)}) SELECT {', '.join(names)} FROM {{staging}} "
             f"WHERE true ON CONFLICT ({key}) DO UPDATE SET {renewed}")))

    def mark(self, key: str, column: str, rows: Iterable[Mapping[str, Any]]) -> int:
        """Set `column` of the rows whose `key` is given, in one statement; the number of rows given.

        `rows` have `key` and `value`.
        """
        _check_columns([key, column], list(self.columns()), self.table)
        statement = (f"UPDATE {_quoted(self.table)} SET {_quoted(column)} = s.value FROM {{staging}} AS s "
                     f"WHERE CAST({_quoted(self.table)}.{_quoted(key)} AS TEXT) = s.key")
        return self._staged("key TEXT, value TEXT", ["key", "value"], rows, (statement,))

    def _staged(self, schema: str, names: Sequence[str], rows: Iterable[Mapping[str, Any]],
                statements: Sequence[str]) -> int:
        staging = _quoted(STAGING_PREFIX + self.table.rpartition(".")[2])
        values = ([row[name] for name in names] for row in rows)
        sign = {"sqlite": "?", "postgresql": "%s"}.get(self.kind)
        if sign is None:
            raise JobRefused(f"{self.kind}: tables are only read; verdicts can be kept in sqlite: and postgresql: ones")
        insert = f"INSERT INTO {staging} VALUES ({', '.join([sign] * len(names))})"
        connect = _sqlite if self.kind == "sqlite" else _postgresql
        try:
            with connect(self.place) as connection:
                cursor = connection.cursor()
                cursor.execute(f"CREATE TEMPORARY TABLE {staging} ({schema})")
                count = 0
                while batch := list(islice(values, BATCH_ROWS)):
                    cursor.executemany(insert, batch)
                    count += len(batch)
                for statement in statements:
                    cursor.execute(statement.format(staging=staging))
                cursor.execute(f"DROP TABLE {staging}")
                connection.commit()
        except _database_errors(self.kind) as error:
            raise JobRefused(f"{self.place}: {str(error).strip().splitlines()[0]}; nothing was changed") from error
        return count


def _database_errors(kind: str) -> tuple[type[Exception], ...]:
    if kind == "sqlite":
        return (sqlite3.Error,)
    import psycopg

    return (psycopg.Error,)


def parse_outside_table(text: str) -> OutsideTable:
    """Raises JobRefused when it is not one of the forms that this module knows."""
    kind, _, rest = text.partition(":")
    if kind == "postgres":
        kind = "postgresql"
    place, _, table = rest.rpartition("#")
    if kind == "parquet" and rest:
        return OutsideTable(kind, rest)
    if kind == "table" and rest:
        return OutsideTable(kind, "", rest)
    if kind not in KINDS or not place or not table:
        raise JobRefused(f"{text!r} is no table: write sqlite:/path#table, postgresql://user@host/database#table, "
                         "jdbc:url#table, parquet:/path or table:name")
    if kind in _HOW_TO_KEEP_PASSWORDS and _PASSWORD.search(place):
        raise JobRefused(f"a password in a table's address would be logged: {_HOW_TO_KEEP_PASSWORDS[kind]}")
    if kind == "postgresql":
        place = f"postgresql:{place}"
    return OutsideTable(kind, place, table)


def as_time(frame: DataFrame, name: str, zone: str | None = None) -> Column:
    """A column as a timestamp: a number is ms since 1970, a text is ISO 8601, or null where it is not.

    `zone`: that of times which do not say theirs; the session's, which is UTC in our jobs, when None.
    """
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


def _quoted(name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


# --- SQLite ----------------------------------------------------------------------------------------------------------


def _sqlite(path: str, *, read_only: bool = False) -> "closing[sqlite3.Connection]":
    if not Path(path).is_file():
        raise JobRefused(f"there is no SQLite file {path}")
    address = f"file:{Path(path).absolute()}?mode={'ro' if read_only else 'rw'}"
    return closing(sqlite3.connect(address, uri=True))


def _sqlite_columns(path: str, table: str) -> dict[str, str]:
    try:
        with _sqlite(path, read_only=True) as connection:
            rows = connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
    except sqlite3.Error as error:
        raise JobRefused(f"{path} cannot be read: {error}") from error
    return {row[1]: next((kind for word, kind in _SQLITE_TYPES if word in row[2].upper()), "string") for row in rows}


def _sqlite_reader(table: OutsideTable, wanted: Sequence[str],
                   known: Mapping[str, str]) -> Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    query = f"SELECT {', '.join(map(_quoted, wanted))} FROM {_quoted(table.table)}"
    kinds = [known[name] for name in wanted]
    path = table.place

    def read(_: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        with _sqlite(path, read_only=True) as connection:
            cursor = connection.execute(query)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield _batch(rows, wanted, kinds)

    return read


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


def _postgresql(address: str) -> Any:
    require_extra("postgresql", "a table in PostgreSQL")
    import psycopg

    try:
        return psycopg.connect(address)
    except psycopg.Error as error:
        raise JobRefused(f"{address} cannot be reached: {str(error).strip().splitlines()[0]}") from error


def _postgresql_reader(table: OutsideTable, wanted: Sequence[str],
                       known: Mapping[str, str]) -> Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    kinds = [known[name] for name in wanted]
    reads = [_POSTGRESQL_READS.get(kind, "{name}").format(name=_quoted(name))
             for name, kind in zip(wanted, kinds, strict=True)]
    query = f"SELECT {', '.join(reads)} FROM {_quoted(table.table)}"
    address = table.place

    def read(_: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        # A cursor with a name lives in the server, so that a large table does not have to fit into this process.
        with _postgresql(address) as connection, connection.cursor("regulus") as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield _batch(rows, wanted, kinds)

    return read


def _batch(rows: Sequence[Sequence[Any]], names: Sequence[str], kinds: Sequence[str]) -> "pa.RecordBatch":
    import pyarrow as pa

    types = {"bigint": pa.int64(), "double": pa.float64(), "binary": pa.binary(), "string": pa.string(),
             "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us")}
    arrays = [pa.array([_value(row[place], kind) for row in rows], types[kind]) for place, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _value(value: Any, kind: str) -> Any:
    """SQLite keeps any type in any column: what does not fit its declaration is read as null, or as text."""
    if value is None or (kind == "binary" and isinstance(value, bytes)):
        return value
    if kind == "string":
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if kind == "binary":
        return bytes(value) if isinstance(value, memoryview) else str(value).encode()
    if not isinstance(value, int | float):
        return None
    return float(value) if kind == "double" else int(value)
