"""Sends: codes 10, 310 (V2), 320 (batch), 324 and 325 (reply). One request with two spellings.

    field                     10, 324                  310, 320, 325
    producer_group            producerGroup            a
    topic                     topic                    b
    default_topic             defaultTopic             c
    default_topic_queue_nums  defaultTopicQueueNums    d
    queue_id                  queueId                  e      -1: any queue
    sys_flag                  sysFlag                  f
    born_timestamp            bornTimestamp            g      ms
    flag                      flag                     h
    properties                properties               i      name 0x01 value 0x02 ...
    reconsume_times           reconsumeTimes           j
    unit_mode                 unitMode                 k
    max_reconsume_times       maxReconsumeTimes        l      MAX_RECONSUME_TIMES_ABSENT when not sent
    batch                     batch                    m
    broker_name               bname                    n

Source: SendMessageRequestHeader, SendMessageRequestHeaderV2, SendMessageResponseHeader.
"""

from regulus.errors import HeaderError
from regulus.model import message_properties
from regulus.model.java_numbers import INT_MAX, LONG_MAX
from regulus.model.message_properties import parse as parse_properties
from regulus.wire.codes import RequestCode
from regulus.wire.ext_fields import whole_number
from regulus.wire.header_json import ExtScanner, integer, integer_end, matches, needs_no_escapes, scanner_of, utf8
from regulus.wire.remoting_command import RemotingCommand

MAX_RECONSUME_TIMES_ABSENT = -2_147_483_648
"""Used instead of None, so that the field is a C integer when compiled; no client sends this number."""

_V1_NAMES = ("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp",
             "flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch", "bname")
_V2_NAMES = tuple("abcdefghijklmn")
_V1_CODES = frozenset((int(RequestCode.SEND_MESSAGE), int(RequestCode.SEND_REPLY_MESSAGE)))

# Private names allow these to be typed constants in the compiled form.
_INT_MAX = INT_MAX
_DIGITS_MAX = 18
_LIMIT_ABSENT = MAX_RECONSUME_TIMES_ABSENT
_TBW102 = "TBW102"
_WAIT = message_properties.WAIT_STORE_MSG_OK
_TAGS = message_properties.TAGS
_KEYS = message_properties.KEYS
_UNIQ_KEY = message_properties.UNIQUE_KEY
_EMPTY: dict[str, str] = {}


class SendMessageRequest:
    """A send. `properties` is parsed; the message's body is the command's."""

    def __init__(self, producer_group: str, topic: str, default_topic: str = "TBW102",
                 default_topic_queue_nums: int = 4, queue_id: int = -1, sys_flag: int = 0, born_timestamp: int = 0,
                 flag: int = 0, properties: dict[str, str] | None = None, reconsume_times: int = 0,
                 unit_mode: bool = False, max_reconsume_times: int = MAX_RECONSUME_TIMES_ABSENT, batch: bool = False,
                 broker_name: str | None = None) -> None:
        self.producer_group = producer_group
        self.topic = topic
        self.default_topic = default_topic
        self.default_topic_queue_nums = default_topic_queue_nums
        self.queue_id = queue_id
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.flag = flag
        self.properties: dict[str, str] = {} if properties is None else properties
        self.reconsume_times = reconsume_times
        self.unit_mode = unit_mode
        self.max_reconsume_times = max_reconsume_times
        self.batch = batch
        self.broker_name = broker_name

    @classmethod
    def decode(cls, command: RemotingCommand) -> "SendMessageRequest":
        """Decode either spelling for any code. Raises HeaderError naming the field."""
        return decode_send_message_request(command)

    def ext(self) -> dict[str, str]:
        """The short spelling, for every code except 10 and 324."""
        return self._spelled(_V2_NAMES)

    def ext_for(self, code: int) -> dict[str, str]:
        """The long spelling, for codes 10 and 324; the short one for every other code."""
        return self._spelled(_V1_NAMES if code in _V1_CODES else _V2_NAMES)

    def _spelled(self, names: tuple[str, ...]) -> dict[str, str]:
        ext = {
            names[0]: self.producer_group, names[1]: self.topic, names[2]: self.default_topic,
            names[3]: str(self.default_topic_queue_nums), names[4]: str(self.queue_id), names[5]: str(self.sys_flag),
            names[6]: str(self.born_timestamp), names[7]: str(self.flag),
            names[8]: message_properties.format(self.properties), names[9]: str(self.reconsume_times),
            names[10]: "true" if self.unit_mode else "false",
        }
        if self.max_reconsume_times != MAX_RECONSUME_TIMES_ABSENT:
            ext[names[11]] = str(self.max_reconsume_times)
        ext[names[12]] = "true" if self.batch else "false"
        if self.broker_name is not None:
            ext[names[13]] = self.broker_name
        return ext

    def __repr__(self) -> str:
        return (f"SendMessageRequest(topic={self.topic!r}, queue_id={self.queue_id}, "
                f"producer_group={self.producer_group!r}, properties={self.properties!r})")


