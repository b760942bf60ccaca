"""What a relay does with stubs that were sent and are due again: the facts that it finds in the tables."""

import time

import pytest
from sqlalchemy import create_engine, insert
from sqlalchemy.exc import OperationalError

from regulus.model.message import Message
from regulus.reliability import outbox_table, tables
from regulus.reliability.outbox import Outbox
from regulus.reliability.outbox_table import Gone, Reviewed
from regulus.reliability.relay import Backlog, DueStubs, RelayConfig
from regulus.reliability.retry_policy import ResendPolicy

from .deliveries import rows
from .shop import set_stub, stub

NOW = tables.now_ms()
"""When a row is written: the suite may have begun an hour before."""
AT = {"broker_name": "broker-a", "queue_id": 3}
STALE = ResendPolicy().stale_ms + 60_000
DOWN = ResendPolicy().down_ms + 60_000


@pytest.fixture
def begin_ms():
    """A millisecond less, for SQLite cuts off what its days do not show."""
    return int(time.time() * 1000) - 1


@pytest.fixture
def due(engine):
    """Of a stub `1` that was sent once, stands at offset 70 of its queue, and is due."""
    commit(engine, "1")
    return DueStubs(engine, RelayConfig())


def commit(engine, message_id, **options):
    with engine.begin() as connection:
        connection.execute(tables.stubs.update().values(version=1))     # begins the transaction
        Outbox(**options).add(connection, Message("orders", b"x"), message_id=message_id)
    set_stub(engine, message_id, send_count=1, resend_time=0, queue_offset=70, create_time=NOW,
             first_send_time=NOW - DOWN, **AT)


def received_up_to(engine, offset, group="billing", moved=NOW, **place):
    with engine.begin() as connection:
        connection.execute(insert(tables.watermarks).values(
            consumer_group=group, queue_offset_max=offset, move_time=moved, **{"topic": "orders", **AT, **place}))


def received(engine, message_id, age_ms=0, group="billing"):
    with engine.begin() as connection:
        connection.execute(insert(tables.message_log).values(
            message_id=message_id, consumer_group=group, topic="orders", queue_offset=70, reconsume_times=0,
            create_time=NOW, receive_time=NOW - age_ms, **AT))


def confirmed_by(engine, *groups):
    with engine.begin() as connection:
        connection.execute(tables.confirmations.update().where(tables.confirmations.c.consumer_group.in_(groups))
                           .values(status="CONFIRMED"))


def sent_again(due):
    return [each.message_id for each in due.review().claimed]


def alarms(engine):
    return rows(engine, tables.alarms, "kind", "subject")



def test_what_the_group_has_passed_is_sent_again(engine, due, begin_ms):
    received_up_to(engine, 71)
    assert sent_again(due) == ["1"]
    row = stub(engine, "1")
    assert (row.send_count, row.resend_time > begin_ms + 100_000) == (2, True)
    assert due.review().stubs == 0


@pytest.mark.parametrize("offset", [69, 70])
def test_backlog_is_put_off_and_not_counted(engine, due, begin_ms, offset):
    """Strictly less: what was received last is not passed yet."""
    received_up_to(engine, offset)
    assert (sent_again(due), stub(engine, "1").send_count) == ([], 1)
    assert stub(engine, "1").resend_time >= begin_ms + 60_000
    assert alarms(engine) == []


@pytest.mark.parametrize("place", [{"queue_id": 4}, {"broker_name": "broker-b"}, {"topic": "bills"}])
def test_w7_the_watermark_of_another_queue_says_nothing(engine, due, place):
    received_up_to(engine, 900, **place)
    assert sent_again(due) == []


def test_a_stub_without_a_place_is_sent_again(engine, due):
    set_stub(engine, "1", queue_offset=None)
    assert sent_again(due) == ["1"]


@pytest.mark.parametrize("age_ms", [60_000, ResendPolicy().retry_gap_ms - 1_800_000],
                         ids=["at work", "until its last retry"])
def test_what_a_consumer_has_is_waited_for(engine, due, begin_ms, age_ms):
    received_up_to(engine, 71)
    received(engine, "1", age_ms)
    assert sent_again(due) == []
    assert (stub(engine, "1").send_count, stub(engine, "1").resend_time >= begin_ms + 60_000) == (1, True)


def test_w9_what_a_consumer_has_had_too_long_is_sent_again_and_told_once(engine, due):
    received_up_to(engine, 71)
    received(engine, "1", age_ms=STALE)
    assert sent_again(due) == ["1"]
    set_stub(engine, "1", resend_time=0)
    assert sent_again(due) == ["1"]
    assert alarms(engine) == [("STALE_RECEIPT", "1")]


