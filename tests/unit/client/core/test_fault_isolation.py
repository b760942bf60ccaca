import pytest

from regulus.client.core.fault_isolation import (
    STRATEGIES,
    AttemptOutcome,
    CounterIsolation,
    FailureTimeIsolation,
    FlagIsolation,
    LatencyIsolation,
    brokers_to_avoid,
)
from regulus.model.message_queue import MessageQueue

QUEUES = [MessageQueue("T", broker, 0) for broker in ("a", "b")]
BROKERS = ("a", "b")


def avoided(isolation, now_ms, last=None):
    return brokers_to_avoid(QUEUES, isolation.tiers(BROKERS, last, now_ms))


@pytest.mark.parametrize(("rules_4_9", "duration_ms"), [(False, 2000), (True, 30_000)])
def test_a_slow_success_isolates_for_the_time_of_its_bucket(rules_4_9, duration_ms):
    isolation = LatencyIsolation(rules_4_9=rules_4_9)
    isolation.report("a", AttemptOutcome.SUCCESS, 600, 1000)
    assert "a" in avoided(isolation, 1000 + duration_ms - 1)
    assert "a" not in isolation.tiers(BROKERS, None, 1000 + duration_ms)[0]


@pytest.mark.parametrize(("latency_ms", "duration_ms"), [
    (0, 0), (49, 0), (550, 2000), (999, 2000), (1800, 5000), (3000, 6000), (5000, 10_000), (60_000, 30_000)])
def test_durations_take_the_highest_bucket_at_or_below_the_latency(latency_ms, duration_ms):
    assert LatencyIsolation().duration_ms(latency_ms) == duration_ms


@pytest.mark.parametrize("outcome", [AttemptOutcome.TRANSPORT_FAULT, AttemptOutcome.BROKER_FAULT])
def test_a_failure_isolates_for_ten_seconds(outcome):
    isolation = LatencyIsolation()
    isolation.report("a", outcome, 5, 0)
    assert "a" in avoided(isolation, 9_999)
    assert "a" not in isolation.tiers(BROKERS, None, 10_000)[0]


def test_a_quick_success_ends_isolation_early_only_under_the_old_rules():
    new, old = LatencyIsolation(), LatencyIsolation(rules_4_9=True)
    for isolation in (new, old):
        isolation.report("a", AttemptOutcome.TRANSPORT_FAULT, 5, 0)
        isolation.report("a", AttemptOutcome.SUCCESS, 5, 10)
    assert "a" in avoided(new, 20)
    assert "a" not in old.tiers(BROKERS, None, 20)[0]


@pytest.mark.parametrize("name", STRATEGIES)
def test_when_every_broker_failed_a_send_still_goes_somewhere(name):
    isolation = STRATEGIES[name]()
    for broker in BROKERS:
        isolation.report(broker, AttemptOutcome.TRANSPORT_FAULT, 5, 0)
        isolation.report(broker, AttemptOutcome.BROKER_FAULT, 5, 0)
    assert set(BROKERS) - avoided(isolation, 1)


@pytest.mark.parametrize("name", ["NONE", "LATENCY", "FAILURE_TIME", "FLAG"])
def test_a_retry_avoids_the_broker_of_the_attempt_before(name):
    assert "a" in avoided(STRATEGIES[name](), 0, last="a")


def test_the_failure_map_forgets_after_a_full_period():
    isolation = FailureTimeIsolation(period_ms=1000)
    isolation.report("a", AttemptOutcome.BROKER_FAULT, 5, 500)
    isolation.report("a", AttemptOutcome.SUCCESS, 5, 600)
    assert avoided(isolation, 1499) == {"a"}
    assert avoided(isolation, 1500) == frozenset()


def test_the_flag_is_cleared_by_a_success():
    isolation = FlagIsolation(period_ms=1000)
    isolation.report("a", AttemptOutcome.TRANSPORT_FAULT, 5, 0)
    assert avoided(isolation, 10) == {"a"}
    isolation.report("a", AttemptOutcome.SUCCESS, 5, 20)
    assert avoided(isolation, 30) == frozenset()


def test_old_failures_decay_so_that_a_broker_gets_traffic_again():
    isolation = CounterIsolation(period_ms=1000)
    for moment in range(40):
        isolation.report("a", AttemptOutcome.TRANSPORT_FAULT, 5, moment)
    assert avoided(isolation, 100) == {"a"}
    assert avoided(isolation, 100 + 6 * 1000) == frozenset()
