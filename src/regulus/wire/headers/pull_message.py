"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361).

Source: PullMessageRequestHeader, PullMessageResponseHeader.
"""

from collections.abc import Sequence

from regulus.errors import HeaderError
from regulus.model.java_numbers import INT_MAX, LONG_MAX
from regulus.wire import big_endian
from regulus.wire.ext_fields import whole_number
from regulus.wire.header_json import integer, integer_end, matches, scanner_of, utf8
from regulus.wire.octets import put, put_number
from regulus.wire.remoting_command import ROCKETMQ, Buffer, RemotingCommand

# A private name allows it to be a typed constant in the compiled form.
_INT_MAX = INT_MAX
# Bits of the required fields.
_WHOLE = 0xFF
_UNUSUAL = -1
_TAG = "TAG"
_ROCKETMQ = ROCKETMQ
# The names in a binary map, each after its size, in the order of the JSON object.
_SUGGEST_WHICH_BROKER_ID = b"\0\x14suggestWhichBrokerId"
_NEXT_BEGIN_OFFSET = b"\0\x0fnextBeginOffset"
_MAX_OFFSET = b"\0\tmaxOffset"
_MIN_OFFSET = b"\0\tminOffset"
_BINARY_EXT_SIZE_MAX = 64 + 4 * (4 + 20)


class PullMessageRequest:
    """A pull. `subscription` counts only when sys_flag has PULL_SUBSCRIPTION; `sub_version` in ms, 0 when not sent."""

    def __init__(self, consumer_group: str, topic: str, queue_id: int, queue_offset: int, max_msg_nums: int = 32,
                 sys_flag: int = 0, commit_offset: int = 0, suspend_timeout_millis: int = 0,
                 subscription: str | None = None, sub_version: int = 0, expression_type: str | None = None,
                 max_msg_bytes: int | None = None, request_source: int | None = None,
                 proxy_froward_client_id: str | None = None, broker_name: str | None = None) -> None:
        self.consumer_group = consumer_group
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.max_msg_nums = max_msg_nums
        self.sys_flag = sys_flag
        self.commit_offset = commit_offset
        self.suspend_timeout_millis = suspend_timeout_millis
        self.subscription = subscription
        self.sub_version = sub_version
        self.expression_type = expression_type
        self.max_msg_bytes = max_msg_bytes
        self.request_source = request_source
        self.proxy_froward_client_id = proxy_froward_client_id
        self.broker_name = broker_name

    @classmethod
    def decode(cls, command: RemotingCommand) -> "PullMessageRequest":
        """Raises HeaderError naming the field."""
        return decode_pull_message_request(command)

    def ext(self) -> dict[str, str]:
        ext = {"consumerGroup": self.consumer_group, "topic": self.topic, "queueId": str(self.queue_id),
               "queueOffset": str(self.queue_offset), "maxMsgNums": str(self.max_msg_nums),
               "sysFlag": str(self.sys_flag), "commitOffset": str(self.commit_offset),
               "suspendTimeoutMillis": str(self.suspend_timeout_millis), "subVersion": str(self.sub_version)}
        named = {"subscription": self.subscription, "expressionType": self.expression_type,
                 "maxMsgBytes": self.max_msg_bytes, "requestSource": self.request_source,
                 "proxyFrowardClientId": self.proxy_froward_client_id, "bname": self.broker_name}
        for name, value in named.items():
            if value is not None:
                ext[name] = str(value)
        return ext

    def __repr__(self) -> str:
        return (f"PullMessageRequest({self.consumer_group!r}, {self.topic!r}, queue_id={self.queue_id}, "
                f"queue_offset={self.queue_offset}, sys_flag={self.sys_flag})")


def decode_pull_message_request(command: RemotingCommand) -> PullMessageRequest:
    """Like PullMessageRequest.decode; compiled callers reach a function faster than a class method."""
    request = None
    if command.ext_json is not None:
        request = _from_json(command.ext_json)
    elif command.ext_binary is not None:
        request = _from_binary(command.ext_binary)
    return request if request is not None else _from_ext(command.ext)


def _without_options() -> PullMessageRequest:
    request = PullMessageRequest.__new__(PullMessageRequest)
    request.subscription = None
    request.sub_version = 0
    request.expression_type = None
    request.max_msg_bytes = None
    request.request_source = None
    request.proxy_froward_client_id = None
    request.broker_name = None
    return request


def _from_json(ext_json: bytes) -> PullMessageRequest | None:
    """The request in an extFields object; None if it needs the general decoder."""
    request = _without_options()
    scanner = scanner_of(ext_json)
    found = 0
    while scanner.next():
        scanner.find_end()
        bit = _take(request, ext_json, scanner.key_start, scanner.key_end, scanner.start, scanner.end,
                    scanner.is_text)
        if bit == _UNUSUAL:
            return None
        found |= bit
    return request if found == _WHOLE else None


def _from_binary(ext_binary: bytes) -> PullMessageRequest | None:
    """The request in a binary map, whose form `header_rocketmq.is_whole_ascii` has checked; None if it needs the
    general decoder."""
    text = ext_binary
    upto = len(ext_binary)
    request = _without_options()
    found = 0
    end = 0
    while end < upto:
        key = end + 2
        key_end = key + (text[end] << 8 | text[end + 1])
        start = key_end + 4
        end = start + big_endian.uint4(text, key_end)
        # An empty name or value counts as absent.
        if key == key_end or start == end:
            continue
        bit = _take(request, ext_binary, key, key_end, start, end, True)
        if bit == _UNUSUAL:
            return None
        found |= bit
    return request if found == _WHOLE else None


def _take(request: PullMessageRequest, ext: bytes, key: int, key_end: int, start: int, end: int,
          is_text: bool) -> int:
    """Set one field; returns its bit, 0 for an optional or unknown field, or _UNUSUAL."""
    if integer_end(ext, start, end) == end:
        return _take_number(request, ext, key, key_end, start, end, is_text)
    return _take_text(request, ext, key, key_end, start, end) if is_text else _UNUSUAL


def _take_number(request: PullMessageRequest, ext: bytes, key: int, key_end: int, start: int, end: int,
                 is_text: bool) -> int:
    text = ext
    value = integer(text, start, end)
    if matches(text, key, key_end, b"queueOffset", 11):
        request.queue_offset = value
        return 1
    if matches(text, key, key_end, b"commitOffset", 12):
        request.commit_offset = value
        return 2
    if matches(text, key, key_end, b"suspendTimeoutMillis", 20):
        request.suspend_timeout_millis = value
        return 4
    if matches(text, key, key_end, b"subVersion", 10):
        request.sub_version = value
        return 0
    if value > _INT_MAX or value < -_INT_MAX - 1:
        return _UNUSUAL
    if matches(text, key, key_end, b"queueId", 7):
        request.queue_id = value
        return 8
    if matches(text, key, key_end, b"maxMsgNums", 10):
        request.max_msg_nums = value
        return 16
    if matches(text, key, key_end, b"sysFlag", 7):
        request.sys_flag = value
        return 32
    if matches(text, key, key_end, b"maxMsgBytes", 11):
        request.max_msg_bytes = value
        return 0
    if matches(text, key, key_end, b"requestSource", 13):
        request.request_source = value
        return 0
    # A topic or group may look like a number too.
    return _take_text(request, ext, key, key_end, start, end) if is_text else _UNUSUAL


def _take_text(request: PullMessageRequest, ext: bytes, key: int, key_end: int, start: int, end: int) -> int:
    text = ext
    for position in range(start, end):
        if text[position] == ord("\\"):
            return _UNUSUAL
    if matches(text, key, key_end, b"consumerGroup", 13):
        request.consumer_group = utf8(text, start, end)
        return 64
    if matches(text, key, key_end, b"topic", 5):
        request.topic = utf8(text, start, end)
        return 128
    if matches(text, key, key_end, b"expressionType", 14):
        request.expression_type = _TAG if matches(text, start, end, b"TAG", 3) else utf8(text, start, end)
        return 0
    if matches(text, key, key_end, b"bname", 5):
        request.broker_name = utf8(text, start, end)
        return 0
    if matches(text, key, key_end, b"subscription", 12):
        request.subscription = utf8(text, start, end)
        return 0
    return 0 if _is_of_a_hook(text, key, key_end) else _UNUSUAL


def _is_of_a_hook(text: bytes, key: int, key_end: int) -> bool:
    """Whether the field was added by a client's hook and does not concern the pull."""
    return matches(text, key, key_end, b"AccessKey", 9) or matches(text, key, key_end, b"Signature", 9) \
        or matches(text, key, key_end, b"OnsChannel", 10)


