import pytest

from regulus.errors import OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.selection import TopicSelection, parse_selection

KNOWN_TOPICS = {"orders", "orders-eu", "%RETRY%orders", "%DLQ%orders", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"}
T0, T1, T2 = (MessageQueue("t", "broker-a", number) for number in range(3))


def test_assign_names_queues():
    selection = parse_selection({"assign": '{"t":{"broker-a":[0,2]},"u":[1]}'})
    assert selection.queues == (T0, T2, MessageQueue("u", "", 1))
    assert selection.topics_of({"t", "u", "v"}) == ["t", "u"]
    u1 = MessageQueue("u", "broker-b", 1)
    assert selection.queues_of([u1, T2, T1, T0]) == [T0, T2, u1]


def test_assign_names_queues_of_several_brokers():
    selection = parse_selection({"assign": '{"t":{"broker-a":[0],"broker-b":[0]}}'})
    other = T0._replace(broker_name="broker-b")
    assert selection.queues_of([other, T1, T0]) == [T0, other]


def test_a_missing_queue_is_refused_with_those_that_are_there():
    selection = parse_selection({"assign": '{"t":{"broker-b":[0]}}'})
    with pytest.raises(OptionError, match="names t/broker-b/0, which the store does not have: it has t/broker-a/1"):
        selection.queues_of([T1])


def test_without_assign_all_queues_are_read():
    assert TopicSelection(topics=("t",)).queues_of([T1, T0]) == [T0, T1]


def test_subscribe_takes_a_list():
    assert parse_selection({"subscribe": "b, a,"}).topics_of({"a", "b", "c"}) == ["a", "b"]


@pytest.mark.parametrize(("pattern", "topics"), [
    (".*", ["orders", "orders-eu"]), ("orders", ["orders"]), ("%DLQ%.*", ["%DLQ%orders"]),
    ("%RETRY%.*", ["%RETRY%orders"]), ("nothing", []), (".*_XXXX", []),
])
def test_a_pattern_takes_special_topics_only_by_their_prefix(pattern, topics):
    assert parse_selection({"subscribePattern": pattern}).topics_of(KNOWN_TOPICS) == topics


def test_a_special_topic_may_be_named():
    assert TopicSelection(topics=("SCHEDULE_TOPIC_XXXX",)).topics_of(KNOWN_TOPICS) == ["SCHEDULE_TOPIC_XXXX"]


def test_a_missing_topic_is_refused_with_the_nearest():
    with pytest.raises(OptionError, match="no topic 'order'; did you mean 'orders'"):
        TopicSelection(topics=("order",)).topics_of(KNOWN_TOPICS)
    with pytest.raises(OptionError, match="the cluster has no topic 'zzz'; it has orders, orders-eu"):
        TopicSelection(topics=("zzz",)).topics_of(KNOWN_TOPICS, "the cluster")
