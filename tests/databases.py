"""What holds for users' tables in any database: each check is run with each server that a test can start.

`make` are statements in that server's SQL, for the few things that databases write differently.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from regulus.errors import JobRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from regulus.pipeline.tables.outside import OutsideTable

BORN_MS = 1_767_225_600_000
BORN = datetime.fromtimestamp(BORN_MS / 1000, UTC)
VERDICTS = {"key": str, "verdict": str, "sent_ms": int}


@dataclass(frozen=True, slots=True)
class Database:
    """`connect` gives a DB-API connection. `quote` stands around names, `sign` for a value.

    `moment`, `binary`: the types of an instant and of bytes.
    """

    address: str
    connect: Callable[[], Any]
    quote: str
    moment: str
    binary: str
    sign: str = "%s"

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(statement.replace('"', self.quote).replace("%s", self.sign), values)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
        return rows

    def fill(self, table: str, columns: str, rows: list[tuple[Any, ...]]) -> None:
        self.run(f"DROP TABLE IF EXISTS {table}")
        self.run(f"CREATE TABLE {table} ({columns})")
        signs = ", ".join([self.sign] * len(rows[0]))
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES ({signs})".replace('"', self.quote), rows)
            connection.commit()

    def table(self, name: str) -> "OutsideTable":
        from regulus.pipeline.tables.outside import parse_outside_table

        return parse_outside_table(f"{self.address}#{name}")


def a_table_is_read_with_its_types(spark: "SparkSession", database: Database) -> None:
    from regulus.pipeline.tables.outside import as_time, lacks_zone

    wall = "timestamp" if database.quote == '"' else "datetime"
    database.fill("outbox", f"id bigint PRIMARY KEY, made {database.moment}, wall {wall}, body {database.binary}, "
                            "price numeric(10,2), note text", [
        (7, BORN, datetime(2026, 1, 1), b"\x00\xff", Decimal("1.25"), "o’clock"), (8, None, None, None, None, None)])
    frame = database.table("outbox").read(spark, {name: name for name in ("id", "made", "wall", "body", "price",
                                                                         "note")})
    row, empty = frame.select("*", *(as_time(frame, name, "Europe/Paris").alias(f"{name}_time")
                                     for name in ("made", "wall")),
                              *(lacks_zone(frame, name).alias(f"{name}_lacks") for name in ("made", "wall"))
                              ).orderBy("id").collect()
    assert (row["id"], row["body"], row["price"], row["note"]) == (7, b"\x00\xff", Decimal("1.25"), "o’clock")
    assert row["made_time"].astimezone(UTC) == BORN
    assert row["wall"] == datetime(2026, 1, 1)
    assert row["wall_time"].timestamp() * 1000 == BORN_MS - 3_600_000
    assert (row["made_lacks"], row["wall_lacks"]) == (False, True)
    assert [empty[name] for name in ("made", "wall", "body", "price", "note")] == [None] * 5


def a_key_with_decimals_is_read_as_it_is_written(spark: "SparkSession", database: Database) -> None:
    database.fill("decimals", "id numeric(20,2)", [(Decimal("12345678901234567.50"),), (Decimal("7"),)])
    keys = [row["key"] for row in database.table("decimals").read(spark, {"key": "id"}).collect()]
    assert sorted(keys) == ["12345678901234567.50", "7.00"]


def rows_that_are_not_asked_for_are_not_read(spark: "SparkSession", database: Database) -> None:
    database.fill("few", "id varchar(9), state varchar(9)", [("a", "old"), ("b", "new"), ("c", None)])
    assert database.table("few").read(spark, {"key": "id"}, where="state = 'new'").collect() == [("b",)]


def parts(spark: "SparkSession", table: "OutsideTable", key: str) -> list[list[Any]]:
    """The keys of each of Spark's partitions."""
    from pyspark.sql import functions as F

    frame = table.read(spark, {"key": key})
    found: dict[int, list[Any]] = {}
    for row in frame.select("key", F.spark_partition_id().alias("part")).collect():
        found.setdefault(row["part"], []).append(row["key"])
    return [sorted(keys) for keys in found.values()]


