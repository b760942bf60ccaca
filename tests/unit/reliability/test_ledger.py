"""What the account of one id tells, and how the sums name what is wrong."""

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine, delete, insert, select, update

from regulus.reliability import ledger, tables
from regulus.reliability.inbox_purge import purge_inbox
from regulus.reliability.retry_policy import BROKER_KEEPS_MS, KEEP_MS, RETRIES_MS
from regulus.reliability.settled import settled
from regulus.reliability.stub_purge import purge_stubs

from .shop import make_due, place_orders, set_stub

EVER = (0, 1 << 62)
NOW = tables.now_ms()
"""When a row is written: the suite may have begun an hour before."""
HOUR_MS = 3_600_000
WEEK_MS = 168 * HOUR_MS


@pytest.fixture
def effects(tmp_path) -> Iterator[Engine]:
    """The consumer's own database."""
    engine = create_engine(f"sqlite:///{tmp_path / 'consumer.sqlite'}")
    with engine.begin() as connection:
        tables.create(connection)
    yield engine
    engine.dispose()


def delivered(engine, message_id, group="billing", outcome="APPLIED", at=5_000):
    with engine.begin() as connection:
        connection.execute(insert(tables.attempts).values(
            message_id=message_id, kind="DELIVERY", consumer_group=group, number=0, broker_name="a", queue_id=1,
            queue_offset=7, begin_time=at, end_time=at + 1, outcome=outcome))


def take_in(engine, message_id, group="billing", at=6_000):
    with engine.begin() as connection:
        connection.execute(insert(tables.inbox).values(
            message_id=message_id, consumer_group=group, broker_name="a", queue_id=1, queue_offset=7, apply_time=at))


def act(engine, message_id, action):
    with engine.begin() as connection:
        connection.execute(insert(tables.actions).values(
            message_id=message_id, action=action, operator="ann", reason="seen in the bank", action_time=9_000))


def name_groups(engine, message_id, **status):
    with engine.begin() as connection:
        connection.execute(insert(tables.confirmations), [
            {"message_id": message_id, "consumer_group": group, "status": each} for group, each in status.items()])


SHOWN_ANEW_S = 0.15
"""Whoever looks at InnoDB's transactions again within 100 ms, be it for ever, is shown what was looked up before."""


def clock(*databases):
    """The latest of their times."""
    times = []
    for engine in databases:
        with engine.connect() as connection:
            times.append(connection.execute(select(tables.now_ms())).scalar_one())
    return max(times)


def settle(*databases):
    """Until all that was written so far is behind what an audit sees."""
    written, deadline = clock(*databases), time.monotonic() + 60
    for engine in databases:
        with engine.connect() as connection:
            while settled(connection, tables.stubs).time_ms <= written:
                assert time.monotonic() < deadline
                time.sleep(SHOWN_ANEW_S)


def audited(engine, effects=None, since=EVER[0], until=EVER[1]):
    """An audit that saw all that was written before: a statement that somebody carries out holds one back, too."""
    written, deadline = clock(*filter(None, (engine, effects))), time.monotonic() + 60
    while (found := audited_now(engine, effects, since, until)).until_ms <= min(written, until - 1):
        assert time.monotonic() < deadline
        time.sleep(SHOWN_ANEW_S)
    return found


def audited_now(engine, effects=None, since=EVER[0], until=EVER[1]):
    with engine.connect() as connection:
        if effects is None:
            return ledger.audit(connection, since, until)
        with effects.connect() as other:
            return ledger.audit(connection, since, until, other)


# --- one id ----------------------------------------------------------------------------------------------------------


def test_an_account_has_all_that_happened_in_its_order(engine):
    place_orders(engine, "1", "2")
    set_stub(engine, "1", create_time=1_000, status=tables.CONFIRMED, send_count=1)
    delivered(engine, "1", outcome="FAILED", at=3_000)
    delivered(engine, "1", at=4_000)
    delivered(engine, "2")
    act(engine, "1", "RETRY")
    with engine.begin() as connection:
        connection.execute(insert(tables.attempts).values(
            message_id="1", kind="SEND", number=1, broker_name="a", queue_id=0, queue_offset=3, begin_time=2_000,
            end_time=2_001, outcome="STORED"))
    with engine.connect() as connection:
        found = ledger.account(connection, "1")
    assert [(each.time_ms, each.what, each.outcome, each.place) for each in found.entries] == [
        (1_000, "COMMIT", "", ""), (2_000, "SEND", "STORED", "a/0/3"), (3_000, "DELIVERY", "FAILED", "a/1/7"),
        (4_000, "DELIVERY", "APPLIED", "a/1/7"), (9_000, "RETRY", "by hand", "")]
    assert found.entries[-1].detail == "ann: seen in the bank"
    assert (found.topic, found.status, found.send_count) == ("orders", tables.CONFIRMED, 1)


