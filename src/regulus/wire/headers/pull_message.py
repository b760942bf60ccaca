"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361).

Source: PullMessageRequestHeader, PullMessageResponseHeader.
"""

from collections.abc import Sequence

from regulus.errors import HeaderError
from regulus.wire.ext_fields import INT_MAX, LONG_MAX, whole_number
from regulus.wire.header_json import ExtScanner, integer, integer_end, matches, scanner_of, utf8
from regulus.wire.remoting_command import Buffer, RemotingCommand

# Under a private name it may be a typed constant in the compiled form.
_INT_MAX = INT_MAX
# Bits of the required fields.
_WHOLE = 0xFF
_UNUSUAL = -1
_TAG = "TAG"


class PullMessageRequest:
    """`subscription` counts only when sys_flag has PULL_SUBSCRIPTION; `sub_version` in ms, 0 when not sent."""

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
    """The same as PullMessageRequest.decode; compiled callers reach a function faster than a class method."""
    if command._ext_json is not None:
        request = _from_json(command._ext_json)
        if request is not None:
            return request
    return _from_ext(command.ext)


def _from_json(ext_json: bytes) -> PullMessageRequest | None:
    """The request of an extFields object; None where the long way round has to judge."""
    request = PullMessageRequest.__new__(PullMessageRequest)
    request.subscription = None
    request.sub_version = 0
    request.expression_type = None
    request.max_msg_bytes = None
    request.request_source = None
    request.proxy_froward_client_id = None
    request.broker_name = None
    scanner = scanner_of(ext_json)
    found = 0
    while scanner.next():
        scanner.find_end()
        if integer_end(ext_json, scanner.start, scanner.end) == scanner.end:
            bit = _take_number(request, scanner, ext_json)
        else:
            bit = _take_text(request, scanner, ext_json)
        if bit == _UNUSUAL:
            return None
        found |= bit
    return request if found == _WHOLE else None


def _take_number(request: PullMessageRequest, scanner: ExtScanner, ext_json: bytes) -> int:
    """Put one field into its place; says its bit, 0 for an optional or unknown one, or _UNUSUAL."""
    text = ext_json
    key = scanner.key_start
    key_end = scanner.key_end
    value = integer(text, scanner.start, scanner.end)
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
    return _take_text(request, scanner, ext_json)


def _take_text(request: PullMessageRequest, scanner: ExtScanner, ext_json: bytes) -> int:
    text = ext_json
    key = scanner.key_start
    key_end = scanner.key_end
    start = scanner.start
    end = scanner.end
    for position in range(start, end):
        if text[position] == ord("\\"):
            return _UNUSUAL
    if not scanner.is_text:
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
    """Fields that clients' hooks add and that say nothing of the pull."""
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
    """The answer to a pull; its extFields are written once, as text."""
    response = request.response(code, remark, None, body)
    response._ext_json = (
        f'{{"suggestWhichBrokerId":"{suggest_which_broker_id}","nextBeginOffset":"{next_begin_offset}",'
        f'"maxOffset":"{max_offset}","minOffset":"{min_offset}"}}').encode()
    return response
