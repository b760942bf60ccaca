"""Writes to tables of PostgreSQL, MySQL, MariaDB and SQLite, by SQLAlchemy: all rows of a run in one transaction."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from regulus.errors import JobRefused
from regulus.model.java_numbers import LONG_MAX
from regulus.pipeline.tables import sqlite as sqlite_tables
from regulus.pipeline.tables.jdbc import MARIADB, mysql_authority
from regulus.spark.runtime.extras import require_extra

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Engine, Insert, Table
    from sqlalchemy.types import TypeEngine

KINDS = ("sqlite", "postgresql", "mysql", "mariadb")
BATCH_ROWS = 4096
KEY_LENGTH_MAX = 255
"""Characters of a key in a table that is created in MySQL or MariaDB, which need a limit for a unique text."""

_STRICT = "SET sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
"""Without this MySQL and MariaDB may be configured to cut a text that is too long, without an error."""

_IS_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")

_UNSAFE_ENGINES = frozenset({"myisam", "aria", "memory", "csv", "archive"})
"""Engines of MySQL and MariaDB that do not undo a failed transaction."""


def upsert(kind: str, place: str, name: str, columns: Mapping[str, type], key: str,
           rows: Iterable[Mapping[str, Any]]) -> int:
    """Insert rows, or update those that have the same `key`; returns the number of rows. A None keeps the old value.

    `columns`: name -> str or int. The table is created if it does not exist. Raises JobRefused when the database cannot
    be written to, or the table has other columns.
    """
    with _writing(kind, place) as connection:
        from sqlalchemy import inspect

        if inspect(connection).has_table(*_name_and_schema(name)):
            table = _existing(connection, place, name, [*columns])
            _check_unique(connection, table, key)
        else:
            table = _made(connection, name, columns, key)
        statement, count = _renewing(connection.dialect.name, table, [*columns], key), 0
        for batch in _batches(rows):
            connection.execute(statement, batch)
            count += len(batch)
    return count


def mark(kind: str, place: str, name: str, key: str, column: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Set `column` of the rows whose `key` is given; returns the number of rows that were found.

    `rows` have `key` and `value`. Raises JobRefused when the database cannot be written to, or lacks a column.
    """
    with _writing(kind, place) as connection:
        from sqlalchemy import bindparam, update

        table = _existing(connection, place, name, [key, column])
        as_kept = _key_reader(table.c[key], connection.dialect.name)
        statement = update(table).where(_has_key(table.c[key], connection.dialect.name)).values(
            {column: bindparam("its_mark")})
        known = ({"its_key": value, "its_mark": row["value"]} for row in rows
                 if (value := as_kept(row["key"])) is not None)
        return sum(connection.execute(statement, batch).rowcount for batch in _batches(known))


@contextmanager
def _writing(kind: str, place: str) -> "Iterator[Connection]":
    """A transaction that is committed at the end, and rolled back after any error."""
    if kind not in KINDS:
        raise JobRefused(f"{kind}: tables are only read; verdicts can be kept in those of {', '.join(KINDS)}")
    require_extra("sql", f"writing into a table of {kind}")
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with _engine(kind, place).begin() as connection:
            yield connection
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise JobRefused(f"{place}: {said}; no row was changed") from error


def _engine(kind: str, place: str) -> "Engine":
    """An engine that keeps no connections, and shows no values in its errors."""
    from sqlalchemy import URL, NullPool, create_engine, event

    make = partial(create_engine, poolclass=NullPool, hide_parameters=True)
    if kind == "sqlite":
        engine = make("sqlite://", creator=lambda: _begun(sqlite_tables.connect(place)))
        # Python's sqlite3 would begin a transaction only after the statement that creates a table.
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        return engine
    if kind == "postgresql":
        # SQLAlchemy does not accept all forms of addresses that libpq does.
        import psycopg

        return make("postgresql+psycopg://", creator=lambda: psycopg.connect(place))
    parts = urlsplit(place)
    authority = mysql_authority(place)
    try:
        port = parts.port
    except ValueError as error:
        raise JobRefused(f"{place}: verdicts go to one host: write {kind}://user@host:3306/database") from error
    return make(URL.create(
        "mysql+pymysql", username=unquote(parts.username or "") or None, password=os.environ.get(MARIADB.password),
        host=parts.hostname, port=port, database=unquote(parts.path.strip("/")),
        query={"charset": "utf8mb4", "init_command": _STRICT, **({"ssl_ca": authority} if authority else {})}))