def test_an_account_reads_effects_where_they_are(engine, effects):
    place_orders(engine, "1")
    set_stub(engine, "1", create_time=1_000)
    delivered(effects, "1")
    take_in(effects, "1")
    name_groups(engine, "1", billing=tables.CONFIRMED, stock=tables.UNCONFIRMED)
    with engine.connect() as connection, effects.connect() as other:
        found = ledger.account(connection, "1", other)
    assert [each.what for each in found.entries] == ["COMMIT", "DELIVERY", "EFFECT"]
    assert found.groups == {"billing": tables.CONFIRMED, "stock": tables.UNCONFIRMED}


def test_an_account_names_who_has_the_message_and_is_not_done(engine):
    place_orders(engine, "1")
    with engine.begin() as connection:
        connection.execute(insert(tables.message_log).values(
            message_id="1", consumer_group="billing", topic="orders", broker_name="a", queue_id=0, queue_offset=1,
            reconsume_times=2, create_time=1, receive_time=2))
    with engine.connect() as connection:
        assert ledger.account(connection, "1").received_by == ("billing",)


def test_an_id_that_nobody_committed_has_no_account(engine):
    with engine.connect() as connection:
        assert ledger.account(connection, "1") is None


# --- the sums --------------------------------------------------------------------------------------------------------


def test_what_has_its_one_effect_is_applied(engine):
    place_orders(engine, "1", "2")
    for each in "12":
        set_stub(engine, each, status=tables.CONFIRMED)
        delivered(engine, each)
        delivered(engine, each, outcome="DONE")
    found = audited(engine)
    assert found.is_kept
    assert found.verdict() == "2 committed = 2 applied, 0 lost, 0 doubled"


def test_each_committed_stub_is_in_one_sum(engine):
    place_orders(engine, *"123456")
    set_stub(engine, "1", status=tables.CONFIRMED)
    delivered(engine, "1")
    set_stub(engine, "2", status=tables.VOIDED)
    set_stub(engine, "3", is_manual=True)
    set_stub(engine, "4", status=tables.CONFIRMED)
    act(engine, "4", "CONFIRM")
    set_stub(engine, "5", status=tables.CONFIRMED)
    act(engine, "5", "RETRY")       # is no proof
    found = audited(engine)
    assert found.verdict() == "6 committed = 2 applied + 1 voided + 1 parked + 1 under way, 1 lost, 0 doubled"
    assert (found.parked.names, found.lost.names) == (["3"], ["5"])
    assert not found.is_kept


def test_a_group_that_applied_twice_is_named(engine):
    place_orders(engine, "1", "2")
    for each in "12":
        set_stub(engine, each, status=tables.CONFIRMED)
        delivered(engine, each)
    delivered(engine, "1", group="stock")
    assert audited(engine).doubled.count == 0
    delivered(engine, "2")
    assert audited(engine).doubled.names == ["2"]
    assert not audited(engine).is_kept


def test_each_group_needs_its_own_proof(engine):
    place_orders(engine, "1")
    set_stub(engine, "1", status=tables.CONFIRMED)
    name_groups(engine, "1", billing=tables.CONFIRMED, stock=tables.CONFIRMED)
    delivered(engine, "1")
    assert audited(engine).lost.names == ["1"]
    delivered(engine, "1", group="stock")
    assert audited(engine).verdict() == "1 committed = 1 applied, 0 lost, 0 doubled"


def test_the_inbox_is_proof_and_its_delivery_no_second_effect(engine, effects):
    place_orders(engine, "1", "2")
    for each in "12":
        set_stub(engine, each, status=tables.CONFIRMED)
        take_in(effects, each)
    delivered(effects, "1")
    assert audited(engine, effects).verdict() == "2 committed = 2 applied, 0 lost, 0 doubled"
    assert audited(engine).lost.count == 2


