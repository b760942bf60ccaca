"""Failure windows that take more than a kill and a restart: two processes, a broker that forgets, a human between."""

import asyncio
import shutil
from dataclasses import replace

import pytest
from sqlalchemy import delete, text

from regulus.client.administration.admin import Admin
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.model.message_queue import MessageQueue
from regulus.reliability import operator, tables
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.relay import DueStubs, RelayConfig
from regulus.reliability.relay_loop import Relay
from regulus.testing.crash_points import await_settled, check_once, held_at, kill_at, named, run, watching
from tests.waiting import until

from .consumed import FROM_FIRST
from .deliveries import context, message, rows
from .shop import book, booked, bookings, count_stubs, place_orders, set_stub, stub
from .test_kills import at, check
from .worker import BEHIND, GROUP, claims_of, finish, work

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER
LEASE_MS = 300
NO_RESEND_MS = 60_000


def outcomes(engine, order="1"):
    """Of the deliveries, in their order."""
    found = rows(engine, tables.attempts, "attempt_id", "message_id", "kind", "outcome")
    return [outcome for _, message_id, kind, outcome in found if (message_id, kind) == (order, tables.DELIVERY)]


def apply_copy(engine, claims):
    """As another member that is given a copy, until the claim is its own."""
    listener = ApplyOnce(engine, book, claims=claims)
    while listener([message("1")], context()) is not SUCCESS:
        pass


def forget_all(setting):
    if setting.claims.startswith("redis:"):
        import redis

        redis.Redis.from_url(setting.claims).flushall()
    else:
        claims_of(setting).forget_all()


@at("during P2", "after P2")
def test_w6_what_a_relay_has_claimed_no_other_sends_and_its_death_hands_it_over(engine, setting, point):
    if engine.dialect.name == "sqlite" and str(point) == "during P2":
        pytest.skip("SQLite has one writer at a time")
    with held_at(point, work, setting, message_id="1"):
        assert DueStubs(engine, RelayConfig()).claim() == []
    run(finish, setting)
    check(engine)


def test_w7_a_message_that_the_broker_lost_is_sent_again(engine, setting, make_broker_process, tmp_path):
    config = tmp_path / "broker.conf"
    config.write_text("defaultTopicQueueNums=1\n")
    broker = make_broker_process("-c", str(config))
    setting = replace(setting, name_server=broker.name_server_address)
    run(work, replace(setting, order="before"))
    kill_at(named("after P4"), work, replace(setting, consumes=False), message_id="1")
    lost = stub(engine, "1").queue_offset
    broker.kill()
    shutil.rmtree(broker.store_path)
    broker.start()
    place_orders(engine, *[f"other-{number}" for number in range(lost + 2)])
    run(finish, setting)
    check(engine)
    assert stub(engine, "1").send_count >= 2


async def test_w26_reviews_that_fail_keep_no_new_stub_from_its_effect(engine, setting):
    """Each of them, once its transaction has looked at the table, and whatever is claimed beside it."""
    def fail(point, ids):
        if str(point) == "before REVIEW":
            reviews.append(point)
            raise OSError("canceling statement due to statement timeout")

    reviews = []
    ids = [f"order-{number}" for number in range(20)]
    with watching(fail):
        async with Relay(engine, setting.name_server, config=RelayConfig(batch_max=3, poll_interval_ms=20)):
            for message_id in ids:
                await asyncio.to_thread(place_orders, engine, message_id)
            await until(lambda: count_stubs(engine, queue_offset=None) == 0)
            await until(lambda: reviews)
    assert count_stubs(engine, send_count=1) == 20
    consumer = PushConsumer(setting.name_server, GROUP, ApplyOnce(engine, book), FROM_FIRST)
    consumer.subscribe("orders")
    async with consumer:
        await asyncio.to_thread(await_settled, engine, ids)
    assert booked(engine) == sorted(ids)


async def test_w9_what_is_received_and_comes_no_more_is_sent_again_and_told(engine, setting):
    kill_at(named("after C2"), work, setting, message_id="1")
    place_orders(engine, BEHIND)
    async with Admin(setting.name_server) as admin:
        [broker] = await admin.master_addresses()
        await admin.set_offsets(GROUP, {MessageQueue("orders", stub(engine, "1").broker_name or broker, 0): 1})
    run(finish, replace(setting, stale_ms=400))
    check(engine)
    assert rows(engine, tables.alarms, "kind", "subject") == [("STALE_RECEIPT", "1")]


