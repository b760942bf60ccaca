"""Relays between real databases and a real broker, which are killed, refused and left alone."""

import asyncio
import logging
import os
import signal
import sqlite3
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, insert
from sqlalchemy.exc import DBAPIError, OperationalError

from regulus.client.config import ProducerConfig
from regulus.client.sending.producer import Producer
from regulus.errors import DatabaseUnanswered, ReliabilityRefused
from regulus.model.message import Message
from regulus.reliability import outbox_table, tables
from regulus.reliability.alarm_channels import LogChannel
from regulus.reliability.alarm_loop import AlarmLoop
from regulus.reliability.broker_watch import BrokerWatch
from regulus.reliability.outbox import Outbox
from regulus.reliability.relay import DueStubs, RelayConfig
from regulus.reliability.relay_loop import BlockingRelay, Relay
from regulus.reliability.retry_policy import ResendPolicy
from tests.waiting import until

from .conftest import with_empty_tables
from .consumed import consumed_bodies
from .shop import count_stubs, make_due, orders, pass_all, place_orders, set_stub, stub


class Killed(BaseException):
    """What ends a relay at a step, as a kill would: nothing of it goes on."""


async def test_what_is_committed_is_sent_and_its_place_is_known(engine, regulus_server):
    async with Relay(engine, regulus_server.name_server_address):
        place_orders(engine, "1", "2")
        await until(lambda: count_stubs(engine, queue_offset=None) == 0)
    assert sorted(await consumed_bodies(regulus_server, "orders", 2)) == ["1", "2"]
    first, second = stub(engine, "1"), stub(engine, "2")
    assert first.broker_name == second.broker_name
    assert (first.send_count, first.status) == (1, "UNCONFIRMED")
    assert sorted([first.queue_offset, second.queue_offset]) == [0, 1]     # written in one millisecond: no order
    assert first.queue_id == second.queue_id


async def test_postgresql_wakes_the_relay(engine, regulus_server):
    """Within the time limit of the wait, and far ahead of the interval."""
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite tells nobody")
    config = RelayConfig(poll_interval_ms=600_000)
    async with Relay(engine, regulus_server.name_server_address, config=config):
        for number in range(3):
            place_orders(engine, str(number))
            await until(lambda: count_stubs(engine, queue_offset=None) == 0)


async def test_two_relays_send_each_message_once(engine, regulus_server):
    ids = [f"order-{number}" for number in range(200)]
    place_orders(engine, *ids)
    config = RelayConfig(batch_max=9, poll_interval_ms=20)
    async with Relay(engine, regulus_server.name_server_address, config=config), \
            Relay(engine, regulus_server.name_server_address, config=config):
        await until(lambda: count_stubs(engine, queue_offset=None) == 0)
    assert sorted(await consumed_bodies(regulus_server, "orders", 200)) == sorted(ids)
    assert count_stubs(engine, send_count=1) == 200


async def test_w2_what_was_claimed_and_never_sent_is_sent_when_it_is_due(engine, regulus_server):
    place_orders(engine, "1")
    assert len(DueStubs(engine, RelayConfig()).claim()) == 1      # and its relay is gone
    async with rounds(engine, regulus_server) as relay:
        assert await relay.relay_due() == 0
        make_due(engine)
        assert await relay.relay_due() == 1
    assert await consumed_bodies(regulus_server, "orders", 1) == ["1"]
    assert stub(engine, "1").send_count == 2


@pytest.mark.parametrize("is_stored", [True, False])
async def test_w3_a_send_without_an_answer_is_made_again_and_not_forgotten(engine, regulus_server, monkeypatch,
                                                                           is_stored):
    send = Producer.send

    async def killed(self, message, **options):
        if is_stored:
            await send(self, message, **options)
        raise Killed

    place_orders(engine, "1")
    monkeypatch.setattr(Producer, "send", killed)
    async with rounds(engine, regulus_server) as relay:
        with pytest.raises(Killed):
            await relay.relay_due()
        monkeypatch.setattr(Producer, "send", send)
        make_due(engine)
        assert await relay.relay_due() == 1
    copies = 2 if is_stored else 1
    assert await consumed_bodies(regulus_server, "orders", copies) == ["1"] * copies
    assert stub(engine, "1").send_count == 2