def a_table_is_cut_by_its_whole_numbers(spark: "SparkSession", database: Database) -> None:
    database.fill("large", "id bigint PRIMARY KEY", [(number * 1000,) for number in range(-200, 801)])
    found = parts(spark, database.table("large"), "id")
    assert len(found) == 8
    assert sorted(key for keys in found for key in keys) == [number * 1000 for number in range(-200, 801)]
    assert max(map(len, found)) <= 130      # of 1001
    database.fill("small", "id bigint PRIMARY KEY", [(number,) for number in range(1000)])
    assert len(parts(spark, database.table("small"), "id")) == 1
    database.run("DELETE FROM small")
    assert parts(spark, database.table("small"), "id") == []


def a_table_is_cut_by_the_column_that_is_named(spark: "SparkSession", database: Database) -> None:
    database.fill('"Out Box"', f'"The Key" varchar(20), made {database.moment}', [
        (f"k{number:03}", None if number == 5 else datetime.fromtimestamp(BORN_MS / 1000 + number * 60, UTC))
        for number in range(100)])
    every = [f"k{number:03}" for number in range(100)]
    assert parts(spark, database.table("Out Box"), "The Key") == [every]
    for options, count in (("partitionColumn=made", 8), ("partitionColumn=made&numPartitions=3&fetchsize=7", 3)):
        found = parts(spark, database.table(f"Out Box?{options}"), "The Key")
        assert len(found) == count
        assert sorted(key for keys in found for key in keys) == every
    for column in ("The Key", "mode"):
        with pytest.raises(JobRefused, match=f"by partitionColumn={column}: name one of its columns of whole numbers"):
            database.table(f"Out Box?partitionColumn={column}").read(spark, {"key": "The Key"})


def what_is_not_there_is_named(spark: "SparkSession", database: Database) -> None:
    database.fill("outbox", "id bigint", [(1,)])
    with pytest.raises(JobRefused, match="has no column 'ident'; it has id"):
        database.table("outbox").read(spark, {"key": "ident"})
    with pytest.raises(JobRefused, match=r"outbux cannot be read: .*outbux.* (does not|doesn't) exist"):
        database.table("outbux").read(spark, {"key": "id"})
    with pytest.raises(JobRefused, match="has no table 'outbux'"):
        database.table("outbux").mark("id", "state", [])


def rows_are_inserted_or_renewed(spark: "SparkSession", database: Database) -> None:
    database.run("DROP TABLE IF EXISTS verdicts")
    table = database.table("verdicts")
    rows = [{"key": key, "verdict": "lost", "sent_ms": None} for key in ("a", "A", "é")]
    rows += [{"key": f"k{number}", "verdict": "late", "sent_ms": number} for number in range(5000)]
    assert table.upsert(VERDICTS, "key", rows) == 5003
    assert table.upsert(VERDICTS, "key", [{"key": "a", "verdict": "fine", "sent_ms": BORN_MS}]) == 1
    assert table.upsert(VERDICTS, "key", []) == 0
    assert table.upsert(VERDICTS, "key", [{"key": "k7", "verdict": "late", "sent_ms": None}]) == 1
    found = database.run('SELECT "key", verdict, sent_ms FROM verdicts WHERE verdict <> %s', "late")
    assert sorted(found) == [("A", "lost", None), ("a", "fine", BORN_MS), ("é", "lost", None)]
    assert database.run("SELECT count(*), sum(sent_ms) FROM verdicts WHERE verdict = %s", "late") == [(5000, 12497500)]


def a_failure_in_the_middle_leaves_the_tables_as_they_were(spark: "SparkSession", database: Database) -> None:
    database.fill("stubs", "id bigint PRIMARY KEY, state varchar(20)", [(number, None) for number in range(6000)])
    database.fill("verdicts", '"key" varchar(20) PRIMARY KEY, verdict varchar(20), sent_ms bigint', [("0", "lost", 1)])

    def rows(name: str) -> Iterator[dict[str, object]]:
        for number in range(6000):
            yield {"key": str(number), name: "late", "sent_ms": 2}
            if number == 5000:
                raise RuntimeError("the log could not be read further")

    with pytest.raises(RuntimeError):
        database.table("stubs").mark("id", "state", rows("value"))
    with pytest.raises(RuntimeError):
        database.table("verdicts").upsert(VERDICTS, "key", rows("verdict"))
    assert database.run("SELECT count(*) FROM stubs WHERE state IS NOT NULL") == [(0,)]
    assert database.run("SELECT * FROM verdicts") == [("0", "lost", 1)]


