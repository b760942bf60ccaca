"""A consumer with a database of its own: its inbox lets one effect commit, and the stub is confirmed afterwards."""

import logging
import threading

import pytest
from sqlalchemy import create_engine, insert

from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sync import Producer
from regulus.errors import ReliabilityRefused
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.reliability import judges, tables
from regulus.reliability.confirms import CONFIRMATION_TOPIC, ConfirmationListener, MessageConfirms, StubConfirms
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.outbox import Outbox
from regulus.reliability.relay_loop import Relay
from tests.waiting import until

from .consumed import FROM_FIRST
from .deliveries import context, message, rows
from .shop import book, booked, count_stubs, orders, place_orders, shop, stub

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


@pytest.fixture
def business(tmp_path):
    """The database of the stubs; `engine` is the consumer's."""
    business = create_engine(f"sqlite:///{tmp_path / 'business.sqlite'}")
    with business.begin() as connection:
        tables.create(connection)
        shop.create_all(connection)
    place_orders(business, "1")
    yield business
    business.dispose()


def inbox(engine):
    return rows(engine, tables.inbox, "message_id", "consumer_group", "queue_offset")


class Lost:
    """A way to the stub that is cut off."""

    def confirm(self, message_id, consumer_group):
        raise OSError("no way")


def test_effect_and_inbox_are_one_commit_and_a_copy_changes_nothing(engine, business):
    listener = ApplyOnce(engine, book, confirms=StubConfirms(business))
    assert [listener([message("1", offset)], context()) for offset in (7, 9)] == [SUCCESS] * 2
    assert (booked(engine), inbox(engine)) == (["1"], [("1", "billing", 7)])
    assert stub(business, "1").status == "CONFIRMED"
    assert rows(engine, tables.attempts, "outcome") == [("APPLIED",), ("DONE",)]


@pytest.mark.parametrize(("topic", "body"), [("payments", b"1"), ("orders", b"other")])
def test_another_message_of_an_id_that_is_applied_is_neither_lost_nor_confirmed_in_silence(engine, business, topic,
                                                                                           body):
    """As of two businesses that both count from 1."""
    listener = ApplyOnce(engine, book, confirms=Lost())
    assert listener([message("1")], context()) is SUCCESS
    other = MessageExt(topic, body, {"BUSINESS_ID": "1"}, queue_offset=7)
    judged = ApplyOnce(engine, book, confirms=StubConfirms(business))
    with pytest.raises(ReliabilityRefused, match="ids have to be unique among all that a group consumes"):
        judged([other], context(queue=MessageQueue(topic, "broker-a", 0)))
    assert (booked(engine), stub(business, "1").status) == (["1"], "UNCONFIRMED")
    assert rows(engine, tables.attempts, "outcome") == [("APPLIED",), ("FAILED",)]


def test_two_groups_in_one_database_have_inboxes_of_their_own(engine):
    listener = ApplyOnce(engine, book, confirms=Lost())
    answers = [listener([message("1")], context(group)) for group in ("billing", "stock", "billing", "stock")]
    assert (answers, booked(engine)) == ([SUCCESS] * 4, ["1", "1"])


def test_an_effect_that_fails_leaves_no_row(engine, business):
    def fails(connection, message):
        book(connection, message)
        raise ValueError("no stock")

    with pytest.raises(ValueError):
        ApplyOnce(engine, fails, confirms=StubConfirms(business))([message("1")], context())
    assert (booked(engine), inbox(engine), stub(business, "1").status) == ([], [], "UNCONFIRMED")
    assert ApplyOnce(engine, book, confirms=StubConfirms(business))([message("1")], context()) is SUCCESS
    assert booked(engine) == ["1"]


