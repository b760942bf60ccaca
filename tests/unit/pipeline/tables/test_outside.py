"""What a user's own table is called, and its times; databases have tests of their own."""

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from regulus.errors import JobRefused
from tests.frames import small_table

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
BORN_MS = 1_767_225_600_000
BORN = datetime.fromtimestamp(BORN_MS / 1000, UTC)


@pytest.fixture
def board(tmp_path: Path) -> Path:
    path = tmp_path / "board.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE effects(id TEXT PRIMARY KEY, at_ms INTEGER, at TEXT, price REAL, raw BLOB, "
                           "state TEXT) WITHOUT ROWID")
        connection.execute("INSERT INTO effects VALUES ('a', ?, '2026-01-01T00:00:00Z', 1.5, x'00ff', NULL), "
                           "('b', NULL, 'soon', 2, NULL, NULL)", (BORN_MS,))
        connection.commit()
    return path


@pytest.mark.parametrize("column", ["at_ms", "at"])
def test_times_are_ms_or_iso_8601_and_null_where_they_are_neither(spark, board, column):
    from regulus.pipeline.tables.outside import parse_outside_table, read_keys

    frame = read_keys(spark, parse_outside_table(f"sqlite:{board}#effects"), "id", column, "applied_time")
    times = {row["key"]: row["applied_time"] for row in frame.collect()}
    assert times["a"].astimezone(UTC) == BORN
    assert times["b"] is None


ZONES = [("2026-01-01T00:00:00Z", False, 0), ("2026-01-01 00:00:00", True, -3_600_000),
         ("2026-01-01", True, -3_600_000), ("2026-01-01T00:00:00.5", True, -3_599_500),
         ("2026-01-01T02:00:00+02:00", False, 0), ("2025-12-31 19:00:00 America/New_York", False, 0),
         (str(BORN_MS), False, 0), ("soon", False, None),
         (None, False, None)]


@pytest.mark.parametrize("kind", ["string", "timestamp_ntz", "date"])
def test_a_time_that_does_not_say_its_zone_is_told_and_read_in_the_one_that_is_given(spark, kind):
    from regulus.pipeline.tables.outside import as_time, lacks_zone

    texts = ZONES if kind == "string" else [ZONES[1], ZONES[8]]
    frame = small_table(spark, [(place, text) for place, (text, _, _) in enumerate(texts)], "n int, at string")
    frame = frame.selectExpr("n", f"CAST(at AS {kind}) AS at")
    found = frame.select(lacks_zone(frame, "at"), as_time(frame, "at", "Europe/Paris"), as_time(frame, "at")).collect()
    for (text, lacks, shift), (told, time, in_utc) in zip(texts, found, strict=True):
        assert told == lacks, text
        assert (None if time is None else round(time.timestamp() * 1000) - BORN_MS) == shift, text
        utc = shift if not lacks or shift is None else shift + 3_600_000
        assert (None if in_utc is None else round(in_utc.timestamp() * 1000) - BORN_MS) == utc, text


@pytest.mark.parametrize(("zone", "hint"), [
    ("Europe/Berln", "did you mean Europe/Berlin"), ("Nowhere", "write UTC"), ("", "write UTC"),
    ("+99:00", "write UTC")])
def test_a_zone_that_is_none_is_refused_by_its_name(spark, zone, hint):
    from regulus.pipeline.tables.outside import as_time

    frame = small_table(spark, [("2026-01-01 00:00:00",)], "at string")
    with pytest.raises(JobRefused, match=rf"^{re.escape(repr(zone))} is no time zone: {hint}"):
        as_time(frame, "at", zone)
    for known in ("UTC", "+01:00", "Europe/Berlin"):
        as_time(frame, "at", known)


def test_a_condition_tells_rows_by_columns_that_are_not_asked_for(spark, board):
    from regulus.pipeline.tables.outside import parse_outside_table

    rows = parse_outside_table(f"sqlite:{board}#effects").read(spark, {"key": "id"}, "price > 1.6 OR state = 'x'")
    assert sorted(map(tuple, rows.collect())) == [("a", False), ("b", True)]


def test_parquet_and_tables_that_spark_knows_are_read(spark, tmp_path):
    from regulus.pipeline.tables.outside import parse_outside_table

    small_table(spark, [("a", 1)], "id string, n int").write.parquet(str(tmp_path / "effects"))
    assert parse_outside_table(f"parquet:{tmp_path}/effects").read(spark, {"key": "id"}).first()["key"] == "a"
    small_table(spark, [("b",)], "id string").createOrReplaceTempView("known_effects")
    assert parse_outside_table("table:known_effects").read(spark, {"key": "id"}).first()["key"] == "b"


