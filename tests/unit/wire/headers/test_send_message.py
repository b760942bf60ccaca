import pytest

from regulus.errors import HeaderError
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers.send_message import (
    MAX_RECONSUME_TIMES_ABSENT,
    SendMessageRequest,
    SendMessageResponse,
    send_message_response,
)
from regulus.wire.remoting_command import JSON, ROCKETMQ, RemotingCommand

PROPERTIES = {"KEYS": "k1 k2", "UNIQ_KEY": "C000020A51964E0E2F2A6701EDB60000", "WAIT": "true", "TAGS": "标",
              "own": "价值"}
REQUIRED = {"a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "-1", "f": "0", "g": "1795219811578", "h": "0"}


def over_the_wire(command: RemotingCommand) -> RemotingCommand:
    reader = FrameReader()
    reader.feed(command.encode())
    return reader.frames()[0]


def json_frame(ext: str, code: int = 310) -> RemotingCommand:
    header = f'{{"code":{code},"extFields":{ext},"flag":0,"opaque":1}}'.encode()
    reader = FrameReader()
    reader.feed((4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
    return reader.frames()[0]


def everything(request: SendMessageRequest) -> tuple[object, ...]:
    return (request.producer_group, request.topic, request.default_topic, request.default_topic_queue_nums,
            request.queue_id, request.sys_flag, request.born_timestamp, request.flag, request.properties,
            request.reconsume_times, request.unit_mode, request.max_reconsume_times, request.batch, request.broker_name)


REQUEST = SendMessageRequest("PG组", "T", "MyTemplate", 8, 3, 257, 1_795_219_811_578, -7, PROPERTIES, 2, True, 16, True,
                             "broker-a")


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
@pytest.mark.parametrize("code", [10, 310, 320, 324, 325])
def test_a_request_survives_the_way(code: int, serialize_type: int) -> None:
    command = RemotingCommand.request(code, REQUEST.ext_for(code), serialize_type=serialize_type)
    assert everything(SendMessageRequest.decode(over_the_wire(command))) == everything(REQUEST)


@pytest.mark.parametrize("code", [10, 310])
def test_either_spelling_is_read_under_any_code(code: int) -> None:
    for ext in (REQUEST.ext(), REQUEST.ext_for(10)):
        command = over_the_wire(RemotingCommand.request(code, ext))
        assert everything(SendMessageRequest.decode(command)) == everything(REQUEST)


def test_optional_fields_may_be_absent() -> None:
    request = SendMessageRequest.decode(over_the_wire(RemotingCommand.request(310, REQUIRED)))
    assert everything(request) == ("PG", "T", "TBW102", 4, -1, 0, 1_795_219_811_578, 0, {}, 0, False,
                                   MAX_RECONSUME_TIMES_ABSENT, False, None)
    assert request.ext() == {**REQUIRED, "i": "", "j": "0", "k": "false", "m": "false"}
    request.properties["k"] = "v"
    assert SendMessageRequest.decode(over_the_wire(RemotingCommand.request(310, REQUIRED))).properties == {}


def test_json_numbers_and_booleans_count_as_text() -> None:
    command = json_frame('{"a":"PG_ons","b":"GNormal","c":"TBW102","d":4,"e":3,"f":0,"g":1795219811578,"h":0,'
                         '"i":"TAGS\\u0001Ons\\u0002KEYS\\u0001ons0\\u0002","j":0,"k":false}')
    request = SendMessageRequest.decode(command)
    assert (request.queue_id, request.born_timestamp, request.unit_mode) == (3, 1795219811578, False)
    assert request.properties == {"TAGS": "Ons", "KEYS": "ons0"}


@pytest.mark.parametrize(("text", "properties"), [
    ("", {}),
    ("k\\u0001v", {"k": "v"}),
    ("k\\u0001v\\u0002", {"k": "v"}),
    ("k\\u0001v\\u0002k\\u0001w\\u0002", {"k": "w"}),
    ("\\u0001v\\u0002a\\u0001b", {"a": "b"}),
    ("k\\u0001\\u0002a\\u0001b", {"a": "b"}),
    ("novalue\\u0002a\\u0001b\\u0002", {"a": "b"}),
    ("k\\u0001v\\u0001w\\u0002", {"k": "v\x01w"}),
    ("k\\u0001a\\\"b\\\\c\\u0002d\\u0001\\u00e9\\u0002", {"k": 'a"b\\c', "d": "é"}),
    ("k\\u0001😀\\u0002", {"k": "😀"}),
    ("k\\u0001\\ud83d\\ude00\\u0002", {"k": "😀"}),
    ("no separator at all", {}),
])
def test_properties(text: str, properties: dict[str, str]) -> None:
    fields = ",".join([f'"{name}":"{value}"' for name, value in REQUIRED.items()])
    command = json_frame(f'{{{fields},"i":"{text}"}}')
    assert SendMessageRequest.decode(command).properties == properties
    again = json_frame(f'{{{fields},"i":"{text}"}}')
    assert again.ext["b"] == "T"
    assert SendMessageRequest.decode(again).properties == properties


@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_a_missing_field_is_named(name: str, serialize_type: int) -> None:
    ext = {key: value for key, value in REQUIRED.items() if key != name}
    command = over_the_wire(RemotingCommand.request(310, ext, serialize_type=serialize_type))
    with pytest.raises(HeaderError, match="SendMessageRequest lacks the field"):
        SendMessageRequest.decode(command)


@pytest.mark.parametrize(("name", "text"), [
    ("d", "x"), ("e", ""), ("e", "2147483648"), ("e", "-2147483649"), ("f", "1.5"), ("g", "9223372036854775808"),
    ("g", "9" * 5000), ("h", " 1"), ("j", "1_0"), ("l", "٣"),
])
def test_a_number_that_java_would_not_parse_is_named(name: str, text: str) -> None:
    command = over_the_wire(RemotingCommand.request(310, {**REQUIRED, name: text}))
    with pytest.raises(HeaderError, match=f"SendMessageRequest.{name}"):
        SendMessageRequest.decode(command)


@pytest.mark.parametrize(("name", "text", "attribute", "value"), [
    ("e", "+5", "queue_id", 5), ("e", "007", "queue_id", 7), ("e", "-2147483648", "queue_id", -2147483648),
    ("g", "9223372036854775807", "born_timestamp", 9223372036854775807), ("k", "TRUE", "unit_mode", True),
    ("m", "1", "batch", False), ("n", "b\\c", "broker_name", "b\\c"), ("b", "T", "topic", "T"),
])
def test_unusual_spellings_are_read_as_java_reads_them(name: str, text: str, attribute: str, value: object) -> None:
    command = over_the_wire(RemotingCommand.request(310, {**REQUIRED, name: text}))
    assert getattr(SendMessageRequest.decode(command), attribute) == value


def test_other_fields_are_skipped() -> None:
    ext = {**REQUIRED, "Signature": "x", "AccessKey": "y", "OnsChannel": "ALIYUN"}
    assert SendMessageRequest.decode(over_the_wire(RemotingCommand.request(310, ext))).topic == "T"


def test_the_answer_is_what_java_reads() -> None:
    request = RemotingCommand.request(310, REQUIRED, opaque=77)
    response = send_message_response(request, 0, "7F00000100002A9F0000000000000000", 3, 12, "UNIQ", "DefaultRegion",
                                     True)
    assert response.encode()[8:] == (
        b'{"code":0,"extFields":{"MSG_REGION":"DefaultRegion","TRACE_ON":"true","msgId":"7F00000100002A9F0000000000000000",'
        b'"queueId":"3","queueOffset":"12","transactionId":"UNIQ"},"flag":1,"language":"PYTHON","opaque":77,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}')


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_the_answer_is_decoded(serialize_type: int) -> None:
    request = RemotingCommand.request(310, REQUIRED, opaque=77, serialize_type=serialize_type)
    response = over_the_wire(send_message_response(request, 10, "ID", 3, 12, 'un"iq', "r", False))
    typed = SendMessageResponse.decode(response)
    assert (response.code, response.opaque, response.serialize_type) == (10, 77, serialize_type)
    assert (typed.msg_id, typed.queue_id, typed.queue_offset, typed.transaction_id) == ("ID", 3, 12, 'un"iq')
    assert (typed.region, typed.trace_on) == ("r", False)
    assert typed.ext() == response.ext


def test_an_answer_without_transaction_id() -> None:
    response = send_message_response(RemotingCommand.request(310), 0, "ID", 0, 0, None, "r", True)
    assert "transactionId" not in response.ext
    assert SendMessageResponse("ID").ext() == {"TRACE_ON": "true", "msgId": "ID", "queueId": "0", "queueOffset": "0"}
