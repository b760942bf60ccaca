"""Claims in a real Redis, which is stopped, flushed, and asked with a wrong password."""

import shutil
import time

import pytest
from sqlalchemy import delete

from regulus.errors import ClaimUnavailable, ConfigError
from regulus.reliability.inbox import ApplyOnce
from regulus.reliability.retry_policy import ResendPolicy

from .shop import book, booked, bookings, place_orders, set_stub
from .test_inbox import SUCCESS, deliver

redis = pytest.importorskip("redis", reason="the package redis is not installed: pip install 'regulus-mq[redis]'")


@pytest.fixture
def server():
    from . import redis_server

    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on this machine; make interop brings one")
    with redis_server.running() as server:
        yield server


@pytest.fixture
def claims(server):
    from regulus.reliability.claims import RedisClaims

    return RedisClaims(server.client(), "billing", lease_ms=60_000)


def test_one_wins_until_it_gives_the_claim_back(claims):
    token = "ours"
    assert claims.win("1", token)
    assert not claims.win("1", "another")
    assert claims.win("2", "ours")
    claims.release("1", token)
    assert claims.win("1", "another")


def test_one_who_asks_again_because_no_answer_came_has_its_own_claim(claims):
    """As clients do by themselves, three times by default."""
    assert [claims.win("1", "ours") for _ in range(2)] == [True, True]
    assert not claims.win("1", "another")
    claims.finish("1", "ours")
    assert not claims.win("1", "ours")


def test_w10_w15_a_claim_ends_with_its_lease(server):
    from regulus.reliability.claims import RedisClaims

    claims = RedisClaims(server.client(), "billing", lease_ms=1)
    assert claims.win("1", "ours")
    until = time.monotonic() + 60
    while not claims.win("1", "another"):
        assert time.monotonic() < until


def test_w19_only_the_holder_gives_back_and_keeps(server, claims):
    token = "ours"
    assert claims.win("1", token)
    claims.release("1", "another")
    claims.finish("1", "another")
    assert not claims.win("1", "another")
    assert 0 < server.client().pttl("regulus:claim:billing:1") <= 60_000
    claims.finish("1", token)
    horizon_ms = ResendPolicy().horizon_ms
    assert horizon_ms < server.client().pttl("regulus:claim:billing:1") <= horizon_ms + 60_000
    assert not claims.win("1", "another")


def test_what_is_done_is_told_from_what_is_held_until_no_copy_may_come(server, claims):
    assert not claims.is_done("1")
    token = "ours"
    assert claims.win("1", token)
    assert not claims.is_done("1")
    claims.finish("1", "another")
    assert not claims.is_done("1")
    claims.finish("1", token)
    assert claims.is_done("1")
    claims.release("1", token)
    assert (claims.is_done("1"), claims.win("1", "another")) == (True, False)
    server.client().flushall()
    assert not claims.is_done("1")


def test_what_the_database_lost_and_redis_calls_done_is_applied(engine, claims):
    """As behind a commit that did not wait for the disk, or for the replica that is the primary now."""
    place_orders(engine, "1")
    listener = ApplyOnce(engine, book, claims=claims)
    assert deliver(listener, "1") == (SUCCESS, 0)
    set_stub(engine, "1", status="UNCONFIRMED")
    with engine.begin() as connection:
        connection.execute(delete(bookings))
    assert deliver(listener, "1") == (SUCCESS, 0)
    assert booked(engine) == ["1"]


def test_groups_have_claims_of_their_own(server, claims):
    from regulus.reliability.claims import RedisClaims

    assert claims.win("1", "ours")
    assert RedisClaims(server.client(), "shipping").win("1", "ours")


def test_a_wrong_password_is_told_at_the_start(server):
    from regulus.reliability.claims import RedisClaims

    with pytest.raises(ClaimUnavailable, match=r"AuthenticationError.*look at its address and password"):
        RedisClaims(server.client("wrong"), "billing").check()


def test_a_redis_that_is_stopped_or_flushed_costs_no_effect_and_doubles_none(engine, server, claims):
    place_orders(engine, "1", "2", "3")
    listener = ApplyOnce(engine, book, claims=claims)
    listener.check()
    assert deliver(listener, "1") == (SUCCESS, 0)
    server.client().flushall()
    assert deliver(listener, "1", "2") == (SUCCESS, 0)
    server.stop()
    assert deliver(listener, "1", "2", "3") == (SUCCESS, 0)
    assert booked(engine) == ["1", "2", "3"]


def test_a_redis_that_stops_during_the_effect_takes_nothing_back(engine, server, claims):
    place_orders(engine, "1")

    def stops_redis(connection, message):
        book(connection, message)
        server.stop()

    assert deliver(ApplyOnce(engine, stops_redis, claims=claims), "1") == (SUCCESS, 0)
    assert booked(engine) == ["1"]


def test_a_claim_whose_answer_came_too_late_is_given_back_when_its_effect_fails(engine, server):
    """A Redis that stands still takes what it was sent when it goes on, though nobody waits for the answer any more."""
    from regulus.reliability.claims import RedisClaims

    from .redis_server import PASSWORD

    place_orders(engine, "1")
    asked = server.client()
    impatient = redis.Redis(port=server.port, password=PASSWORD, socket_timeout=0.2, retry=None)
    impatient.ping()
    claims = RedisClaims(impatient, "billing", lease_ms=60_000)

    def fails(connection, message):
        server.go_on()
        until = time.monotonic() + 60
        while asked.get("regulus:claim:billing:1") is None:
            assert time.monotonic() < until
        raise ValueError("no room")

    server.stand_still()
    with pytest.raises(ValueError, match="no room"):
        deliver(ApplyOnce(engine, fails, claims=claims), "1")
    assert asked.get("regulus:claim:billing:1") is None
    assert deliver(ApplyOnce(engine, book, claims=claims), "1") == (SUCCESS, 0)


def test_a_lease_is_longer_than_nothing(claims):
    from regulus.reliability.claims import RedisClaims

    with pytest.raises(ConfigError, match="lease_ms is 0"):
        RedisClaims(redis.Redis(), "billing", lease_ms=0)


def test_a_lease_that_resends_do_not_wait_for_is_refused():
    from regulus.reliability.claims import RedisClaims

    long = {"lease_ms": 600_001}
    with pytest.raises(ConfigError, match="lease_ms is 600001, and the policy's 300000"):
        RedisClaims(redis.Redis(), "billing", **long)
    RedisClaims(redis.Redis(), "billing", **long, policy=ResendPolicy(**long, stale_ms=10_000_000))
