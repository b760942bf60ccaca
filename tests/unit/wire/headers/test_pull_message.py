import pytest

from regulus.errors import HeaderError
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers.pull_message import PullMessageRequest, PullMessageResponse, pull_message_response
from regulus.wire.remoting_command import JSON, ROCKETMQ, RemotingCommand

REQUIRED = {"consumerGroup": "G", "topic": "T", "queueId": "1", "queueOffset": "5", "maxMsgNums": "32", "sysFlag": "3",
            "commitOffset": "4", "suspendTimeoutMillis": "15000"}


def test_required_fields_alone() -> None:
    request = PullMessageRequest.decode(RemotingCommand(11, REQUIRED))
    assert (request.consumer_group, request.topic, request.queue_id, request.queue_offset) == ("G", "T", 1, 5)
    assert (request.max_msg_nums, request.sys_flag, request.commit_offset, request.suspend_timeout_millis) == \
        (32, 3, 4, 15000)
    assert (request.subscription, request.sub_version, request.expression_type) == (None, 0, None)
    assert request.ext() == {**REQUIRED, "subVersion": "0"}


def test_all_fields() -> None:
    ext = {**REQUIRED, "subscription": "a || b", "subVersion": "1795219811578", "expressionType": "TAG",
           "maxMsgBytes": "262144", "requestSource": "-1", "proxyFrowardClientId": "c", "bname": "b"}
    assert PullMessageRequest.decode(RemotingCommand(11, ext)).ext() == ext


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_field_is_named(name: str) -> None:
    ext = {key: value for key, value in REQUIRED.items() if key != name}
    with pytest.raises(HeaderError, match=f"lacks the field {name}"):
        PullMessageRequest.decode(RemotingCommand(11, ext))


@pytest.mark.parametrize(("name", "text"), [("queueId", "2147483648"), ("queueOffset", "x"), ("subVersion", ""),
                                            ("queueOffset", "9223372036854775808"), ("maxMsgBytes", "1e3")])
def test_a_number_that_java_would_not_parse_is_named(name: str, text: str) -> None:
    with pytest.raises(HeaderError, match=name):
        PullMessageRequest.decode(RemotingCommand(11, {**REQUIRED, name: text}))


def test_the_answer() -> None:
    response = PullMessageResponse(10, 0, 20, 1, topic_sys_flag=0, offset_delta=5, forbidden_type=3)
    assert response.ext() == {"suggestWhichBrokerId": "1", "nextBeginOffset": "10", "maxOffset": "20", "minOffset": "0",
                              "topicSysFlag": "0", "offsetDelta": "5", "forbiddenType": "3"}
    again = PullMessageResponse.decode(RemotingCommand(0, response.ext()))
    assert again.ext() == response.ext()
    assert (again.next_begin_offset, again.min_offset, again.max_offset, again.group_sys_flag) == (10, 0, 20, None)


def test_an_answer_without_offsets_is_refused() -> None:
    with pytest.raises(HeaderError, match="nextBeginOffset"):
        PullMessageResponse.decode(RemotingCommand(19))


def over_the_wire(command: RemotingCommand) -> RemotingCommand:
    reader = FrameReader()
    reader.feed(command.encode())
    return reader.frames()[0]


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
@pytest.mark.parametrize("more", [
    {}, {"subVersion": "-1", "expressionType": "TAG", "bname": "b"},
    {"expressionType": "SQL92", "subscription": "a > 5"},
    {"subscription": "北京", "maxMsgBytes": "262144", "requestSource": "-1"}, {"AccessKey": "k", "Signature": "s"},
    {"proxyFrowardClientId": "c", "ReqT": "0", "lo": "true"}, {"topic": "12345", "consumerGroup": "007"},
    {"subscription": 'quoted " and \\'}, {"queueOffset": "9223372036854775807", "queueId": "+3"},
])
def test_a_request_survives_the_way(more: dict[str, str], serialize_type: int) -> None:
    ext = {**REQUIRED, **more}
    there = PullMessageRequest.decode(over_the_wire(RemotingCommand.request(11, ext, serialize_type=serialize_type)))
    here = PullMessageRequest.decode(RemotingCommand(11, ext))
    assert there.ext() == here.ext()


@pytest.mark.parametrize("name", REQUIRED)
def test_a_field_that_is_missing_in_a_frame_is_named(name: str) -> None:
    ext = {key: value for key, value in REQUIRED.items() if key != name}
    with pytest.raises(HeaderError, match=f"lacks the field {name}"):
        PullMessageRequest.decode(over_the_wire(RemotingCommand.request(11, ext)))


def test_numbers_in_a_frame_have_java_s_bounds() -> None:
    for name, text in (("queueId", "2147483648"), ("sysFlag", "x"), ("queueOffset", "9223372036854775808")):
        with pytest.raises(HeaderError, match=name):
            PullMessageRequest.decode(over_the_wire(RemotingCommand.request(11, {**REQUIRED, name: text})))


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_the_short_way_to_an_answer(serialize_type: int) -> None:
    request = RemotingCommand.request(11, opaque=9, serialize_type=serialize_type)
    response = over_the_wire(pull_message_response(request, 0, "FOUND", 11, 1, 20, 1, [memoryview(b"ab"), b"c"]))
    assert (response.code, response.remark, response.body, response.opaque) == (0, "FOUND", b"abc", 9)
    assert PullMessageResponse.decode(response).ext() == PullMessageResponse(11, 1, 20, 1).ext()
