"""The decisions about a delivery, each by its number: claim, stub and effect decide about reply, stub, receipt and key.

With a gate in memory, and with a real Redis.
"""

import shutil
import threading
from dataclasses import dataclass

import pytest

from regulus.client.listener import ConsumeStatus
from regulus.reliability import tables
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.retry_policy import ResendPolicy

from .deliveries import context, message, rows
from .shop import book, booked, place_orders, set_stub, stub
from .test_inbox import KeptClaims

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER
OURS, THEIRS, FREE, DONE = "ours", "theirs", "free", "done"
KEY = "regulus:claim:billing:1"


class GateInMemory:
    def __init__(self):
        self.claims = KeptClaims()

    def key(self):
        held = self.claims.held.get("1")
        return FREE if held is None else THEIRS if held == THEIRS else OURS

    def take(self):
        self.claims.held["1"] = THEIRS

    def finish(self):
        assert self.claims.win("1", "finisher")
        self.claims.finish("1", "finisher")

    def is_kept_beyond_resends(self):
        return "1" in self.claims.done

    def stop(self):
        self.claims.is_away = True


class GateOfRedis:
    def __init__(self, server):
        from regulus.reliability.claims import RedisClaims

        self.claims = RedisClaims(server.client(), "billing", lease_ms=60_000)
        self._redis = server.client()
        self.stop = server.stop

    def key(self):
        held = self._redis.get(KEY)
        return FREE if held is None else THEIRS if held == THEIRS.encode() else OURS

    def take(self):
        self._redis.set(KEY, THEIRS)

    def finish(self):
        assert self.claims.win("1", "finisher")
        self.claims.finish("1", "finisher")

    def is_kept_beyond_resends(self):
        return self._redis.pttl(KEY) > ResendPolicy().horizon_ms