def decode_send_message_request(command: RemotingCommand) -> SendMessageRequest:
    """Like SendMessageRequest.decode; compiled callers reach a function faster than a class method."""
    if command.ext_json is not None:
        request = _from_json(command.ext_json)
        if request is not None:
            return request
    return _from_ext(command.ext)


# Bits of the required fields, in the order a ... h.
_WHOLE = 0xFF
_UNUSUAL = -1


def _from_json(ext_json: bytes) -> SendMessageRequest | None:
    """The request in extFields in the short spelling; None if it needs the general decoder."""
    request = SendMessageRequest.__new__(SendMessageRequest)
    request.reconsume_times = 0
    request.unit_mode = False
    request.max_reconsume_times = _LIMIT_ABSENT
    request.batch = False
    request.broker_name = None
    request.properties = _EMPTY
    scanner = scanner_of(ext_json)
    found = 0
    while scanner.next():
        if scanner.key_end - scanner.key_start == 1:
            bit = _take(request, scanner, ext_json)
            if bit == _UNUSUAL:
                return None
            found |= bit
    if found != _WHOLE:
        return None
    if request.properties is _EMPTY:
        request.properties = {}
    return request


def _take(request: SendMessageRequest, scanner: ExtScanner, ext_json: bytes) -> int:
    """Set one field; returns its bit, 0 for an optional or unknown field, or _UNUSUAL."""
    text = ext_json
    key = text[scanner.key_start]
    if key == ord("i"):
        return _take_properties(request, scanner, ext_json)
    if key == ord("k") or key == ord("m"):
        return _take_bool(request, scanner, ext_json)
    if key <= ord("c") or key == ord("n"):
        return _take_text(request, scanner, ext_json)
    return _take_number(request, scanner, ext_json) if key <= ord("l") else _UNUSUAL


def _take_bool(request: SendMessageRequest, scanner: ExtScanner, ext_json: bytes) -> int:
    text = ext_json
    start = scanner.start
    value = text[start] == ord("t")
    end = start + 4 if value else start + 5
    # Java accepts TRUE too, and reads anything else as false; the general decoder handles these.
    if end >= len(ext_json) or (text[end] != ord('"') and scanner.is_text) \
            or not (matches(text, start, end, b"true", 4) or matches(text, start, end, b"false", 5)):
        return _UNUSUAL
    scanner.end = end
    if text[scanner.key_start] == ord("k"):
        request.unit_mode = value
    else:
        request.batch = value
    return 0


def _take_text(request: SendMessageRequest, scanner: ExtScanner, ext_json: bytes) -> int:
    text = ext_json
    key = text[scanner.key_start]
    start = scanner.start
    end = _run_end(text, start) if scanner.is_text else start
    if text[end] != ord('"'):
        return _UNUSUAL
    scanner.end = end
    if key == ord("a"):
        request.producer_group = utf8(text, start, end)
        return 1
    if key == ord("b"):
        request.topic = utf8(text, start, end)
        return 2
    if key == ord("c"):
        request.default_topic = _TBW102 if matches(text, start, end, b"TBW102", 6) else utf8(text, start, end)
        return 4
    if key == ord("n"):
        request.broker_name = utf8(text, start, end)
        return 0
    return _UNUSUAL


def _take_number(request: SendMessageRequest, scanner: ExtScanner, ext_json: bytes) -> int:
    text = ext_json
    key = text[scanner.key_start]
    first = scanner.start + 1 if text[scanner.start] == ord("-") else scanner.start
    end = first
    value = 0
    while ord("0") <= text[end] <= ord("9"):
        value = value * 10 + (text[end] - ord("0"))
        end += 1
    if end == first or end - first > _DIGITS_MAX or (scanner.is_text and text[end] != ord('"')):
        return _UNUSUAL
    scanner.end = end
    if first != scanner.start:
        value = -value
    if key == ord("g"):
        request.born_timestamp = value
        return 64
    if value > _INT_MAX or value < -_INT_MAX - 1:
        return _UNUSUAL
    return _set_number(request, key, value)


