"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361).

Source: PullMessageRequestHeader, PullMessageResponseHeader.
"""

from regulus.errors import HeaderError
from regulus.wire.remoting_command import RemotingCommand

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1


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
        ext = command.ext
        max_msg_bytes = ext.get("maxMsgBytes")
        request_source = ext.get("requestSource")
        return PullMessageRequest(
            _required(ext, "consumerGroup"), _required(ext, "topic"), _number(ext, "queueId", INT_MAX),
            _number(ext, "queueOffset", LONG_MAX), _number(ext, "maxMsgNums", INT_MAX),
            _number(ext, "sysFlag", INT_MAX), _number(ext, "commitOffset", LONG_MAX),
            _number(ext, "suspendTimeoutMillis", LONG_MAX), ext.get("subscription"),
            _number(ext, "subVersion", LONG_MAX) if "subVersion" in ext else 0, ext.get("expressionType"),
            None if max_msg_bytes is None else _number(ext, "maxMsgBytes", INT_MAX),
            None if request_source is None else _number(ext, "requestSource", INT_MAX),
            ext.get("proxyFrowardClientId"), ext.get("bname"))

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
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or not -limit - 1 <= int(text) <= limit:
        raise HeaderError(f"pull message header's {name} {text[:40]!r} is no whole number of {limit.bit_length() + 1} bits")
    return int(text)