@pytest.fixture(params=["memory", "redis"])
def gate(request):
    if request.param == "memory":
        yield GateInMemory()
        return
    pytest.importorskip("redis", reason="the package redis is not installed: pip install 'regulus-mq[redis]'")
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on this machine; make interop brings one")
    from . import redis_server

    with redis_server.running() as server:
        yield GateOfRedis(server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A row of the table: what is given, and what follows."""

    number: str
    claim: str              # whose it becomes: OURS is won, THEIRS is lost; DONE: somebody finished it
    stub: str | None        # None: missing
    fails: bool = False
    reply: ConsumeStatus
    then: str | None        # the stub's status
    effects: int = 0
    is_received: bool       # whether the receipt stays
    key: str
    outcome: str


TABLE = [
    Decision(number="D1", claim=OURS, stub="UNCONFIRMED", reply=SUCCESS, then="CONFIRMED", effects=1,
             is_received=False, key=OURS, outcome="APPLIED"),
    Decision(number="D2", claim=OURS, stub="UNCONFIRMED", fails=True, reply=LATER, then="UNCONFIRMED",
             is_received=True, key=FREE, outcome="FAILED"),
    Decision(number="D3", claim=OURS, stub="CONFIRMED", reply=SUCCESS, then="CONFIRMED", is_received=False, key=OURS,
             outcome="DONE"),
    Decision(number="D4", claim=OURS, stub="VOIDED", reply=SUCCESS, then="VOIDED", is_received=False, key=OURS,
             outcome="VOIDED"),
    Decision(number="D5", claim=OURS, stub=None, reply=LATER, then=None, is_received=True, key=FREE,
             outcome="MISSING"),
    Decision(number="D7", claim=THEIRS, stub="CONFIRMED", reply=SUCCESS, then="CONFIRMED", is_received=False,
             key=THEIRS, outcome="DONE"),
    Decision(number="D8", claim=THEIRS, stub="UNCONFIRMED", reply=LATER, then="UNCONFIRMED", is_received=True,
             key=THEIRS, outcome="BUSY"),
    Decision(number="D9", claim=THEIRS, stub="VOIDED", reply=SUCCESS, then="VOIDED", is_received=False, key=THEIRS,
             outcome="VOIDED"),
    Decision(number="D10", claim=THEIRS, stub=None, reply=LATER, then=None, is_received=True, key=THEIRS,
             outcome="MISSING"),
]


def reply(listener):
    """What a consumer makes of the call."""
    try:
        return listener([message("1")], context())
    except Exception:
        return LATER


def is_received(engine):
    return rows(engine, tables.message_log, "message_id") == [("1",)]


def outcomes(engine):
    return [outcome for _, outcome in rows(engine, tables.attempts, "attempt_id", "outcome")]


def fails(connection, message):
    book(connection, message)
    raise ValueError("no stock")


def commit(engine, status="UNCONFIRMED"):
    place_orders(engine, "1")
    set_stub(engine, "1", status=status)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.number)
def test_a_delivery_is_decided_as_the_table_says(engine, gate, row):
    if row.stub:
        commit(engine, row.stub)
    if row.claim == THEIRS:
        gate.take()
    elif row.claim == DONE:
        gate.finish()
    assert reply(ApplyOnce(engine, fails if row.fails else book, claims=gate.claims)) is row.reply
    assert (stub(engine, "1").status if row.stub else None) == row.then
    assert booked(engine) == ["1"] * row.effects
    assert (is_received(engine), gate.key(), outcomes(engine)) == (row.is_received, row.key, [row.outcome])
    assert gate.is_kept_beyond_resends() or row.key != OURS


def test_d5_what_stays_missing_is_parked_and_an_alarm(engine, gate):
    listener = ApplyOnce(engine, book, claims=gate.claims)
    given = context()
    assert listener([message("1", times=2)], given) is LATER
    assert given.delay_level_when_next_consume == -1
    assert rows(engine, tables.alarms, "kind", "subject") == [("MISSING_STUB", "1")]
    assert (gate.key(), is_received(engine)) == (FREE, False)


@pytest.mark.parametrize(("claim", "key"), [(OURS, FREE), (THEIRS, THEIRS)], ids=["D6", "D10"])
def test_a_database_that_fails_has_the_message_come_again(engine, gate, claim, key):
    listener = ApplyOnce(engine, book, claims=gate.claims)
    listener.check()
    if claim == THEIRS:
        gate.take()
    tables.stubs.drop(engine)
    assert reply(listener) is LATER
    assert (booked(engine), is_received(engine), gate.key()) == ([], True, key)


@pytest.mark.parametrize(("status", "then", "effects"), [
    ("UNCONFIRMED", "CONFIRMED", ["1"]), ("CONFIRMED", "CONFIRMED", []), ("VOIDED", "VOIDED", [])])
def test_d11_without_redis_the_database_decides(engine, gate, status, then, effects):
    commit(engine, status)
    listener = ApplyOnce(engine, book, claims=gate.claims)
    gate.stop()
    assert reply(listener) is SUCCESS
    assert (stub(engine, "1").status, booked(engine), is_received(engine)) == (then, effects, False)


def test_d11_without_redis_what_fails_comes_again(engine, gate):
    commit(engine)
    gate.stop()
    assert reply(ApplyOnce(engine, fails, claims=gate.claims)) is LATER
    assert (stub(engine, "1").status, booked(engine), is_received(engine)) == ("UNCONFIRMED", [], True)


def test_d12_without_a_receipt_nothing_is_claimed_or_done(engine, gate):
    commit(engine)
    listener = ApplyOnce(engine, book, claims=gate.claims)
    listener.check()
    tables.message_log.drop(engine)
    assert reply(listener) is LATER
    assert (stub(engine, "1").status, booked(engine), gate.key(), outcomes(engine)) == ("UNCONFIRMED", [], FREE, [])


def test_d13_of_two_that_hold_the_claim_one_confirms_and_the_other_is_done(engine, gate):
    """The key is gone while the first works, so that a second begins: it waits for the stub, and finds it confirmed."""
    commit(engine)
    begun, go_on = threading.Event(), threading.Event()
    replies = {}

    def slow(connection, message):
        begun.set()
        assert go_on.wait(60)
        book(connection, message)

    # The second has the database alone, as when its Redis forgot the key.
    workers = [threading.Thread(target=lambda name=name, listener=listener: replies.update({name: reply(listener)}))
               for name, listener in (("first", ApplyOnce(engine, slow, claims=gate.claims)),
                                      ("second", ApplyOnce(engine, book)))]
    workers[0].start()
    assert begun.wait(60)
    workers[1].start()
    go_on.set()
    for worker in workers:
        worker.join(60)
    assert replies == {"first": SUCCESS, "second": SUCCESS}
    assert (booked(engine), is_received(engine), outcomes(engine)) == (["1"], False, ["APPLIED", "DONE"])


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_d14_a_holder_whose_claim_ended_commits_only_what_is_unconfirmed(engine, gate, is_confirmed):
    commit(engine, "CONFIRMED" if is_confirmed else "UNCONFIRMED")
    claims = gate.claims
    begin = claims.win

    def loses_it(message_id, token):
        is_ours = begin(message_id, token)
        gate.take()
        return is_ours

    claims.win = loses_it
    assert reply(ApplyOnce(engine, book, claims=claims)) is SUCCESS
    assert (booked(engine), stub(engine, "1").status) == ([] if is_confirmed else ["1"], "CONFIRMED")
    assert gate.key() == THEIRS


INBOX = [
    Decision(number="D1", claim=OURS, stub=None, reply=SUCCESS, then=None, effects=1, is_received=False, key=OURS,
             outcome="APPLIED"),
    Decision(number="D3", claim=OURS, stub="CONFIRMED", reply=SUCCESS, then="CONFIRMED", is_received=False, key=OURS,
             outcome="DONE"),
    Decision(number="D7", claim=THEIRS, stub="CONFIRMED", reply=SUCCESS, then="CONFIRMED", is_received=False,
             key=THEIRS, outcome="DONE"),
    Decision(number="D8", claim=THEIRS, stub=None, reply=LATER, then=None, is_received=True, key=THEIRS,
             outcome="BUSY"),
    Decision(number="D15", claim=DONE, stub="CONFIRMED", reply=SUCCESS, then="CONFIRMED", is_received=False, key=OURS,
             outcome="DONE"),
    Decision(number="D16", claim=DONE, stub=None, reply=SUCCESS, then=None, effects=1, is_received=False, key=OURS,
             outcome="APPLIED"),
]
"""With a database of the consumer's own. `stub`: whether its inbox has a row."""


class Told:
    """The way to the stub's database."""

    def __init__(self):
        self.ids = []

    def confirm(self, message_id, consumer_group):
        self.ids.append(message_id)


@pytest.mark.parametrize("row", INBOX, ids=lambda row: row.number)
def test_with_two_databases_a_delivery_is_decided_as_the_table_says(engine, gate, row):
    """What is done is told to the stub's database by each copy, whoever has the claim: the first may have died."""
    told = Told()
    if row.stub:
        ApplyOnce(engine, lambda connection, message: None, confirms=Told())([message("1")], context())
    if row.claim == THEIRS:
        gate.take()
    elif row.claim == DONE:
        gate.finish()
    assert reply(ApplyOnce(engine, book, claims=gate.claims, confirms=told)) is row.reply
    assert booked(engine) == ["1"] * row.effects
    assert told.ids == ["1"] * (row.reply is SUCCESS)
    before = ["APPLIED"] if row.stub else []
    assert (is_received(engine), gate.key(), outcomes(engine)) == (row.is_received, row.key, [*before, row.outcome])
