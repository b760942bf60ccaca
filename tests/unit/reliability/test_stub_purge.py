"""What is over goes, with all that belongs to it; what a copy may ask for stays."""

import time

import pytest
from sqlalchemy import insert, update

from regulus.errors import ConfigError, ReliabilityRefused
from regulus.reliability import alarms, stub_purge, tables
from regulus.reliability.alarms import AlarmKind
from regulus.reliability.retry_policy import ResendPolicy
from regulus.reliability.stub_purge import Purged, purge_stubs

from .deliveries import rows
from .shop import place_orders, set_stub

DAY = 86_400_000
OLD = int(time.time() * 1000) - 31 * DAY
YOUNG = OLD + 2 * DAY


def commit(engine, message_id, status="CONFIRMED", created=OLD, sent=OLD):
    place_orders(engine, message_id)
    set_stub(engine, message_id, status=status, create_time=created, resend_time=sent, send_count=1)


def add(engine, table, *values):
    with engine.begin() as connection:
        connection.execute(insert(table), list(values))


def receipt(message_id, group="billing"):
    return {"message_id": message_id, "consumer_group": group, "topic": "orders", "broker_name": "a", "queue_id": 0,
            "queue_offset": 1, "reconsume_times": 0, "create_time": YOUNG, "receive_time": YOUNG}


def attempt(message_id, begin_time=OLD):
    return {"message_id": message_id, "kind": "SEND", "number": 1, "begin_time": begin_time, "end_time": begin_time,
            "outcome": "STORED"}


def ids(engine, table):
    return [message_id for message_id, in rows(engine, table, "message_id")]


def test_stubs_that_are_done_go_with_all_that_belongs_to_them(engine):
    for message_id, status in (("1", "CONFIRMED"), ("2", "VOIDED"), ("3", "UNCONFIRMED")):
        commit(engine, message_id, status)
        add(engine, tables.confirmations, {"message_id": message_id, "consumer_group": "billing", "status": status})
        add(engine, tables.attempts, attempt(message_id), attempt(message_id, YOUNG))
        add(engine, tables.message_log, receipt(message_id))
    add(engine, tables.actions, {"message_id": "2", "action": "VOID", "operator": "ann", "reason": "x",
                                 "action_time": OLD})
    assert purge_stubs(engine) == Purged(stubs=2)
    for table in (tables.stubs, tables.confirmations, tables.message_log):
        assert ids(engine, table) == ["3"]
    assert ids(engine, tables.attempts) == ["3", "3"]
    assert ids(engine, tables.actions) == ["2"]


def test_w23_what_was_committed_or_sent_lately_stays(engine):
    commit(engine, "1", created=YOUNG)
    commit(engine, "2", sent=YOUNG)
    add(engine, tables.attempts, attempt("1"), attempt("2"))
    assert purge_stubs(engine) == Purged()
    assert (ids(engine, tables.stubs), ids(engine, tables.attempts)) == (["1", "2"], ["1", "2"])


def test_w13_receipts_of_what_is_done_go_at_once(engine):
    commit(engine, "1", created=YOUNG)
    commit(engine, "2", "UNCONFIRMED", created=YOUNG)
    add(engine, tables.confirmations,
        {"message_id": "2", "consumer_group": "billing", "status": "CONFIRMED"},
        {"message_id": "2", "consumer_group": "stock", "status": "UNCONFIRMED"})
    add(engine, tables.message_log, receipt("1"), receipt("2"), receipt("2", "stock"), receipt("elsewhere"))
    assert purge_stubs(engine) == Purged(receipts=2)
    assert rows(engine, tables.message_log, "message_id", "consumer_group") == [("2", "stock"),
                                                                               ("elsewhere", "billing")]


def test_alarms_that_were_told_go(engine):
    with engine.begin() as connection:
        for subject in "1234":
            alarms.raise_alarm(connection, AlarmKind.MISSING_STUB, subject, "why")
        for subject, values in (("1", {"raise_time": OLD, "sent_time": OLD}), ("2", {"raise_time": OLD}),
                                ("3", {"raise_time": OLD, "sent_time": OLD, "closed_time": YOUNG}),
                                ("4", {"sent_time": YOUNG})):
            connection.execute(update(tables.alarms).where(tables.alarms.c.subject == subject).values(values))
    assert purge_stubs(engine) == Purged(alarms=1)
    assert [subject for subject, in rows(engine, tables.alarms, "subject")] == ["2", "3", "4"]


def test_a_batch_is_a_transaction_and_all_go(engine, monkeypatch):
    monkeypatch.setattr(stub_purge, "ROWS_MAX", 2)
    for number in range(5):
        commit(engine, str(number))
    assert purge_stubs(engine) == Purged(stubs=5)
    assert ids(engine, tables.stubs) == []


def test_what_another_works_on_is_left_for_the_next_time(engine):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite locks the whole file")
    commit(engine, "1")
    commit(engine, "2")
    with engine.begin() as connection:
        connection.execute(update(tables.stubs).where(tables.stubs.c.message_id == "1").values(version=9))
        assert purge_stubs(engine) == Purged(stubs=1)
    assert ids(engine, tables.stubs) == ["1"]


def test_a_time_within_which_a_copy_may_come_is_refused(engine):
    least = (72 * 3_600 + 17_140) * 1_000 + ResendPolicy().age_max_ms
    with pytest.raises(ConfigError, match=f"keep_ms is {least}; it must be more than {least}"):
        purge_stubs(engine, keep_ms=least)
    assert purge_stubs(engine, keep_ms=least + 1) == Purged()


def test_missing_tables_are_told(engine):
    with engine.begin() as connection:
        tables.alarms.drop(connection)
    with pytest.raises(ReliabilityRefused, match="no table regulus_alarm"):
        purge_stubs(engine)
