"""Users' tables in a real MariaDB: what holds for any database, and what is its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import mariadb
import pytest
from tests.certificates import make_certificate
from tests.databases import CHECKS, VERDICTS, Check, Database, parts

from regulus.errors import JobRefused
from regulus.pipeline.tables.outside import parse_outside_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = "tell-nobody"


@pytest.fixture(scope="module")
def server() -> Iterator[mariadb.Server]:
    with mariadb.running(PASSWORD) as started:
        yield started


@pytest.fixture
def database(server: mariadb.Server) -> Database:
    return server.database()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_in_mariadb(spark: "SparkSession", database: Database, check: Check) -> None:
    check(spark, database)


def test_an_unsigned_key_is_a_whole_number(spark: "SparkSession", database: Database) -> None:
    largest = 2**64 - 1
    database.fill("large", "id bigint unsigned PRIMARY KEY, state text", [(largest - 1_000_000, None), (largest, None)])
    table = database.table("large")
    assert sorted(key for keys in parts(spark, table, "id") for key in keys) == [largest - 1_000_000, largest]
    assert table.mark("id", "state", [{"key": str(largest), "value": "lost"}]) == 1


def test_a_password_is_looked_for_where_mariadb_looks(spark: "SparkSession", server: mariadb.Server,
                                                      monkeypatch: pytest.MonkeyPatch,
                                                      capfd: pytest.CaptureFixture[str]) -> None:
    database = server.database(mariadb.USER, "mysql")
    server.database().fill("mine", "id bigint", [(1,)])
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    frame = database.table("mine").read(spark, {"key": "id"})
    frame.explain("extended")
    assert frame.collect() == [(1,)]
    assert database.table("mine_verdicts").upsert(VERDICTS, "key", [{"key": "a", "verdict": "lost",
                                                                    "sent_ms": 1}]) == 1
    monkeypatch.setenv("MYSQL_PWD", "another")
    for deed in (lambda: database.table("mine").read(spark, {"key": "id"}),
                 lambda: database.table("mine").mark("id", "id", [])):
        with pytest.raises(JobRefused, match="Access denied") as refused:
            deed()
        assert "another" not in str(refused.value)
    assert PASSWORD not in "".join(capfd.readouterr())


def test_a_table_that_cannot_undo_takes_no_verdicts(spark: "SparkSession", database: Database) -> None:
    database.run("CREATE TABLE old (`key` varchar(20) PRIMARY KEY, verdict text, sent_ms bigint) ENGINE=MyISAM")
    with pytest.raises(JobRefused, match="table old is of MyISAM, which cannot undo what fails in the middle"):
        database.table("old").upsert(VERDICTS, "key", [])


def test_a_text_that_is_too_long_is_not_cut(spark: "SparkSession", database: Database) -> None:
    database.run("DROP TABLE IF EXISTS verdicts")
    (mode,) = database.run("SELECT @@global.sql_mode")
    database.run("SET GLOBAL sql_mode = ''")
    try:
        with pytest.raises(JobRefused, match="Data too long for column 'key'"):
            database.table("verdicts").upsert(VERDICTS, "key", [{"key": "k" * 256, "verdict": "lost", "sent_ms": 1}])
    finally:
        database.run("SET GLOBAL sql_mode = %s", *mode)
    assert database.run("SELECT * FROM verdicts") == []


def test_a_server_is_verified_by_the_certificate_that_is_named(spark: "SparkSession", tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    (tmp_path / "other").mkdir()
    certificate, key = make_certificate(tmp_path)
    other, _ = make_certificate(tmp_path / "other")
    with mariadb.running(PASSWORD, certificate=certificate, key=key) as server:
        address = f"mariadb://{mariadb.USER}@127.0.0.1:{server.port}/shop"
        table = parse_outside_table(f"{address}?ssl_ca={certificate}#verdicts")
        assert table.upsert(VERDICTS, "key", [{"key": "a", "verdict": "lost", "sent_ms": 1}]) == 1
        assert table.read(spark, {"key": "key"}).collect() == [("a",)]
        wrong = parse_outside_table(f"{address}?ssl_ca={other}#verdicts")
        with pytest.raises(JobRefused, match=r"certificate|PKIX"):
            wrong.read(spark, {"key": "key"})
        with pytest.raises(JobRefused, match="certificate"):
            wrong.mark("key", "verdict", [])
        with pytest.raises(JobRefused, match="Access denied"):
            parse_outside_table(f"{address}#verdicts").read(spark, {"key": "key"})
