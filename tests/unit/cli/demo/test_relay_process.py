from regulus.cli.demo.relay_process import POLICY
from regulus.cli.demo.run import QUIET_TIMEOUT_S


def test_a_flight_whose_retries_are_slow_is_not_given_up_before_it_is_a_dead_letter():
    assert POLICY.horizon_ms > 10 * 3_600_000


def test_copies_come_less_and_less_often_but_before_the_demo_takes_quiet_for_an_end():
    assert [POLICY.interval_after(sends) for sends in (1, 2, 3, 4)] == [10_000, 20_000, 40_000, 40_000]
    assert POLICY.interval_ms_max < QUIET_TIMEOUT_S * 1000
