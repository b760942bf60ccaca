import pytest

from regulus.client.core.kept_rules import at_its_time, counts, is_stored, is_worth_keeping, rest_ms
from regulus.errors import (
    AnswerUnreadable,
    BrokerRefused,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    ConnectRefused,
    NoBroker,
    NoMaster,
    NoNameServer,
    NoRoute,
    RequestTimeout,
    SendFailed,
    Throttled,
    TooManyRequests,
)
from regulus.model.message import Message
from regulus.wire.codes import ResponseCode


def failed(cause):
    error = SendFailed(topic="T", attempts=1, elapsed_ms=1, brokers=("a",), cause=cause)
    error.__cause__ = cause
    return error


def out_of_time(cause):
    error = TooManyRequests("no time")
    error.__cause__ = cause
    return error


BUSY = BrokerRefused(ResponseCode.SYSTEM_BUSY, "")


@pytest.mark.parametrize("error", [
    failed(ConnectRefused("")), failed(ConnectFailed("")), failed(NoMaster("")), NoBroker(""), NoNameServer(""),
    failed(BUSY), BUSY, Throttled("", 2), out_of_time(BUSY), out_of_time(None)], ids=repr)
def test_an_outage_and_flow_control_are_kept_and_say_nothing_against_the_message(error):
    assert is_worth_keeping(error)
    assert not counts(error)


@pytest.mark.parametrize("error", [
    failed(ConnectionLost("")), failed(RequestTimeout("")), out_of_time(RequestTimeout("")), NoRoute(""),
    failed(BrokerRefused(ResponseCode.NO_PERMISSION, "")), failed(BrokerRefused(ResponseCode.TOPIC_NOT_EXIST, "")),
    BrokerRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "")], ids=repr)
def test_what_a_broker_may_have_stored_or_refuses_is_kept_and_counts(error):
    assert is_worth_keeping(error)
    assert counts(error)


@pytest.mark.parametrize("error", [
    BrokerRefused(ResponseCode.MESSAGE_ILLEGAL, ""), failed(BrokerRefused(ResponseCode.MESSAGE_ILLEGAL, "")),
    failed(AnswerUnreadable("")), ClientClosed("")], ids=repr)
def test_what_can_never_be_stored_or_is_stored_is_not_kept(error):
    assert not is_worth_keeping(error)


def test_an_answer_that_cannot_be_read_means_that_the_message_is_stored():
    assert is_stored(failed(AnswerUnreadable("")))
    assert not is_stored(failed(ConnectionLost("")))


def test_rests_double_up_to_the_longest_give_or_take_a_fifth():
    assert [rest_ms(failures, 1000, 5000, 0) for failures in (1, 2, 3, 4, 1000)] == [1000, 2000, 4000, 5000, 5000]
    assert [rest_ms(2, 1000, 5000, jitter) for jitter in (-1, 1)] == [1600, 2400]


@pytest.mark.parametrize(("timer", "moment"), [
    ({"TIMER_DELAY_SEC": "3"}, "4000"), ({"TIMER_DELAY_MS": "3"}, "1003"), ({"TIMER_DELIVER_MS": "5000"}, "5000"),
    ({"TIMER_DELAY_SEC": "3", "TIMER_DELAY_MS": "9", "TIMER_DELIVER_MS": "5000"}, "4000"),
    ({"TIMER_DELAY_MS": "9", "TIMER_DELIVER_MS": "5000"}, "1009"), ({"TIMER_DELAY_MS": "-9"}, "991"),
])
def test_a_delay_is_kept_as_the_moment_at_which_it_ends(timer, moment):
    """By the same one that a broker goes by, of several."""
    message = Message("T", b"body", "tag", "key", timer, flag=7)
    kept = at_its_time(message, 1000)
    assert kept.properties == {"TAGS": "tag", "KEYS": "key", "TIMER_DELIVER_MS": moment}
    assert (kept.topic, kept.body, kept.flag) == ("T", b"body", 7)
    assert message.properties == {"TAGS": "tag", "KEYS": "key", **timer}, "it is still the application's"


@pytest.mark.parametrize("properties", [{}, {"DELAY": "3"}, {"TIMER_DELAY_SEC": "x"}])
def test_what_has_no_delay_of_its_own_is_kept_as_it_is(properties):
    message = Message("T", b"body", properties=properties)
    assert at_its_time(message, 1000) is message