async def test_w4_a_place_that_was_never_stored_costs_a_copy(engine, regulus_server, monkeypatch):
    store = DueStubs.store

    def killed(self, outcomes):
        raise Killed

    place_orders(engine, "1")
    monkeypatch.setattr(DueStubs, "store", killed)
    async with rounds(engine, regulus_server) as relay:
        with pytest.raises(Killed):
            await relay.relay_due()
        monkeypatch.setattr(DueStubs, "store", store)
        assert stub(engine, "1").queue_offset is None
        make_due(engine)
        assert await relay.relay_due() == 1
    assert await consumed_bodies(regulus_server, "orders", 2) == ["1", "1"]
    assert stub(engine, "1").queue_offset is not None


async def test_a_broker_that_is_away_costs_attempts_and_no_message(engine, make_broker_process):
    broker = make_broker_process()
    place_orders(engine, "1")
    async with rounds(engine, broker) as relay:
        broker.kill()
        assert await relay.relay_due() == 0
        row = stub(engine, "1")
        assert row.send_count == 1
        assert row.last_error
        broker.start()
        make_due(engine)
        assert await relay.relay_due() == 1
    assert stub(engine, "1").last_error is None


async def test_a_broker_that_stands_still_stores_no_more_copies_than_were_counted(engine, make_broker_process):
    """It takes what comes, and answers when it goes on: the producer gave up long before."""
    broker = make_broker_process()
    place_orders(engine, "0")
    async with rounds(engine, broker) as relay:
        assert await relay.relay_due() == 1     # over a connection that is there
        place_orders(engine, "1")
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            assert await relay.relay_due() == 0
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert (stub(engine, "1").send_count, stub(engine, "1").queue_offset) == (1, None)
        place_orders(engine, "2")
        assert await relay.relay_due() == 1     # behind all that the connection held
    assert sorted(await consumed_bodies(broker, "orders", 3)) == ["0", "1", "2"]


async def test_a_message_that_waits_at_the_broker_is_not_due_before_its_time(engine, regulus_server):
    """Its place there is one among those that wait, of which no watermark says anything."""
    with engine.begin() as connection:
        connection.execute(insert(orders).values(id="1"))
        Outbox().add(connection, Message("orders", b"1", properties={"DELAY": "18"}), message_id="1")
    async with rounds(engine, regulus_server) as relay:
        assert await relay.relay_due() == 1
        row = stub(engine, "1")
        assert (row.queue_offset, row.send_count) == (None, 1)
        assert row.resend_time - row.create_time >= 2 * 3_600_000 + 60_000
        make_due(engine)
        assert await relay.relay_due() == 1
    assert stub(engine, "1").queue_offset is not None
    assert await consumed_bodies(regulus_server, "orders", 1) == ["1"]     # the copy, which does not wait again


async def test_one_message_that_is_refused_holds_up_no_others(engine, regulus_server):
    """What a broker finds in one message of a batch it says of the whole batch."""
    place_orders(engine, "1", "2", "3")
    set_stub(engine, "2", properties="UNIQ_KEY\x01" + "k" * 33_000 + "\x02")
    async with rounds(engine, regulus_server) as relay:
        assert await relay.relay_due() == 2
    assert sorted(await consumed_bodies(regulus_server, "orders", 2)) == ["1", "3"]
    assert "BrokerRefused" in stub(engine, "2").last_error


