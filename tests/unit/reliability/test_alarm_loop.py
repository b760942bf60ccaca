"""Alarms are told once by each channel, and none is lost when a channel is away."""

import asyncio
import logging

import pytest
from sqlalchemy import update

from regulus.errors import AlarmUndelivered, ConfigError, ReliabilityRefused
from regulus.reliability import alarms, tables
from regulus.reliability.alarm_loop import AlarmConfig, AlarmLoop, Digests
from regulus.reliability.alarms import AlarmKind
from tests.waiting import until

from .deliveries import rows
from .shop import place_orders, set_stub

AT_ONCE = AlarmConfig(retry_ms=1, retry_ms_max=1, interval_ms=1)


class Kept:
    """A channel that keeps what it is given, and fails as often as it is told to."""

    name = "kept"

    def __init__(self, failures=0, error=AlarmUndelivered):
        self.digests = []
        self.failures = failures
        self.error = error

    def send(self, digest):
        if self.failures:
            self.failures -= 1
            raise self.error("away")
        self.digests.append([alarm.subject for alarm in digest.named])

    @property
    def subjects(self):
        return [subject for digest in self.digests for subject in digest]


def raise_some(engine, *subjects):
    with engine.begin() as connection:
        for subject in subjects:
            alarms.raise_alarm(connection, AlarmKind.MANUAL, subject, "why")


def make_due(engine):
    with engine.begin() as connection:
        connection.execute(update(tables.alarms).values(due_time=0))


def unsent(engine):
    return [subject for subject, sent in rows(engine, tables.alarms, "subject", "sent_time") if sent is None]


def test_all_that_is_due_is_one_digest_and_told_once(engine):
    channel = Kept()
    rounds = Digests(engine, [channel], AlarmConfig())
    raise_some(engine, "1", "2")
    assert (rounds.run(), rounds.run()) == (2, 0)
    assert channel.digests == [["1", "2"]]
    raise_some(engine, "1", "3")
    assert rounds.run() == 1
    assert channel.digests[1:] == [["3"]]


def test_what_a_channel_missed_it_gets_later_and_the_others_do_not_get_it_again(engine, caplog):
    good, bad = Kept(), Kept(failures=1)
    rounds = Digests(engine, [good, bad], AT_ONCE)
    raise_some(engine, "1")
    with caplog.at_level(logging.ERROR):
        assert rounds.run() == 0
    assert unsent(engine) == ["1"]
    assert "1 alarms are not delivered yet; the next attempt is in 0 s: away" in caplog.text
    raise_some(engine, "2")
    make_due(engine)
    rounds = run_until_told(rounds, engine)
    assert (good.digests, bad.digests) == ([["1"], ["2"]], [["1", "2"]])


def run_until_told(rounds, engine):
    for _ in range(100):
        rounds.run()
        if not unsent(engine):
            return rounds
        make_due(engine)
    raise AssertionError(unsent(engine))


def test_a_channel_that_failed_rests_and_new_alarms_reach_the_others_meanwhile(engine):
    good, bad = Kept(), Kept(failures=1)
    rounds = Digests(engine, [good, bad], AlarmConfig(retry_ms=60_000))
    raise_some(engine, "1")
    rounds.run()
    raise_some(engine, "2")
    make_due(engine)
    assert rounds.run() == 0
    assert (good.digests, bad.digests, bad.failures) == ([["1"], ["2"]], [], 0)
    assert unsent(engine) == ["1", "2"]
    [(_, due), _] = rows(engine, tables.alarms, "subject", "due_time")
    assert due > 60_000     # not at once again


def test_an_error_of_a_channel_of_the_users_own_holds_up_no_other(engine, caplog):
    good, bad = Kept(), Kept(failures=1, error=KeyError)
    rounds = Digests(engine, [bad, good], AT_ONCE)
    raise_some(engine, "1")
    with caplog.at_level(logging.ERROR):
        rounds.run()
    assert (good.subjects, unsent(engine)) == (["1"], ["1"])
    assert "KeyError: 'away'" in caplog.text
    make_due(engine)
    run_until_told(rounds, engine)
    assert (good.subjects, bad.subjects) == (["1"], ["1"])


def test_a_channel_whose_send_is_a_coroutine_function_has_told_nothing(engine, caplog):
    class Asynchronous:
        async def send(self, digest):
            raise AssertionError("nothing awaits it")

    raise_some(engine, "1")
    Digests(engine, [Asynchronous()], AT_ONCE).run()
    assert unsent(engine) == ["1"]
    assert "a coroutine function was given" in caplog.text


def test_a_sender_that_died_leaves_its_alarms_to_the_next(engine):
    raise_some(engine, "1")
    with engine.begin() as connection:
        alarms.claim(connection, AlarmConfig().lease_ms, 10)
    channel = Kept()
    rounds = Digests(engine, [channel], AlarmConfig())
    assert rounds.run() == 0        # its lease lasts
    make_due(engine)
    assert (rounds.run(), channel.subjects) == (1, ["1"])


def test_a_digest_is_bounded(engine):
    channel = Kept()
    rounds = Digests(engine, [channel], AlarmConfig(digest_max=2))
    raise_some(engine, *"12345")
    assert [rounds.run() for _ in range(4)] == [2, 2, 1, 0]
    assert channel.subjects == list("12345")


def test_a_late_delivery_ends_the_alarm_of_its_stub(engine):
    place_orders(engine, "1")
    raise_some(engine, "1")
    rounds = Digests(engine, [Kept()], AlarmConfig())
    rounds.run()
    set_stub(engine, "1", status="CONFIRMED")
    rounds.run()
    assert rows(engine, tables.alarms, "open_key") == [(None,)]


async def test_the_loop_tells_what_is_raised_and_ends(engine):
    channel = Kept()
    async with AlarmLoop(engine, [channel], AT_ONCE):
        await asyncio.to_thread(raise_some, engine, "1")
        await until(lambda: channel.subjects == ["1"])
        await asyncio.to_thread(raise_some, engine, "2")
        await until(lambda: channel.subjects == ["1", "2"])
    assert unsent(engine) == []


async def test_missing_tables_are_told_at_start(engine):
    with engine.begin() as connection:
        tables.alarms.drop(connection)
    with pytest.raises(ReliabilityRefused, match="no table regulus_alarm"):
        await AlarmLoop(engine, [Kept()]).start()


@pytest.mark.parametrize(("values", "says"), [({"interval_ms": 0}, "interval_ms is 0"),
                                              ({"retry_ms": 2, "retry_ms_max": 1}, "retry_ms is 2; it must be 1 to 1")])
def test_limits_are_told(values, says):
    with pytest.raises(ConfigError, match=says):
        AlarmConfig(**values)


def test_no_channel_is_told(engine):
    with pytest.raises(ConfigError, match="no channel"):
        Digests(engine, [], AlarmConfig())
