"""The units of one queue."""

import json

from regulus.model.java_hash import tags_code
from regulus.wire.codes import RequestCode, ResponseCode


def units(rig, **ext):
    return rig.ask(RequestCode.QUERY_CONSUME_QUEUE,
                   {"topic": "TopicA", "queueId": "0", "index": "0", "count": "10", **ext})


def test_units_with_their_place_and_tag(rig):
    for tag in ("TagA", "TagB"):
        rig.send(properties={"TAGS": tag, "UNIQ_KEY": tag})
    body = json.loads(units(rig, index="1").body)
    assert (body["minQueueIndex"], body["maxQueueIndex"]) == (0, 2)
    [unit] = body["queueData"]
    assert unit["tagsCode"] == tags_code("TagB")
    assert unit["physicOffset"] + unit["physicSize"] == rig.store.commit_log_max_offset()
    assert unit["eval"] is False
    assert "filterData" not in body


def test_with_a_group_its_subscription(rig):
    for tag in ("TagA", "TagB"):
        rig.send(properties={"TAGS": tag, "UNIQ_KEY": tag})
    rig.heartbeat("CG", "TopicA", expression="TagA")
    body = json.loads(units(rig, consumerGroup="CG").body)
    assert body["subscriptionData"]["subString"] == "TagA"
    assert body["filterData"] == "null"
    assert [unit["eval"] for unit in body["queueData"]] == [True, False]
    assert json.loads(units(rig, consumerGroup="None").body)["filterData"] == "None@TopicA is not online!"


def test_with_a_group_that_subscribes_by_a_condition_its_filter(rig):
    rig.send()
    rig.heartbeat("CG", "TopicA", expression="a > 1", expression_type="SQL92", sub_version=3)
    shown = json.loads(json.loads(units(rig, consumerGroup="CG").body)["filterData"])
    assert (shown["consumerGroup"], shown["topic"], shown["expression"]) == ("CG", "TopicA", "a > 1")
    assert (shown["clientVersion"], shown["dead"]) == (3, False)


def test_a_queue_that_is_not_there(rig):
    response = units(rig)
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "0@TopicA is not exist!")
