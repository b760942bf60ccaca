"""GET_SINK_MARKS."""

import json

from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetSinkMarksRequest
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


def test_a_sink_must_be_named(rig):
    assert rig.ask(RequestCode.GET_SINK_MARKS).code == ResponseCode.SYSTEM_ERROR