async def test_a_message_that_nobody_confirms_ends_with_a_human(engine, regulus_server, caplog):
    place_orders(engine, "1")
    config = RelayConfig(policy=ResendPolicy(interval_ms=1, interval_ms_max=1, attempts_max=3), poll_interval_ms=5)
    with caplog.at_level(logging.ERROR, "regulus.reliability.relay_loop"):
        async with Relay(engine, regulus_server.name_server_address, config=config):
            await until(lambda: stub(engine, "1").queue_offset is not None)
            pass_all(engine)
            await until(lambda: stub(engine, "1").is_manual)
    assert stub(engine, "1").send_count == 3
    errors = [record for record in caplog.records
              if record.name == "regulus.reliability.relay_loop" and record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == [
        ("the effects of 1 messages are not confirmed after 3 sends, or 7 days; they are sent no more and wait for a "
         "human (regulus outbox list): 1")]
    assert await consumed_bodies(regulus_server, "orders", 3) == ["1"] * 3


def conflict(state="40001"):
    """As PostgreSQL's driver says it of a transaction that it ended for another's sake."""
    class Ended(Exception):
        sqlstate = state
    return DBAPIError("SELECT 1", {}, Ended("could not serialize access"))


@pytest.mark.parametrize("fails", ["in time", "at its time limit", "by conflicts"])
async def test_w26_new_stubs_leave_whatever_becomes_of_reviews(engine, regulus_server, monkeypatch, fails):
    """None waits for a review, nor for the pause behind one that failed."""
    tried, over = [], threading.Event()

    def review(connection, policy, limit):
        tried.append(limit)
        if fails == "at its time limit":
            over.wait(60)
        if fails == "by conflicts":
            raise conflict()
        raise OSError("canceling statement due to statement timeout")

    monkeypatch.setattr(outbox_table, "review", review)
    monkeypatch.setattr("regulus.client.tasks.RESTART_MS_MIN", 600_000)
    monkeypatch.setattr("regulus.client.tasks.RESTART_MS_MAX", 600_000)
    async with Relay(engine, regulus_server.name_server_address, config=RelayConfig(poll_interval_ms=5)) as relay:
        await until(lambda: tried)
        if fails != "at its time limit":
            await until(lambda: relay.restarts == 1)
        for number in range(3):
            place_orders(engine, str(number))
            await until(lambda: count_stubs(engine, queue_offset=None) == 0)
        over.set()
    assert sorted(await consumed_bodies(regulus_server, "orders", 3)) == ["0", "1", "2"]
    assert count_stubs(engine, send_count=1) == 3
    assert len(tried) == (3 if fails == "by conflicts" else 1)


async def test_w26_a_claim_that_fails_keeps_no_other_stub_from_being_sent_again(engine, regulus_server, monkeypatch):
    def claim(connection, policy, limit):
        raise OSError("canceling statement due to statement timeout")

    place_orders(engine, "1")
    set_stub(engine, "1", send_count=1, resend_time=0)
    monkeypatch.setattr(outbox_table, "claim", claim)
    monkeypatch.setattr("regulus.client.tasks.RESTART_MS_MIN", 600_000)
    async with Relay(engine, regulus_server.name_server_address, config=RelayConfig(poll_interval_ms=5)):
        await until(lambda: stub(engine, "1").queue_offset is not None)
    assert stub(engine, "1").send_count == 2


@pytest.mark.parametrize(("which", "count"), [("claim", 0), ("review", 3)])
async def test_what_was_claimed_for_a_round_that_was_cancelled_is_given_back(engine, regulus_server, monkeypatch, which,
                                                                             count):
    """The thread goes on, and commits its claim, which nobody sends."""
    place_orders(engine, "1")
    first = stub(engine, "1").create_time if count else None
    set_stub(engine, "1", send_count=count, resend_time=0, first_send_time=first)
    taken, let_go, take = threading.Event(), threading.Event(), getattr(DueStubs, which)

    def slow(self):
        result = take(self)
        taken.set()
        assert let_go.wait(60)
        return result

    monkeypatch.setattr(DueStubs, which, slow)
    async with rounds(engine, regulus_server) as relay:
        round = asyncio.create_task(relay.relay_due())
        await asyncio.to_thread(taken.wait, 60)
        assert stub(engine, "1").send_count == count + 1
        round.cancel()
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await round
        row = stub(engine, "1")
        assert (row.send_count, row.first_send_time) == (count, first)
        monkeypatch.undo()
        assert await relay.relay_due() == 1
    assert await consumed_bodies(regulus_server, "orders", 1) == ["1"]


async def test_a_claim_that_cannot_be_given_back_is_told_and_ends_no_cancellation(engine, monkeypatch, caplog):
    place_orders(engine, "1")
    taken, let_go, take = threading.Event(), threading.Event(), DueStubs.claim

    def slow(self):
        result = take(self)
        taken.set()
        assert let_go.wait(60)
        return result

    def refused(connection, counts):
        raise conflict("57014")

    monkeypatch.setattr(DueStubs, "claim", slow)
    monkeypatch.setattr(outbox_table, "give_back", refused)
    round = asyncio.create_task(Relay(engine, "127.0.0.1:1").relay_due())
    await asyncio.to_thread(taken.wait, 60)
    round.cancel()
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await round
    assert "1 messages of the outbox were claimed and not sent, and will be when they are due again" in caplog.text


async def test_a_place_is_written_down_when_the_database_lets_it(engine, regulus_server, monkeypatch):
    store, faults = DueStubs.store, ["away", "locked"]

    def away(self, outcomes):
        if faults:
            raise OperationalError("UPDATE", {}, sqlite3.OperationalError(faults.pop()))
        store(self, outcomes)

    place_orders(engine, "1")
    monkeypatch.setattr(DueStubs, "store", away)
    monkeypatch.setattr("regulus.reliability.relay_loop.STORE_REST_MS", 1)
    async with rounds(engine, regulus_server) as relay:
        assert await relay.relay_due() == 1
    assert stub(engine, "1").queue_offset == 0


async def test_a_fault_of_a_program_is_raised_and_not_waited_for(engine, regulus_server, monkeypatch):
    def wrong(self, outcomes):
        raise DBAPIError("UPDATE", {}, TypeError("no such column"))

    place_orders(engine, "1")
    monkeypatch.setattr(DueStubs, "store", wrong)
    monkeypatch.setattr("regulus.reliability.relay_loop.STORE_REST_MS", 3_600_000)
    async with rounds(engine, regulus_server) as relay:
        with pytest.raises(DBAPIError):
            await relay.relay_due()


async def test_a_batch_that_fails_in_a_way_of_its_own_costs_no_other_its_place(engine, regulus_server, monkeypatch):
    send = Producer.send

    async def broken(self, message, **options):
        if message.topic == "odd":
            raise KeyError("a fault of a program")
        return await send(self, message, **options)

    place_orders(engine, "1", topic="odd")
    place_orders(engine, "2")
    monkeypatch.setattr(Producer, "send", broken)
    async with rounds(engine, regulus_server) as relay:
        with pytest.raises(KeyError):
            await relay.relay_due()
    assert (stub(engine, "1").queue_offset, stub(engine, "2").queue_offset) == (None, 0)


async def test_a_message_of_a_refused_batch_that_fails_costs_no_other_its_place(engine, regulus_server, monkeypatch):
    send = Producer.send

    async def broken(self, message, **options):
        if message.keys == "1 vip":
            raise KeyError("a fault of a program")
        return await send(self, message, **options)

    place_orders(engine, "1", "2", "3")
    set_stub(engine, "2", properties="UNIQ_KEY\x01" + "k" * 33_000 + "\x02")
    monkeypatch.setattr(Producer, "send", broken)
    async with rounds(engine, regulus_server) as relay:
        with pytest.raises(KeyError):
            await relay.relay_due()
    assert "BrokerRefused" in stub(engine, "2").last_error
    assert stub(engine, "3").queue_offset == 0


async def test_a_relay_goes_on_when_the_database_was_away(engine, regulus_server, monkeypatch):
    claim = DueStubs.claim
    faults = [OSError("the database is away")]

    def away(self):
        if faults:
            raise faults.pop()
        return claim(self)

    monkeypatch.setattr(DueStubs, "claim", away)
    monkeypatch.setattr("regulus.client.tasks.RESTART_MS_MIN", 1)
    place_orders(engine, "1")
    async with Relay(engine, regulus_server.name_server_address) as relay:
        await until(lambda: count_stubs(engine, queue_offset=None) == 0)
    assert relay.restarts == 1


async def test_a_locked_database_is_a_line_and_no_death(tmp_path, regulus_server, monkeypatch, caplog):
    """SQLite alone refuses a second writer. A reader would refuse it as well, so nobody looks before the end."""
    monkeypatch.setattr("regulus.client.tasks.RESTART_MS_MIN", 1)
    address = f"sqlite:///{tmp_path / 'shop.sqlite'}"
    impatient = create_engine(f"{address}?timeout=0")
    with contextmanager(with_empty_tables)(create_engine(address)) as engine:
        place_orders(engine, "1")
        async with rounds(engine, regulus_server) as first:
            assert await first.relay_due() == 1
        async with Relay(impatient, regulus_server.name_server_address) as relay:
            with engine.begin() as connection:
                Outbox().add(connection, Message("orders", b"2"), message_id="2")
                await until(lambda: relay.restarts)
            assert sorted(await consumed_bodies(regulus_server, "orders", 2)) == ["1", "2"]
        assert count_stubs(engine, queue_offset=None) == 0
    impatient.dispose()
    told = [record for record in caplog.records if record.name == "regulus.client.tasks"]
    assert {(record.levelno, record.exc_info) for record in told} == {(logging.WARNING, None)}
    assert {record.getMessage().partition(":")[2] for record in told if record.getMessage().endswith(" in 1 ms")} == {
        " the database says: database is locked; it continues in 1 ms"}


async def test_a_name_server_that_is_away_is_told_once_and_then_rarely(engine, caplog, monkeypatch):
    def told():
        return [record.getMessage() for record in caplog.records if record.name == "regulus.reliability.relay_loop"]

    relay = Relay(engine, "127.0.0.1:1", producer_config=ProducerConfig(send_msg_timeout=100))
    await relay._producer.start()
    try:
        for number in range(3):
            place_orders(engine, str(number))
            assert await relay.relay_due() == 0
        [line] = told()
        assert line.startswith("1 messages of the outbox were not sent and will be tried again, one of them 0: ")
        assert "no name server answers" in line
        monkeypatch.setattr("regulus.reliability.relay_loop.FAILURES_TOLD_MS", 0)
        place_orders(engine, "3")
        await relay.relay_due()
        assert told()[1].startswith("3 messages of the outbox were not sent")
    finally:
        await relay._producer.shutdown()


async def test_a_relay_without_its_table_does_not_start(engine, regulus_server):
    tables.metadata.drop_all(engine)
    with pytest.raises(ReliabilityRefused, match="no table regulus_stub"):
        await Relay(engine, regulus_server.name_server_address).start()


@pytest.mark.parametrize("loop", [lambda engine: Relay(engine, "127.0.0.1:9876"),
                                  lambda engine: AlarmLoop(engine, [LogChannel()]),
                                  lambda engine: BrokerWatch(engine, "127.0.0.1:9876", ["kitchen"])])
async def test_a_database_that_does_not_answer_at_the_start_is_one_sentence(loop):
    engine = create_engine("postgresql+psycopg://shop:open_sesame@127.0.0.1:1/shop")
    with pytest.raises(DatabaseUnanswered, match=r"postgresql\+psycopg://shop:\*\*\*@127.0.0.1:1/shop does not answer: "
                                                 r".*; check that it runs, and that this is its address$") as told:
        await loop(engine).start()
    assert "sesame" not in str(told.value)


def test_programs_without_an_event_loop_relay_too(engine, regulus_server):
    place_orders(engine, "1")
    with BlockingRelay(engine, regulus_server.name_server_address):
        asyncio.run(until(lambda: count_stubs(engine, queue_offset=None) == 0))


class rounds(Relay):
    """A relay whose rounds a test makes, one by one."""

    async def __aenter__(self):
        await self._producer.start()
        return self

    def __init__(self, engine, server):
        super().__init__(engine, server.name_server_address)


async def test_new_stubs_without_end_keep_no_other_from_being_sent_again(engine, regulus_server, monkeypatch):
    claim = DueStubs.claim

    def endless(self):
        while not (claimed := claim(self)):
            place_orders(engine, f"new-{count_stubs(engine)}")
        return claimed

    monkeypatch.setattr(DueStubs, "claim", endless)
    place_orders(engine, "again")
    set_stub(engine, "again", send_count=1, resend_time=0)
    async with Relay(engine, regulus_server.name_server_address, config=RelayConfig(poll_interval_ms=5)):
        await until(lambda: stub(engine, "again").queue_offset is not None)
        await until(lambda: count_stubs(engine, send_count=1) > 3)
    assert stub(engine, "again").send_count == 2


SHOP = ProducerConfig(access_key="relay-of-shop", secret_key="its-secret-key")
SHOPS_ACCOUNT = """accounts:
- accessKey: relay-of-shop
  secretKey: its-secret-key
  topicPerms:
  - TBW102=PUB
  - orders=PUB
"""


async def test_a_relay_signs_what_it_sends(engine, make_guarded_server):
    server = make_guarded_server(SHOPS_ACCOUNT)
    place_orders(engine, "1")
    async with Relay(engine, server.name_server_address, producer_config=SHOP):
        await until(lambda: count_stubs(engine, queue_offset=None) == 0)


def test_a_relay_sends_once_for_each_claim_whatever_its_producer_was_told(engine):
    relay = Relay(engine, "127.0.0.1:1", producer_config=replace(SHOP, retry_without_answer=True))
    assert relay._producer.config == replace(SHOP, retry_without_answer=False)
    blocking = BlockingRelay(engine, "127.0.0.1:1", producer_config=SHOP)
    assert blocking._relay._producer.config == replace(SHOP, retry_without_answer=False)
