"""The rules by which dead letters are sent again."""

import pytest

from regulus.model.redrive import (
    LOG_IS_NEWER,
    NO_TOPIC,
    REASONS_NOT_TO_SEND,
    SENT_BEFORE,
    TO_SEND,
    TOPIC_IS_NEWER,
    QueueBounds,
    is_of_first_copies,
    is_older,
    kept_properties,
    origin_topic,
    place_text,
    sentence,
    shortened_logs,
    status_of,
    topics_made,
)


def test_the_place_of_a_dead_letter():
    assert place_text("%DLQ%g", 0, 7, "7F00000100002A9F0000000000000000") == (
        "%DLQ%g/0/7/7F00000100002A9F0000000000000000")


@pytest.mark.parametrize(("properties", "topic"), [
    ({"DLQ_ORIGIN_TOPIC": "a", "RETRY_TOPIC": "b"}, "a"), ({"RETRY_TOPIC": "b", "REAL_TOPIC": "c"}, "b"),
    ({"REAL_TOPIC": "c"}, "c"), ({}, ""), ({"RETRY_TOPIC": "%RETRY%g_b"}, "b"), ({"RETRY_TOPIC": "%RETRY%g+b"}, "b"),
    ({"RETRY_TOPIC": "%RETRY%other_b"}, "%RETRY%other_b")])
def test_the_topic_from_which_a_letter_came(properties, topic):
    assert origin_topic(properties, "g") == topic


@pytest.mark.parametrize(("topic", "is_so"), [
    ("Orders", True), ("%RETRY%g", False), ("%DLQ%g", False), ("SCHEDULE_TOPIC_XXXX", False),
    ("rmq_sys_wheel_timer", False), ("RMQ_SYS_TRANS_HALF_TOPIC", False), ("RMQ_SYS_TRANS_OP_HALF_TOPIC", False)])
def test_topics_that_show_what_was_sent(topic, is_so):
    assert is_of_first_copies(topic) is is_so


def test_what_is_true_only_of_the_letter_is_not_kept():
    former = {"DELAY": "0", "RETRY_TOPIC": "t", "DLQ_ORIGIN_TOPIC": "t", "UNIQ_KEY": "u", "REDRIVE_OF": "old",
              "CAUSE_1": "x", "CAUSE_17": "y", "CAUSE_STACK": "z", "SINK": "s", "SEQ": "0/1", "TIMER_OUT_MS": "1"}
    kept = {"KEYS": "k", "TAGS": "t", "__SHARDINGKEY": "s", "BUSINESS_ID": "b", "customer": "c", "CAUSE_x": "own"}
    assert kept_properties(former | kept, "place") == kept | {"REDRIVE_OF": "place"}


@pytest.mark.parametrize(("reasons", "status"), [
    ((), TO_SEND), (REASONS_NOT_TO_SEND, SENT_BEFORE), ((LOG_IS_NEWER, TOPIC_IS_NEWER), TOPIC_IS_NEWER),
    ((TOPIC_IS_NEWER, NO_TOPIC), NO_TOPIC), ((LOG_IS_NEWER,), LOG_IS_NEWER)])
def test_the_first_reason_that_applies_is_the_status(reasons, status):
    assert status_of(reasons) == status


def test_a_letter_is_older_than_what_its_topic_has():
    since = {"t": 100, "none left": None}
    assert [is_older(ms, since, "t") for ms in (99, 100, 101)] == [True, False, False]
    assert is_older(1 << 60, since, "none left")
    assert not is_older(0, since, "whole")


def test_a_topic_is_as_old_as_its_newest_making():
    bounds = [QueueBounds("t", "a", 0, None, 5), QueueBounds("t", "b", 0, None, 9), QueueBounds("u", "a", 0, None, 0)]
    assert topics_made(bounds) == {"t": 9}


def test_a_log_is_complete_since_the_first_message_that_any_queue_of_its_broker_has():
    bounds = [QueueBounds("t", "a", 3, 50, 0), QueueBounds("home", "a", 1, 20, 0), QueueBounds("t", "b", 1, 30, 0),
              QueueBounds("u", "a", 0, 60, 0), QueueBounds("v", "c", 4, None, 0)]
    assert shortened_logs(bounds, ["t", "u", "v"]) == {"t": 30, "v": None}
    assert shortened_logs([*bounds, QueueBounds("t", "c", 1, None, 0)], ["t"]) == {"t": None}
    assert shortened_logs(bounds, ["u"]) == {}


def test_the_sentence_names_only_what_there_is():
    assert sentence({TO_SEND: 2}, is_dry_run=True, brokers=(), other_topic="--x") == "2 to send, 0 sent before"
    assert sentence({"sent": 1, SENT_BEFORE: 3, NO_TOPIC: 1, TOPIC_IS_NEWER: 2}, is_dry_run=False, brokers=("a", "b"),
                    other_topic="--x") == (
        "1 sent, 3 sent before, 1 whose topic is gone or not known, 2 not sent: older than the topic, which was "
        "created again and may have had them (with --x they are sent); brokers: a, b")
