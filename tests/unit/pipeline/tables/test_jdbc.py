"""Tables of databases, read and written, with a real PostgreSQL; MariaDB's turn is in tests/interop."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest

from regulus.errors import JobRefused
from tests.databases import CHECKS, VERDICTS, Database
from tests.frames import small_table
from tests.unit.pipeline import postgresql
from tests.unit.pipeline.test_ledger_page import RUN_TIMEOUT_S, append, order

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    import psycopg

    with postgresql.running() as address:
        yield Database(address, partial(psycopg.connect, address), '"', "timestamptz", "bytea")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_in_postgresql(spark, database, check):
    check(spark, database)


def test_only_the_columns_that_are_used_are_asked_for(spark, database):
    database.fill("zero", "id bigint", [(0,)])
    database.run("CREATE VIEW traps AS SELECT id, 'x' AS state, 1 / id AS trap FROM zero")
    table = database.table("traps")
    assert table.read(spark, {"key": "id"}, "state = 'x'").collect() == [(0, True)]
    with pytest.raises(JobRefused, match="traps cannot be read"):
        table.read(spark, {"key": "trap"})


def test_a_numeric_key_of_any_precision_is_read_as_it_is_written(spark, database):
    database.run("CREATE TABLE free AS SELECT 7::numeric AS id UNION SELECT 7.5")
    keys = [row["key"] for row in database.table("free").read(spark, {"key": "id"}).collect()]
    assert sorted(keys) == ["7", "7.5"]


def test_a_table_in_a_schema_is_read_and_written(spark, database):
    database.run('CREATE SCHEMA "Shop"')
    database.run('CREATE TABLE "Shop"."Stubs" AS SELECT 1 AS id, NULL::text AS state')
    table = database.table("Shop.Stubs")
    assert table.read(spark, {"key": "id"}).collect() == [(1,)]
    assert table.mark("id", "state", [{"key": "1", "value": "lost"}]) == 1
    assert database.run('SELECT * FROM "Shop"."Stubs"') == [(1, "lost")]
    assert database.table("Shop.verdicts").upsert(VERDICTS, "key", [
        {"key": "a", "verdict": "lost", "sent_ms": 1}]) == 1


def test_rows_are_marked_by_a_uuid(spark, database):
    database.fill("u", "id uuid PRIMARY KEY, state text", [("0b1f7e0c-8f3a-4c0b-9d58-0d2c6f1e5a77", None)])
    keys = [row["key"] for row in database.table("u").read(spark, {"key": "id"}).collect()]
    marks = [{"key": key, "value": "lost"} for key in (*keys, keys[0].upper(), "no uuid")]
    assert database.table("u").mark("id", "state", marks) == 1


def test_a_password_is_in_no_text(spark, database, monkeypatch, capfd):
    monkeypatch.setenv("PGPASSWORD", "tell-nobody")
    database.fill("outbox", "id bigint", [(1,)])
    frame = database.table("outbox").read(spark, {"key": "id"})
    frame.explain("extended")
    with pytest.raises(JobRefused) as refused:
        database.table("outbux").read(spark, {"key": "id"})
    table = database.table("outbox")
    texts = (*capfd.readouterr(), str(refused.value), repr(refused.value.__cause__), repr(table), repr(frame))
    assert "outbox" in "".join(texts)
    assert all("tell-nobody" not in text for text in texts)


def test_a_server_that_is_away_is_named_when_verdicts_are_written(spark, database):
    from regulus.pipeline.tables.outside import parse_outside_table

    with pytest.raises(JobRefused, match=r"^postgresql://u@127.0.0.1:1/d: connection failed: .*; no row was changed$"):
        parse_outside_table("postgresql://u@127.0.0.1:1/d#t").mark("id", "state", [])


@pytest.mark.once
def test_the_ledger_takes_effects_from_a_database(database, tmp_path):
    """In a pipeline's process, where Spark is reached by Spark Connect."""
    from regulus.pipeline.report.report import read_tables

    database.run("CREATE TABLE invoices AS SELECT 'order-' || n AS order_id, now() AS created_at "
                 "FROM generate_series(0, 3) AS n")
    append(tmp_path / "store", [order(number) for number in range(6)], {"orders": 6})
    subprocess.run(
        [sys.executable, "-m", "regulus.cli.main", "pipeline", "run", "--store", tmp_path / "store", "--topic",
         "orders", "--group", "billing", "--storage", tmp_path / "ledger", "--effects", f"{database.address}#invoices",
         "--effects-key", "order_id", "--effects-time", "created_at"],
        check=True, timeout=RUN_TIMEOUT_S, cwd=tmp_path, env={**os.environ, "PGPASSWORD": "tell-nobody"})
    (total,) = read_tables(tmp_path / "ledger", ["ledger_total"])["ledger_total"]
    assert (total["sent"], total["applied"], total["lost"]) == (6, 4, 2)
    texts = {path: path.read_bytes() for path in (tmp_path / "ledger").rglob("*") if path.is_file()}
    assert texts
    assert [path for path, text in texts.items() if b"tell-nobody" in text] == []