def what_is_refused_in_the_middle_changes_nothing(spark: "SparkSession", database: Database) -> None:
    database.fill("verdicts", '"key" varchar(20) PRIMARY KEY, verdict varchar(20), sent_ms bigint', [("0", "lost", 1)])
    too_long = [{"key": str(number), "verdict": "late" if number < 5000 else "late" * 20, "sent_ms": 2}
                for number in range(5001)]
    with pytest.raises(JobRefused, match=r"(?i)too long.*; no row was changed"):
        database.table("verdicts").upsert(VERDICTS, "key", too_long)
    assert database.run("SELECT * FROM verdicts") == [("0", "lost", 1)]


def rows_are_marked_by_exactly_their_key(spark: "SparkSession", database: Database) -> None:
    database.fill("stubs", "id bigint PRIMARY KEY, state varchar(20)", [(number, None) for number in range(5000)])
    marks = [{"key": key, "value": "lost"} for key in ("7", "008", "no number", "9" * 30, "7.0")]
    assert database.table("stubs").mark("id", "state", marks) == 1
    assert database.run("SELECT id FROM stubs WHERE state = %s", "lost") == [(7,)]
    every = ({"key": str(number), "value": "late"} for number in range(5000))
    assert database.table("stubs").mark("id", "state", every) == 5000
    database.fill("words", "id varchar(20) PRIMARY KEY, state varchar(20)", [("a", None), ("b", "kept")])
    assert database.table("words").mark("id", "state", [{"key": "A", "value": "lost"},
                                                        {"key": "b", "value": "late"}]) == 1
    assert sorted(database.run("SELECT id, state FROM words")) == [("a", None), ("b", "late")]
    with pytest.raises(JobRefused, match="table words has no column 'status'; it has id, state"):
        database.table("words").mark("id", "status", [])
    database.fill("moments", f"made {database.moment}, state varchar(20)", [(BORN, None)])
    with pytest.raises(JobRefused, match="rows cannot be marked by column 'made' of type"):
        database.table("moments").mark("made", "state", [])


def a_table_of_another_shape_takes_no_verdicts(spark: "SparkSession", database: Database) -> None:
    database.fill("verdicts", '"key" varchar(20), verdict varchar(20), sent_ms bigint', [("0", "lost", 1)])
    with pytest.raises(JobRefused, match="table verdicts may have many rows of one 'key': make that column"):
        database.table("verdicts").upsert(VERDICTS, "key", [{"key": "0", "verdict": "late", "sent_ms": 2}])
    database.run('CREATE UNIQUE INDEX one_each ON verdicts ("key")')
    database.table("verdicts").upsert(VERDICTS, "key", [{"key": "0", "verdict": "late", "sent_ms": 2}])
    assert database.run("SELECT * FROM verdicts") == [("0", "late", 2)]
    database.fill("verdicts", '"key" varchar(20) PRIMARY KEY', [("0",)])
    with pytest.raises(JobRefused, match="table verdicts has no column 'verdict'; it has key"):
        database.table("verdicts").upsert(VERDICTS, "key", [])


Check = Callable[["SparkSession", Database], None]
WRITES: list[Check] = [rows_are_inserted_or_renewed, a_failure_in_the_middle_leaves_the_tables_as_they_were,
                       rows_are_marked_by_exactly_their_key, a_table_of_another_shape_takes_no_verdicts]
CHECKS: list[Check] = [
    a_table_is_read_with_its_types, a_key_with_decimals_is_read_as_it_is_written, a_table_is_cut_by_its_whole_numbers,
    rows_that_are_not_asked_for_are_not_read, a_table_is_cut_by_the_column_that_is_named, what_is_not_there_is_named,
    what_is_refused_in_the_middle_changes_nothing, *WRITES]
