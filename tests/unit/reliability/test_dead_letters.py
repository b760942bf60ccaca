"""A stub whose message a group gave up waits for a human, unless the effect is there."""

import pytest
from sqlalchemy import insert

from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import dlq_topic
from regulus.reliability import operator, tables
from regulus.reliability.alarms import close_settled, open_alarms
from regulus.reliability.dead_letters import DeadLetterListener
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.relay_loop import Relay
from tests.waiting import until

from .consumed import FROM_FIRST
from .deliveries import context, message, rows
from .shop import book, booked, place_orders, set_stub, stub

SUCCESS = ConsumeStatus.CONSUME_SUCCESS
DEAD = context("outbox-dead-letters", MessageQueue(dlq_topic("billing"), "broker-a", 0))


def give_up(engine, *ids, offset=0):
    assert DeadLetterListener(engine)([message(each, offset, times=17) for each in ids], DEAD) is SUCCESS


def retry(engine):
    with engine.begin() as connection:
        operator.retry(connection, "1", operator="ann", reason="the bank is back")


def add_groups(engine, message_id, **statuses):
    with engine.begin() as connection:
        connection.execute(insert(tables.confirmations), [
            {"message_id": message_id, "consumer_group": group, "status": status}
            for group, status in statuses.items()])


def alarms(engine):
    return rows(engine, tables.alarms, "kind", "subject", "detail")


def test_w18_a_dead_letter_leaves_its_stub_to_a_human_and_tells_once(engine):
    place_orders(engine, "1", "2")
    give_up(engine, "1")
    give_up(engine, "1")
    assert (stub(engine, "1").is_manual, stub(engine, "2").is_manual) == (True, False)
    [alarm] = alarms(engine)
    assert alarm == ("DEAD_LETTER", "1", "group billing gave it up after 17 deliveries: dead letter broker-a/0")


@pytest.mark.parametrize("status", ["CONFIRMED", "VOIDED"])
def test_what_is_done_needs_no_human(engine, status):
    place_orders(engine, "1")
    set_stub(engine, "1", status=status)
    give_up(engine, "1")
    assert (stub(engine, "1").is_manual, alarms(engine)) == (False, [])


@pytest.mark.parametrize(("statuses", "is_left"), [
    ({"billing": "UNCONFIRMED", "stock": "UNCONFIRMED"}, True),
    ({"billing": "CONFIRMED", "stock": "UNCONFIRMED"}, False),
    ({"stock": "UNCONFIRMED"}, False)])
def test_of_several_groups_the_one_counts_that_gave_up(engine, statuses, is_left):
    place_orders(engine, "1")
    add_groups(engine, "1", **statuses)
    give_up(engine, "1")
    assert (stub(engine, "1").is_manual, len(alarms(engine))) == (is_left, is_left)


def test_what_no_outbox_sent_changes_nothing(engine):
    stray = message("1")
    stray.properties.clear()
    place_orders(engine, "1")
    assert DeadLetterListener(engine)([stray, message("nosuch")], DEAD) is SUCCESS
    assert (stub(engine, "1").is_manual, alarms(engine)) == (False, [])


def test_a_stub_that_is_sent_again_by_hand_and_given_up_again_is_told_again(engine):
    place_orders(engine, "1")
    give_up(engine, "1")
    retry(engine)
    assert not stub(engine, "1").is_manual
    give_up(engine, "1", offset=1)
    assert (stub(engine, "1").is_manual, len(alarms(engine))) == (True, 2)


def test_a_dead_letter_that_was_mended_and_comes_again_takes_the_stub_from_nobody(engine):
    """As when its listener died before its offset was stored, or reads from the beginning."""
    place_orders(engine, "1")
    give_up(engine, "1", offset=4)
    retry(engine)
    give_up(engine, "1", offset=4)
    assert (stub(engine, "1").is_manual, len(alarms(engine))) == (False, 1)
    give_up(engine, "1", offset=5)
    retry(engine)
    for offset in (4, 5):
        give_up(engine, "1", offset=offset)
    assert (stub(engine, "1").is_manual, len(alarms(engine))) == (False, 2)


def test_a_dead_letter_that_is_sent_again_has_its_effect_and_ends_its_alarm(engine):
    """By `job redrive`, which leaves its stub to a human; the effect says that it needs none."""
    place_orders(engine, "1")
    give_up(engine, "1")
    assert ApplyOnce(engine, book)([message("1", 9)], context()) is SUCCESS
    assert (booked(engine), stub(engine, "1").status, stub(engine, "1").is_manual) == (["1"], "CONFIRMED", False)
    with engine.begin() as connection:
        close_settled(connection)
        assert open_alarms(connection, 9) == []
    give_up(engine, "1", offset=1)      # of another copy
    assert (stub(engine, "1").is_manual, len(alarms(engine))) == (False, 1)


def test_a_dead_letter_that_fails_again_when_it_is_sent_again_stays_with_the_human(engine):
    place_orders(engine, "1")
    give_up(engine, "1")
    give_up(engine, "1", offset=1)
    assert (stub(engine, "1").is_manual, len(alarms(engine))) == (True, 1)


async def test_dead_letters_of_a_broker_reach_their_stubs(engine, regulus_server):
    def refuse(messages, given):
        given.delay_level_when_next_consume = -1
        return ConsumeStatus.RECONSUME_LATER

    place_orders(engine, "1", "2")
    address = regulus_server.name_server_address
    billing = PushConsumer(address, "billing", refuse, FROM_FIRST)
    billing.subscribe("orders")
    watch = PushConsumer(address, "outbox-dead-letters", DeadLetterListener(engine), FROM_FIRST)
    watch.subscribe(dlq_topic("billing"))
    async with Relay(engine, address), billing:
        await until(lambda: stub(engine, "1").queue_offset is not None)
        async with watch:
            await until(lambda: stub(engine, "1").is_manual and stub(engine, "2").is_manual)
    assert [(kind, subject) for kind, subject, _ in alarms(engine)] == [("DEAD_LETTER", "1"), ("DEAD_LETTER", "2")]


def test_a_dead_letter_with_an_id_that_no_outbox_gives_holds_up_no_others(engine):
    place_orders(engine, "1")
    strays = [MessageExt("orders", b"x", {"BUSINESS_ID": odd}) for odd in ("a\0b", "\ud800")]
    queue = MessageQueue("%DLQ%billing", "broker-a", 0)
    assert DeadLetterListener(engine)([*strays, message("1")], context(queue=queue)) is ConsumeStatus.CONSUME_SUCCESS
    assert stub(engine, "1").is_manual
