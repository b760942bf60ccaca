"""The effects of one call share a commit: each fails alone, and none is lost or doubled for another's sake."""

import logging
from contextlib import contextmanager

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.errors import ReliabilityRefused
from regulus.reliability import applying, confirms, effect_transaction, judges, tables
from regulus.reliability.confirms import StubConfirms
from regulus.reliability.inbox import ApplyOnce

from .deliveries import QUEUE, message, rows
from .shop import book, booked, place_orders, stub
from .test_inbox import KeptClaims, Killed

SUCCESS = ConsumeStatus.CONSUME_SUCCESS
RECEIPT = 1
"""Commits of a call besides those of its effects."""


@pytest.fixture(autouse=True)
def however_slow_the_machine_is(monkeypatch):
    monkeypatch.setattr(applying, "TOGETHER_MS_MAX", 60_000)


def call(listener, ids, *, is_ordered=False):
    """The ids of those that come again."""
    context = ConsumeContext(QUEUE, "billing", is_ordered=is_ordered)
    answer = listener([message(each, offset) for offset, each in enumerate(ids)], context)
    places = context.failed_indexes if answer is SUCCESS else range(len(ids))
    return "".join(ids[place] for place in sorted(places))


def outcomes(engine):
    return dict(rows(engine, tables.attempts, "message_id", "outcome"))


@contextmanager
def counted_commits(engine):
    commits = []

    def count(connection):
        commits.append(connection)

    event.listen(engine, "commit", count)
    yield commits
    event.remove(engine, "commit", count)


def failing(*ids, error=ValueError):
    """An effect that notes what it is asked for, and fails behind its deed."""
    def effect(connection, message):
        effect.begun += message.body.decode()
        book(connection, message)
        if message.body.decode() in ids:
            raise error("no stock")

    effect.begun = ""
    return effect


def test_effects_of_a_call_are_one_commit(engine):
    place_orders(engine, *"1234")
    with counted_commits(engine) as commits:
        assert call(ApplyOnce(engine, book), "1234") == ""
    assert len(commits) == RECEIPT + 1
    assert (booked(engine), outcomes(engine)) == (list("1234"), dict.fromkeys("1234", "APPLIED"))
    assert {stub(engine, each).status for each in "1234"} == {"CONFIRMED"}
    assert rows(engine, tables.message_log, "message_id") == []


def test_effects_that_take_long_share_none(engine, monkeypatch):
    place_orders(engine, *"123")
    monkeypatch.setattr(applying, "TOGETHER_MS_MAX", 0)
    with counted_commits(engine) as commits:
        assert call(ApplyOnce(engine, book), "123") == ""
    assert (len(commits), booked(engine)) == (RECEIPT + 3, list("123"))


@pytest.mark.parametrize("failed", ["1", "2", "4", "24"])
def test_one_that_fails_comes_again_alone_and_no_effect_is_begun_twice(engine, failed, caplog):
    place_orders(engine, *"1234")
    effect, claims = failing(*failed), KeptClaims()
    with counted_commits(engine) as commits, caplog.at_level(logging.WARNING):
        assert call(ApplyOnce(engine, effect, claims=claims), "1234") == failed
    others = [each for each in "1234" if each not in failed]
    assert (len(commits), effect.begun, booked(engine)) == (RECEIPT + 1, "1234", others)
    assert outcomes(engine) == {each: "FAILED" if each in failed else "APPLIED" for each in "1234"}
    assert {each for each in "1234" if stub(engine, each).status == "UNCONFIRMED"} == set(failed)
    assert [each for each, in rows(engine, tables.message_log, "message_id")] == list(failed)
    assert (set(claims.held), claims.done) == (set(others), set(others))
    assert [record.exc_info[0] for record in caplog.records] == [ValueError] * len(failed)
    assert call(ApplyOnce(engine, book), failed) == ""
    assert booked(engine) == list("1234")


def test_where_all_fail_the_first_ones_error_is_raised(engine):
    place_orders(engine, *"12")
    with pytest.raises(ValueError, match="no stock"):
        call(ApplyOnce(engine, failing("1", "2")), "12")
    assert (booked(engine), outcomes(engine)) == ([], {"1": "FAILED", "2": "FAILED"})