@at("after C3", "during C5", "before C6")
def test_w10_while_a_dead_holder_has_its_claim_a_copy_is_neither_applied_nor_done(engine, setting, claims_address,
                                                                                  point):
    setting = replace(setting, claims=claims_address)
    kill_at(point, work, setting, message_id="1")
    assert ApplyOnce(engine, book, claims=claims_of(setting))([message("1")], context()) is LATER
    assert (booked(engine), outcomes(engine)) == ([], ["BUSY"])
    forget_all(setting)     # as at the end of the lease
    run(finish, setting)
    check(engine)


def test_w19_a_holder_whose_lease_ended_comes_too_late_and_leaves_the_other_its_claim(engine, setting, claims_address):
    setting = replace(setting, claims=claims_address, lease_ms=LEASE_MS)
    with held_at(named("after C3"), work, setting, message_id="1") as slow:
        apply_copy(engine, claims_of(setting))
        slow.let_go()
        slow.join()
    assert (booked(engine), stub(engine, "1").status) == (["1"], "CONFIRMED")
    assert not claims_of(setting).win("1", "another")


async def test_w19_a_holder_that_fails_when_its_lease_has_ended_frees_no_other_ones_claim(engine, setting,
                                                                                         claims_address):
    setting = replace(setting, claims=claims_address, lease_ms=LEASE_MS, fails=1)
    ours = claims_of(replace(setting, lease_ms=300_000))
    with held_at(named("before KEY"), work, setting, message_id="1") as slow:
        while not ours.win("1", "another"):
            pass
        slow.let_go()
        await until(lambda: len(outcomes(engine)) > 1)
        assert outcomes(engine)[:2] == ["FAILED", "BUSY"]
        ours.release("1", "another")
        slow.join()
    check_once(engine, ["1"], booked(engine).count)


def test_w20_of_two_holders_whose_claims_were_forgotten_one_has_its_effect(engine, setting, claims_address):
    setting = replace(setting, claims=claims_address, interval_ms=NO_RESEND_MS)
    with held_at(named("after C3"), work, setting, message_id="1") as first:
        forget_all(setting)
        apply_copy(engine, claims_of(setting))
        first.let_go()
        first.join()
    run(finish, setting)
    check(engine)
    assert outcomes(engine) == ["APPLIED", "DONE"]


@at("after C1", "after C2", "after C3")
def test_w21_what_is_voided_on_its_way_has_no_effect(engine, setting, point):
    with held_at(point, work, setting, message_id="1") as consumer:
        with engine.begin() as connection:
            operator.void(connection, "1", operator="ann", reason="the order was cancelled")
        consumer.let_go()
        consumer.join()
    run(finish, setting)
    check(engine)
    assert (booked(engine), stub(engine, "1").status) == ([BEHIND], "VOIDED")


@at("during C2", "after C2")
def test_w24_a_retry_that_dies_moves_no_watermark(engine, setting, point):
    setting = replace(setting, fails=1, interval_ms=NO_RESEND_MS)
    kill_at(point, work, setting, message_id="1", times=2)
    assert rows(engine, tables.watermarks, "topic", "queue_offset_max") == [("orders", 0)]
    run(finish, setting)
    check(engine)
    assert [topic for topic, in rows(engine, tables.watermarks, "topic")] == ["orders"]


def test_w25_what_the_database_lost_and_the_claims_call_done_is_applied_again(engine, setting, claims_address):
    """As behind a commit that did not wait for the disk, or for the replica that is the primary now."""
    setting = replace(setting, claims=claims_address)
    run(finish, setting)
    assert claims_of(setting).is_done("1")
    with engine.begin() as connection:
        connection.execute(delete(bookings).where(bookings.c.order_id == "1"))
        connection.execute(delete(tables.attempts).where(tables.attempts.c.message_id == "1"))
    set_stub(engine, "1", status="UNCONFIRMED", resend_time=0)
    run(finish, setting)
    check(engine)


@at("during P2", "during P4", "during C2", "during C5", "before C6")
def test_a_database_that_ends_all_connections_in_mid_transaction_costs_no_effect(engine, setting, point):
    """As one that is restarted."""
    if engine.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL ends another's connections at a word")
    with held_at(point, work, setting, message_id="1") as process:
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"))
        process.let_go()
        process.join()
    run(finish, setting)
    check(engine)
