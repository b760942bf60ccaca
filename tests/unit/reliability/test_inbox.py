"""An effect happens once, whatever comes twice, fails, or is killed in between."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.exc import DBAPIError

from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeContext, ConsumeStatus
from regulus.errors import ClaimUnavailable, ReliabilityRefused
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.reliability import tables
from regulus.reliability.applying import CONFLICT_TRIES_MAX, pause_s
from regulus.reliability.inbox import ApplyOnce, apply_once
from regulus.reliability.relay_loop import Relay
from tests.waiting import until

from .consumed import FROM_FIRST
from .shop import book, booked, bookings, count_stubs, pass_all, place_orders, set_stub, stub

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


class Killed(BaseException):
    """What ends a worker at a step, as a kill would."""


def message(message_id: str, times: int = 0) -> MessageExt:
    return MessageExt("orders", message_id.encode(), {"BUSINESS_ID": message_id}, reconsume_times=times)


def deliver(listener: ApplyOnce, *ids: str, times: int = 0) -> tuple[ConsumeStatus, int]:
    """What the listener answers, and the delay level it asks for."""
    context = ConsumeContext(MessageQueue("orders", "broker-a", 0), "billing")
    return listener([message(each, times) for each in ids], context), context.delay_level_when_next_consume


def again(listener: ApplyOnce, *ids: str, times: int = 0, is_ordered: bool = False) -> tuple[str, int]:
    """Those that come again, and the delay level with which they do."""
    context = ConsumeContext(MessageQueue("orders", "broker-a", 0), "billing", is_ordered=is_ordered)
    answer = listener([message(each, times) for each in ids], context)
    places = context.failed_indexes if answer is SUCCESS else range(len(ids))
    return "".join(ids[place] for place in sorted(places)), context.delay_level_when_next_consume


class KeptClaims:
    """The gate in memory: what Redis does, and whether it does it at all."""

    lease_ms = 300_000

    def __init__(self, held=None, is_away=False):
        self.held = dict(held or {})
        self.done = set()
        self.is_away = is_away

    def _answer(self):
        if self.is_away:
            raise ClaimUnavailable("Redis does not answer")

    def check(self):
        self._answer()

    def win(self, message_id, token):
        self._answer()
        return self.held.setdefault(message_id, token) == token

    def is_done(self, message_id):
        self._answer()
        return message_id in self.done

    def release(self, message_id, token):
        self._answer()
        if self.held.get(message_id) == token:
            del self.held[message_id]

    def finish(self, message_id, token):
        self._answer()
        if self.held.get(message_id) == token:
            self.done.add(message_id)


@pytest.fixture(params=["the database alone", "claims", "claims that are away"])
def claims(request):
    return {"the database alone": None, "claims": KeptClaims(),
            "claims that are away": KeptClaims(is_away=True)}[request.param]


def test_d1_d11_effect_and_confirmation_are_one_commit_and_a_copy_changes_nothing(engine, claims):
    place_orders(engine, "1")
    listener = ApplyOnce(engine, book, claims=claims)
    assert [deliver(listener, "1")[0] for _ in range(3)] == [SUCCESS] * 3
    assert booked(engine) == ["1"]
    assert stub(engine, "1").status == "CONFIRMED"


def test_d2_an_effect_that_fails_leaves_nothing_and_comes_again(engine, claims):
    place_orders(engine, "1")
    faults = [ValueError("no room")]

    def fails_once(connection, message):
        book(connection, message)
        if faults:
            raise faults.pop()

    listener = ApplyOnce(engine, fails_once, claims=claims)
    with pytest.raises(ValueError, match="no room"):
        deliver(listener, "1")
    assert (booked(engine), stub(engine, "1").status) == ([], "UNCONFIRMED")
    assert deliver(listener, "1") == (SUCCESS, 0)
    assert booked(engine) == ["1"]


@pytest.mark.parametrize("status", ["CONFIRMED", "VOIDED"])
def test_d3_d4_w21_what_is_done_or_voided_is_not_applied(engine, claims, status):
    place_orders(engine, "1")
    set_stub(engine, "1", status=status)
    assert deliver(ApplyOnce(engine, book, claims=claims), "1") == (SUCCESS, 0)
    assert (booked(engine), stub(engine, "1").status) == ([], status)


def test_d5_a_message_without_a_stub_comes_again_and_is_parked_at_last(engine, claims, caplog):
    listener = ApplyOnce(engine, book, claims=claims)
    assert [deliver(listener, "?", times=times) for times in range(3)] == [(LATER, 0), (LATER, 0), (LATER, -1)]
    errors = [record.getMessage() for record in caplog.records
              if record.name == "regulus.reliability.applying" and record.levelno == logging.ERROR]
    assert [error.startswith("message ? has no stub in this database after 3 deliveries") for error in errors] == [True]
    place_orders(engine, "?")       # no claim was kept
    assert deliver(listener, "?") == (SUCCESS, 0)


def test_d6_a_database_error_frees_the_claim(engine):
    claims = KeptClaims()
    listener = ApplyOnce(engine, book, claims=claims)
    listener.check()
    tables.stubs.drop(engine)
    with pytest.raises(Exception, match="regulus_stub"):
        deliver(listener, "1")
    assert claims.held == {}


@pytest.mark.parametrize(("status", "answer"), [("CONFIRMED", SUCCESS), ("UNCONFIRMED", LATER), ("VOIDED", SUCCESS)])
def test_d7_d8_d9_a_lost_claim_looks_and_does_nothing(engine, status, answer):
    place_orders(engine, "1")
    set_stub(engine, "1", status=status)
    claims = KeptClaims({"1": "another"})
    assert deliver(ApplyOnce(engine, book, claims=claims), "1") == (answer, 0)
    assert (booked(engine), claims.held, stub(engine, "1").status) == ([], {"1": "another"}, status)


def test_d10_a_lost_claim_without_a_stub_comes_again(engine):
    assert deliver(ApplyOnce(engine, book, claims=KeptClaims({"1": "another"})), "1") == (LATER, 0)


def test_d13_d14_w19_w20_of_two_holders_one_has_its_effect(engine):
    """As when a lease ends during the work, or Redis forgets: both begin, and the stub lets one of them commit."""
    place_orders(engine, "1")
    begun, answers = threading.Event(), []
    go_on = threading.Event()

    def slow(connection, message):
        begun.set()
        assert go_on.wait(60)
        book(connection, message)

    first = threading.Thread(target=lambda: answers.append(deliver(ApplyOnce(engine, slow), "1")[0]))
    second = threading.Thread(target=lambda: answers.append(deliver(ApplyOnce(engine, book), "1")[0]))
    first.start()
    assert begun.wait(60)
    second.start()
    go_on.set()
    first.join()
    second.join()
    assert booked(engine) == ["1"]
    assert answers == [SUCCESS, SUCCESS]


def test_w11_w12_a_worker_killed_in_its_effect_leaves_neither_effect_nor_confirmation(engine):
    place_orders(engine, "1")

    def killed(connection, message):
        book(connection, message)
        raise Killed

    with pytest.raises(Killed):
        deliver(ApplyOnce(engine, killed), "1")
    assert (booked(engine), stub(engine, "1").status) == ([], "UNCONFIRMED")
    assert deliver(ApplyOnce(engine, book), "1") == (SUCCESS, 0)
    assert booked(engine) == ["1"]


def test_w19_a_late_holder_frees_no_other_ones_claim(engine):
    place_orders(engine, "1")
    claims = KeptClaims()

    def loses_its_lease(connection, message):
        claims.held["1"] = "another"
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        deliver(ApplyOnce(engine, loses_its_lease, claims=claims), "1")
    assert claims.held == {"1": "another"}


def test_a_claim_is_kept_when_its_effect_is_committed(engine):
    place_orders(engine, "1")
    claims = KeptClaims()
    deliver(ApplyOnce(engine, book, claims=claims), "1")
    assert claims.done == {"1"}


@pytest.mark.parametrize("ids", ["?12", "1?2", "12?"])
def test_a_stray_among_others_holds_none_up_and_makes_no_dead_letters_of_them(engine, ids):
    place_orders(engine, "1", "2")
    assert again(ApplyOnce(engine, book), *ids) == ("?", 0)
    assert booked(engine) == ["1", "2"]
    assert again(ApplyOnce(engine, book), *ids, times=2) == ("?", -1)


@pytest.mark.parametrize("ids", ["!12", "1!2", "12!"])
def test_what_another_works_on_comes_again_alone(engine, ids):
    place_orders(engine, "1", "2", "!")
    listener = ApplyOnce(engine, book, claims=KeptClaims({"!": "another"}))
    assert again(listener, *ids) == ("!", 0)
    assert booked(engine) == ["1", "2"]


@pytest.mark.parametrize("ids", ["?1!", "!1?"])
def test_what_another_works_on_makes_no_dead_letters_of_strays_that_come_with_it(engine, ids):
    place_orders(engine, "1", "!")
    listener = ApplyOnce(engine, book, claims=KeptClaims({"!": "another"}))
    assert again(listener, *ids, times=2) == (ids.replace("1", ""), 0)
    assert booked(engine) == ["1"]


def test_in_order_what_another_works_on_holds_up_those_behind_it(engine):
    place_orders(engine, "1", "2", "!")
    claims = KeptClaims({"!": "another"})
    listener = ApplyOnce(engine, book, claims=claims)
    assert again(listener, *"1!2", is_ordered=True) == ("1!2", 0)
    assert booked(engine) == ["1"]
    claims.held.clear()
    assert again(listener, *"1!2", is_ordered=True) == ("", 0)
    with engine.connect() as connection:
        found = connection.execute(select(tables.attempts.c.message_id).where(tables.attempts.c.outcome == "APPLIED")
                                   .order_by(tables.attempts.c.attempt_id)).scalars().all()
    assert found == ["1", "!", "2"]


class LateClaims(KeptClaims):
    """They take each claim, and say so too late."""

    def win(self, message_id, token):
        super().win(message_id, token)
        raise ClaimUnavailable("timed out")


def test_a_claim_whose_answer_came_too_late_is_given_back_when_its_effect_fails(engine):
    place_orders(engine, "1")
    claims = LateClaims()

    def fails(connection, message):
        assert "1" in claims.held
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        deliver(ApplyOnce(engine, fails, claims=claims), "1")
    assert claims.held == {}
    assert deliver(ApplyOnce(engine, book, claims=KeptClaims(claims.held)), "1") == (SUCCESS, 0)
    assert booked(engine) == ["1"]


def test_claims_that_are_away_are_not_asked_behind_an_effect_that_succeeded(engine):
    """Each call of a Redis that is away is a wait."""
    place_orders(engine, "1")
    claims = LateClaims()
    claims.finish = claims.release = lambda message_id, token: pytest.fail("asked once more")
    assert deliver(ApplyOnce(engine, book, claims=claims), "1") == (SUCCESS, 0)


def test_another_ones_claim_is_left_alone_by_one_whose_answer_was_lost(engine):
    place_orders(engine, "1")
    claims = LateClaims({"1": "another"})

    def fails(connection, message):
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        deliver(ApplyOnce(engine, fails, claims=claims), "1")
    assert claims.held == {"1": "another"}


def test_a_stray_has_all_its_tries_whatever_comes_with_it(engine):
    """The other may have been sent before its commit was seen."""
    given = ConsumeContext(MessageQueue("orders", "broker-a", 0), "billing")
    strays = [MessageExt("orders", b"x", {"BUSINESS_ID": each}, reconsume_times=times)
              for each, times in (("early", 0), ("late", 2))]
    assert ApplyOnce(engine, book)(strays, given) is LATER
    assert given.delay_level_when_next_consume == 0


@pytest.mark.parametrize("odd", ["x" * 129, "a b", "a\0b"])
def test_an_id_that_no_outbox_gives_is_a_strays_and_holds_up_no_other_message(engine, odd):
    place_orders(engine, "1")
    listener = ApplyOnce(engine, book)
    assert again(listener, odd, "1") == (odd, 0)
    assert booked(engine) == ["1"]
    assert deliver(listener, odd, times=2) == (LATER, -1)


def test_a_late_delivery_takes_a_stub_back_from_the_human(engine):
    place_orders(engine, "1")
    set_stub(engine, "1", is_manual=True)
    assert deliver(ApplyOnce(engine, book), "1") == (SUCCESS, 0)
    assert (stub(engine, "1").status, stub(engine, "1").is_manual) == ("CONFIRMED", False)


def test_what_another_works_on_is_no_stray_however_often_it_comes(engine):
    place_orders(engine, "1")
    assert deliver(ApplyOnce(engine, book, claims=KeptClaims({"1": "another"})), "1", times=5) == (LATER, 0)
    with engine.connect() as connection:
        assert connection.execute(select(tables.alarms.c.subject)).scalars().all() == []
        assert connection.execute(select(tables.message_log.c.message_id)).scalars().all() == ["1"]


def test_messages_without_an_id_share_no_claim(engine):
    nameless = MessageExt("orders", b"x", {}, reconsume_times=0)
    context = ConsumeContext(MessageQueue("orders", "broker-a", 0), "billing")
    claims = KeptClaims({"": "another"})
    assert ApplyOnce(engine, book, claims=claims)([nameless], context) is LATER
    assert (claims.held, booked(engine)) == ({"": "another"}, [])


@pytest.mark.parametrize("way", ["commit", "rollback"])
def test_an_effect_that_ends_the_transaction_is_told_so(engine, way):
    place_orders(engine, "1")

    def ends_it(connection, message):
        book(connection, message)
        getattr(connection, way)()

    with pytest.raises(ReliabilityRefused, match="leave commit and rollback to apply_once"):
        deliver(ApplyOnce(engine, ends_it), "1")
    assert (booked(engine), stub(engine, "1").status) == ([], "UNCONFIRMED")


def test_an_engine_that_commits_each_statement_is_refused(engine):
    engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    with pytest.raises(ReliabilityRefused, match="the engine commits each statement by itself"):
        ApplyOnce(engine, book).check()
    with pytest.raises(ReliabilityRefused, match="the engine commits each statement by itself"):
        deliver(ApplyOnce(engine, book), "1")


def test_a_database_without_the_table_is_told_at_the_start(tmp_path):
    with pytest.raises(ReliabilityRefused, match="no table regulus_stub"):
        ApplyOnce(create_engine(f"sqlite:///{tmp_path / 'empty'}"), book).check()


def test_claims_that_do_not_answer_are_told_at_the_start(engine):
    with pytest.raises(ClaimUnavailable):
        ApplyOnce(engine, book, claims=KeptClaims(is_away=True)).check()


def test_a_late_confirmation_takes_a_message_from_the_human(engine):
    place_orders(engine, "1")
    set_stub(engine, "1", is_manual=True)
    assert deliver(ApplyOnce(engine, book), "1") == (SUCCESS, 0)
    assert stub(engine, "1").is_manual is False


async def test_w22_committed_messages_have_their_effect_once_though_each_is_sent_twice(engine, regulus_server):
    ids = [f"order-{number}" for number in range(40)]
    place_orders(engine, *ids)

    listener = apply_once(engine)(book)
    calls = []

    def counted(messages, context):
        answer = listener(messages, context)
        calls.append(answer)
        return answer

    async with Relay(engine, regulus_server.name_server_address) as relay:
        await until(lambda: count_stubs(engine, queue_offset=None) == 0)
        pass_all(engine)
        for each in ids:
            set_stub(engine, each, resend_time=0)
        while await relay.relay_due():
            pass
        await until(lambda: count_stubs(engine, send_count=2) == 40)
        consumer = PushConsumer(regulus_server.name_server_address, "billing", counted, FROM_FIRST)
        consumer.subscribe("orders")
        async with consumer:
            await until(lambda: calls.count(SUCCESS) == 80)
    assert booked(engine) == sorted(ids)


def test_a_deadlock_is_tried_again_on_the_spot(engine):
    """Two effects that lock the same rows in turns: the database ends one of them for the other's sake."""
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    place_orders(engine, "1", "2")
    with engine.begin() as connection:
        connection.execute(bookings.insert(), [{"order_id": "x"}, {"order_id": "y"}])
    both, tries, ended = threading.Barrier(2), [], threading.Event()

    def locks(first, second):
        def effect(connection, message):
            tries.append(first)
            if len(tries) > 2:
                assert ended.wait(60)       # or it could take the row again that the other waits for
            connection.execute(bookings.update().where(bookings.c.order_id == first).values(order_id=first))
            if len(tries) <= 2:
                both.wait(60)
            connection.execute(bookings.update().where(bookings.c.order_id == second).values(order_id=second))
        return effect

    def work(of, each):
        answers.append(deliver(ApplyOnce(engine, locks(*of)), each)[0])
        ended.set()

    answers = []
    workers = [threading.Thread(target=work, args=given) for given in (("xy", "1"), ("yx", "2"))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert (answers, len(tries)) == ([SUCCESS] * 2, 3)
    assert count_stubs(engine, status="CONFIRMED") == 2


def test_who_tries_again_leaves_the_others_time():
    assert [round(pause_s(tries, jitter), 3) for tries in (1, 2) for jitter in (0, 1)] == [0.025, 0.05, 0.05, 0.1]


def test_a_conflict_without_end_is_raised(engine):
    place_orders(engine, "1")
    tries = []

    class Deadlock(Exception):
        sqlstate = "40P01"

    def effect(connection, message):
        tries.append(message)
        raise DBAPIError("UPDATE", {}, Deadlock())

    with pytest.raises(DBAPIError):
        deliver(ApplyOnce(engine, effect), "1")
    assert (len(tries), stub(engine, "1").status) == (CONFLICT_TRIES_MAX, tables.UNCONFIRMED)


def test_an_effect_that_outlasts_its_lease_is_told(engine, caplog):
    place_orders(engine, "1", "2")
    claims = KeptClaims()
    claims.lease_ms = -1
    listener = ApplyOnce(engine, book, claims=claims)
    assert [deliver(listener, each)[0] for each in "12"] == [SUCCESS] * 2
    assert caplog.text.count("longer than the claim's lease of -1 ms") == 1


def test_claims_that_are_away_are_told_once_for_each_time(engine, caplog):
    place_orders(engine, *"12345")
    claims = KeptClaims(is_away=True)
    listener = ApplyOnce(engine, book, claims=claims)
    deliver(listener, "1", "2")
    claims.is_away = False
    deliver(listener, "3")
    claims.is_away = True
    deliver(listener, "4", "5")
    assert [record.args[0] for record in caplog.records if "database alone decides" in record.msg] == ["1", "4"]


def test_receipts_of_one_queue_at_once_do_not_fail_one_another(engine):
    """All move one watermark."""
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    ids = [f"order-{number}" for number in range(40)]
    place_orders(engine, *ids)
    listener = ApplyOnce(engine.execution_options(isolation_level="REPEATABLE READ"), book)
    listener.check()
    with ThreadPoolExecutor(8) as pool:
        assert [answer for answer, _ in pool.map(lambda each: deliver(listener, each), ids)] == [SUCCESS] * 40
    assert booked(engine) == sorted(ids)


@pytest.mark.parametrize("odd", ["\0", "\ud800"])
def test_a_stray_with_any_key_is_parked_and_any_failure_is_in_the_ledger(engine, caplog, odd):
    place_orders(engine, "1")
    given = ConsumeContext(MessageQueue("orders", "broker-a", 0), "billing")
    stray = MessageExt("orders", b"x", {"UNIQ_KEY": f"a{odd}b"}, reconsume_times=2)
    assert ApplyOnce(engine, book)([stray], given) is LATER
    assert given.delay_level_when_next_consume == -1
    assert caplog.text.encode()     # or no log file takes it

    def fails(connection, message):
        raise KeyError(f"no {odd} room")

    with pytest.raises(KeyError):
        deliver(ApplyOnce(engine, fails), "1")
    with engine.connect() as connection:
        assert connection.execute(select(tables.attempts.c.outcome)).scalars().all() == ["FAILED"]


@pytest.mark.parametrize("ids", ["1", "12"], ids=["alone", "together"])
def test_an_effect_that_is_a_coroutine_function_has_not_happened_and_is_not_told_as_done(engine, ids):
    async def effect(connection, message):
        raise AssertionError("nothing awaits it")

    place_orders(engine, *ids)
    with pytest.raises(TypeError, match="a coroutine function was given where a plain function is called"):
        deliver(ApplyOnce(engine, effect), *ids)
    assert {stub(engine, each).status for each in ids} == {"UNCONFIRMED"}
    assert deliver(ApplyOnce(engine, book), *ids)[0] is SUCCESS
    assert sorted(booked(engine)) == list(ids)
