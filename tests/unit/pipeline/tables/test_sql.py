"""Verdicts in a SQLite file; those in PostgreSQL and MariaDB are in the tests of their tables."""

import sqlite3
import sys
from functools import partial
from pathlib import Path

import pytest

from regulus.errors import JobRefused, MissingExtra
from tests.databases import VERDICTS, WRITES, Database

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    path = tmp_path / "a board?.sqlite"
    path.touch()
    return Database(f"sqlite:{path}", partial(sqlite3.connect, path), '"', "timestamp", "blob", "?")


@pytest.mark.parametrize("check", WRITES, ids=lambda check: check.__name__)
def test_in_sqlite(spark, database, check):
    check(spark, database)


def test_a_failure_leaves_no_table_that_was_made_for_it(database):
    def rows():
        yield {"key": "a", "verdict": "lost", "sent_ms": 1}
        raise RuntimeError("the log could not be read further")

    with pytest.raises(RuntimeError):
        database.table("verdicts").upsert(VERDICTS, "key", rows())
    assert database.run("SELECT name FROM sqlite_master") == []


def test_rows_are_marked_by_a_key_of_any_type(database):
    database.fill("loose", "id, state TEXT", [(7, None), ("7.5", None)])
    assert database.table("loose").mark("id", "state", [{"key": "7", "value": "lost"}, {"key": "7.5",
                                                                                        "value": "late"}]) == 2
    assert database.run("SELECT state FROM loose ORDER BY id") == [("lost",), ("late",)]


def test_a_column_of_whole_numbers_is_marked_where_it_holds_something_else(database):
    database.fill("stubs", "id INTEGER PRIMARY KEY, code INTEGER, state TEXT",
                  [(1, "A-17", None), (2, 1.5, None), (3, 7, None), (4, 1, None)])
    keys = ["A-17", "1.5", "7", "07", "1.0", "1e0", "+1", "9" * 30, "inf"]
    assert database.table("stubs").mark("code", "state", [{"key": key, "value": "lost"} for key in keys]) == 3
    assert database.run("SELECT id FROM stubs WHERE state = 'lost' ORDER BY id") == [(1,), (2,), (3,)]


def test_a_database_that_refuses_is_quoted(database):
    database.fill("stubs", "id TEXT, state TEXT CHECK (state <> 'lost')", [("a", None)])
    with pytest.raises(JobRefused, match=r"board.*: CHECK constraint failed.*; no row was changed"):
        database.table("stubs").mark("id", "state", [{"key": "a", "value": "lost"}])


def test_packages_that_are_missing_are_named(database, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    for deed in (lambda table: table.mark("id", "state", []), lambda table: table.upsert(VERDICTS, "key", [])):
        with pytest.raises(MissingExtra, match=r"needs sqlalchemy, which is not installed: .*\[sql\]"):
            deed(database.table("stubs"))