def test_a_failure_makes_no_dead_letter_of_itself_for_a_strays_sake(engine):
    place_orders(engine, *"12")
    context = ConsumeContext(QUEUE, "billing")
    given = [message(each, times=5) for each in "12?"]
    assert ApplyOnce(engine, failing("1"))(given, context) is SUCCESS
    assert (context.failed_indexes, context.delay_level_when_next_consume) == ({0, 2}, 0)


def test_in_order_one_that_fails_ends_the_call(engine):
    place_orders(engine, *"123")
    effect = failing("2")
    with pytest.raises(ValueError, match="no stock"):
        call(ApplyOnce(engine, effect), "123", is_ordered=True)
    assert (effect.begun, booked(engine), outcomes(engine)) == ("12", ["1"], {"1": "APPLIED", "2": "FAILED"})


def test_in_order_a_copy_is_looked_at_before_the_next_is_begun(engine):
    place_orders(engine, *"123")
    assert call(ApplyOnce(engine, book), "2") == ""
    assert call(ApplyOnce(engine, book), "123", is_ordered=True) == ""
    with engine.connect() as connection:
        told = connection.execute(tables.attempts.select().order_by(tables.attempts.c.attempt_id)).all()
    assert [(row.message_id, row.outcome) for row in told] == [
        ("2", "APPLIED"), ("1", "APPLIED"), ("2", "DONE"), ("3", "APPLIED")]


@pytest.mark.parametrize("claims", [None, KeptClaims])
def test_two_copies_in_one_call_are_one_effect(engine, claims):
    place_orders(engine, *"12")
    assert call(ApplyOnce(engine, book, claims=claims and claims()), "1121") == ""
    assert booked(engine) == ["1", "2"]


ENDS = {
    "commits": lambda connection: connection.commit(),
    "rolls back": lambda connection: connection.rollback(),
    "commits in words": lambda connection: connection.exec_driver_sql("COMMIT"),
    "rolls back in words": lambda connection: connection.exec_driver_sql("ROLLBACK"),
    "rolls back by the driver": lambda connection: connection.connection.rollback(),
}


@pytest.mark.parametrize("way", ENDS)
def test_one_that_ends_the_transaction_is_told_so_and_the_others_have_their_effect_once(engine, way, caplog):
    place_orders(engine, *"123")

    def effect(connection, message):
        if message.body == b"2":
            ENDS[way](connection)
        book(connection, message)

    with caplog.at_level(logging.WARNING):
        assert call(ApplyOnce(engine, effect), "123") == "2"
    assert [each for each in booked(engine) if each != "2"] == ["1", "3"]
    assert {each: stub(engine, each).status for each in "13"} == dict.fromkeys("13", "CONFIRMED")
    raised = [record.exc_info[1] for record in caplog.records]
    assert len(raised) == 1
    assert "ended the transaction" in str(raised[0]) or way == "rolls back"
    assert ("2", "FAILED") in rows(engine, tables.attempts, "message_id", "outcome")


@pytest.mark.parametrize("fails", [True, False])
def test_a_savepoint_that_one_leaves_open_is_not_the_next_ones(engine, fails):
    """A Session that found one open would roll back to its own, and the effect would count without its deed."""
    place_orders(engine, *"123")

    def effect(connection, message):
        if message.body == b"1":
            connection.begin_nested()
        if message.body == b"3":
            session = Session(connection)
            book(session.connection(), message)
            session.rollback()
            return
        book(connection, message)
        if message.body == b"1" and fails:
            raise ValueError("no stock")

    assert call(ApplyOnce(engine, effect), "123") == ("13" if fails else "3")
    assert booked(engine) == (["2"] if fails else ["1", "2"])
    assert stub(engine, "3").status == "UNCONFIRMED"


def test_one_that_swallows_the_refusal_of_its_commit_lets_nothing_through(engine):
    place_orders(engine, *"123")

    def effect(connection, message):
        book(connection, message)
        if message.body == b"2":
            with pytest.raises(ReliabilityRefused):
                connection.commit()

    assert call(ApplyOnce(engine, effect), "123") == "2"
    assert (booked(engine), stub(engine, "2").status) == (["1", "3"], "UNCONFIRMED")


