from collections import Counter

import pytest

from regulus.client.core.queue_selector import RoundRobin, check_selected, select_by_hash
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue

QUEUES = tuple(MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(4))


def test_sixteen_sends_over_eight_queues_give_each_two():
    turn = RoundRobin(start=5)
    assert set(Counter(turn.select(QUEUES) for _ in range(16)).values()) == {2}


def test_the_first_queue_is_the_one_after_the_start():
    assert RoundRobin(start=0).select(QUEUES) == QUEUES[1]
    assert RoundRobin(start=7).select(QUEUES) == QUEUES[0]


def test_a_retry_avoids_the_broker_that_failed():
    turn = RoundRobin(start=0)
    assert {turn.select(QUEUES, {"a"}).broker_name for _ in range(8)} == {"b"}


def test_with_one_broker_a_retry_takes_another_queue_of_it():
    queues = QUEUES[:4]
    turn = RoundRobin(start=0)
    first = turn.select(queues)
    second = turn.select(queues, {"a"})
    assert second.broker_name == "a"
    assert second != first


def test_sharding_keys_choose_as_java_does():
    # "hello".hashCode() is 99162322 in Java, "order-1".hashCode() is -1207111310.
    assert select_by_hash(QUEUES, Message("T", b"x"), "hello") == QUEUES[99162322 % 8]
    assert select_by_hash(QUEUES, Message("T", b"x"), "order-1") == QUEUES[1207111310 % 8]
    assert select_by_hash(QUEUES, Message("T", b"x"), 42) == select_by_hash(QUEUES, Message("T", b"y"), "42")


def test_a_selector_must_choose_one_of_the_queues():
    with pytest.raises(ValueError, match="not one of the topic's 8 queues"):
        check_selected(QUEUES, MessageQueue("T", "a", 9))