def _from_ext(ext: dict[str, str]) -> PullMessageRequest:
    max_msg_bytes = ext.get("maxMsgBytes")
    request_source = ext.get("requestSource")
    return PullMessageRequest(
        _required(ext, "consumerGroup"), _required(ext, "topic"), _number(ext, "queueId", INT_MAX),
        _number(ext, "queueOffset", LONG_MAX), _number(ext, "maxMsgNums", INT_MAX), _number(ext, "sysFlag", INT_MAX),
        _number(ext, "commitOffset", LONG_MAX), _number(ext, "suspendTimeoutMillis", LONG_MAX),
        ext.get("subscription"), _number(ext, "subVersion", LONG_MAX) if "subVersion" in ext else 0,
        ext.get("expressionType"), None if max_msg_bytes is None else _number(ext, "maxMsgBytes", INT_MAX),
        None if request_source is None else _number(ext, "requestSource", INT_MAX),
        ext.get("proxyFrowardClientId"), ext.get("bname"))


class PullMessageResponse:
    """`suggest_which_broker_id` 0 is the master."""

    def __init__(self, next_begin_offset: int, min_offset: int, max_offset: int, suggest_which_broker_id: int = 0,
                 topic_sys_flag: int | None = None, group_sys_flag: int | None = None, offset_delta: int | None = None,
                 forbidden_type: int | None = None) -> None:
        self.next_begin_offset = next_begin_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.suggest_which_broker_id = suggest_which_broker_id
        self.topic_sys_flag = topic_sys_flag
        self.group_sys_flag = group_sys_flag
        self.offset_delta = offset_delta
        self.forbidden_type = forbidden_type

    @classmethod
    def decode(cls, command: RemotingCommand) -> "PullMessageResponse":
        """Raises HeaderError naming the field."""
        ext = command.ext
        return PullMessageResponse(
            _number(ext, "nextBeginOffset", LONG_MAX), _number(ext, "minOffset", LONG_MAX),
            _number(ext, "maxOffset", LONG_MAX),
            _number(ext, "suggestWhichBrokerId", LONG_MAX) if "suggestWhichBrokerId" in ext else 0,
            _optional(ext, "topicSysFlag"), _optional(ext, "groupSysFlag"), _optional(ext, "offsetDelta"),
            _optional(ext, "forbiddenType"))

    def ext(self) -> dict[str, str]:
        ext = {"suggestWhichBrokerId": str(self.suggest_which_broker_id),
               "nextBeginOffset": str(self.next_begin_offset), "maxOffset": str(self.max_offset),
               "minOffset": str(self.min_offset)}
        named = {"topicSysFlag": self.topic_sys_flag, "groupSysFlag": self.group_sys_flag,
                 "offsetDelta": self.offset_delta, "forbiddenType": self.forbidden_type}
        for name, value in named.items():
            if value is not None:
                ext[name] = str(value)
        return ext


