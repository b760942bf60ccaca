import pytest

from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import JSON, ROCKETMQ, RemotingCommand


def read(frame: bytes) -> RemotingCommand:
    reader = FrameReader()
    reader.feed(frame)
    (command,) = reader.frames()
    return command


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_a_request_survives_the_way(serialize_type: int) -> None:
    request = RemotingCommand.request(310, {"a": "组", "i": "k\x01v\x02"}, b"body", oneway=True, opaque=9,
                                      serialize_type=serialize_type)
    same = read(request.encode())
    assert (same.code, same.ext, same.body, same.opaque) == (310, {"a": "组", "i": "k\x01v\x02"}, b"body", 9)
    assert same.is_oneway
    assert not same.is_response
    assert same.serialize_type == serialize_type
    assert (same.language, same.version) == (3, 479)


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_a_response_answers_in_the_request_s_form(serialize_type: int) -> None:
    request = read(RemotingCommand.request(11, opaque=123, serialize_type=serialize_type).encode())
    response = read(request.response(19, "no message", {"minOffset": "0"}).encode())
    assert response.is_response
    assert not response.is_oneway
    assert (response.opaque, response.code, response.remark) == (123, 19, "no message")
    assert response.ext == {"minOffset": "0"}
    assert response.serialize_type == serialize_type


def test_buffers_of_a_body_are_sent_as_they_are() -> None:
    log = memoryview(b"0123456789")
    response = RemotingCommand.request(11).response(0, body=[log[2:4], log[6:9]])
    parts = response.encode_parts()
    assert [bytes(part) for part in parts[1:]] == [b"23", b"678"]
    assert parts[1].obj is log.obj
    assert read(response.encode()).body == b"23678"
    assert response.body == b"23678"
    assert read(b"".join(response.encode_parts())).body == b"23678"


def test_an_empty_list_is_no_body() -> None:
    assert RemotingCommand.request(11).response(0, body=[]).body == b""


def test_ext_fields_can_be_changed_in_place_and_replaced() -> None:
    command = read(RemotingCommand.request(105, {"topic": "T"}).encode())
    command.ext["zone"] = "z"
    assert read(command.encode()).ext == {"topic": "T", "zone": "z"}
    command.ext = {"topic": "U"}
    assert read(command.encode()).ext == {"topic": "U"}


def test_ext_fields_are_an_empty_map_when_there_are_none() -> None:
    command = read(RemotingCommand.request(106).encode())
    assert command.ext == {}
    command.ext["a"] = "b"
    assert command.ext == {"a": "b"}


def test_a_body_can_be_replaced() -> None:
    command = RemotingCommand.request(11).response(0, body=[memoryview(b"old")])
    command.body = b"new"
    assert read(command.encode()).body == b"new"


def test_it_shows_what_it_is() -> None:
    assert "oneway request 15" in repr(RemotingCommand.request(15, oneway=True))
    assert "response 17" in repr(RemotingCommand.request(105).response(17))


def test_the_body_of_a_request_may_be_views_that_are_not_copied():
    view = memoryview(b"in a larger buffer")[5:11]
    assert RemotingCommand.request(10, body=[view]).encode_parts()[1] is view
    assert RemotingCommand.request(10, body=[view]).encode() == RemotingCommand.request(10, body=b"larger").encode()


def test_a_body_is_found_where_it_was_left_and_is_no_object_before_it_is_asked_for() -> None:
    source = bytearray(b"front of it: the body, and what follows")
    command = RemotingCommand(310)
    command.leave_body(source, 13, 21)
    command.find_body()
    assert command.body_source is source
    assert bytes(source[command.body_start:command.body_end]) == b"the body"
    assert command.body_size == 8
    assert command.body == b"the body"


def test_a_body_that_is_an_object_or_in_parts_is_found_as_a_whole() -> None:
    kept = RemotingCommand(310, body=b"once")
    kept.leave_body(b"left here", 0, 4)
    kept.keep_body(b"kept")
    parts = RemotingCommand.request(310, body=[memoryview(b"in "), memoryview(b"parts")])
    asked = RemotingCommand(310)
    asked.leave_body(b"asked for", 2, 5)
    assert asked.body == b"ked"
    for command, body in ((kept, b"kept"), (parts, b"in parts"), (asked, b"ked"), (RemotingCommand(310), b"")):
        command.find_body()
        assert command.body_source[command.body_start:command.body_end] == body == command.body