def _begun(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.isolation_level = None
    return connection


def _name_and_schema(name: str) -> tuple[str, str | None]:
    schema, _, table = name.rpartition(".")
    return table, schema or None


def _existing(connection: "Connection", place: str, name: str, wanted: Sequence[str]) -> "Table":
    from sqlalchemy import MetaData, Table
    from sqlalchemy.exc import NoSuchTableError

    table_name, schema = _name_and_schema(name)
    try:
        table = Table(table_name, MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)
    except NoSuchTableError as error:
        raise JobRefused(f"{place} has no table {name!r}") from error
    for column in wanted:
        if column not in table.c:
            raise JobRefused(f"table {name} has no column {column!r}; it has {', '.join(table.c.keys())}")
    engine = str(table.kwargs.get("mysql_engine", ""))
    if engine.lower() in _UNSAFE_ENGINES:
        raise JobRefused(f"table {name} is of {engine}, which cannot undo what fails in the middle: make it of InnoDB")
    return table


def _check_unique(connection: "Connection", table: "Table", key: str) -> None:
    """Raises JobRefused if the key is not unique in the table, because MySQL would then add a second row of a key."""
    from sqlalchemy import inspect

    look, where = inspect(connection), (table.name, table.schema)
    unique = [look.get_pk_constraint(*where)["constrained_columns"],
              *(one["column_names"] for one in look.get_unique_constraints(*where)),
              *(one["column_names"] for one in look.get_indexes(*where) if one["unique"])]
    if [key] not in unique:
        raise JobRefused(f"table {table.fullname} may have many rows of one {key!r}: make that column its primary key, "
                         "or name a table that is not there yet")


def _made(connection: "Connection", name: str, columns: Mapping[str, type], key: str) -> "Table":
    from sqlalchemy import BigInteger, Column, MetaData, Table, Text
    from sqlalchemy.dialects.mysql import VARCHAR

    # With the default collation, keys that differ only in case would be equal.
    exact = VARCHAR(KEY_LENGTH_MAX, charset="utf8mb4", collation="utf8mb4_bin")
    kinds: dict[type, TypeEngine[Any]] = {int: BigInteger(), str: Text()}
    table_name, schema = _name_and_schema(name)
    table = Table(table_name, MetaData(), *(
        Column(column, Text().with_variant(exact, "mysql") if column == key else kinds[kind],
               primary_key=column == key)
        for column, kind in columns.items()), schema=schema, mysql_engine="InnoDB")
    table.create(connection)
    return table


def _renewing(dialect: str, table: "Table", columns: Sequence[str], key: str) -> "Insert":
    from sqlalchemy import func
    from sqlalchemy.dialects import mysql, postgresql, sqlite

    others = [name for name in columns if name != key]
    if dialect == "mysql":
        inserted = mysql.insert(table)
        return inserted.on_duplicate_key_update(
            {name: func.coalesce(inserted.inserted[name], table.c[name]) for name in others})
    merged = postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
    return merged.on_conflict_do_update(
        index_elements=[key], set_={name: func.coalesce(merged.excluded[name], table.c[name]) for name in others})


def _has_key(column: "Column[Any]", dialect: str) -> "ColumnElement[bool]":
    from sqlalchemy import String, Text, bindparam, cast
    from sqlalchemy.dialects.mysql import CHAR
    from sqlalchemy.types import NullType

    if isinstance(column.type, NullType):   # SQLite's columns need no type, and can hold values of any type
        return cast(column, Text) == bindparam("its_key")
    same = column == bindparam("its_key")
    if dialect != "mysql" or not isinstance(column.type, String):
        return same
    # The first condition finds the row by an index, but its collation may treat `a` and `A` as equal.
    return same & (cast(column, CHAR(charset="utf8mb4")).collate("utf8mb4_bin") == bindparam("its_key"))


def _key_reader(column: "Column[Any]", dialect: str) -> Callable[[str], Any]:
    """A function from a key's text to the value in the column, or to None if no row can have it.

    With the value, the database finds a row by its index, and does not convert each of its own keys to text.
    """
    from sqlalchemy.types import NullType

    kind = str if isinstance(column.type, NullType) else _python_type(column.type)
    known: dict[type, Callable[[str], Any]] = {str: str, int: int, Decimal: Decimal, UUID: UUID}
    if kind not in known:
        raise JobRefused(f"rows cannot be marked by column {column.name!r} of type {column.type}: name a column of "
                         "texts or whole numbers")
    read, bits = known[kind], _bits(column.type, dialect)
    if dialect == "sqlite" and kind is int:
        return _as_sqlite_keeps_it

    def value(text: str) -> Any:
        try:
            found = read(text)
        except (ValueError, InvalidOperation):
            return None
        is_too_large = kind is int and found.bit_length() > bits
        return None if str(found) != text or is_too_large else found

    return value


def _as_sqlite_keeps_it(text: str) -> Any:
    """The value that SQLite stores for a text in a column of whole numbers: a number if the text is one, else the
    text."""
    if not _IS_NUMBER.fullmatch(text):
        return text
    is_whole = text.lstrip("-").isdigit()
    found = int(text) if is_whole else float(text)
    if str(found) != text:
        return None
    # SQLite stores a whole number as one, in whatever form it was written, but only if it has at most 64 bits.
    is_other = is_whole != (found == int(found) and -LONG_MAX - 1 <= found <= LONG_MAX)
    return None if is_other else found


def _python_type(kind: "TypeEngine[Any]") -> type:
    """The Python type of a column; `object` if SQLAlchemy does not know it."""
    try:
        return kind.python_type
    except NotImplementedError:
        return object


def _bits(kind: "TypeEngine[Any]", dialect: str) -> int:
    """Bits of the largest whole number that the database can compare with a column."""
    from sqlalchemy import BigInteger, SmallInteger

    if dialect == "postgresql":
        return 15 if isinstance(kind, SmallInteger) else 63 if isinstance(kind, BigInteger) else 31
    return 63 if dialect == "sqlite" else 64


def _batches(rows: Iterable[Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    rest = iter(rows)
    while batch := [dict(row) for row in islice(rest, BATCH_ROWS)]:
        yield batch
