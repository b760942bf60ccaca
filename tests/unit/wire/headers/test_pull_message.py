import pytest

from regulus.errors import HeaderError
from regulus.wire.headers.pull_message import PullMessageRequest, PullMessageResponse
from regulus.wire.remoting_command import RemotingCommand

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
