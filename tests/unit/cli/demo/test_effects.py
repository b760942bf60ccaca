"""One flight, one row, however often it is delivered."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from regulus.cli.demo.effects import DepartureBoard

BODY = json.dumps({"dep_time": "2", "sched_dep_time": "2359", "dep_delay": "3", "carrier": "B6"}).encode()


@pytest.fixture
def board(tmp_path: Path) -> Iterator[DepartureBoard]:
    board = DepartureBoard(tmp_path / "board.sqlite")
    yield board
    board.close()


def rows(path: Path) -> list[tuple[str, int, int]]:
    with closing(sqlite3.connect(path / "board.sqlite")) as connection:
        return connection.execute("SELECT flight_id, applied_ms, deliveries FROM departures").fetchall()


def test_a_second_delivery_changes_only_the_count(board: DepartureBoard, tmp_path: Path) -> None:
    board.apply("B6-1", BODY, 1000)
    board.apply("B6-1", BODY, 2000)
    assert rows(tmp_path) == [("B6-1", 1000, 2)]
    assert board.applied_flights() == 1


def test_a_cancelled_flight_is_refused_and_leaves_no_row(board: DepartureBoard, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="dep_time"):
        board.apply("B6-2", json.dumps({"sched_dep_time": "10", "carrier": "B6"}).encode(), 1)
    assert rows(tmp_path) == []
