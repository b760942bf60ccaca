"""Effects that are coroutines: applied once, by the same judge."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import create_async_engine

from regulus.client.listener import ConsumeStatus
from regulus.errors import ReliabilityRefused
from regulus.reliability import tables
from regulus.reliability.inbox import apply_once_async

from .deliveries import context, message, rows
from .shop import booked, bookings, place_orders, set_stub, stub
from .test_decision_table import Told
from .test_inbox import KeptClaims

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


@pytest.fixture
async def asynchronous(engine):
    address = engine.url.render_as_string(hide_password=False)
    asynchronous = create_async_engine(address.replace("sqlite://", "sqlite+aiosqlite://"))
    yield asynchronous
    await asynchronous.dispose()


async def book(connection, message):
    await connection.execute(insert(bookings).values(order_id=message.body.decode()))


async def test_an_effect_happens_once(engine, asynchronous):
    place_orders(engine, "1", "2")
    claims = KeptClaims()
    listener = apply_once_async(asynchronous, claims=claims)(book)
    await listener.check()
    both = [message("1"), message("2")]
    assert [await listener(both, context()) for _ in range(2)] == [SUCCESS] * 2
    assert (booked(engine), stub(engine, "2").status, claims.done) == (["1", "2"], "CONFIRMED", {"1", "2"})
    assert rows(engine, tables.message_log, "message_id") == []


async def test_of_two_at_once_one_has_its_effect(engine, asynchronous):
    place_orders(engine, "1")
    listener = apply_once_async(asynchronous)(book)
    assert await asyncio.gather(*[listener([message("1")], context()) for _ in range(2)]) == [SUCCESS] * 2
    assert booked(engine) == ["1"]


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_an_effect_that_fails_or_is_cancelled_leaves_nothing_and_comes_again(engine, asynchronous, error):
    place_orders(engine, "1")
    claims = KeptClaims()

    async def fails(connection, message):
        await book(connection, message)
        raise error("no stock")

    with pytest.raises(error):
        await apply_once_async(asynchronous, claims=claims)(fails)([message("1")], context())
    assert (booked(engine), stub(engine, "1").status, claims.held) == ([], "UNCONFIRMED", {})
    assert await apply_once_async(asynchronous, claims=claims)(book)([message("1")], context()) is SUCCESS
    assert booked(engine) == ["1"]


class SlowClaims(KeptClaims):
    """They answer when they are let go."""

    def __init__(self):
        super().__init__()
        self.asked, self.let_go, self.released = threading.Event(), threading.Event(), threading.Event()

    def win(self, message_id, token):
        self.asked.set()
        assert self.let_go.wait(60)
        return super().win(message_id, token)

    def release(self, message_id, token):
        super().release(message_id, token)
        self.released.set()


async def test_a_claim_that_is_won_for_a_listener_that_was_cancelled_is_given_back(asynchronous):
    claims = SlowClaims()
    calling = asyncio.ensure_future(apply_once_async(asynchronous, claims=claims)(book)([message("1")], context()))
    assert await asyncio.to_thread(claims.asked.wait, 60)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    claims.let_go.set()
    assert await asyncio.to_thread(claims.released.wait, 60)
    assert claims.held == {}


async def test_a_claim_that_was_won_just_before_its_listener_was_cancelled_is_given_back(asynchronous, monkeypatch):
    claims, won, lock = SlowClaims(), threading.Event(), threading.Lock
    claims.let_go.set()
    listener = apply_once_async(asynchronous, claims=claims)(book)
    await listener.check()

    class ToldLate:
        """By the first of the two."""

        def __init__(self):
            self._lock = lock()

        def acquire(self, blocking):
            is_first = self._lock.acquire(blocking=blocking)
            won.set()
            return is_first

    monkeypatch.setattr("regulus.reliability.inbox.threading", SimpleNamespace(Lock=ToldLate))
    calling = asyncio.ensure_future(listener([message("1")], context()))
    while not claims.asked.is_set():
        await asyncio.sleep(0)
    assert won.wait(60)         # the loop stands still meanwhile, so that the task hears nothing of it
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert claims.held == {}


async def test_a_claim_is_given_back_though_its_listener_is_cancelled_meanwhile(engine, asynchronous):
    """No thread is free for it yet: what waits for one is cancelled with whoever waits for it."""
    place_orders(engine, "1")
    claims, let_go = KeptClaims(), threading.Event()
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(1)
    loop.set_default_executor(threads)

    async def fails(connection, message):
        loop.run_in_executor(None, let_go.wait, 60)     # what gives the claim back stands behind this
        raise ValueError("no stock")

    submitted = []
    submit, threads.submit = threads.submit, lambda *args: submitted.append(args) or submit(*args)
    calling = asyncio.ensure_future(apply_once_async(asynchronous, claims=claims)(fails)([message("1")], context()))
    while len(submitted) < 3 and not calling.done():     # to win, to be busy, to give back
        await asyncio.sleep(0)
    assert claims.held
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    let_go.set()
    await loop.run_in_executor(None, lambda: None)
    assert claims.held == {}


async def test_a_claim_that_is_anothers_is_left_alone(engine, asynchronous):
    place_orders(engine, "1")
    listener = apply_once_async(asynchronous, claims=KeptClaims({"1": "theirs"}))(book)
    assert await listener([message("1")], context()) is LATER
    set_stub(engine, "1", status="VOIDED")
    assert await listener([message("1")], context()) is SUCCESS
    assert booked(engine) == []


async def test_with_two_databases_a_claim_is_no_effect_and_what_is_done_is_told_again(engine, asynchronous):
    told, claims = Told(), KeptClaims({"1": "theirs"})
    listener = apply_once_async(asynchronous, claims=claims, confirms=told)(book)
    assert await listener([message("1")], context()) is LATER
    assert (booked(engine), told.ids) == ([], [])
    claims.done.add("1")        # says Redis, and no row
    assert await listener([message("1")], context()) is SUCCESS
    claims.done.clear()
    assert await listener([message("1")], context()) is SUCCESS
    assert (booked(engine), told.ids) == (["1"], ["1", "1"])
    assert rows(engine, tables.attempts, "attempt_id", "outcome")[-1][1] == "DONE"


async def test_what_nobody_committed_is_parked(asynchronous):
    given = context()
    assert await apply_once_async(asynchronous)(book)([message("stray", times=2)], given) is LATER
    assert given.delay_level_when_next_consume == -1


async def test_an_effect_that_ends_the_transaction_is_told_so_and_nothing_is_done(engine, asynchronous):
    place_orders(engine, "1")

    async def commits(connection, message):
        await book(connection, message)
        await connection.commit()

    with pytest.raises(ReliabilityRefused, match="ended the transaction by itself"):
        await apply_once_async(asynchronous)(commits)([message("1")], context())
    assert (booked(engine), stub(engine, "1").status) == ([], "UNCONFIRMED")
