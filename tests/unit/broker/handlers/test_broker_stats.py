"""Counted things over a minute, an hour and a day."""

import json

from regulus.wire.codes import RequestCode, ResponseCode


def item(rig, name, key):
    return rig.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})


def test_a_sent_message_is_counted(rig):
    rig.run(10)
    rig.send()
    rig.run(30_000)
    for name, key in (("TOPIC_PUT_NUMS", "TopicA"), ("BROKER_PUT_NUMS", "DefaultCluster")):
        body = json.loads(item(rig, name, key).body)
        assert set(body) == {"statsMinute", "statsHour", "statsDay"}
        assert body["statsMinute"]["sum"] == 1
        assert body["statsMinute"]["tps"] > 0
        assert body["statsMinute"]["avgpt"] == 1.0


def test_a_pulled_message_is_counted(rig):
    rig.send()
    rig.heartbeat("CG", "TopicA")
    rig.run(10)
    size = len(rig.pull().body)
    rig.run(20_000)
    assert size > 100
    for name, counted in (("GROUP_GET_NUMS", 1), ("GROUP_GET_SIZE", size)):
        assert json.loads(item(rig, name, "TopicA@CG").body)["statsMinute"]["sum"] == counted


def test_what_was_never_counted_does_not_exist(rig):
    response = item(rig, "TOPIC_PUT_NUMS", "None")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "The stats <TOPIC_PUT_NUMS> <None> not exist"
