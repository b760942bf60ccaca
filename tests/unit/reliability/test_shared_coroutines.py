"""Coroutines of one call that share a commit: as the other effects do."""

import asyncio

import pytest
from sqlalchemy import event, insert
from sqlalchemy.ext.asyncio import create_async_engine

from regulus.client.listener import ConsumeContext
from regulus.reliability import tables
from regulus.reliability.confirms import StubConfirms
from regulus.reliability.inbox import ApplyOnceAsync

from .deliveries import QUEUE, message, rows
from .shop import booked, bookings, place_orders, stub
from .test_inbox import KeptClaims
from .test_shared_commits import (
    ENDS,
    RECEIPT,
    SUCCESS,
    conflict,
    counted_commits,
    however_slow_the_machine_is,
)

__all__ = ["however_slow_the_machine_is"]


@pytest.fixture
async def asynchronous(engine):
    address = engine.url.render_as_string(hide_password=False)
    asynchronous = create_async_engine(address.replace("sqlite://", "sqlite+aiosqlite://"))
    yield asynchronous
    await asynchronous.dispose()


async def call_async(engine, effect, ids, **options):
    context = ConsumeContext(QUEUE, "billing")
    answer = await ApplyOnceAsync(engine, effect, **options)([message(each) for each in ids], context)
    assert answer is SUCCESS
    return "".join(ids[place] for place in sorted(context.failed_indexes))


async def book_async(connection, message):
    await connection.execute(insert(bookings).values(order_id=message.body.decode()))


@pytest.mark.parametrize("way", ["fails", *ENDS])
async def test_of_coroutines_one_fails_alone_and_the_others_have_their_effect_once(engine, asynchronous, way):
    place_orders(engine, *"1234")
    claims = KeptClaims()

    async def effect(connection, message):
        if message.body == b"2":
            if way == "fails":
                raise ValueError("no stock")
            await connection.run_sync(ENDS[way])
        await book_async(connection, message)

    assert await call_async(asynchronous, effect, "1234", claims=claims) == "2"
    assert [each for each in booked(engine) if each != "2"] == ["1", "3", "4"]
    assert claims.done == set("134")
    assert ("2", "FAILED") in rows(engine, tables.attempts, "message_id", "outcome")


async def test_of_coroutines_effects_and_confirmations_are_one_commit_each(engine, own, asynchronous):
    place_orders(engine, *"1234")
    effects = create_async_engine(str(own.url).replace("sqlite://", "sqlite+aiosqlite://"))
    with counted_commits(effects.sync_engine) as of_effects, counted_commits(engine) as of_stubs:
        assert await call_async(effects, book_async, "1234", confirms=StubConfirms(engine)) == ""
    await effects.dispose()
    assert len(of_effects) == RECEIPT + 1
    assert len(of_stubs) == 1
    assert ({stub(engine, each).status for each in "1234"}, booked(own)) == ({"CONFIRMED"}, list("1234"))


async def test_of_coroutines_a_commit_of_their_own_is_refused_and_confirms_nothing(engine, asynchronous):
    place_orders(engine, *"123")

    async def effect(connection, message):
        await book_async(connection, message)
        if message.body == b"2":
            await connection.commit()

    assert await call_async(asynchronous, effect, "123") == "2"
    assert [stub(engine, each).status for each in "123"] == ["CONFIRMED", "UNCONFIRMED", "CONFIRMED"]
    assert booked(engine) == ["1", "3"]


async def test_of_coroutines_what_another_works_on_comes_again_alone(engine, asynchronous):
    place_orders(engine, *"123")
    assert await call_async(asynchronous, book_async, "123", claims=KeptClaims({"2": "another"})) == "2"
    assert booked(engine) == ["1", "3"]


async def test_of_coroutines_a_commit_that_is_refused_is_not_done(engine, asynchronous):
    place_orders(engine, *"123")
    claims, refusals, done = KeptClaims(), ["no"], []

    async def effect(connection, message):
        done.append("".join(sorted(claims.done)))
        await book_async(connection, message)

    def refuse(connection):
        if refusals and len(claims.held) == 3:
            refusals.pop()
            connection.dialect.do_rollback(connection.connection)
            raise ValueError("refused")

    event.listen(asynchronous.sync_engine, "commit", refuse)
    assert await call_async(asynchronous, effect, "123", claims=claims) == ""
    assert (refusals, booked(engine), claims.done) == ([], ["1", "2", "3"], set("123"))
    assert done[:4] == [""] * 4     # as the first one is made again


async def test_of_coroutines_one_that_fails_is_not_confirmed(engine, own):
    place_orders(engine, *"123")
    effects = create_async_engine(own.url.render_as_string(hide_password=False).replace("sqlite://",
                                                                                       "sqlite+aiosqlite://"))

    async def effect(connection, message):
        if message.body == b"2":
            raise ValueError("no stock")
        await book_async(connection, message)

    assert await call_async(effects, effect, "123", confirms=StubConfirms(engine)) == "2"
    await effects.dispose()
    assert [stub(engine, each).status for each in "123"] == ["CONFIRMED", "UNCONFIRMED", "CONFIRMED"]
    assert booked(own) == ["1", "3"]


async def test_of_coroutines_a_deadlock_has_each_made_alone(engine, asynchronous):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    place_orders(engine, *"123")
    begun = []

    async def effect(connection, message):
        begun.append(message.body)
        await book_async(connection, message)
        if begun == [b"1", b"2"]:
            await connection.run_sync(conflict)

    assert await call_async(asynchronous, effect, "123") == ""
    assert (begun, booked(engine)) == ([b"1", b"2", b"1", b"2", b"3"], ["1", "2", "3"])


async def test_of_coroutines_one_that_is_cancelled_leaves_nothing_and_no_claim(engine, asynchronous):
    place_orders(engine, *"123")
    claims, begun = KeptClaims(), asyncio.Event()

    async def effect(connection, message):
        await book_async(connection, message)
        if message.body == b"2":
            begun.set()
            await asyncio.Event().wait()

    calling = asyncio.ensure_future(call_async(asynchronous, effect, "123", claims=claims))
    await begun.wait()
    assert set(claims.held) == {"1", "2"}
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert (booked(engine), claims.held) == ([], {})
    assert await call_async(asynchronous, book_async, "123", claims=claims) == ""
    assert booked(engine) == ["1", "2", "3"]


@pytest.mark.parametrize("fails", [True, False])
async def test_a_savepoint_that_a_coroutine_leaves_open_is_not_the_next_ones(engine, asynchronous, fails):
    place_orders(engine, *"12")
    found = []

    async def effect(connection, message):
        found.append(connection.in_nested_transaction())
        if message.body == b"1":
            await connection.begin_nested()
        await book_async(connection, message)
        if message.body == b"1" and fails:
            raise ValueError("no stock")

    assert await call_async(asynchronous, effect, "12") == ("1" if fails else "")
    assert (found, booked(engine)) == ([False, False], ["2"] if fails else ["1", "2"])
