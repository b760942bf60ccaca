"""Flights and their messages are committed together, and settled one by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.exc import IntegrityError

from regulus.cli.demo.airports import Airports
from regulus.cli.demo.databases import airports, flights
from regulus.cli.demo.flights import Flight
from regulus.reliability.tables import CONFIRMED, stubs

FLIGHTS = [Flight(f"UA{number}", "UA", "N1", b"{}") for number in range(4)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = airports(tmp_path)
    yield engine
    engine.dispose()


def counts(engine: Engine) -> tuple[int, int]:
    with engine.connect() as connection:
        return (connection.execute(select(func.count()).select_from(flights)).scalar_one(),
                connection.execute(select(func.count()).select_from(stubs)).scalar_one())


def test_flights_and_stubs_are_committed_together_or_not_at_all(engine):
    business = Airports(engine)
    business.commit(FLIGHTS[:2])
    assert counts(engine) == (2, 2)
    with pytest.raises(IntegrityError):
        business.commit(FLIGHTS[1:])
    assert counts(engine) == (2, 2)
    assert business.committed == 2


def test_what_is_confirmed_or_left_to_a_human_is_settled(engine):
    business = Airports(engine)
    business.commit(FLIGHTS)
    assert business.settled() == 0
    became = {"UA0": {"status": CONFIRMED}, "UA1": {"is_manual": True}, "UA2": {"send_count": 1}}
    with engine.begin() as connection:
        for message_id, values in became.items():
            connection.execute(update(stubs).where(stubs.c.message_id == message_id).values(values))
    assert business.settled() == 2
