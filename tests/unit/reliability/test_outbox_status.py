"""The numbers of an outbox, from rows whose times are written by hand."""

import pytest
from sqlalchemy import Engine, insert, select, update

from regulus.model.message import Message
from regulus.reliability import alarms, tables
from regulus.reliability.alarms import AlarmKind
from regulus.reliability.outbox import Outbox
from regulus.reliability.outbox_status import Waiting, outbox_status

MINUTE = 60_000
SLACK = 30_000
"""The database's clock goes on between the rows and the question."""


def near(waiting: Waiting, count: int, oldest_ms: int) -> bool:
    return waiting.count == count and oldest_ms <= waiting.oldest_ms < oldest_ms + SLACK


@pytest.fixture
def now(engine: Engine) -> int:
    """Of stubs d1, d2 (due), n1 (new, before the clock was set back), w1 (waiting), p1 (parked), c1 and v1 (done)."""
    with engine.begin() as connection:
        now: int = connection.execute(select(tables.now_ms())).scalar_one()
    for name, values in {
            "d1": {"resend_time": now - 5 * MINUTE}, "n1": {"resend_time": now + 60 * MINUTE},
            "d2": {"resend_time": now - 2 * MINUTE, "send_count": 3},
            "w1": {"resend_time": now + 9 * MINUTE, "create_time": now - 7 * MINUTE, "send_count": 1},
            "p1": {"resend_time": now - 90 * MINUTE, "create_time": now - 80 * MINUTE, "is_manual": True},
            "c1": {"resend_time": 1, "create_time": 1, "status": "CONFIRMED"},
            "v1": {"resend_time": 1, "create_time": 1, "status": "VOIDED"}}.items():
        with engine.begin() as connection:
            connection.execute(update(tables.stubs).values(version=1))      # begins the transaction
            Outbox().add(connection, Message("orders", b"x"), message_id=name)
            connection.execute(update(tables.stubs).where(tables.stubs.c.message_id == name).values(**values))
    return now


def test_each_stub_that_is_not_done_is_due_waits_or_is_parked(engine: Engine, now: int) -> None:
    with engine.connect() as connection:
        found = outbox_status(connection)
    assert near(found.due, 3, 5 * MINUTE)
    assert near(found.waiting, 1, 7 * MINUTE)
    assert near(found.parked, 1, 80 * MINUTE)


def test_what_happened_is_counted_within_the_window(engine: Engine, now: int) -> None:
    rows = [("SEND", "STORED", 1), ("SEND", "STORED", 9), ("SEND", "STORED", 11), ("SEND", "FAILED", 2),
            ("DELIVERY", "APPLIED", 3), ("DELIVERY", "DONE", 3), ("DELIVERY", "FAILED", 4), ("DELIVERY", "APPLIED", 99)]
    with engine.begin() as connection:
        connection.execute(insert(tables.attempts), [
            {"message_id": "c1", "kind": kind, "consumer_group": None if kind == "SEND" else "billing", "number": 1,
             "begin_time": now - minutes * MINUTE, "end_time": now, "outcome": outcome}
            for kind, outcome, minutes in rows])
        found = outbox_status(connection, 10 * MINUTE)
    assert (found.stored, found.failed, found.applied, found.not_applied) == (2, 1, 1, 2)
    assert (found.window_ms, found.a_minute(25)) == (600_000, 2.5)


def test_receipts_and_alarms_are_counted_by_group_and_kind(engine: Engine, now: int) -> None:
    with engine.begin() as connection:
        connection.execute(insert(tables.message_log), [
            {"message_id": message_id, "consumer_group": group, "topic": "orders", "broker_name": "a", "queue_id": 0,
             "queue_offset": 1, "reconsume_times": 0, "create_time": now - minutes * MINUTE, "receive_time": now}
            for message_id, group, minutes in (("d2", "billing", 4), ("w1", "billing", 6), ("w1", "stock", 1))])
        for subject in ("p1", "d2", "w1"):
            alarms.raise_alarm(connection, AlarmKind.MANUAL, subject, "sent 16 times")
        alarms.raise_alarm(connection, AlarmKind.DEAD_LETTERS, "billing", "3 more")
        alarms.close_alarm(connection, AlarmKind.MANUAL, "d2")
        [told] = [each.alarm_id for each in alarms.open_alarms(connection, 10) if each.subject == "p1"]
        alarms.mark_sent(connection, [told])
        found = outbox_status(connection)
    assert list(found.received) == ["billing", "stock"]
    assert near(found.received["billing"], 2, 6 * MINUTE)
    assert near(found.received["stock"], 1, MINUTE)
    assert (found.open_alarms, found.untold_alarms) == ({"DEAD_LETTERS": 1, "MANUAL": 2}, 3)


def test_an_empty_outbox_has_nothing_and_a_clock_set_back_makes_nothing_younger(engine: Engine) -> None:
    with engine.connect() as connection:
        found = outbox_status(connection)
    assert (found.due, found.waiting, found.parked, found.received) == (Waiting(), Waiting(), Waiting(), {})
    with engine.begin() as connection:
        connection.execute(update(tables.stubs).values(version=1))
        Outbox().add(connection, Message("orders", b"x"), message_id="later")
        connection.execute(update(tables.stubs).values(create_time=tables.now_ms() + 60 * MINUTE, is_manual=True))
        assert outbox_status(connection).parked == Waiting(count=1, oldest_ms=0)
