"""The demo's input is the whole of a public data set."""

import json
from itertools import islice

import pytest

from regulus.cli.demo.flights import FLIGHTS_IN_ALL, FLIGHTS_IN_JANUARY, read_flights


@pytest.mark.once
def test_all_flights_are_read_and_each_has_its_own_id() -> None:
    ids = {flight.flight_id for flight in read_flights()}
    assert len(ids) == FLIGHTS_IN_ALL


def test_without_a_word_those_of_january_are_committed() -> None:
    around = list(islice(read_flights(), FLIGHTS_IN_JANUARY - 1, FLIGHTS_IN_JANUARY + 1))
    assert [json.loads(flight.body)["month"] for flight in around] == ["1", "10"]     # the file's second month


def test_a_flight_is_a_business_event_with_two_keys() -> None:
    first = next(read_flights())
    assert first.keys == "UA1545-20130101T10 N14228"
    assert first.carrier == "UA"
    assert json.loads(first.body)["dep_time"] == "517"


def test_a_cancelled_flight_has_no_departure_time() -> None:
    cancelled = [flight for flight in islice(read_flights(), 2000) if b'"dep_time"' not in flight.body]
    assert len(cancelled) == 12