def test_a_driver_that_cannot_be_fetched_is_named_with_the_mend(spark):
    from regulus.pipeline.tables.jdbc import Driver, JdbcTable

    driver = Driver(name="org.nowhere.Driver", package="org.postgresql:postgresql:0", password="PGPASSWORD")
    table = JdbcTable(name="t", url="jdbc:nowhere:t", table="t", options={}, driver=driver)
    with pytest.raises(JobRefused, match=r"cannot fetch org.postgresql:postgresql:0 from Maven: give it the jar, as "
                                         r"spark.jars in \$SPARK_CONF_DIR/spark-defaults.conf"):
        table.read(spark, "id")


def test_a_url_of_a_known_database_names_the_address_that_brings_its_driver():
    from regulus.pipeline.tables.jdbc import _simpler

    assert _simpler("jdbc:mysql://h/d") == "; or write mysql://user@host/database#table, whose driver is fetched"
    assert _simpler("jdbc:oracle:thin:/@h:1521/d") == ""


def test_a_table_behind_any_driver_is_cut_too(spark, tmp_path):
    """Of Derby, whose driver comes with Spark."""
    from regulus.pipeline.tables.outside import lacks_zone, parse_outside_table
    from tests.databases import parts

    place = f"jdbc:derby:{tmp_path}/shop"
    rows = small_table(spark, [(number * 1000,) for number in range(1000)], "id bigint")
    rows.selectExpr("id", "TIMESTAMP '2026-01-01 00:00:00' AS at").write.jdbc(f"{place};create=true", "effects")
    found = parts(spark, parse_outside_table(f"{place}#effects?numPartitions=4"), "id")
    assert [len(keys) for keys in found] == [250] * 4
    frame = parse_outside_table(f"{place}#effects").read(spark, {"key": "id", "at": "at"})
    assert frame.where(lacks_zone(frame, "at")).count() == 1000


@pytest.mark.parametrize(("address", "reason"), [
    ("postgresql://u@h/d?host=other#t", "Spark's driver does not know host: write host, port and database"),
    ("postgresql:///d#t", "write postgresql://user@host/database"),
    ("postgresql://h#t", "write postgresql://user@host/database"),
    ("mysql://h/d?sslmode=require#t", "sslmode cannot be given here; ssl_ca=/path/ca.pem can"),
    ("jdbc:derby:/x#t?driver=org.nowhere.Driver", r"t cannot be read: org.nowhere.Driver"),
    ("jdbc:nowhere:/x#t", "Spark has no driver for jdbc:nowhere:/x#t: give it the jar"),
])
def test_an_address_that_cannot_be_read_says_why(spark, address, reason):
    from regulus.pipeline.tables.outside import parse_outside_table

    with pytest.raises(JobRefused, match=reason):
        parse_outside_table(address).read(spark, {"key": "id"})