def _set_number(request: SendMessageRequest, key: int, value: int) -> int:
    if key == ord("d"):
        request.default_topic_queue_nums = value
        return 8
    if key == ord("e"):
        request.queue_id = value
        return 16
    if key == ord("f"):
        request.sys_flag = value
        return 32
    if key == ord("h"):
        request.flag = value
        return 128
    if key == ord("j"):
        request.reconsume_times = value
        return 0
    request.max_reconsume_times = value
    return 0


def _take_properties(request: SendMessageRequest, scanner: ExtScanner, ext_json: bytes) -> int:
    """Read the property string up to its quote; both separators are escapes there, and other escapes need the general
    decoder."""
    text = ext_json
    if not scanner.is_text:
        return _UNUSUAL
    properties: dict[str, str] = {}
    start = scanner.start
    while text[start] != ord('"'):
        name_end = _run_end(text, start)
        if not _is_escaped(text, name_end, ord("1")):
            return _UNUSUAL
        value_start = name_end + 6
        value_end = _run_end(text, value_start)
        if start < name_end and value_start < value_end:
            properties[_property_name(text, start, name_end)] = utf8(text, value_start, value_end)
        start = value_end
        if text[start] != ord('"'):
            if not _is_escaped(text, start, ord("2")):
                return _UNUSUAL
            start += 6
    scanner.end = start
    request.properties = properties
    return 0


def _run_end(text: bytes, position: int) -> int:
    """The position of the next quote or backslash; a scanned header has one."""
    while text[position] != ord("\\") and text[position] != ord('"'):
        position += 1
    return position


def _is_escaped(text: bytes, position: int, digit: int) -> bool:
    """Whether the control character of this number is spelled at `position`."""
    return text[position] == ord("\\") and text[position + 1] == ord("u") and text[position + 5] == digit \
        and text[position + 2] == ord("0") and text[position + 3] == ord("0") and text[position + 4] == ord("0")


def _property_name(text: bytes, start: int, end: int) -> str:
    """The name of a property; no new text is made for the names that most messages have."""
    if end - start == 4:
        if matches(text, start, end, b"WAIT", 4):
            return _WAIT
        if matches(text, start, end, b"TAGS", 4):
            return _TAGS
        if matches(text, start, end, b"KEYS", 4):
            return _KEYS
    elif matches(text, start, end, b"UNIQ_KEY", 8):
        return _UNIQ_KEY
    return utf8(text, start, end)


def _from_ext(ext: dict[str, str]) -> SendMessageRequest:
    # A V2 request may carry long names too (as extra fields of its own), so the short spelling decides.
    names = _V2_NAMES if "b" in ext else _V1_NAMES
    request = SendMessageRequest.__new__(SendMessageRequest)
    request.producer_group = _required(ext, names[0])
    request.topic = _required(ext, names[1])
    request.default_topic = _required(ext, names[2])
    request.default_topic_queue_nums = _number(_required(ext, names[3]), names[3], INT_MAX)
    request.queue_id = _number(_required(ext, names[4]), names[4], INT_MAX)
    request.sys_flag = _number(_required(ext, names[5]), names[5], INT_MAX)
    request.born_timestamp = _number(_required(ext, names[6]), names[6], LONG_MAX)
    request.flag = _number(_required(ext, names[7]), names[7], INT_MAX)
    properties = ext.get(names[8])
    request.properties = parse_properties(properties) if properties else {}
    reconsume, limit = ext.get(names[9]), ext.get(names[11])
    request.reconsume_times = 0 if reconsume is None else _number(reconsume, names[9], INT_MAX)
    request.unit_mode = ext.get(names[10], "").lower() == "true"
    request.max_reconsume_times = MAX_RECONSUME_TIMES_ABSENT if limit is None else _number(limit, names[11], INT_MAX)
    request.batch = ext.get(names[12], "").lower() == "true"
    request.broker_name = ext.get(names[13])
    return request


def _required(ext: dict[str, str], name: str, header: str = "SendMessageRequest") -> str:
    text = ext.get(name)
    if text is None:
        raise HeaderError(f"{header} lacks the field {name}")
    return text


def _number(text: str, name: str, limit: int, header: str = "SendMessageRequest") -> int:
    try:
        return whole_number(text, limit)
    except ValueError as cause:
        raise HeaderError(f"{header}.{name} {text[:40]!r} {cause}") from cause