def test_a_queue_that_stands_still_is_told_once_and_nothing_is_sent(engine, due, begin_ms):
    commit(engine, "2")
    received_up_to(engine, 5, moved=NOW - DOWN)
    for _ in range(2):
        assert sent_again(due) == []
        assert stub(engine, "1").resend_time >= begin_ms + 60_000
        set_stub(engine, "1", resend_time=0)
    assert alarms(engine) == [("CONSUMER_DOWN", "orders/broker-a/3")]


def test_a_quiet_queue_does_not_stand_still_because_its_first_stub_waits(engine, due):
    received_up_to(engine, 5, moved=NOW - DOWN)
    set_stub(engine, "1", first_send_time=NOW - 60_000)
    assert (sent_again(due), alarms(engine)) == ([], [])


def test_a_queue_that_nobody_ever_consumed_is_told(engine, due):
    set_stub(engine, "1", create_time=NOW - DOWN)
    assert sent_again(due) == []
    assert alarms(engine) == [("CONSUMER_DOWN", "orders/broker-a/3")]


@pytest.mark.parametrize("offset", [5, 71])
def test_what_was_sent_as_often_as_may_be_is_told_once(engine, due, offset):
    received_up_to(engine, offset)
    set_stub(engine, "1", send_count=16)
    assert due.review().left_to_human == ["1"]
    assert (due.review().stubs, alarms(engine)) == (0, [("MANUAL", "1")])
    assert stub(engine, "1").is_manual


@pytest.mark.parametrize(("offset", "moved"), [(5, NOW), (5, NOW - DOWN), (71, NOW)],
                         ids=["backlog", "of a queue that stands still", "passed"])
def test_what_was_sent_first_long_ago_is_left_to_a_human_however_it_stands(engine, due, offset, moved):
    """What is put off is not counted: without an end its copy could come when the inbox has forgotten the effect."""
    received_up_to(engine, offset, moved=moved)
    set_stub(engine, "1", first_send_time=NOW - ResendPolicy().age_max_ms - 60_000)
    assert due.review().left_to_human == ["1"]
    assert alarms(engine) == [("MANUAL", "1")]


def test_the_first_send_is_that_after_a_retry_by_hand(engine, begin_ms):
    commit(engine, "1")
    set_stub(engine, "1", send_count=0, first_send_time=7)
    due = DueStubs(engine, RelayConfig())
    due.claim()
    first = stub(engine, "1").first_send_time
    assert first >= begin_ms
    set_stub(engine, "1", resend_time=0, queue_offset=None)
    assert sent_again(due) == ["1"]
    assert stub(engine, "1").first_send_time == first


def test_what_a_consumer_has_is_not_left_to_a_human_yet(engine, due):
    received(engine, "1")
    set_stub(engine, "1", send_count=16)
    assert due.review().left_to_human == []


def test_w6_two_relays_review_no_stub_at_once(engine, due):
    with engine.begin() as first:
        assert len(outbox_table.review(first, ResendPolicy(), 10)) == 1
        if engine.dialect.name == "sqlite":
            other = create_engine(engine.url, connect_args={"timeout": 0})
            with pytest.raises(OperationalError, match="locked"), other.begin() as second:
                outbox_table.review(second, ResendPolicy(), 10)
            other.dispose()
        else:
            with engine.begin() as second:
                assert outbox_table.review(second, ResendPolicy(), 10) == []


# --- what is not where its place says -------------------------------------------------------------------------------


def stored(engine, message_id, number=1, **place):
    with engine.begin() as connection:
        connection.execute(insert(tables.attempts).values(
            message_id=message_id, kind="SEND", number=number, begin_time=NOW, end_time=NOW, outcome="STORED",
            **{"queue_offset": 70, **AT, **place}))


def made_due(engine, *gone):
    with engine.begin() as connection:
        return outbox_table.make_due(connection, [Gone(*each, "it is not there") for each in gone])


def test_a_message_that_is_gone_is_sent_again_though_it_seems_to_be_backlog(engine, due, begin_ms):
    received_up_to(engine, 5)
    stored(engine, "1")
    set_stub(engine, "1", resend_time=NOW + 3_600_000)
    assert (made_due(engine, ("1", 1), ("2", 1)), made_due(engine)) == (1, 0)
    row = stub(engine, "1")
    assert (row.queue_offset, row.version, row.last_error, row.send_count) == (None, 2, "it is not there", 1)
    assert begin_ms - 60_000 < row.resend_time < begin_ms + 3_600_000
    assert sent_again(due) == ["1"]


@pytest.mark.parametrize("changed", [{"version": 2}, {"status": "CONFIRMED"}, {"status": "VOIDED"}, {"is_manual": True},
                                     {"send_count": 2}, {"queue_offset": 71}, {"queue_id": 4},
                                     {"broker_name": "broker-b"}, {"queue_offset": None}], ids=repr)
