"""Whoever is not as a commit promises is named, with what is known of it."""

import asyncio

import pytest
from sqlalchemy import create_engine, insert
from sqlalchemy.exc import DBAPIError

from regulus.errors import ReliabilityRefused
from regulus.reliability import tables
from regulus.reliability.alarms import AlarmKind, raise_alarm
from regulus.testing.crash_points import await_settled, check_once
from tests.unit.reliability.shop import place_orders, set_stub, shop


def counts(**counts):
    return lambda message_id: counts.get(f"order_{message_id}", 0)


@pytest.mark.parametrize(("values", "effects", "fault"), [
    ({"status": "CONFIRMED"}, 1, None),
    ({"status": "CONFIRMED"}, 0, "1 lost its effect: 0 effects; stub CONFIRMED, 0 sends; COMMIT"),
    ({"status": "CONFIRMED"}, 2, "1 has its effect more than once: 2 effects; stub CONFIRMED"),
    ({"status": "VOIDED"}, 0, None),
    ({"status": "VOIDED"}, 1, "1 has an effect that is not confirmed: 1 effects; stub VOIDED"),
    ({"status": "UNCONFIRMED"}, 0, "1 is stuck: 0 effects; stub UNCONFIRMED"),
    ({"status": "UNCONFIRMED"}, 1, "1 has an effect that is not confirmed"),
    ({"is_manual": True}, 0, "1 is left to a human whom nobody told: 0 effects; stub UNCONFIRMED, left to a human")])
def test_a_stub_is_judged_by_its_effects(engine, values, effects, fault):
    place_orders(engine, "1")
    set_stub(engine, "1", **values)
    if fault is None:
        check_once(engine, ["1"], counts(order_1=effects))
        return
    with pytest.raises(AssertionError, match=fault):
        check_once(engine, ["1"], counts(order_1=effects))


def test_what_was_rolled_back_has_no_effect(engine):
    check_once(engine, ["1"], counts())
    with pytest.raises(AssertionError, match="1 has an effect that nobody committed: 1 effects; no stub"):
        check_once(engine, ["1"], counts(order_1=1))


def test_a_human_who_was_told_is_enough(engine):
    place_orders(engine, "1")
    set_stub(engine, "1", is_manual=True)
    with engine.begin() as connection:
        raise_alarm(connection, AlarmKind.DEAD_LETTER, "1", "given up")
    check_once(engine, ["1"], counts())


def test_each_group_has_its_effect(engine):
    place_orders(engine, "1")
    with engine.begin() as connection:
        connection.execute(insert(tables.confirmations), [
            {"message_id": "1", "consumer_group": group, "status": "CONFIRMED"} for group in ("billing", "stock")])
    set_stub(engine, "1", status="CONFIRMED")
    check_once(engine, ["1"], counts(order_1=2))
    with pytest.raises(AssertionError, match=r"1 lost its effect: 1 effects; .*group stock CONFIRMED"):
        check_once(engine, ["1"], counts(order_1=1))


def test_all_faults_are_told_and_effects_may_lie_elsewhere(engine, tmp_path):
    own = create_engine(f"sqlite:///{tmp_path / 'own.sqlite'}")
    with own.begin() as connection:
        tables.create(connection)
        shop.create_all(connection)
        connection.execute(insert(tables.inbox).values(message_id="1", consumer_group="billing", queue_id=0,
                                                       broker_name="a", queue_offset=7, apply_time=9))
    place_orders(engine, "1", "2")
    with pytest.raises(AssertionError, match=r"1 is stuck: .*EFFECT in the inbox billing a/0/7.*\n2 is stuck"):
        check_once(engine, ["1", "2"], counts(), effects_engine=own)
    own.dispose()


def test_what_is_not_settled_in_time_is_told(engine):
    place_orders(engine, "1", "2", "3")
    set_stub(engine, "1", status="CONFIRMED")
    set_stub(engine, "2", is_manual=True)
    await_settled(engine, ["1", "2"], 0)
    with pytest.raises(AssertionError, match="after 0 s these are neither confirmed, voided nor given up:\nstub"):
        await_settled(engine, ["1", "2", "3"], 0)


def test_a_connection_whose_rollback_fails_too_was_lost(engine, monkeypatch):
    place_orders(engine, "1")
    set_stub(engine, "1", status="CONFIRMED")
    dialect, lost = engine.dialect, ["statement", "rollback"]
    execute, rollback = dialect.do_execute, dialect.do_rollback

    def fail(what, do, *values):
        if lost[:1] == [what]:
            raise dialect.loaded_dbapi.OperationalError(f"{lost.pop(0)} failed")
        do(*values)

    monkeypatch.setattr(dialect, "do_execute", lambda *values, **_: fail("statement", execute, *values))
    monkeypatch.setattr(dialect, "do_rollback", lambda *values: fail("rollback", rollback, *values))
    await_settled(engine, ["1"], 5)
    assert lost == []


def test_a_statement_that_fails_on_a_connection_that_lives_is_told(engine):
    with pytest.raises(DBAPIError):
        await_settled(create_engine("sqlite://"), ["1"], 5)


def test_a_statement_that_fails_is_told_also_where_another_failure_is_seen_to(monkeypatch):
    """It says nothing of this connection."""
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it is asked again"))
    try:
        raise DBAPIError("SELECT 1", None, ValueError())
    except DBAPIError:
        with pytest.raises(DBAPIError, match="no such table"):
            await_settled(create_engine("sqlite://"), ["1"], 5)


async def test_an_event_loop_is_not_kept_from_what_it_would_settle(engine):
    place_orders(engine, "1")
    with pytest.raises(ReliabilityRefused, match=r"blocks the event loop.*: await asyncio.to_thread\(await_settled,"):
        await_settled(engine, ["1"], 0)
    set_stub(engine, "1", status="CONFIRMED")
    await asyncio.to_thread(await_settled, engine, ["1"], 0)
