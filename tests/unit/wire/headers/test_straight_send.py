"""What counts as a plain send, and the frames of the answers; that both ways agree is a property test."""

import json

import pytest

from regulus.wire import header_json
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers.send_message import SendMessageResponse, send_message_response
from regulus.wire.headers.straight_send import StraightAnswers, StraightSendReader
from regulus.wire.remoting_command import ROCKETMQ, RemotingCommand

FIELDS = {"a": "PG", "b": "TopicA", "c": "TBW102", "d": "4", "e": "3", "f": "1", "g": "1700000000001", "h": "-7",
          "i": "UNIQ_KEY\x01KEY1\x02WAIT\x01false\x02own\x01\u4e2d\x02TAGS\x01T\x02KEYS\x01k l", "j": "2",
          "k": "false", "l": "16", "m": "false", "n": "broker-a"}
HOST = bytes((10, 0, 0, 1)) + (10911).to_bytes(4, "big")


def make_reader() -> StraightSendReader:
    return StraightSendReader(frozenset((b"DELAY", b"CLUSTER")), b"CLUSTER\x01C\x02")


def command(fields: dict[str, str], *, opaque: int = 7) -> RemotingCommand:
    made = RemotingCommand(310, dict(fields), b"body", opaque=opaque)
    header = header_json.encode(made)
    assert header_json.scan(made, header, 0, len(header))
    return made


def test_a_straight_send_is_taken_as_bytes():
    reader = make_reader()
    assert reader.read(command(FIELDS))
    message = reader.message
    assert (message.topic, message.topic_text) == ("TopicA", b"TopicA")
    assert (message.queue_id, message.sys_flag, message.born_timestamp) == (3, 1, 1_700_000_000_001)
    assert (message.flag, message.reconsume_times, message.waits) == (-7, 2, False)
    assert message.data[message.body_start:message.body_end] == b"body"
    assert bytes(message.text[:message.text_size]) == FIELDS["i"].encode() + b"\x02CLUSTER\x01C\x02"
    places = ((message.unique_key_start, message.unique_key_end), (message.tags_start, message.tags_end),
              (message.keys_start, message.keys_end))
    assert [bytes(message.text[start:end]) for start, end in places] == [b"KEY1", b"T", b"k l"]


def test_fields_of_other_names_mean_nothing():
    assert make_reader().read(command(FIELDS | {"AccessKey": "k", "Signature": "f0vb5Vwe38r0UIXBK2YDalaPKf8="}))


def test_the_body_is_not_cut_out_of_what_was_read():
    frames = FrameReader()
    frame = RemotingCommand(310, dict(FIELDS), b"body").encode()
    frames.feed(frame)
    (received,) = frames.frames()
    header_json.scan(received, frame, 8, len(frame) - 4)
    reader = make_reader()
    assert reader.read(received)
    message = reader.message
    assert message.data is frame
    assert message.data[message.body_start:message.body_end] == received.body == b"body"


@pytest.mark.parametrize("changes", [
    {"m": "true"}, {"m": "TRUE"}, {"k": "yes"}, {"e": "one"}, {"e": "2147483648"}, {"g": "1" * 19}, {"d": ""},
    {"b": "Top\u4e2d"}, {"a": 'P"G'}, {"name": 'x"y'}, {"na\nme": "x"}, {"z": "x"}, {"i": ""}, {"i": "TAGS\x01T\x02"},
    {"i": "UNIQ_KEY\x01K\x02DELAY\x013\x02"}, {"i": "UNIQ_KEY\x01K\x02CLUSTER\x01own\x02"},
    {"i": "UNIQ_KEY\x01K\x02TAGS\x01\x02"}, {"i": "UNIQ_KEY\x01K\x02\x01x\x02"}, {"i": "UNIQ_KEY\x01K\x02alone"},
    {"i": "UNIQ_KEY\x01K\x02a\x01x\x02a\x01y\x02"}, {"i": "UNIQ_KEY\x01K\x02UNIQ_KEY\x01L\x02"},
    {"i": "UNIQ_KEY\x01K\x02a\x01\n\x02"}, {"i": "UNIQ_KEY\x01\u4e2d\x02"}, {"i": "UNIQ_KEY\x01" + "K" * 256 + "\x02"},
    {"i": "UNIQ_KEY\x01K\x02TAGS\x01\u4e2d\x02"}, {"i": "UNIQ_KEY\x01K\x02a\x01" + "x" * 33_000 + "\x02"},
], ids=str)
def test_what_is_unusual_is_left_to_the_ordinary_way(changes):
    assert not make_reader().read(command(FIELDS | changes))


@pytest.mark.parametrize("name", list("abcdefghi"))
def test_a_lacking_field_is_unusual(name):
    assert not make_reader().read(command({key: value for key, value in FIELDS.items() if key != name}))


@pytest.mark.parametrize("ext", ["{}", '{"":""}', '{"a":1}', '{"":1}', '{"e":"-"}', '{"\\u0061":"PG"}', '{"a":null}'])
def test_an_odd_object_is_unusual(ext):
    made = RemotingCommand(310)
    header = b'{"code":310,"extFields":' + ext.encode() + b"}"
    assert header_json.scan(made, header, 0, len(header))
    assert not make_reader().read(made)


def test_other_forms_of_the_header_are_not_read():
    parsed = RemotingCommand(310, dict(FIELDS))
    assert not make_reader().read(parsed)
    assert not make_reader().read(command(FIELDS, opaque=-1))
    confused = command(FIELDS)
    confused.serialize_type = ROCKETMQ
    assert not make_reader().read(confused)


@pytest.mark.parametrize(("opaque", "physical_offset", "queue_offset"), [
    (0, 0, 0), (7, 1234, 9), (2**31 - 1, 2**62 + 1, 10**18), (1_111_111_111, 1_222_222_222, 1_333_333_333)])
@pytest.mark.parametrize("region", ["DefaultRegion", "1333333333", "r\u00e9gion \"###\"", ""])
def test_an_answer_is_what_the_ordinary_way_encodes(opaque, physical_offset, queue_offset, region):
    reader = make_reader()
    request = command(FIELDS, opaque=opaque)
    assert reader.read(request)
    frame = StraightAnswers(HOST, region, True).frame(reader.message, opaque, physical_offset, queue_offset)
    message_id = f"{HOST.hex().upper()}{physical_offset:016X}"
    assert frame == send_message_response(request, 0, message_id, 3, queue_offset, "KEY1", region, True).encode()
    header = json.loads(frame[8:])
    assert header["opaque"] == opaque
    assert header["extFields"]["MSG_REGION"] == region


def test_answers_do_not_remember_the_ones_before():
    reader, answers = make_reader(), StraightAnswers(HOST, "R", False)
    assert reader.read(command(FIELDS))
    answers.frame(reader.message, 1_000_000, 1 << 60, 1_000_000)
    assert reader.read(command(FIELDS | {"i": "UNIQ_KEY\x01K\x02", "e": "0"}))
    frames = FrameReader()
    frames.feed(answers.frame(reader.message, 1, 2, 3))
    (received,) = frames.frames()
    answer = SendMessageResponse.decode(received)
    assert (received.opaque, answer.queue_id, answer.queue_offset, answer.transaction_id) == (1, 0, 3, "K")
    assert (answer.msg_id, answer.trace_on) == (HOST.hex().upper() + "0" * 15 + "2", False)