def test_a_table_behind_a_jdbc_driver_is_read(spark, tmp_path):
    """Of Derby, whose driver comes with Spark."""
    from regulus.pipeline.tables.outside import parse_outside_table, read_keys

    place = f"derby:{tmp_path}/shop"
    rows = small_table(spark, [("a", BORN_MS), ("b", None)], "id string, at_ms bigint")
    rows.write.jdbc(f"jdbc:{place};create=true", "effects")
    table = parse_outside_table(f"jdbc:{place}#effects")
    frame = read_keys(spark, table, "id", "at_ms", "applied_time")
    times = {row["key"]: row["applied_time"] for row in frame.collect()}
    assert times["a"].astimezone(UTC) == BORN
    assert times["b"] is None
    with pytest.raises(JobRefused, match="has no column 'ident'"):
        table.read(spark, {"key": "ident"})


@pytest.mark.parametrize(("text", "reason"), [
    ("board.sqlite", "is no table: write sqlite:/path#table"),
    ("sqlite:/nowhere.sqlite#t", "there is no SQLite file /nowhere.sqlite"),
    ("postgresql://u:secret@h/d#t", "a password or other secret in a table's address would be logged"),
    ("postgresql://h/d?user=u&password=secret#t", "set PGPASSWORD"),
    ("jdbc:postgresql://h:5432/d?user=u&password=secret#t", "write table:name"),
    ("jdbc:mysql://u:secret@h:3306/d#t", "would be logged"),
    ("jdbc:sqlserver://h:1433;databaseName=d;user=u;PWD=secret#t", "would be logged"),
    ("jdbc:oracle:thin:u/secret@h:1521/d#t", "would be logged"),
    ("postgresql://u@h/d#t?password=secret", "would be logged"),
    ("postgresql://u@h/d#t?sslpassword=secret", "would be logged"),
    ("postgresql://u@h/d?pass%77ord=secret#t", "would be logged"),
    ("jdbc:sqlserver://h;accessToken=secret#t", "would be logged"),
    ("jdbc:sqlserver://h;trustStorePassword = secret#t", "would be logged"),
    ("postgrsql://u:secret@h/d#t", "would be logged"),
    ("mariadb://u:secret@h/d#t", "set MYSQL_PWD"),
    ("mysql://u@h/d#t?lowerBound=1", "lowerBound is no option of a table"),
    ("jdbc:nowhere:/x#t", r"^Spark has no driver for jdbc:nowhere:/x#t: give it the jar, as spark.jars in .*conf$"),
    ("postgresql://u@127.0.0.1:1/d#t", r"d#t cannot be read: Connection to 127.0.0.1:1 refused"),
])
def test_what_is_no_table_is_refused_in_a_sentence(spark, text, reason):
    from regulus.pipeline.tables.outside import parse_outside_table

    with pytest.raises(JobRefused, match=reason):
        parse_outside_table(text).read(spark, {"key": "id"})


@pytest.mark.parametrize("text", [
    "jdbc:postgresql://h:5432/d?user=u&passfile=/home/u/.pgpass#t", "jdbc:derby:;databaseName=/tmp/x;create=true#t",
    "jdbc:oracle:thin:/@h:1521/d#t", "jdbc:postgresql://h:5432/d?user=me@server#t",
    "jdbc:sqlserver://h:1433;databaseName=d#dbo.t", "postgresql://u@h:5432/d#s.t",
])
def test_an_address_without_a_password_is_a_table(text):
    from regulus.pipeline.tables.outside import parse_outside_table

    table = parse_outside_table(text)
    assert f"#{table.table}" in text
    assert table.place in text


def test_a_missing_table_or_column_is_named(spark, board):
    from regulus.pipeline.tables.outside import parse_outside_table

    with pytest.raises(JobRefused, match="has no table 'efects'"):
        parse_outside_table(f"sqlite:{board}#efects").read(spark, {"key": "id"})
    with pytest.raises(JobRefused, match="has no column 'ident'; it has id, at_ms"):
        parse_outside_table(f"sqlite:{board}#effects").read(spark, {"key": "ident"})


def test_a_table_that_can_only_be_read_is_not_written(spark):
    from regulus.pipeline.tables.outside import parse_outside_table

    with pytest.raises(JobRefused, match="parquet: tables are only read"):
        parse_outside_table("parquet:/x").upsert({"key": str}, "key", [])
    with pytest.raises(JobRefused, match="jdbc: tables are only read"):
        parse_outside_table("jdbc:derby:/x#t").mark("key", "state", [])
