"""A MariaDB whose machine sets its clocks back: a time of that hour is two moments."""

import threading
import time
from datetime import UTC, datetime, timedelta

import mariadb
import pytest
from sqlalchemy import text
from tests.unit.reliability.conftest import with_empty_tables
from tests.unit.reliability.test_settled import place

from regulus.reliability import tables
from regulus.reliability.settled import settled


def zone_that_is_set_back(at: datetime, *, by: timedelta = timedelta(hours=1)) -> str:
    """The zone as TZ has it: that of Greenwich, and so much ahead of it from half a year before until `at`."""
    wall = at + by
    day = wall.timetuple().tm_yday - 1
    ahead = f"{by // timedelta(hours=1)}:{by // timedelta(minutes=1) % 60:02}"
    return f"LATE0EARLY-{ahead},{(day + 182) % 365}/0,{day}/{wall:%H:%M:%S}"


@pytest.mark.parametrize("by_minutes", [30, 60, 120])
@pytest.mark.parametrize("is_set_back", [False, True])
def test_a_transaction_of_the_hour_that_comes_twice_is_no_younger_than_it_is(is_set_back: bool,
                                                                             by_minutes: int) -> None:
    """Now is in the middle of the time that comes twice: before the clocks are set back, or behind."""
    shift = timedelta(minutes=by_minutes)
    zone = zone_that_is_set_back(datetime.now(UTC) + (-shift / 2 if is_set_back else shift / 2), by=shift)
    with mariadb.running("tell-nobody", zone=zone) as server:
        for engine in with_empty_tables(mariadb.engine_of(server)):
            with engine.connect() as late, late.begin():
                began_ms = time.time() * 1000
                place(late, "late")
                deadline = time.monotonic() + 60
                while True:
                    with engine.connect() as connection:
                        found = settled(connection, tables.stubs)
                    if found.is_held_back:
                        break
                    assert time.monotonic() < deadline
    assert found.unseen == ""
    earlier_ms = by_minutes * 60_000 if is_set_back else 0
    assert abs(found.time_ms + earlier_ms - began_ms) < 60_000


def test_a_server_that_shows_nothing_new_is_not_believed() -> None:
    """InnoDB shows its transactions anew to those who look seldom; a monitor that looks all the time sees old ones."""
    with mariadb.running("tell-nobody") as server:
        for engine in with_empty_tables(mariadb.engine_of(server)):
            stopping = threading.Event()

            def look(engine=engine, stopping=stopping) -> None:
                with engine.connect() as connection:
                    while not stopping.is_set():
                        connection.execute(text("SELECT count(*) FROM information_schema.innodb_trx")).all()

            watching = threading.Thread(target=look)
            watching.start()
            try:
                with engine.connect() as late, late.begin():
                    place(late, "late")
                    with engine.connect() as connection:
                        blind = settled(connection, tables.stubs)
                    stopping.set()
                    watching.join()
                    with engine.connect() as connection:
                        seen = settled(connection, tables.stubs)
            finally:
                stopping.set()
                watching.join()
    assert "somebody looks at innodb_trx so often" in blind.unseen
    assert (seen.is_held_back, seen.unseen) == (True, "")