def test_one_that_swallows_what_the_database_said_fails_where_its_transaction_does(engine):
    """PostgreSQL carries nothing out behind an error; the others do."""
    place_orders(engine, *"123")

    def effect(connection, message):
        if message.body == b"2":
            with pytest.raises(DBAPIError):
                connection.execute(text("SELECT 1 FROM nosuch"))
        else:
            book(connection, message)

    again = call(ApplyOnce(engine, effect), "123")
    assert again == ("2" if engine.dialect.name == "postgresql" else "")
    assert booked(engine) == ["1", "3"]


def conflict(connection):
    """What the database says where it ends a transaction for another's sake."""
    connection.exec_driver_sql({
        "postgresql": "DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$"
    }.get(connection.dialect.name, "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'deadlock'"))


def test_after_a_deadlock_each_has_a_transaction_of_its_own_for_a_while(engine):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    place_orders(engine, *"123456")
    begun = []

    def effect(connection, message):
        begun.append(message.body)
        book(connection, message)
        if begun == [b"1", b"2"]:
            conflict(connection)

    listener, claims = ApplyOnce(engine, effect), KeptClaims()
    assert call(listener, "123") == ""
    assert (begun, booked(engine)) == ([b"1", b"2", b"1", b"2", b"3"], ["1", "2", "3"])
    with counted_commits(engine) as commits:
        assert call(listener, "456") == ""
    assert len(commits) == RECEIPT + 3
    assert (claims.held, booked(engine)) == ({}, list("123456"))


def test_effects_share_commits_again_some_time_after_a_deadlock(engine, monkeypatch):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    monkeypatch.setattr(applying, "ALONE_S", 0.0)
    place_orders(engine, *"1234")
    tries = []

    def effect(connection, message):
        tries.append(message.body)
        conflict(connection) if len(tries) == 1 else book(connection, message)

    listener = ApplyOnce(engine, effect)
    assert call(listener, "12") == ""
    with counted_commits(engine) as commits:
        assert call(listener, "34") == ""
    assert (len(commits), booked(engine)) == (RECEIPT + 1, list("1234"))


@pytest.mark.parametrize("code", ["40001", "40P01", 1213, 1205, 1020])
def test_what_a_database_ends_for_anothers_sake_is_a_conflict(code):
    said = Exception(code, "try again")
    assert applying.is_conflict(DBAPIError("UPDATE", {}, said))
    said.sqlstate = "23505"
    assert not applying.is_conflict(DBAPIError("INSERT", {}, said))


def test_effects_share_a_commit_where_the_engine_begins_transactions_itself(engine):
    """As SQLAlchemy advises for SQLite."""
    if engine.dialect.name != "sqlite":
        pytest.skip("others begin without a word")
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    place_orders(engine, *"123")
    with counted_commits(engine) as commits:
        assert call(ApplyOnce(engine, book), "123") == ""
    assert (len(commits), booked(engine)) == (RECEIPT + 1, list("123"))


def test_a_connection_that_is_lost_is_no_failure_of_an_effect(engine):
    if engine.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL ends a connection at a word of its own")
    place_orders(engine, *"123")
    begun = []

    def effect(connection, message):
        begun.append(message.body)
        book(connection, message)
        if begun == [b"1", b"2"]:
            connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")

    claims = KeptClaims()
    assert call(ApplyOnce(engine, effect, claims=claims), "123") == ""
    assert (begun[:3], booked(engine), claims.done) == ([b"1", b"2", b"1"], ["1", "2", "3"], set("123"))
    assert outcomes(engine) == dict.fromkeys("123", "APPLIED")


def test_a_commit_that_the_database_refuses_is_made_one_by_one(engine):
    place_orders(engine, *"123")
    claims, refusals = KeptClaims(), ["no"]

    def refuse(connection):
        if refusals and len(claims.held) == 3:
            refusals.pop()
            connection.dialect.do_rollback(connection.connection)
            raise ValueError("refused")

    event.listen(engine, "commit", refuse)
    assert call(ApplyOnce(engine, book, claims=claims), "123") == ""
    assert (refusals, booked(engine), claims.done) == ([], ["1", "2", "3"], set("123"))


def test_killed_within_one_effect_nothing_is_left_of_those_that_share_its_commit(engine):
    place_orders(engine, *"123")
    claims = KeptClaims()
    with pytest.raises(Killed):
        call(ApplyOnce(engine, failing("2", error=Killed), claims=claims), "123")
    assert (booked(engine), claims.held) == ([], {})
    assert {stub(engine, each).status for each in "123"} == {"UNCONFIRMED"}
    assert call(ApplyOnce(engine, book), "123") == ""
    assert booked(engine) == ["1", "2", "3"]


