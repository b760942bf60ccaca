"""GET_SINK_MARKS, RELEASE_SINK_MARKS."""

import json

import pytest

from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetSinkMarksRequest, ReleaseSinkMarksRequest
from regulus.wire.row_digest import digest_of


def ask(rig, sink_id, from_batch=0):
    return json.loads(rig.ask(RequestCode.GET_SINK_MARKS, GetSinkMarksRequest(sink_id, from_batch).ext()).body)


def test_the_marks_of_a_sink_are_told(rig):
    for number, sink in enumerate(("S/0", "S/1", "R/0")):
        rig.send(queue_id=number, properties={"UNIQ_KEY": sink, "SINK": sink, "SEQ": f"{number}/0"})
    place = rig.stored("TopicA", 1)[0].physical_offset
    marks = ask(rig, "S")
    assert set(marks) == {"S/0", "S/1"}
    assert marks["S/1"] == {"seq": "1/0", "topic": "TopicA", "queueId": 1, "queueOffset": 0, "physicalOffset": place,
                            "rowDigest": digest_of(rig.stored("TopicA", 1))}
    assert set(ask(rig, "S", 1)) == {"S/1"}
    assert ask(rig, "unknown") == {}


@pytest.mark.parametrize("code", [RequestCode.GET_SINK_MARKS, RequestCode.RELEASE_SINK_MARKS])
def test_a_sink_must_be_named(rig, code):
    assert rig.ask(code).code == ResponseCode.SYSTEM_ERROR


def test_a_sink_that_is_done_is_told_as_long_as_there_is_room(rig):
    for sink in ("S/0", "R/0"):
        rig.send(properties={"UNIQ_KEY": sink, "SINK": sink, "SEQ": "0/0"})
    assert rig.ask(RequestCode.RELEASE_SINK_MARKS, ReleaseSinkMarksRequest("R").ext()).code == ResponseCode.SUCCESS
    assert (set(ask(rig, "R")), set(ask(rig, "S"))) == ({"R/0"}, {"S/0"})
    rig.broker.sink_marks.marks_max = 2
    rig.send(properties={"UNIQ_KEY": "S/1", "SINK": "S/1", "SEQ": "0/0"})
    assert (set(ask(rig, "R")), set(ask(rig, "S"))) == (set(), {"S/0", "S/1"})