def test_a_stub_that_is_not_as_it_was_read_or_whose_latest_send_has_no_place_yet_is_left(engine, due, changed):
    stored(engine, "1")
    set_stub(engine, "1", resend_time=5, **changed)
    before = stub(engine, "1")
    assert made_due(engine, ("1", 1)) == 0
    assert stub(engine, "1") == before


# --- several groups ----------------------------------------------------------------------------------------------


def test_all_open_groups_must_have_passed(engine):
    commit(engine, "1", groups=("billing", "stock"))
    due = DueStubs(engine, RelayConfig())
    received_up_to(engine, 71, "billing")
    assert sent_again(due) == []
    received_up_to(engine, 71, "stock")
    set_stub(engine, "1", resend_time=0)
    assert sent_again(due) == ["1"]


def test_a_group_that_received_the_message_last_has_not_passed_it(engine):
    commit(engine, "1", groups=("billing", "stock"))
    received_up_to(engine, 71, "billing")
    received_up_to(engine, 70, "stock")
    assert sent_again(DueStubs(engine, RelayConfig())) == []


def test_what_an_open_group_has_is_waited_for_though_another_is_done(engine):
    commit(engine, "1", groups=("billing", "stock"))
    for group in ("billing", "stock"):
        received_up_to(engine, 71, group)
    received(engine, "1", 60_000, "stock")
    confirmed_by(engine, "billing")
    assert sent_again(DueStubs(engine, RelayConfig())) == []


def test_a_group_that_is_done_is_waited_for_no_more(engine):
    commit(engine, "1", groups=("billing", "stock"))
    due = DueStubs(engine, RelayConfig())
    received_up_to(engine, 5, "billing", moved=NOW - DOWN)
    received_up_to(engine, 71, "stock")
    received(engine, "1", group="billing")
    confirmed_by(engine, "billing")
    assert (sent_again(due), alarms(engine)) == (["1"], [])


def test_an_open_group_that_stands_still_is_told(engine):
    commit(engine, "1", groups=("billing", "stock"))
    received_up_to(engine, 71, "billing")
    received_up_to(engine, 5, "stock", moved=NOW - DOWN)
    assert sent_again(DueStubs(engine, RelayConfig())) == []
    assert alarms(engine) == [("CONSUMER_DOWN", "orders/broker-a/3")]


def test_a_group_that_never_began_is_told_though_another_gets_on(engine):
    commit(engine, "1", groups=("billing", "stock"))
    set_stub(engine, "1", create_time=NOW - DOWN)
    received_up_to(engine, 71, "billing")
    assert sent_again(DueStubs(engine, RelayConfig())) == []
    assert alarms(engine) == [("CONSUMER_DOWN", "orders/broker-a/3")]


def test_what_one_group_has_is_waited_for_though_another_had_it_too_long(engine):
    commit(engine, "1", groups=("billing", "stock"))
    for group, age_ms in (("billing", STALE), ("stock", 60_000)):
        received_up_to(engine, 71, group)
        received(engine, "1", age_ms, group)
    assert (sent_again(DueStubs(engine, RelayConfig())), alarms(engine)) == ([], [])


def test_backlog_is_counted_from_the_slowest_group_that_is_open(engine):
    commit(engine, "1", groups=("billing", "stock", "mail"))
    for group, offset in (("billing", 40), ("stock", 50), ("mail", 10)):
        received_up_to(engine, offset, group)
    confirmed_by(engine, "mail")
    with engine.begin() as connection:
        [found] = outbox_table.review(connection, ResendPolicy(), 10)
    assert (found.action, found.received_up_to) == ("POSTPONE", 40)


# --- how long backlog takes --------------------------------------------------------------------------------------


def reviewed(offset, received_up_to):
    return Reviewed("1", 1, "POSTPONE", "orders", "orders/a/0", offset, received_up_to)


def test_backlog_waits_as_long_as_its_queue_takes_to_get_there(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("regulus.reliability.relay.time.monotonic", lambda: now[0])
    backlog, policy = Backlog(), ResendPolicy()
    assert backlog.wait_ms(reviewed(1_000, 0), policy) == 60_000        # no rate is known yet
    now[0] = 10.0
    assert backlog.wait_ms(reviewed(1_000, 100), policy) == 60_000 + 90_000     # 10 a second, 900 to go
    assert backlog.wait_ms(reviewed(10 ** 9, 100), policy) == 60_000 + policy.backlog_wait_max_ms
    now[0] = 20.0
    assert backlog.wait_ms(reviewed(1_000, 100), policy) == 60_000      # it stands still: nobody knows


def test_the_rates_of_queues_are_bounded(monkeypatch):
    monkeypatch.setattr("regulus.reliability.relay.BACKLOG_QUEUES_MAX", 3)
    backlog = Backlog()
    for number in range(10):
        backlog.wait_ms(reviewed(5, 1)._replace(queue=f"orders/a/{number}"), ResendPolicy())
        assert len(backlog._seen) <= 3
