"""A message passes the points in their order, and nothing is left at the doors afterwards."""

import sqlite3

import pytest
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from regulus.errors import ReliabilityRefused
from regulus.model.message import Message
from regulus.reliability import applying, judges, outbox_table
from regulus.reliability.inbox import ApplyOnce, ApplyOnceAsync
from regulus.reliability.outbox import Outbox
from regulus.reliability.relay import DueStubs, RelayConfig
from regulus.testing.crash_points import POINTS, of_steps, watching
from tests.unit.reliability.deliveries import context, message
from tests.unit.reliability.shop import book, booked, place_orders
from tests.unit.reliability.test_inbox import KeptClaims

CONSUMED = [str(point) for point in of_steps("C2", "C3", "C4", "C5", "C7", "C6")]


@pytest.fixture
def passed():
    """The names of the points that were passed, each with its ids."""
    passed = []
    with watching(lambda point, ids: passed.append((str(point), "".join(sorted(ids))))):
        yield passed


def names(passed):
    return [name for name, _ in passed]


def test_business_and_relay_pass_their_points(engine, passed):
    place_orders(engine, "1")
    due = DueStubs(engine, RelayConfig())
    [claimed] = due.claim()
    due.store([outbox_table.Position(claimed.message_id, claimed.send_count, "broker-a", 0, 7)])
    assert passed == [("before P1", "1"), ("during P1", "1"), ("after P1", "1"), ("before P2", ""),
                      ("during P2", "1"), ("after P2", "1"), ("before P4", "1"), ("during P4", "1"), ("after P4", "1")]


def test_a_listener_passes_its_points(engine, passed):
    place_orders(engine, "1")
    del passed[:]
    ApplyOnce(engine, book)([message("1")], context())
    assert names(passed) == ["after C1", *CONSUMED, "before C8"]
    assert {ids for _, ids in passed} == {"1"}


@pytest.mark.parametrize("is_async", [False, True])
async def test_messages_of_a_call_share_the_commit_alone(engine, passed, is_async, monkeypatch):
    monkeypatch.setattr(applying, "TOGETHER_MS_MAX", 60_000)     # however slow the machine is
    place_orders(engine, "1", "2")
    del passed[:]
    both = [message("1"), message("2")]
    if is_async:
        address = engine.url.render_as_string(hide_password=False)
        asynchronous = create_async_engine(address.replace("sqlite://", "sqlite+aiosqlite://"))

        async def book_async(connection, message):
            await connection.run_sync(book, message)

        await ApplyOnceAsync(asynchronous, book_async)(both, context())
        await asynchronous.dispose()
    else:
        ApplyOnce(engine, book)(both, context())
    own = [f"{moment} {step}" for step, moments in (("C3", ("before", "after") if not is_async else ()),
                                                    ("C4", ("before", "after")), ("C5", ("before", "during", "after")),
                                                    ("C7", ("before", "after"))) for moment in moments]
    assert passed == [("after C1", "12"), ("before C2", "12"), ("during C2", "12"), ("after C2", "12"),
                      *[(name, "1") for name in own], *[(name, "2") for name in own],
                      ("before C6", "12"), ("after C6", "12"), ("before C8", "12")]


def test_the_end_of_what_failed_is_no_statement_of_the_effect(engine, passed):
    def fails(connection, message):
        if message.body == b"1":
            raise ValueError("no stock")

    place_orders(engine, "1", "2")
    del passed[:]
    ApplyOnce(engine, fails)([message("1"), message("2")], context())
    assert ("during C5", "1") not in passed
    assert ("before C6", "2") in passed


def test_during_the_effect_is_behind_a_statement_of_its_own(engine, passed):
    def effect(connection, message):
        passed.append(("the effect", "1"))
        book(connection, message)

    place_orders(engine, "1")
    ApplyOnce(engine, effect)([message("1")], context())
    at = names(passed).index("the effect")
    assert names(passed)[at - 1:at + 3] == ["before C5", "the effect", "during C5", "after C5"]


async def test_a_coroutine_passes_the_same(engine, passed):
    async def effect(connection, message):
        await connection.run_sync(book, message)

    place_orders(engine, "1")
    del passed[:]
    of_asyncio = create_async_engine(str(engine.url).replace("sqlite:", "sqlite+aiosqlite:"))
    await ApplyOnceAsync(of_asyncio, effect, claims=KeptClaims())([message("1")], context())
    await of_asyncio.dispose()
    assert names(passed) == ["after C1", *CONSUMED, "before KEY", "after KEY", "before C8"]


def test_a_copy_passes_no_effect(engine, passed):
    place_orders(engine, "1")
    listener = ApplyOnce(engine, book)
    listener([message("1")], context())
    del passed[:]
    listener([message("1")], context())
    assert not [name for name in names(passed) if name.endswith(("C5", "C6"))]


def test_what_is_rolled_back_passes_no_commit(engine, passed):
    with Session(engine) as session:
        Outbox().add(session, Message("orders", b"1"), message_id="1")
        session.rollback()
        place_orders(engine, "2")
    assert passed == [("before P1", "1"), *[(f"{moment} P1", "2") for moment in ("before", "during", "after")]]


def test_a_session_passes_the_points_of_its_commit(engine, passed):
    with Session(engine) as session, session.begin():
        Outbox().add(session, Message("orders", b"1"), message_id="1")
    assert names(passed) == ["before P1", "during P1", "after P1"]


def test_a_drivers_connection_tells_nobody_of_its_commit(engine, passed):
    connection = sqlite3.connect(engine.url.database)
    connection.execute("INSERT INTO orders VALUES ('1')")
    Outbox().add(connection, Message("orders", b"1"), message_id="1")
    connection.commit()
    connection.close()
    assert passed == [("before P1", "1")]


def test_what_is_raised_at_a_point_is_raised_in_the_program(engine):
    class Ended(BaseException):
        pass

    def end(point, ids):
        if str(point) == "during C5":
            raise Ended

    place_orders(engine, "1")
    with watching(end), pytest.raises(Ended):
        ApplyOnce(engine, book)([message("1")], context())
    assert booked(engine) == []


def test_nothing_is_left_at_the_doors(engine):
    before = outbox_table.claim, judges.StubJudge.takes, ApplyOnce.__call__, Outbox.add
    passed = []
    with watching(lambda point, ids: passed.append(point)):
        assert outbox_table.claim is not before[0]
    assert (outbox_table.claim, judges.StubJudge.takes, ApplyOnce.__call__, Outbox.add) == before
    place_orders(engine, "1")
    ApplyOnce(engine, book)([message("1")], context())
    assert passed == []


def test_two_do_not_watch_at_once():
    with watching(print), pytest.raises(ReliabilityRefused, match="watched already"), watching(print):
        pass
    with watching(print):
        assert POINTS