def test_a_confirmation_that_is_lost_is_made_by_the_next_copy(engine, business, caplog):
    with caplog.at_level(logging.WARNING):
        assert ApplyOnce(engine, book, confirms=Lost())([message("1")], context()) is SUCCESS
    assert "committed, and its stub not yet confirmed: OSError: no way" in caplog.text
    assert stub(business, "1").status == "UNCONFIRMED"
    assert ApplyOnce(engine, book, confirms=StubConfirms(business))([message("1")], context()) is SUCCESS
    assert (stub(business, "1").status, booked(engine)) == ("CONFIRMED", ["1"])


def test_of_two_copies_at_once_one_has_its_effect(engine, business):
    started = threading.Barrier(2)

    def deliver():
        started.wait(60)
        answers.append(ApplyOnce(engine, book, confirms=StubConfirms(business))([message("1")], context()))

    answers = []
    workers = [threading.Thread(target=deliver) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert (booked(engine), answers) == (["1"], [SUCCESS] * 2)


def test_a_message_that_no_outbox_sent_is_parked(engine, business):
    stray = message("1")
    stray.properties.clear()
    given = context()
    stray.reconsume_times = 2
    assert ApplyOnce(engine, book, confirms=StubConfirms(business))([stray], given) is LATER
    assert (given.delay_level_when_next_consume, booked(engine)) == (-1, [])


def test_groups_confirm_their_own_rows(engine, business):
    with business.begin() as connection:
        connection.execute(insert(orders).values(id="2"))
        Outbox(groups=("billing", "stock")).add(connection, Message("orders", b"2"), message_id="2")
    listener = ApplyOnce(engine, book, confirms=StubConfirms(business))
    listener([message("2")], context("billing"))
    assert stub(business, "2").status == "UNCONFIRMED"
    listener([message("2")], context("stock"))
    assert (stub(business, "2").status, booked(engine)) == ("CONFIRMED", ["2", "2"])


async def test_confirmations_by_message_reach_the_stub(engine, business, regulus_server):
    place_orders(business, *"23456")
    address = regulus_server.name_server_address
    producer = Producer(address, "confirms")
    producer.start()
    effects = PushConsumer(address, "billing", ApplyOnce(engine, book, confirms=MessageConfirms(producer)), FROM_FIRST)
    effects.subscribe("orders")
    confirmations = PushConsumer(address, "confirmations", ConfirmationListener(business), FROM_FIRST)
    confirmations.subscribe(CONFIRMATION_TOPIC)
    try:
        async with Relay(business, address), effects, confirmations:
            await until(lambda: count_stubs(business, status="CONFIRMED") == 6)
    finally:
        producer.shutdown()
    assert booked(engine) == list("123456")


def test_confirmations_of_a_call_go_in_one_order_whoever_makes_them(business, monkeypatch):
    """Two of these would wait for each other's rows otherwise, until the database ends one."""
    ids, made = "231", []
    place_orders(business, "2", "3")
    confirm = judges.confirm

    def note(connection, message_id, group):
        made.append(message_id)
        return confirm(connection, message_id, group)

    monkeypatch.setattr(judges, "confirm", note)
    StubConfirms(business).confirm_all(list(ids), "billing")
    assert ConfirmationListener(business)([message(each) for each in ids], context()) is SUCCESS
    assert made == [*"123", *"123"]


def test_a_confirmation_without_an_id_or_of_an_unknown_stub_changes_nothing(business):
    listener = ConfirmationListener(business)
    stray = message("nosuch")
    nameless = message("1")
    nameless.properties.clear()
    assert listener([stray, nameless], context()) is SUCCESS
    assert stub(business, "1").status == "UNCONFIRMED"


def test_a_confirmation_that_nobody_gives_holds_up_no_others(engine):
    place_orders(engine, "1")
    odd = [MessageExt("c", b"", {"BUSINESS_ID": "a\0b"}), MessageExt("c", b"", {"BUSINESS_ID": "1",
                                                                              "CONSUMER_GROUP": "\ud800\0"})]
    assert ConfirmationListener(engine)(odd, context()) is SUCCESS
    assert stub(engine, "1").status == "CONFIRMED"
