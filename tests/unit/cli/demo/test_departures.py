"""One flight, one row; a flight that was cancelled has none."""

import json

import pytest
from sqlalchemy import select

from regulus.cli.demo.databases import departure_board, departures
from regulus.cli.demo.departures import FlightCancelled, depart
from regulus.model import message_properties as names
from regulus.model.message import MessageExt

LATE = {"dep_time": "2", "sched_dep_time": "2359", "dep_delay": "3", "carrier": "B6", "flight": "1"}


def message(event: dict[str, str]) -> MessageExt:
    return MessageExt("flights", json.dumps(event).encode(), {names.BUSINESS_ID: "B6-1"})


def test_a_departure_is_a_row_and_a_cancelled_flight_none(tmp_path):
    engine = departure_board(tmp_path)
    with engine.begin() as connection:
        depart(connection, message(LATE))
        cancelled = {name: value for name, value in LATE.items() if name != "dep_time"}
        with pytest.raises(FlightCancelled, match=r"^B61 never left$"):
            depart(connection, message(cancelled))
        rows = connection.execute(select(departures)).all()
    assert [(row.flight_id, row.carrier, row.delay_min) for row in rows] == [("B6-1", "B6", 3)]
    engine.dispose()


def test_a_delay_that_is_not_given_is_counted(tmp_path):
    engine = departure_board(tmp_path)
    with engine.begin() as connection:
        depart(connection, message({"dep_time": "617", "sched_dep_time": "558", "carrier": "B6", "flight": "1"}))
        assert connection.execute(select(departures.c.delay_min)).scalar_one() == 19
    engine.dispose()
