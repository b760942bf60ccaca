"""What was tried, how it ended, and how much time is left."""

import pytest

from regulus.client.core.resend import SendBudget
from regulus.client.core.send_course import SendCourse
from regulus.client.send_result import SendResult, SendStatus
from regulus.errors import ConnectRefused, RequestTimeout, SendFailed, TooManyRequests
from regulus.model.message_queue import MessageQueue


def course(attempts=3, timeout_ms=3000, counts_waits=False):
    return SendCourse("T", SendBudget(attempts=attempts), timeout_ms, counts_waits, now_ms=0)


def test_attempts_share_the_time_and_end_with_it():
    sent = course()
    assert sent.begin_attempt("a", 0, is_alone=False) == 1000
    assert sent.begin_attempt("b", 1000, is_alone=False) == 1000
    assert sent.last_broker == "b"
    assert not sent.is_over(2999)
    assert sent.is_over(3000)
    assert sent.begin_attempt("a", 3000, is_alone=False) == 0
    assert sent.attempts == 2


def test_where_another_attempt_would_go_to_the_same_broker_one_has_all_the_time():
    sent = course()
    assert sent.begin_attempt("a", 100, is_alone=True) == 2900
    assert sent.begin_attempt("a", 200, is_alone=True) == 2800
    capped = SendCourse("T", SendBudget(attempts=3, attempt_timeout_max_ms=500), 3000, False, now_ms=0)
    assert capped.begin_attempt("a", 0, is_alone=True) == 500


def test_time_that_stood_still_does_not_count():
    sent = course()
    sent.stand_still(10_000)
    assert sent.left_ms(10_000) == 3000
    assert sent.begin_attempt("a", 10_500, is_alone=False) == 833


def test_a_refused_connection_costs_time_and_no_attempt():
    sent = course()
    for now in (0, 50, 150, 350):
        assert sent.begin_attempt("a", now, is_alone=False) == (3000 - now) // 3
        sent.failure = ConnectRefused("nobody listens")
        sent.was_refused()
    with pytest.raises(SendFailed, match="after 4 attempts in 350 ms") as caught:
        sent.end(350)
    assert caught.value.code == ConnectRefused.code


def test_the_end_says_whether_time_or_attempts_were_used_up():
    sent = course(attempts=2)
    sent.begin_attempt("a", 0, is_alone=False)
    sent.failure = RequestTimeout("no answer of a")
    with pytest.raises(TooManyRequests, match=r"after 3000 ms and 1 of 2 attempts .brokers a.: no answer of a"):
        sent.end(3000)
    sent.begin_attempt("b", 1000, is_alone=False)
    with pytest.raises(SendFailed, match="after 2 attempts"):
        sent.end(2000)


def test_what_is_stored_after_all_is_the_result():
    sent = course(attempts=1)
    sent.begin_attempt("a", 0, is_alone=False)
    sent.stored = SendResult(SendStatus.FLUSH_DISK_TIMEOUT, "id", MessageQueue("T", "a", 0), 7)
    assert sent.end(5000) is sent.stored