def test_a_shared_transaction_that_cannot_be_begun_holds_up_nobody(engine, monkeypatch):
    place_orders(engine, *"123")
    tries = []

    def refuse(connection):
        tries.append(1)
        if len(tries) > 3:
            raise Killed
        raise ValueError("no more of them now")

    monkeypatch.setattr(effect_transaction, "begin_shared", refuse)
    assert call(ApplyOnce(engine, book), "123") == ""
    assert booked(engine) == ["1", "2", "3"]


def test_killed_within_a_shared_commit_the_call_ends(engine):
    place_orders(engine, *"123")
    claims, begun = KeptClaims(), []

    def effect(connection, message):
        begun.append(message.body)
        book(connection, message)

    def kill(connection):
        if len(begun) == 3:
            connection.dialect.do_rollback(connection.connection)
            raise Killed

    event.listen(engine, "commit", kill)
    with pytest.raises(Killed):
        call(ApplyOnce(engine, effect, claims=claims), "123")
    event.remove(engine, "commit", kill)
    assert (begun, booked(engine), claims.held) == ([b"1", b"2", b"3"], [], {})


def test_a_database_that_is_away_ends_the_call_at_the_first(engine):
    """To wait for it once more for each of them would take as long again."""
    listener = ApplyOnce(engine, book)
    place_orders(engine, *"123")
    listener.check()
    tables.attempts.drop(engine)
    looks = []
    event.listen(engine, "begin", looks.append)
    with pytest.raises(DBAPIError, match="regulus_attempt"):
        call(listener, "123")
    assert len(looks) <= 4      # receipt, shared transaction, note, and perhaps the first alone
    assert booked(engine) == []


# --- the stub's database ---------------------------------------------------------------------------------------------


def test_with_two_databases_stubs_are_confirmed_in_one_commit(engine, own):
    place_orders(engine, *"1234")
    with counted_commits(engine) as commits:
        assert call(ApplyOnce(own, failing("2"), confirms=StubConfirms(engine)), "1234") == "2"
    assert len(commits) == 1
    assert [stub(engine, each).status for each in "1234"] == ["CONFIRMED", "UNCONFIRMED", "CONFIRMED", "CONFIRMED"]
    assert booked(own) == ["1", "3", "4"]


def test_confirmations_that_are_lost_are_told_once_and_made_by_the_next_copies(engine, own, monkeypatch, caplog):
    place_orders(engine, *"123")
    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING):
        broken.setattr(judges, "confirm", lambda *_: 1 / 0)
        assert call(ApplyOnce(own, book, confirms=StubConfirms(engine)), "123") == ""
    told = [record.getMessage() for record in caplog.records]
    assert told == [("the effect of message 1 and 2 more is committed, and its stub not yet confirmed: "
                     "ZeroDivisionError: division by zero")]
    assert call(ApplyOnce(own, book, confirms=StubConfirms(engine)), "123") == ""
    assert ({stub(engine, each).status for each in "123"}, booked(own)) == ({"CONFIRMED"}, ["1", "2", "3"])


def test_confirmations_that_end_in_a_deadlock_are_made_one_by_one(engine, own, monkeypatch):
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    place_orders(engine, *"123")
    confirm, made = judges.confirm, []

    def confirm_or_conflict(connection, message_id, group):
        made.append(message_id)
        if len(made) == 2:
            conflict(connection)
        return confirm(connection, message_id, group)

    monkeypatch.setattr(confirms.judges, "confirm", confirm_or_conflict)
    assert call(ApplyOnce(own, book, confirms=StubConfirms(engine)), "123") == ""
    assert made == ["1", "2", "1", "2", "3"]
    assert {stub(engine, each).status for each in "123"} == {"CONFIRMED"}


def test_confirms_that_tell_of_one_at_a_time_are_told_of_each(own):
    told = []

    class OneByOne:
        def confirm(self, message_id, consumer_group):
            told.append((message_id, consumer_group))

    assert call(ApplyOnce(own, book, confirms=OneByOne()), "123") == ""
    assert told == [("1", "billing"), ("2", "billing"), ("3", "billing")]
