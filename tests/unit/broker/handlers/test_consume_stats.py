"""How far groups are, as operators see it."""

import json

from regulus.wire import fastjson
from regulus.wire.bodies import ConsumeStats, ConsumeStatsList
from regulus.wire.codes import RequestCode, ResponseCode


def progress(rig, **ext):
    response = rig.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "CG", **ext})
    assert response.code == ResponseCode.SUCCESS
    table = ConsumeStats.decode(response.body).offset_table
    return {(queue.topic, queue.queue_id): (row.broker_offset, row.consumer_offset) for queue, row in table.items()}


def consumed(rig):
    """A group that consumed two of three messages."""
    for body in (b"one", b"two", b"three"):
        rig.send(body=body)
        rig.now_ms += 1000
    rig.heartbeat("CG", "TopicA")
    rig.commit(2)
    return rig


def test_each_queue_has_the_brokers_offset_and_the_groups(rig):
    consumed(rig)
    assert progress(rig) == {("TopicA", 0): (3, 2), ("TopicA", 1): (0, 0), ("TopicA", 2): (0, 0), ("TopicA", 3): (0, 0)}


def test_the_last_consumed_message_has_its_time(rig):
    start_ms = rig.now_ms
    consumed(rig)
    response = rig.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "CG"})
    rows = {queue.queue_id: row for queue, row in ConsumeStats.decode(response.body).offset_table.items()}
    assert rows[0].last_timestamp == start_ms + 1000
    assert rows[1].last_timestamp == 0
    assert rows[0].pull_offset == 2


def test_the_keys_are_queues(rig):
    consumed(rig)
    text = rig.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "CG"}).body.decode()
    assert '{{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}:{"brokerOffset":3' in text.replace(
        '"offsetTable":', "")


def test_a_topic_that_the_live_group_gave_up_is_left_out(rig):
    consumed(rig)
    rig.send(topic="TopicB")
    rig.commit(1, topic="TopicB")
    assert {topic for topic, _ in progress(rig)} == {"TopicA"}
    assert {topic for topic, _ in progress(rig, topic="TopicB")} == set()
    assert {topic for topic, _ in progress(rig, topicList="TopicB;TopicA;")} == {"TopicA", "TopicB"}
    rig.broker.channel_closed(1, rig.now_ms)
    assert {topic for topic, _ in progress(rig)} == {"TopicA", "TopicB"}


def test_a_group_without_offsets_has_no_progress(rig):
    assert progress(rig) == {}


def test_all_groups_at_once(rig):
    consumed(rig)
    body = ConsumeStatsList.decode(rig.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}).body)
    groups = {group: stats for entry in body.consume_stats_list for group, stats in entry.items()}
    assert set(groups) == set(rig.broker.subscription_groups.names())
    assert len(groups["CG"]) == 1
    assert groups["TOOLS_CONSUMER"] == []
    assert (body.total_diff, body.broker_addr) == (1, "10.0.0.1:10911")
    ordered = ConsumeStatsList.decode(rig.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "true"}).body)
    assert not any(stats for entry in ordered.consume_stats_list for stats in entry.values())


def test_the_time_that_a_group_lags(rig):
    start_ms = rig.now_ms
    consumed(rig)
    response = rig.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "TopicA", "group": "CG"})
    spans = {row["messageQueue"]["queueId"]: row for row in fastjson.loads(response.body)["consumeTimeSpanSet"]}
    assert spans[0]["minTimeStamp"] == start_ms
    assert spans[0]["maxTimeStamp"] == start_ms + 2000
    assert spans[0]["consumeTimeStamp"] == start_ms + 1000
    assert spans[0]["delayTime"] == 1000
    assert spans[1]["delayTime"] == 0
    unknown = rig.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "None", "group": "CG"})
    assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


def test_who_consumes_a_topic(rig):
    consumed(rig)
    rig.heartbeat("Live", "TopicA", channel=2)
    groups = json.loads(rig.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "TopicA"}).body)
    assert groups == {"groupList": ["CG", "Live"]}


def test_what_a_group_consumes(rig):
    consumed(rig)
    body = json.loads(rig.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "CG"}).body)
    assert body == {"brokerAddr": "10.0.0.1:10911", "topicList": ["TopicA"]}


def test_the_subscription_of_a_group(rig):
    rig.heartbeat("CG", "TopicA", expression="TagA")
    ext = {"group": "CG", "topic": "TopicA"}
    body = json.loads(rig.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, ext).body)
    assert body["subscriptionData"]["subString"] == "TagA"
    none = rig.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {**ext, "group": "None"})
    assert json.loads(none.body) == {"group": "None", "topic": "TopicA"}
