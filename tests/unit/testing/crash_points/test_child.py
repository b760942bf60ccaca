"""A child is killed where it should be, or the report says how far it came."""

import pytest

from regulus.errors import CrashPointMissed
from regulus.testing.crash_points import held_at, kill_at, named, run
from tests.unit.reliability.shop import booked, place_orders, stub

from . import shop_work


@pytest.fixture
def database(engine):
    return str(engine.url)


def test_it_is_killed_at_the_point_and_the_report_says_what_came_before(engine, database):
    killed = kill_at(named("during P1"), shop_work.place, database, "1")
    assert killed.passed == ("before P1",)
    assert str(killed) == "killed during P1 (business and stub are written, and not committed), behind before P1"
    run(shop_work.place, database, "1")     # nothing of it was committed
    assert stub(engine, "1").status == "UNCONFIRMED"


def test_the_pass_of_one_message_is_told_from_others(engine, database):
    kill_at(named("after P1"), shop_work.place, database, "1", "2", "3", message_id="2")
    assert [stub(engine, each).message_id for each in "12"] == ["1", "2"]
    run(shop_work.place, database, "3")


def test_the_second_pass_is_told_from_the_first(database):
    killed = kill_at(named("before P1"), shop_work.place, database, "1", "2", times=2)
    assert killed.passed == ("before P1", "during P1", "after P1")


def test_one_that_does_not_come_to_its_point_proves_nothing(database):
    with pytest.raises(CrashPointMissed, match=r"did not come to its end before P3 \(the producer is called\): it "
                                               r"ended before; it passed before P1, during P1, after P1"):
        kill_at(named("before P3"), shop_work.place, database, "1")


def test_one_that_fails_tells_its_traceback(database):
    with pytest.raises(CrashPointMissed, match=r"did not come to its end before P3(.|\n)*ValueError: no stock"):
        kill_at(named("before P3"), shop_work.fail, database)
    with pytest.raises(CrashPointMissed, match=r"did not do its work(.|\n)*ValueError: no stock"):
        run(shop_work.fail, database)


def test_one_that_hangs_is_ended(database):
    with pytest.raises(CrashPointMissed, match="it hung, or ended with -9; it passed no point"):
        run(shop_work.hang, database, timeout_s=1)


def test_one_is_held_until_it_may_go_on(engine, database):
    place_orders(engine, "1")
    with held_at(named("after C3"), shop_work.apply, database, "1") as held:
        assert booked(engine) == []
        held.let_go()
        held.join()
    assert booked(engine) == ["1"]


def test_one_that_is_not_let_go_is_killed(engine, database):
    place_orders(engine, "1")
    with held_at(named("during C5"), shop_work.apply, database, "1"):
        pass
    assert (booked(engine), stub(engine, "1").status) == ([], "UNCONFIRMED")
    run(shop_work.apply, database, "1")
    assert booked(engine) == ["1"]


def test_one_that_is_never_held_is_told(database):
    with pytest.raises(CrashPointMissed, match="did not come to its end after C3"), \
            held_at(named("after C3"), shop_work.place, database, "1"):
        pass