class SendMessageResponse:
    """Where a message was stored. `msg_id` is the offset id, `transaction_id` the message's unique key."""

    def __init__(self, msg_id: str = "", queue_id: int = 0, queue_offset: int = 0, transaction_id: str | None = None,
                 region: str | None = None, trace_on: bool = True, batch_uniq_id: str | None = None,
                 recall_handle: str | None = None) -> None:
        self.msg_id = msg_id
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.transaction_id = transaction_id
        self.region = region
        self.trace_on = trace_on
        self.batch_uniq_id = batch_uniq_id
        self.recall_handle = recall_handle

    @classmethod
    def decode(cls, command: RemotingCommand) -> "SendMessageResponse":
        """Decode an answer. Raises HeaderError naming the field."""
        return decode_send_message_response(command)

    def ext(self) -> dict[str, str]:
        named = {"MSG_REGION": self.region, "TRACE_ON": "true" if self.trace_on else "false",
                 "batchUniqId": self.batch_uniq_id, "msgId": self.msg_id, "queueId": str(self.queue_id),
                 "queueOffset": str(self.queue_offset), "recallHandle": self.recall_handle,
                 "transactionId": self.transaction_id}
        return {name: value for name, value in named.items() if value is not None}


def decode_send_message_response(command: RemotingCommand) -> SendMessageResponse:
    """Like SendMessageResponse.decode, for compiled callers."""
    if command.ext_json is not None:
        response = _response_from_json(command.ext_json)
        if response is not None:
            return response
    ext, header = command.ext, "SendMessageResponse"
    return SendMessageResponse(
        _required(ext, "msgId", header), _number(_required(ext, "queueId", header), "queueId", INT_MAX, header),
        _number(_required(ext, "queueOffset", header), "queueOffset", LONG_MAX, header), ext.get("transactionId"),
        ext.get("MSG_REGION"), ext.get("TRACE_ON", "true").lower() != "false", ext.get("batchUniqId"),
        ext.get("recallHandle"))


# Bits of the required fields msgId, queueId and queueOffset.
_PLACED = 0x7


def _response_from_json(ext_json: bytes) -> SendMessageResponse | None:
    """The usual answer to a send; None if it needs the general decoder."""
    text = ext_json
    response = SendMessageResponse("", 0, 0, None, None, True, None, None)
    scanner = scanner_of(ext_json)
    found = 0
    while scanner.next():
        scanner.find_end()
        start = scanner.start
        end = scanner.end
        if not scanner.is_text:
            return None
        for position in range(start, end):
            if text[position] == ord("\\"):
                return None
        name = scanner.key_start
        name_end = scanner.key_end
        if matches(text, name, name_end, b"msgId", 5):
            response.msg_id = utf8(text, start, end)
            found |= 1
        elif matches(text, name, name_end, b"queueId", 7):
            if integer_end(text, start, end) != end or end - start > 9:
                return None
            response.queue_id = integer(text, start, end)
            found |= 2
        elif matches(text, name, name_end, b"queueOffset", 11):
            if integer_end(text, start, end) != end:
                return None
            response.queue_offset = integer(text, start, end)
            found |= 4
        elif matches(text, name, name_end, b"transactionId", 13):
            response.transaction_id = utf8(text, start, end)
        elif matches(text, name, name_end, b"MSG_REGION", 10):
            response.region = utf8(text, start, end)
        elif not matches(text, name, name_end, b"TRACE_ON", 8) or not matches(text, start, end, b"true", 4):
            return None
    return response if found == _PLACED else None


def send_message_response(request: RemotingCommand, code: int, msg_id: str, queue_id: int, queue_offset: int,
                          transaction_id: str | None, region: str, trace_on: bool) -> RemotingCommand:
    """The answer to a send that was stored; its extFields are written directly, as text."""
    response = request.response(code)
    trace = "true" if trace_on else "false"
    if transaction_id is None or not needs_no_escapes(transaction_id) or not needs_no_escapes(region):
        response.ext = SendMessageResponse(msg_id, queue_id, queue_offset, transaction_id, region, trace_on).ext()
    else:
        response.ext_json = (
            f'{{"MSG_REGION":"{region}","TRACE_ON":"{trace}","msgId":"{msg_id}","queueId":"{queue_id}",'
            f'"queueOffset":"{queue_offset}","transactionId":"{transaction_id}"}}').encode("utf-8", "replace")
    return response


def add_recall_handle(response: RemotingCommand, handle: str) -> None:
    """Add to an answer of `send_message_response` the handle by which the message can be recalled: url-safe base64."""
    text = response.ext_json
    if text is None:
        response.ext["recallHandle"] = handle
    else:
        response.ext_json = text[:len(text) - 1] + b',"recallHandle":"' + handle.encode() + b'"}'