def _required(ext: dict[str, str], name: str) -> str:
    text = ext.get(name)
    if text is None:
        raise HeaderError(f"pull message header lacks the field {name}")
    return text


def _optional(ext: dict[str, str], name: str) -> int | None:
    return _number(ext, name, LONG_MAX) if name in ext else None


def _number(ext: dict[str, str], name: str, limit: int) -> int:
    text = _required(ext, name)
    try:
        return whole_number(text, limit)
    except ValueError as cause:
        raise HeaderError(f"pull message header's {name} {text[:40]!r} {cause}") from cause


def pull_message_response(request: RemotingCommand, code: int, remark: str | None, next_begin_offset: int,
                          min_offset: int, max_offset: int, suggest_which_broker_id: int = 0,
                          body: bytes | Sequence[Buffer] = b"") -> RemotingCommand:
    """The answer to a pull; its extFields are written directly, as text."""
    response = request.response(code, remark, None, body)
    if request.serialize_type == _ROCKETMQ:
        response.ext_binary = _binary_ext(next_begin_offset, min_offset, max_offset, suggest_which_broker_id)
        return response
    response.ext_json = (
        f'{{"suggestWhichBrokerId":"{suggest_which_broker_id}","nextBeginOffset":"{next_begin_offset}",'
        f'"maxOffset":"{max_offset}","minOffset":"{min_offset}"}}').encode()
    return response


def _binary_ext(next_begin_offset: int, min_offset: int, max_offset: int, suggest_which_broker_id: int) -> bytes:
    out = bytearray(_BINARY_EXT_SIZE_MAX)
    end = _put_entry(out, 0, _SUGGEST_WHICH_BROKER_ID, suggest_which_broker_id)
    end = _put_entry(out, end, _NEXT_BEGIN_OFFSET, next_begin_offset)
    end = _put_entry(out, end, _MAX_OFFSET, max_offset)
    end = _put_entry(out, end, _MIN_OFFSET, min_offset)
    return bytes(out[:end])


def _put_entry(out: bytearray, position: int, name: bytes, value: int) -> int:
    """Write one entry of a binary map; returns the position after it."""
    start = put(out, position, name, 0, len(name)) + 4
    end = put_number(out, start, value)
    out[start - 1] = end - start
    return end
