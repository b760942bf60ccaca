"""What a consumer writes down of each delivery: that it came, how far the group is, and how it ended."""

import pytest
from sqlalchemy import event, insert, text

from regulus.client.listener import ConsumeStatus
from regulus.model.message import Message
from regulus.reliability import delivery_log, tables
from regulus.reliability.delivery_log import MadeAnew
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.outbox import Outbox

from .deliveries import QUEUE, RETRY_QUEUE, context, message, rows
from .shop import book, booked, orders, place_orders, set_stub

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


def received(engine):
    return rows(engine, tables.message_log, "message_id", "consumer_group", "queue_offset", "reconsume_times")


def watermark(engine):
    return rows(engine, tables.watermarks, "consumer_group", "topic", "broker_name", "queue_id", "queue_offset_max")


def outcomes(engine):
    return rows(engine, tables.attempts, "attempt_id", "message_id", "number", "queue_offset", "outcome")


def fails(connection, message):
    raise ValueError("no stock")


def test_w9_a_receipt_is_there_before_the_effect_and_goes_with_it(engine):
    place_orders(engine, "1")
    seen = []

    def effect(connection, message):
        seen.extend(received(engine))
        book(connection, message)

    assert ApplyOnce(engine, effect)([message("1", offset=7)], context()) is SUCCESS
    assert seen == [("1", "billing", 7, 0)]
    assert (received(engine), booked(engine)) == ([], ["1"])


def test_d2_a_receipt_stays_while_its_effect_is_not_made_and_tells_the_latest_copy(engine):
    place_orders(engine, "1")
    listener = ApplyOnce(engine, fails)
    for offset, times in ((7, 0), (3, 1)):
        with pytest.raises(ValueError):
            listener([message("1", offset, times)], context(queue=RETRY_QUEUE if times else context().message_queue))
    assert received(engine) == [("1", "billing", 3, 1)]


def test_the_receipt_of_what_is_parked_goes(engine):
    listener = ApplyOnce(engine, book)
    for times in range(3):
        assert len(received(engine)) == (times > 0)
        listener([message("stray", times=times)], context())
    assert received(engine) == []


@pytest.mark.parametrize("status", ["CONFIRMED", "VOIDED"])
def test_d3_d4_d7_d9_w13_w14_the_receipt_of_what_is_done_goes(engine, status):
    place_orders(engine, "1")
    set_stub(engine, "1", status=status)
    assert ApplyOnce(engine, book)([message("1")], context()) is SUCCESS
    assert received(engine) == []


def test_d12_nothing_is_done_without_a_receipt(engine):
    place_orders(engine, "1")
    listener = ApplyOnce(engine, book)
    listener.check()
    tables.message_log.drop(engine)
    with pytest.raises(Exception, match="regulus_message_log"):
        listener([message("1")], context())
    assert booked(engine) == []


def test_all_receipts_of_a_call_are_one_transaction_before_its_effects(engine):
    place_orders(engine, *"123")
    statements = []
    listener = ApplyOnce(engine, fails_at("2"))
    listener.check()
    event.listen(engine, "begin", lambda connection: statements.append("begin"))
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    assert listener([message(each, offset) for offset, each in enumerate("123")], context()) is SUCCESS
    assert [row[0] for row in received(engine)] == ["2"]
    second = [number for number, each in enumerate(statements) if each == "begin"][1]
    written = " ".join(statements[:second])
    assert ("INTO regulus_message_log" in written, "INTO regulus_watermark" in written) == (True, True)


def fails_at(message_id):
    def effect(connection, message):
        if message.body.decode() == message_id:
            raise ValueError("no stock")
        book(connection, message)
    return effect


def test_an_effect_is_on_disk_when_it_is_committed_though_its_receipt_is_not(engine):
    """Receipt and effect may come by the same connection of the pool."""
    if engine.dialect.name != "postgresql":
        pytest.skip("PostgreSQL alone has commits that do not wait for the disk")
    place_orders(engine, "1")
    seen = []
    listener = ApplyOnce(engine, lambda connection, message: seen.append(
        connection.execute(text("SHOW synchronous_commit")).scalar_one()))
    assert listener([message("1")], context()) is SUCCESS
    assert seen == ["on"]


def test_a_receipt_goes_with_the_effect_of_its_group_alone(engine):
    with engine.begin() as connection:
        connection.execute(insert(orders).values(id="1"))
        Outbox(groups=("billing", "stock")).add(connection, Message("orders", b"1"), message_id="1")
    with pytest.raises(ValueError):
        ApplyOnce(engine, fails)([message("1", 7)], context("stock"))
    assert ApplyOnce(engine, book)([message("1", 7)], context("billing")) is SUCCESS
    assert received(engine) == [("1", "stock", 7, 0)]


def test_a_later_copy_is_received_later(engine):
    """What waits for its retry is in the group's hands from each delivery on."""
    place_orders(engine, "1")
    for times in (0, 1):
        with engine.begin() as connection:
            connection.execute(tables.message_log.update().values(create_time=1, receive_time=1))
        with pytest.raises(ValueError):
            ApplyOnce(engine, fails)([message("1", times=times)], context())
    [(created, got)] = rows(engine, tables.message_log, "create_time", "receive_time")
    assert (created, got > 1_000_000) == (1, True)


