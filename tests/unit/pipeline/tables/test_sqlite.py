"""Tables of a SQLite file, read in a task."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from regulus.errors import JobRefused

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
BORN_MS = 1_767_225_600_000


@pytest.fixture
def board(tmp_path: Path) -> Path:
    path = tmp_path / "a board?#.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE effects(id TEXT, at_ms INTEGER, price REAL, raw BLOB, n, d NUMERIC)")
        connection.executemany("INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?)", [
            ("a", BORN_MS, 1.5, b"\x00\xff", 7, 7.5), (b"b", "soon", 2, "x", "y", "z")])
        connection.commit()
    return path


def test_a_table_is_read_with_its_types(spark, board):
    from regulus.pipeline.tables import sqlite as sqlite_tables

    columns = sqlite_tables.columns_of(str(board), "effects")
    assert columns == {"id": "string", "at_ms": "bigint", "price": "double", "raw": "binary", "n": "string",
                       "d": "string"}
    schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    read = sqlite_tables.reader(str(board), "effects", columns)
    rows = spark.range(1, numPartitions=1).mapInArrow(read, schema).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [("a", BORN_MS, 1.5, bytearray(b"\x00\xff"), "7", "7.5"),
                                            ("b", None, 2.0, bytearray(b"x"), "y", "z")]


def test_a_key_is_read_as_it_is_kept_and_no_number_is_cut(spark, board):
    from regulus.pipeline.tables.outside import parse_outside_table

    with closing(sqlite3.connect(board)) as connection:
        connection.execute("CREATE TABLE stubs(id INTEGER, at_ms INTEGER)")
        connection.executemany("INSERT INTO stubs VALUES (?, ?)", [
            ("A-17", 1), (1.5, 2.5), (7, float("inf")), (None, 3.0), (1e300, 1e300)])
        connection.commit()
    table = parse_outside_table(f"sqlite:{board}#stubs")
    rows = table.read(spark, {"key": "id", "time": "at_ms"}).collect()
    assert [tuple(row) for row in rows] == [("A-17", 1), ("1.5", None), ("7", None), (None, 3), ("1e+300", None)]
    # A condition still speaks of the column as it was declared.
    assert [tuple(row) for row in table.read(spark, {"key": "id"}, "id > 5").collect()] == [
        ("A-17", False), ("1.5", False), ("7", True), (None, False), ("1e+300", False)]


def test_rows_come_some_at_a_time(board):
    from regulus.pipeline.tables import sqlite as sqlite_tables

    with closing(sqlite3.connect(board)) as connection:
        connection.execute("CREATE TABLE many(id INTEGER)")
        connection.executemany("INSERT INTO many VALUES (?)", ((number,) for number in range(10_000)))
        connection.commit()
    some = sqlite_tables.reader(str(board), "many", {"id": "bigint"}, where="id < 3")(iter([]))
    assert [batch.to_pydict() for batch in some] == [{"id": [0, 1, 2]}]
    batches = list(sqlite_tables.reader(str(board), "many", {"id": "bigint"})(iter([])))
    assert [batch.num_rows for batch in batches] == [4096, 4096, 1808]
    assert [number for batch in batches for number in batch["id"].to_pylist()] == list(range(10_000))


def test_what_is_not_there_is_named_and_not_made(board):
    from regulus.pipeline.tables import sqlite as sqlite_tables

    with pytest.raises(JobRefused, match="has no table 'efects'"):
        sqlite_tables.columns_of(str(board), "efects")
    with pytest.raises(JobRefused, match=r"there is no SQLite file .*nowhere.sqlite"):
        sqlite_tables.columns_of(str(board.parent / "nowhere.sqlite"), "effects")
    assert not (board.parent / "nowhere.sqlite").exists()
    board.write_bytes(b"no database at all, but longer than a header of one" * 100)
    with pytest.raises(JobRefused, match="cannot be read: file is not a database"):
        sqlite_tables.columns_of(str(board), "effects")
