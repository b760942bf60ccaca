"""What a consumer's own database keeps, and for how long."""

import pytest
from sqlalchemy import insert

from regulus.errors import ConfigError
from regulus.reliability import inbox_purge, tables
from regulus.reliability.inbox_purge import INBOX_KEEP_MS, purge_inbox
from regulus.reliability.retry_policy import ResendPolicy

from .deliveries import rows
from .shop import place_orders, set_stub

DAY_MS = 86_400_000
PLACE = {"broker_name": "broker-a", "queue_id": 0, "queue_offset": 7}


def apply(engine, message_id, age_ms, group="billing"):
    """What the delivery of a message leaves in each table, some time ago."""
    at = tables.now_ms() - age_ms
    row = {"message_id": message_id, "consumer_group": group, **PLACE}
    with engine.begin() as connection:
        connection.execute(insert(tables.inbox).values(apply_time=at, **row))
        connection.execute(insert(tables.attempts).values(
            kind="DELIVERY", number=0, begin_time=at, end_time=at, outcome="APPLIED", **row))
        connection.execute(insert(tables.message_log).values(
            topic="orders", reconsume_times=0, create_time=at, receive_time=at, **row))


def test_what_is_older_goes_however_much_it_is(engine, monkeypatch):
    monkeypatch.setattr(inbox_purge, "ROWS_MAX", 2)
    for number in range(5):
        apply(engine, f"old-{number}", INBOX_KEEP_MS + 60_000)
    apply(engine, "new", INBOX_KEEP_MS - 60_000)
    assert [purge_inbox(engine) for _ in range(2)] == [5, 0]
    for table in (tables.inbox, tables.attempts, tables.message_log):
        assert rows(engine, table, "message_id") == [("new",)]


def test_what_one_group_applied_lately_stays_though_another_did_long_ago(engine):
    apply(engine, "1", INBOX_KEEP_MS + 60_000, "billing")
    apply(engine, "1", INBOX_KEEP_MS - 60_000, "stock")
    assert purge_inbox(engine) == 1
    for table in (tables.inbox, tables.message_log):
        assert rows(engine, table, "consumer_group") == [("stock",)]


def test_the_proofs_of_a_services_own_stubs_stay_as_long_as_these(engine):
    """Its stubs are kept longer than the inbox of what it consumes."""
    place_orders(engine, "own")
    set_stub(engine, "own", status="CONFIRMED")
    for message_id in ("own", "another's"):
        apply(engine, message_id, INBOX_KEEP_MS + 60_000)
    assert purge_inbox(engine) == 2
    assert rows(engine, tables.attempts, "message_id") == [("own",)]


def test_a_database_without_an_outbox_is_purged(engine):
    apply(engine, "1", INBOX_KEEP_MS + 60_000)
    tables.stubs.drop(engine)
    assert purge_inbox(engine) == 1
    assert rows(engine, tables.attempts, "message_id") == []


def test_what_copies_may_still_come_of_is_not_removed(engine):
    apply(engine, "1", 12 * DAY_MS)
    with pytest.raises(ConfigError, match="a copy that comes late has its effect again"):
        purge_inbox(engine, keep_ms=10 * DAY_MS + 4 * 3_600_000)
    with pytest.raises(ConfigError, match="keep_ms"):
        purge_inbox(engine, keep_ms=12 * DAY_MS, policy=ResendPolicy(age_max_ms=9 * DAY_MS))
    assert purge_inbox(engine, keep_ms=11 * DAY_MS) == 1
