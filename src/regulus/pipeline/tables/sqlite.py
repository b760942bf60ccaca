"""Tables of a SQLite file, read by Python's own sqlite3 in one of Spark's tasks, some rows at a time."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regulus.errors import JobRefused

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 4096
KEY_TEXT = "(key as text)"
"""The column that has the key as it is kept, of whatever type, beside the one of its declared type."""

_TYPES = (("INT", "bigint"), ("CHAR", "string"), ("CLOB", "string"), ("TEXT", "string"), ("BLOB", "binary"),
          ("REAL", "double"), ("FLOA", "double"), ("DOUB", "double"))
"""By the words that SQLite itself looks for in a declared type; any other is read as text."""
_LONG_END = 2.0 ** 63


def connect(path: str, *, read_only: bool = False) -> sqlite3.Connection:
    """Raises JobRefused when there is no such file, for SQLite would make one."""
    if not Path(path).is_file():
        raise JobRefused(f"there is no SQLite file {path}")
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode={'ro' if read_only else 'rw'}", uri=True)


def columns_of(path: str, table: str) -> dict[str, str]:
    """Name -> Spark's type. Raises JobRefused when the file or the table cannot be read."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            rows = connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
    except sqlite3.Error as error:
        raise JobRefused(f"{path} cannot be read: {error}") from error
    if not rows:
        raise JobRefused(f"{path} has no table {table!r}")
    return {row[1]: next((kind for word, kind in _TYPES if word in row[2].upper()), "string") for row in rows}


def reader(path: str, table: str, columns: Mapping[str, str], key: str = "",
           where: str | None = None) -> Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    """What Spark's mapInArrow calls; it reads `columns`, name -> Spark's type, and the `key` once more as KEY_TEXT, of
    the rows for which the condition `where` holds."""
    asked = [*columns, key] if key else [*columns]
    condition = "" if where is None else f" WHERE {where}"
    query = f"SELECT {', '.join(map(_quoted, asked))} FROM {_quoted(table)}{condition}"
    names = [*columns, KEY_TEXT] if key else asked
    kinds = [*columns.values(), "string"] if key else [*columns.values()]

    def read(_: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        with closing(connect(path, read_only=True)) as connection:
            cursor = connection.execute(query)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield _batch(rows, names, kinds)

    return read


def _batch(rows: Sequence[Sequence[Any]], names: Sequence[str], kinds: Sequence[str]) -> "pa.RecordBatch":
    import pyarrow as pa

    types = {"bigint": pa.int64(), "double": pa.float64(), "binary": pa.binary(), "string": pa.string()}
    arrays = [pa.array([_value(row[place], kind) for row in rows], types[kind]) for place, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _value(value: Any, kind: str) -> Any:
    """SQLite keeps any type in any column: what does not fit its declaration is read as null, or as text; nothing is
    cut."""
    if value is None or (kind == "binary" and isinstance(value, bytes)):
        return value
    if kind == "string":
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if kind == "binary":
        return str(value).encode()
    if not isinstance(value, int | float):
        return None
    if kind == "double":
        return float(value)
    is_whole = isinstance(value, int) or (value.is_integer() and abs(value) < _LONG_END)
    return int(value) if is_whole else None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
