"""A business, its relay and its consumer are killed at each point and started again: what was committed is booked once.

docs/crash_points.md says which window each point shows.
"""

from dataclasses import replace

import pytest

from regulus.reliability import operator, tables
from regulus.testing.crash_points import POINTS, check_once, kill_at, named, of_steps, run

from .deliveries import rows
from .shop import booked, stub
from .worker import BEHIND, finish, orders_with, work

STEPS = of_steps("P1", "P2", "P3", "P4", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "OFFSET")
CLAIMED = ("after C3", "during C5", "before C6", "after C6", "before KEY", "after KEY", "before C8")
FAILING = ("before KEY", "after KEY", "before SEND_BACK", "after SEND_BACK", "after C8")
TOLD = ("before C6", "after C6", "before TELL", "after TELL", "before CONFIRM", "during CONFIRM", "after CONFIRM")
PARKING = ("before PARK", "during PARK", "after PARK")
REVIEWED = ("before REVIEW", "during REVIEW", "after REVIEW")
SHARED = (("before C3", 2), ("after C3", 2), ("after C4", 2), ("during C5", 2), ("after C5", 2), ("after C7", 2),
          ("before C6", 1), ("after C6", 1), ("before KEY", 2), ("after KEY", 2), ("before C8", 1))
"""Which pass kills: the second, behind the effect of another message of the call."""
TOLD_TOGETHER = ("before TELL", "during CONFIRM", "after CONFIRM", "after TELL")
RESENT = ("after P2", "during P3", "after P3", "during P4")


def at(*names):
    return pytest.mark.parametrize("point", [named(name) for name in names], ids=str)


def check(engine, effects=None):
    check_once(engine, ["1", BEHIND], booked(effects or engine).count, effects_engine=effects)


@pytest.mark.parametrize("point", STEPS, ids=str)
def test_killed_at_a_step_what_is_committed_is_booked_once(engine, setting, point):
    kill_at(point, work, setting, message_id="1")
    run(finish, setting)
    check(engine)
    assert stub(engine, "1").status == "CONFIRMED"
    assert rows(engine, tables.message_log, "message_id") == []


@at(*CLAIMED)
def test_w10_a_claim_of_the_dead_is_taken_over_when_its_lease_ends(engine, setting, claims_address, point):
    setting = replace(setting, claims=claims_address, lease_ms=500)
    kill_at(point, work, setting, message_id="1")
    run(finish, setting)
    check(engine)


@at(*FAILING)
def test_killed_while_an_effect_fails_it_is_tried_again_and_booked_once(engine, setting, claims_address, point):
    setting = replace(setting, claims=claims_address, lease_ms=500, fails=1)
    kill_at(point, work, setting, message_id="1")
    run(finish, setting)
    check(engine)


@pytest.mark.parametrize(("point", "tells_by_message"), [
    *[pytest.param(named(name), False, id=f"{name}, over a connection") for name in TOLD],
    *[pytest.param(named(name), True, id=f"{name}, by a message") for name in TOLD if not name.endswith("C6")]])
def test_with_two_databases_a_confirmation_that_died_is_made_again(engine, setting, own, point, tells_by_message):
    setting = replace(setting, own_database=str(own.url), tells_by_message=tells_by_message)
    kill_at(point, work, setting, message_id="1")
    run(finish, setting)
    check(engine, own)


@at(*CLAIMED, "before TELL", "after TELL")
def test_w10_with_two_databases_a_claim_of_the_dead_is_neither_done_nor_kept(engine, setting, own, claims_address,
                                                                             point):
    """The one that died has its claim still when the next copy comes."""
    setting = replace(setting, own_database=str(own.url), claims=claims_address, lease_ms=500)
    kill_at(point, work, setting, message_id="1")
    run(finish, setting)
    check(engine, own)


def together(setting, **values):
    return replace(setting, at_once=8, orders_behind=3, **values)


def check_all(engine, setting, effects=None):
    check_once(engine, [setting.order, *orders_with(setting), BEHIND], booked(effects or engine).count,
               effects_engine=effects)


@pytest.mark.parametrize(("point", "times"), [pytest.param(named(name), times, id=name) for name, times in SHARED])
def test_killed_among_effects_that_share_a_commit_each_is_booked_once(engine, setting, claims_address, point, times):
    setting = together(setting, claims=claims_address, lease_ms=500)
    killed = kill_at(point, work, setting, times=times)
    is_committed = str(point) in ("after C6", "before KEY", "after KEY", "before C8")
    assert len(booked(engine)) == 4 * is_committed, killed
    run(finish, setting)
    check_all(engine, setting)
    assert rows(engine, tables.message_log, "message_id") == []


@at(*TOLD_TOGETHER)
def test_killed_between_a_commit_of_several_effects_and_their_confirmations_each_is_booked_once(engine, setting, own,
                                                                                                point):
    setting = together(setting, own_database=str(own.url))
    killed = kill_at(point, work, setting)
    assert len(booked(own)) == 4, killed
    run(finish, setting)
    check_all(engine, setting, own)


@pytest.mark.parametrize("times", [1, 3])
def test_killed_while_some_effects_of_a_call_fail_each_is_booked_once(engine, setting, times):
    setting = together(setting, fails=1)
    kill_at(named("after SEND_BACK"), work, setting, times=times)
    run(finish, setting)
    check_all(engine, setting)


@at(*PARKING)
def test_w18_killed_while_a_dead_letter_is_parked_somebody_is_told_and_may_send_it_again(engine, setting, point):
    failing = replace(setting, fails=99, retries_max=0)
    kill_at(point, work, failing, message_id="1")
    run(work, failing)
    check_once(engine, ["1"], booked(engine).count)
    assert rows(engine, tables.alarms, "kind", "subject") == [("DEAD_LETTER", "1")]
    with engine.begin() as connection:
        operator.retry(connection, "1", operator="ann", reason="there is stock again")
    run(finish, setting)
    check(engine)


@at(*RESENT)
def test_w5_relays_that_die_one_after_another_send_no_more_than_they_may(engine, setting, point):
    relaying = replace(setting, attempts_max=3, consumes=False)
    for _ in range(3):
        kill_at(point, work, relaying, message_id="1")
    run(work, relaying)
    row = stub(engine, "1")
    assert (row.send_count, row.is_manual) == (3, True)
    check_once(engine, ["1"], booked(engine).count)
    if str(point) == "after P2":
        return      # none was sent
    run(finish, setting)
    check(engine)


@at(*REVIEWED)
def test_w26_killed_while_a_stub_is_reviewed_it_is_booked_once(engine, setting, point):
    kill_at(point, work, replace(setting, consumes=False), message_id="1")
    run(finish, setting)
    check(engine)


def test_each_point_is_one_of_these():
    tried = {*map(str, STEPS), *CLAIMED, *FAILING, *TOLD, *PARKING, *REVIEWED}
    assert tried == {str(point) for point in POINTS}
