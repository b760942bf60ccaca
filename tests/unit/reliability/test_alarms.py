"""Alarms as rows: one for each cause as long as it lasts, and one sender for each."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import insert, select, text, update

from regulus.model.message import Message
from regulus.reliability import alarms, operator, tables
from regulus.reliability.alarms import AlarmKind, Cause
from regulus.reliability.outbox import Outbox
from tests.waiting import wait_until

from .deliveries import rows
from .shop import place_orders, set_stub

MINUTE = 60_000


def raised(engine, *subjects, kind=AlarmKind.MANUAL):
    with engine.begin() as connection:
        for subject in subjects:
            alarms.raise_alarm(connection, kind, subject, "why")


def claimed(engine, lease_ms=MINUTE, limit=10):
    with engine.begin() as connection:
        return [alarm.subject for alarm in alarms.claim(connection, lease_ms, limit)]


def open_subjects(engine):
    with engine.connect() as connection:
        return sorted(connection.execute(
            select(tables.alarms.c.subject).where(tables.alarms.c.closed_time.is_(None))).scalars())


def test_a_cause_that_lasts_is_raised_once(engine):
    raised(engine, "1", "1", "2")
    raised(engine, "1", kind=AlarmKind.DEAD_LETTER)
    assert rows(engine, tables.alarms, "kind", "subject") == [("DEAD_LETTER", "1"), ("MANUAL", "1"), ("MANUAL", "2")]


def test_who_raises_the_same_in_another_order_waits_and_does_not_end_the_other(engine):
    """Two relays that look at one queue."""
    if engine.dialect.name != "postgresql":
        pytest.skip("one writer at a time, or no list of who waits")

    def is_waited_for():
        with engine.connect() as connection:
            return connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one() > 0

    def raise_in_order(*subjects):
        with engine.begin() as connection:
            alarms.raise_alarms(connection, [Cause(AlarmKind.MANUAL, each, "why") for each in subjects])

    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            alarms.raise_alarm(connection, AlarmKind.MANUAL, "1", "why")
            other = pool.submit(raise_in_order, "2", "1")
            wait_until(is_waited_for)
            alarms.raise_alarm(connection, AlarmKind.MANUAL, "2", "why")
        other.result(60)
    assert open_subjects(engine) == ["1", "2"]


def test_a_cause_that_comes_back_is_raised_anew(engine):
    raised(engine, "1")
    with engine.begin() as connection:
        alarms.close_alarm(connection, AlarmKind.MANUAL, "1")
    assert open_subjects(engine) == []
    raised(engine, "1", "1")
    assert open_subjects(engine) == ["1"]
    assert len(rows(engine, tables.alarms, "subject")) == 2


def test_what_one_sender_has_no_other_gets_until_the_lease_ends(engine):
    raised(engine, "1", "2", "3")
    assert claimed(engine, limit=2) == ["1", "2"]
    assert claimed(engine) == ["3"]
    assert claimed(engine) == []
    with engine.begin() as connection:
        connection.execute(update(tables.alarms).where(tables.alarms.c.subject != "3").values(due_time=0))
    assert claimed(engine) == ["1", "2"]


def test_two_senders_at_once_do_not_wait_for_each_other(engine):
    if engine.dialect.name == "sqlite":
        pytest.skip("one writer at a time")
    raised(engine, "1", "2")
    with engine.begin() as first, engine.begin() as second:
        taken = [alarms.claim(each, MINUTE, 1) for each in (first, second)]
    assert [[alarm.subject for alarm in each] for each in taken] == [["1"], ["2"]]


def test_what_was_told_is_told_no_more_and_what_was_not_waits(engine):
    raised(engine, "1", "2")
    with engine.begin() as connection:
        first, second = alarms.claim(connection, MINUTE, 10)
        alarms.mark_sent(connection, [first.alarm_id])
        alarms.put_back(connection, [first.alarm_id, second.alarm_id], MINUTE)
    assert claimed(engine) == []
    with engine.begin() as connection:
        alarms.put_back(connection, [first.alarm_id, second.alarm_id], 0)
    assert claimed(engine) == ["2"]


def test_a_stub_that_is_done_ends_its_alarms(engine):
    place_orders(engine, "1", "2", "3")
    raised(engine, "1", "2", "3")
    raised(engine, "1", kind=AlarmKind.DEAD_LETTER)
    raised(engine, "1", "9", kind=AlarmKind.MISSING_STUB)
    set_stub(engine, "1", status="CONFIRMED")
    set_stub(engine, "3", status="VOIDED")
    with engine.begin() as connection:
        alarms.close_settled(connection)
    assert open_subjects(engine) == ["1", "2", "9"]


@pytest.mark.parametrize("act", [operator.retry, operator.void, operator.confirm])
def test_a_decision_by_hand_ends_the_alarms_of_its_stub(engine, act):
    place_orders(engine, "1", "2")
    raised(engine, "1", "2")
    raised(engine, "1", kind=AlarmKind.STALE_RECEIPT)
    with engine.begin() as connection:
        act(connection, "1", operator="ann", reason="seen")
    assert open_subjects(engine) == ["2"]


LONG_AGO = 1_000_000


def waits_behind(engine, groups=(), message_id="1"):
    """A stub that no group has reached for long, and the alarm of its queue."""
    with engine.begin() as connection:
        connection.execute(tables.stubs.update().values(version=1))     # begins the transaction
        Outbox(groups=groups).add(connection, Message("orders", b"x"), message_id=message_id)
    set_stub(engine, message_id, send_count=1, broker_name="broker-a", queue_id=0, queue_offset=7,
             create_time=LONG_AGO, first_send_time=LONG_AGO)
    raised(engine, "orders/broker-a/0", kind=AlarmKind.CONSUMER_DOWN)


def got_to(engine, offset, *groups, moved=1 << 50):
    with engine.begin() as connection:
        for group in groups:
            of_group = tables.watermarks.c.consumer_group == group
            connection.execute(tables.watermarks.delete().where(of_group))
            connection.execute(insert(tables.watermarks).values(
                consumer_group=group, topic="orders", broker_name="broker-a", queue_id=0, queue_offset_max=offset,
                move_time=moved))


def settled(engine):
    with engine.begin() as connection:
        alarms.close_settled(connection)
    return not open_subjects(engine)


@pytest.mark.parametrize(("moved", "goes_on"), [((), False), (("stock",), False), (("stock", "billing"), True)])
def test_a_queue_goes_on_when_all_groups_of_its_stubs_do(engine, moved, goes_on):
    got_to(engine, 3, "billing", "stock", "long-gone", moved=LONG_AGO)
    waits_behind(engine, groups=("billing", "stock"))
    got_to(engine, 4, *moved)
    assert settled(engine) is goes_on


def test_a_group_that_is_gone_keeps_no_alarm_open(engine):
    got_to(engine, 3, "billing", "long-gone", moved=LONG_AGO)
    waits_behind(engine)
    assert not settled(engine)
    got_to(engine, 4, "billing")
    assert settled(engine)


def test_a_queue_whose_stubs_are_passed_has_no_alarm_however_long_it_is_quiet(engine):
    got_to(engine, 8, "billing", moved=LONG_AGO)
    waits_behind(engine)
    assert settled(engine)


def test_a_group_that_never_began_keeps_the_alarm_open(engine):
    got_to(engine, 3, "billing")
    waits_behind(engine, groups=("billing", "stock"))
    assert not settled(engine)


@pytest.mark.parametrize("values", [{"status": "CONFIRMED"}, {"is_manual": True}, {"queue_id": 3},
                                    {"first_send_time": 1 << 50}])
def test_a_queue_in_which_no_stub_waits_has_no_alarm(engine, values):
    waits_behind(engine)
    set_stub(engine, "1", **values)
    assert settled(engine)


def test_long_subjects_and_details_are_cut(engine):
    raised(engine, "s" * 1_000)
    with engine.begin() as connection:
        alarms.raise_alarm(connection, AlarmKind.DEAD_LETTER, "1", "d" * 1_000)
    assert rows(engine, tables.alarms, "subject", "detail") == [("1", "d" * 500), ("s" * 255, "why")]