def test_a_copy_in_one_call_is_one_receipt(engine):
    place_orders(engine, "1")
    with pytest.raises(ValueError):
        ApplyOnce(engine, fails)([message("1", 4), message("1", 9)], context())
    assert received(engine) == [("1", "billing", 9, 0)]


# --- the watermark -----------------------------------------------------------------------------------------------


def test_the_watermark_is_the_last_offset_received_and_never_goes_back(engine):
    place_orders(engine, *"12345")
    listener = ApplyOnce(engine, book)
    seen = []
    for offsets in ((5, 4), (9,), (6,)):
        listener([message(str(offset % 5 + 1), offset) for offset in offsets], context())
        seen.append(watermark(engine)[0][-1])
    assert seen == [5, 9, 9]
    assert watermark(engine) == [("billing", "orders", "broker-a", 0, 9)]


def test_the_time_of_a_watermark_is_that_of_its_move(engine):
    place_orders(engine, "1")
    listener = ApplyOnce(engine, book)
    listener([message("1", 5)], context())
    with engine.begin() as connection:
        connection.execute(tables.watermarks.update().values(move_time=1))
    listener([message("1", 5)], context())
    listener([message("1", 4)], context())
    assert rows(engine, tables.watermarks, "move_time") == [(1,)]
    listener([message("1", 6)], context())
    assert rows(engine, tables.watermarks, "move_time") > [(1_000_000,)]


def test_w24_a_retry_moves_no_watermark(engine):
    """It is stored in the group's retry topic, at an offset that says nothing of the message's own queue."""
    place_orders(engine, "1")
    listener = ApplyOnce(engine, book)
    listener([message("1", 900, times=1)], context(queue=RETRY_QUEUE))
    assert watermark(engine) == []


def test_groups_have_watermarks_of_their_own(engine):
    place_orders(engine, "1")
    for group, offset in (("billing", 3), ("stock", 5)):
        ApplyOnce(engine, book)([message("1", offset)], context(group))
    assert [(row[0], row[-1]) for row in watermark(engine)] == [("billing", 3), ("stock", 5)]


def test_a_watermark_is_lowered_in_its_own_queue_and_group_alone(engine):
    others = [QUEUE._replace(topic="bills"), QUEUE._replace(broker_name="broker-b"), QUEUE._replace(queue_id=1)]
    with engine.begin() as connection:
        for group, queues in (("billing", [QUEUE, *others]), ("stock", [QUEUE])):
            delivery_log.raise_watermarks(connection, group, dict.fromkeys(queues, 9))
        assert delivery_log.lower_watermark(connection, "billing", MadeAnew(QUEUE, 9, end=5, stored=3))
        found = {group: delivery_log.watermarks_of(connection, group) for group in ("billing", "stock")}
    assert found == {"billing": {QUEUE: 3, **dict.fromkeys(others, 9)}, "stock": {QUEUE: 9}}


# --- the ledger --------------------------------------------------------------------------------------------------


def test_each_delivery_is_told_with_its_outcome(engine):
    place_orders(engine, "1")
    with pytest.raises(ValueError):
        ApplyOnce(engine, fails)([message("1", 7)], context())
    listener = ApplyOnce(engine, book)
    for times, each in ((1, "1"), (2, "1"), (0, "nosuch")):
        listener([message(each, 10 + times, times)], context())
    assert [row[1:] for row in outcomes(engine)] == [
        ("1", 0, 7, "FAILED"), ("1", 1, 11, "APPLIED"), ("1", 2, 12, "DONE"), ("nosuch", 0, 10, "MISSING")]


def test_what_a_human_took_back_is_told_so(engine):
    place_orders(engine, "1")
    set_stub(engine, "1", status="VOIDED")
    ApplyOnce(engine, book)([message("1")], context())
    assert rows(engine, tables.attempts, "outcome") == [("VOIDED",)]


def test_a_delivery_is_told_with_its_times_by_the_clock_of_the_database(engine):
    place_orders(engine, "1")
    ApplyOnce(engine, book)([message("1")], context())
    (begin, end), = rows(engine, tables.attempts, "begin_time", "end_time")
    (committed,), = rows(engine, tables.stubs, "create_time")
    assert committed - 1 <= begin <= end <= committed + 60_000


def test_a_failure_is_told_with_its_reason(engine):
    place_orders(engine, "1")
    with pytest.raises(ValueError):
        ApplyOnce(engine, fails)([message("1")], context())
    assert rows(engine, tables.attempts, "outcome", "detail") == [("FAILED", "ValueError: no stock")]


def test_an_effect_that_is_rolled_back_is_not_told_as_applied(engine):
    place_orders(engine, "1")

    class Killed(BaseException):
        pass

    def effect(connection, message):
        book(connection, message)
        connection.execute(tables.attempts.select())
        raise Killed
    with pytest.raises(Killed):
        ApplyOnce(engine, effect)([message("1")], context())
    assert rows(engine, tables.attempts, "outcome") == [("FAILED",)]


def test_d5_what_nobody_committed_is_an_alarm_once_it_is_parked(engine):
    listener = ApplyOnce(engine, book)
    for times in (0, 1):
        listener([message("stray", times=times)], context())
    assert rows(engine, tables.alarms, "subject") == []
    for _ in range(2):      # once a cause
        listener([message("stray", times=2)], context())
    assert rows(engine, tables.alarms, "kind", "subject") == [("MISSING_STUB", "stray")]