def test_an_effect_of_what_was_never_committed_is_named(engine, effects):
    take_in(effects, "stray", at=NOW)
    found = audited(engine, effects)
    assert found.unmade.names == ["stray"]
    assert found.verdict() == "0 committed = 0 applied, 0 lost, 0 doubled, 1 unmade"
    assert not found.is_kept


def test_a_stub_that_no_relay_takes_is_overdue(engine):
    place_orders(engine, "1")
    assert audited(engine).overdue.count == 0
    make_due(engine)
    found = audited(engine)
    assert found.verdict() == "1 committed = 0 applied + 1 under way, 0 lost, 0 doubled, 1 overdue"
    assert not found.is_kept


def test_a_time_takes_its_beginning_and_not_its_end(engine):
    place_orders(engine, *"1234")
    for each in "1234":
        set_stub(engine, each, create_time=int(each) * 1_000)
    assert audited(engine, since=2_000, until=4_000).committed == 2


def test_all_pages_are_counted_and_some_named(engine):
    """Of one time, so that the id is what a page goes on from."""
    ids = [f"{number:05}" for number in range(ledger._PAGE * 2 + 1)]
    place_orders(engine, *ids)
    with engine.begin() as connection:
        connection.execute(update(tables.stubs).values(create_time=1_000, is_manual=True))
    found = audited(engine)
    assert found.committed == found.parked.count == len(ids)
    assert found.parked.names == ids[:ledger.NAMES_MAX]


@pytest.mark.parametrize(("age_ms", "count"), [(0, 1), (3_600_000, 0)])
def test_an_effect_whose_stub_was_removed_meanwhile_is_not_unmade(engine, effects, age_ms, count):
    """It may come behind the last send as late as a broker keeps and brings a message."""
    soonest = KEEP_MS - BROKER_KEEPS_MS - RETRIES_MS
    take_in(effects, "1", at=NOW - soonest + 1_800_000 - age_ms)
    assert audited(engine, effects).unmade.count == count


def test_proofs_outlive_the_stubs_whose_copies_go_on(engine, effects):
    """Stubs go so long after their last send, which may be a week behind the effect."""
    place_orders(engine, "1")
    set_stub(engine, "1", status=tables.CONFIRMED, create_time=NOW - KEEP_MS - WEEK_MS + HOUR_MS,
             resend_time=NOW - KEEP_MS + HOUR_MS)
    take_in(effects, "1", at=NOW - KEEP_MS - WEEK_MS + HOUR_MS)
    purge_stubs(engine)
    purge_inbox(effects)
    assert audited(engine, effects).verdict() == "1 committed = 1 applied, 0 lost, 0 doubled"


def test_what_is_removed_while_an_audit_reads_is_not_lost(engine):
    """Its proofs went with it, between the page of stubs and theirs."""
    place_orders(engine, "1", "2")
    for each in "12":
        set_stub(engine, each, status=tables.CONFIRMED)
        delivered(engine, each)
    set_stub(engine, "1", create_time=NOW - KEEP_MS - HOUR_MS, resend_time=NOW - KEEP_MS - HOUR_MS)
    settle(engine)
    read = ledger._proofs

    def purged_before(databases, ids):
        assert purge_stubs(engine).stubs == 1
        return read(databases, ids)

    with engine.execution_options(isolation_level="READ COMMITTED" if engine.dialect.name != "sqlite" else
                                  "SERIALIZABLE").connect() as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "_proofs", purged_before)
        assert ledger.audit(connection, *EVER).verdict() == "1 committed = 1 applied, 0 lost, 0 doubled"


def test_all_pages_of_an_inbox_are_looked_at(engine, effects):
    with effects.begin() as connection:
        connection.execute(insert(tables.inbox), [
            {"message_id": f"{number:05}", "consumer_group": group, "broker_name": "a", "queue_id": 1,
             "queue_offset": 1, "apply_time": int(time.time() * 1000)}
            for number in range(ledger._PAGE) for group in ("billing", "stock")])
    assert audited(engine, effects).unmade.count == ledger._PAGE * 2
    with effects.begin() as connection:
        connection.execute(delete(tables.inbox).where(tables.inbox.c.consumer_group == "stock"))
    assert audited(engine, effects).unmade.count == ledger._PAGE
