"""Who is connected, as operators see it."""

import json

from regulus.broker.groups.clients import Client
from regulus.wire.codes import RequestCode, ResponseCode


def test_the_consumers_of_a_group(rig):
    rig.heartbeat("CG", "TopicA", client_id="c1", channel=1)
    rig.heartbeat("CG", "TopicA", client_id="c2", channel=2)
    body = json.loads(rig.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "CG"}).body)
    assert body["connectionSet"] == [
        {"clientAddr": "10.0.0.5:40000", "clientId": name, "language": "PYTHON", "version": 479}
        for name in ("c1", "c2")]
    assert body["messageModel"] == "CLUSTERING"
    assert list(body["subscriptionTable"]) == ["TopicA"]
    assert {"consumeType", "consumeFromWhere"} <= set(body)


def test_a_group_without_consumers_is_not_online(rig):
    response = rig.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "CG"})
    assert (response.code, response.remark) == (ResponseCode.CONSUMER_NOT_ONLINE, "the consumer group[CG] not online")


def test_the_producers_of_a_group(rig):
    rig.heartbeat(None, client_id="p1", producer_group="PG")
    body = json.loads(rig.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "PG"}).body)
    assert [row["clientId"] for row in body["connectionSet"]] == ["p1"]
    absent = rig.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "None"})
    assert (absent.code, absent.remark) == (ResponseCode.SYSTEM_ERROR, "the producer group[None] not exist")


def test_all_producers(rig):
    rig.heartbeat(None, client_id="p1", producer_group="PG")
    assert json.loads(rig.ask(RequestCode.GET_ALL_PRODUCER_INFO).body) == {"data": {"PG": [
        {"clientId": "p1", "language": "PYTHON", "lastUpdateTimestamp": rig.now_ms, "remoteIP": "/10.0.0.5:40000",
         "version": 479}]}}


def test_a_language_that_nobody_knows_is_another_one(rig):
    rig.broker.clients.register_producer("PG", Client(1, "p1", 99, 1, "h:1", rig.now_ms, 0))
    body = json.loads(rig.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "PG"}).body)
    assert body["connectionSet"][0]["language"] == "OTHER"
