"""Intervals that grow to a limit, and a last attempt."""

import pytest

from regulus.errors import ConfigError
from regulus.reliability.retry_policy import ResendPolicy

MINUTE = 60_000


def test_intervals_double_to_half_an_hour():
    policy = ResendPolicy()
    assert [policy.interval_after(count) // MINUTE for count in range(1, 17)] == [1, 2, 4, 8, 16] + [30] * 11


def test_only_the_intervals_that_grow_are_listed():
    assert ResendPolicy().growing_intervals() == {1: MINUTE, 2: 2 * MINUTE, 3: 4 * MINUTE, 4: 8 * MINUTE,
                                                  5: 16 * MINUTE}
    assert ResendPolicy(interval_ms=5, interval_ms_max=5).growing_intervals() == {}
    assert ResendPolicy(attempts_max=2).growing_intervals() == {1: MINUTE, 2: 2 * MINUTE}


def test_no_copy_follows_the_horizon():
    assert ResendPolicy().horizon_ms == (1 + 2 + 4 + 8 + 16 + 11 * 30) * MINUTE


@pytest.mark.parametrize("values", [{"interval_ms": 0}, {"interval_ms": 10, "interval_ms_max": 9},
                                    {"attempts_max": 0}, {"attempts_max": 1_001}, {"down_ms": 0}, {"lease_ms": 0},
                                    {"lease_ms": MINUTE, "retry_gap_ms": 2 * MINUTE, "stale_ms": 3 * MINUTE}])
def test_what_makes_no_sense_is_refused_by_name(values):
    with pytest.raises(ConfigError, match=next(reversed(values))):
        ResendPolicy(**values)


def test_a_receipt_is_anybodys_only_after_the_longest_retry_and_a_lease():
    assert ResendPolicy(lease_ms=MINUTE, retry_gap_ms=2 * MINUTE, stale_ms=3 * MINUTE + 1).stale_ms == 3 * MINUTE + 1
