import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.client.core.resend import RETRY_CODES, RETRY_CODES_4_9, BackOff, SendBudget


def test_an_attempt_gets_its_share_of_what_is_left():
    budget = SendBudget(attempts=3)
    assert budget.attempt_timeout_ms(1, 3000) == 1000
    assert budget.attempt_timeout_ms(2, 2000) == 1000
    assert budget.attempt_timeout_ms(2, 2900) == 1450
    assert budget.attempt_timeout_ms(3, 1000) == 1000


def test_with_java_budget_an_attempt_may_take_all_that_is_left():
    budget = SendBudget(attempts=3, java_budget=True)
    assert budget.attempt_timeout_ms(1, 3000) == 3000
    assert budget.attempt_timeout_ms(2, 0) == 0


def test_what_is_not_sent_again_without_an_answer_may_wait_for_it_all_that_is_left():
    budget = SendBudget(attempts=3, resends_without_answer=False)
    assert [budget.attempt_timeout_ms(attempt, 3000) for attempt in (1, 2, 3)] == [3000, 3000, 3000]
    capped = SendBudget(attempts=3, resends_without_answer=False, attempt_timeout_max_ms=500)
    assert capped.attempt_timeout_ms(1, 3000) == 500


def test_a_cap_holds_for_all_attempts_but_the_last():
    budget = SendBudget(attempts=3, attempt_timeout_max_ms=500)
    assert [budget.attempt_timeout_ms(attempt, 3000) for attempt in (1, 2, 3)] == [500, 500, 3000]


@given(budget_ms=st.integers(1, 60_000), attempts=st.integers(1, 8), cap=st.integers(-1, 5000), java=st.booleans(),
       spent=st.lists(st.floats(0, 1), min_size=8, max_size=8))
def test_attempts_together_never_exceed_the_budget(budget_ms, attempts, cap, java, spent):
    budget = SendBudget(attempts=attempts, attempt_timeout_max_ms=cap, java_budget=java)
    elapsed = 0
    for attempt in range(1, attempts + 1):
        timeout = budget.attempt_timeout_ms(attempt, budget_ms - elapsed)
        if timeout <= 0:
            break
        elapsed += round(timeout * spent[attempt - 1])
    assert elapsed <= budget_ms


def test_retry_codes_are_those_of_each_version():
    assert sorted(RETRY_CODES) == [1, 2, 14, 16, 17, 204, 205, 1500]
    assert sorted(RETRY_CODES_4_9) == [1, 14, 16, 17, 204, 205]


def test_rests_grow_by_1_6_up_to_two_minutes():
    back_off = BackOff()
    now, waits = 0, []
    for _ in range(14):
        back_off.throttled("a", now, jitter=0.0)
        wait = back_off.wait_ms("a", now)
        waits.append(wait)
        now += wait
    assert waits[:6] == [1000, 1600, 2560, 4096, 6554, 10486]
    assert waits[-2:] == [120_000, 120_000]


@pytest.mark.parametrize("jitter", [-1.0, -0.3, 0.5, 1.0])
def test_every_rest_but_the_first_is_jittered_by_a_fifth_at_most(jitter):
    back_off = BackOff()
    back_off.throttled("a", 0, jitter)
    assert back_off.wait_ms("a", 0) == 1000
    back_off.throttled("a", 1000, jitter)
    assert back_off.wait_ms("a", 1000) == round(1600 * (1 + 0.2 * jitter))


def test_a_rest_counts_from_the_start_of_the_attempt():
    back_off = BackOff()
    back_off.throttled("a", 0, 0.0)
    assert back_off.wait_ms("a", 700) == 300
    assert back_off.wait_ms("a", 1500) == 0


def test_sends_that_were_under_way_together_make_one_rest():
    back_off = BackOff()
    for started in (0, 1, 2):
        back_off.throttled("a", started, 0.0)
    assert back_off.wait_ms("a", 2) == 998
    assert back_off.resting(2) == {"a"}


def test_a_success_ends_the_rest_and_starts_over():
    back_off = BackOff()
    back_off.throttled("a", 0, 0.0)
    back_off.throttled("a", 1000, 0.0)
    back_off.succeeded("a")
    assert back_off.wait_ms("a", 1000) == 0
    back_off.throttled("a", 5000, 0.0)
    assert back_off.wait_ms("a", 5000) == 1000


def test_a_broker_that_refuses_rests_50_ms_and_twice_as_long_each_time_up_to_a_second():
    back_off = BackOff()
    now, waits = 0, []
    for _ in range(8):
        back_off.refused("a", now, now)
        waits.append(back_off.wait_ms("a", now))
        now += waits[-1]
    assert waits == [50, 100, 200, 400, 800, 1000, 1000, 1000]
    assert not back_off.throttles("a")
    assert back_off.resting(now - 1) == {"a"}


def test_sends_that_were_refused_together_make_one_rest():
    back_off = BackOff()
    for now in (0, 1, 30):
        back_off.refused("a", 0, now)
    assert back_off.wait_ms("a", 30) == 20
    back_off.refused("a", 49, 49)       # waited for its end, by a timer that went off a little early
    assert back_off.wait_ms("a", 49) == 100


def test_throttling_and_refusing_end_each_other():
    back_off = BackOff()
    back_off.refused("a", 0, 0)
    back_off.throttled("a", 10, 0.0)
    assert back_off.throttles("a")
    assert back_off.wait_ms("a", 10) == 1000
    back_off.refused("a", 20, 20)
    assert not back_off.throttles("a")
    assert back_off.wait_ms("a", 20) == 50
