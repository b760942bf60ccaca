"""Offset tables as a whole."""

import json

from regulus.broker.outcome import Hold
from regulus.model.java_numbers import LONG_MAX
from regulus.wire import fastjson
from regulus.wire.codes import RequestCode


def test_all_consumer_offsets(rig):
    rig.send()
    rig.heartbeat("CG", "TopicA")
    rig.commit(1)
    body = fastjson.loads(rig.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body)
    assert body["offsetTable"] == {"TopicA@CG": {"0": 1}}


def test_all_delay_offsets(rig):
    rig.send(properties={"DELAY": "1", "UNIQ_KEY": "K"})
    rig.run(2000)
    body = fastjson.loads(rig.ask(RequestCode.GET_ALL_DELAY_OFFSET).body)
    assert body["offsetTable"] == {"1": 1}


def correction(rig, **ext):
    body = rig.ask(RequestCode.QUERY_CORRECTION_OFFSET, {"topic": "TopicA", "compareGroup": "CG", **ext}).body
    return fastjson.loads(body)["correctionOffsets"]


def test_the_slowest_group_decides(rig):
    for group, offset in (("CG", 5), ("Slow", 3), ("Fast", 9)):
        rig.broker.consumer_offsets.commit(group, "TopicA", 0, offset)
    assert correction(rig) == {"0": 3}
    assert correction(rig, filterGroups="Slow,Other") == {"0": 5}
    assert rig.broker.consumer_offsets.query("Slow", "TopicA", 0) == 3


def test_the_compared_group_may_be_the_slowest(rig):
    for group, offset in (("CG", 1), ("Fast", 9)):
        rig.broker.consumer_offsets.commit(group, "TopicA", 0, offset)
    assert correction(rig) == {"0": 1}
    assert correction(rig, filterGroups="CG") == {"0": LONG_MAX}


def clone(rig, **ext):
    return rig.ask(RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "CG", "destGroup": "Copy", **ext})


def test_offsets_are_cloned(rig):
    for topic in ("TopicA", "TopicB"):
        rig.send(topic=topic)
        rig.broker.consumer_offsets.commit("CG", topic, 0, 1)
    rig.broker.consumer_offsets.commit("CG", "Gone", 0, 1)
    clone(rig, topic="TopicA", offline="true")
    assert rig.broker.consumer_offsets.topics_of("Copy") == ["TopicA"]
    clone(rig, offline="true")
    assert sorted(rig.broker.consumer_offsets.topics_of("Copy")) == ["TopicA", "TopicB"]


def test_a_live_group_gives_only_what_it_subscribes_to(rig):
    for topic in ("TopicA", "TopicB"):
        rig.send(topic=topic)
        rig.broker.consumer_offsets.commit("CG", topic, 0, 1)
    rig.heartbeat("CG", "TopicA")
    clone(rig)
    assert rig.broker.consumer_offsets.topics_of("Copy") == ["TopicA"]


def test_bodies_are_json_with_quoted_integers(rig):
    rig.broker.consumer_offsets.commit("CG", "TopicA", 0, 1)
    assert json.loads(rig.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body)


def test_offsets_are_told_beside_consumers_that_go_on(rig):
    """300 commits between two of its steps, as when some other long answers have their turns, too: a slave that asks
    for the offsets hears nothing as long as that lasts."""
    offsets = rig.broker.consumer_offsets
    for number in range(5_000):
        offsets.commit(f"G{number}", "T", 0, 1, rig.now_ms)
    assert isinstance(rig.handle(RequestCode.GET_ALL_CONSUMER_OFFSET), Hold)
    for turn in range(500):
        for number in range(300):
            offsets.commit(f"G{(turn * 300 + number) % 5_000}", "T", 0, turn + 2, rig.now_ms)
        rig.broker.tick(rig.now_ms)
        if any(notice.reply.answer.is_response for notice in rig.broker.notices):
            break
    assert turn < 499
