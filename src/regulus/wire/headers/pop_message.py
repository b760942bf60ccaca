"""POP_MESSAGE (200050), ACK_MESSAGE (200051), PEEK_MESSAGE (200052), CHANGE_MESSAGE_INVISIBLETIME (200053),
NOTIFICATION (200054), POLLING_INFO (200055). BATCH_ACK_MESSAGE (200151) has a body only.

Source: PopMessageRequestHeader, PopMessageResponseHeader, AckMessageRequestHeader, PeekMessageRequestHeader,
ChangeInvisibleTimeRequestHeader, ChangeInvisibleTimeResponseHeader, NotificationRequestHeader,
NotificationResponseHeader, PollingInfoRequestHeader, PollingInfoResponseHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long, spelled

ANY_QUEUE = -1
INIT_MIN, INIT_MAX = 0, 1
"""Where a new group begins: at the first message, or at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessageRequest(Header):
    """Times in ms; `queue_id` may be ANY_QUEUE; `init_mode` is INIT_MIN or INIT_MAX."""

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int
    invisible_time: Long
    poll_time: Long
    born_time: Long
    init_mode: int
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None
    broker_name: str | None = spelled("bname", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopMessageResponse(Header):
    pop_time: Long
    invisible_time: Long
    revive_qid: int
    rest_num: Long
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AckMessageRequest(Header):
    """`extra_info` is the receipt of a popped message."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: Long
    broker_name: str | None = spelled("bname", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekMessageRequest(Header):
    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMessageInvisibletimeRequest(Header):
    """`suspend`: this delivery does not count. Supported by brokers since RocketMQ 5.4."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: Long
    invisible_time: Long
    broker_name: str | None = spelled("bname", default=None)
    suspend: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMessageInvisibletimeResponse(Header):
    pop_time: Long
    invisible_time: Long
    revive_qid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRequest(Header):
    """`init_mode` as in a pop: a new group gets its position in each queue with this request, as if it had popped.
    RocketMQ does not know the field and ignores it."""

    consumer_group: str
    topic: str
    queue_id: int
    poll_time: Long
    born_time: Long
    order: bool | None = None
    attempt_id: str | None = None
    init_mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationResponse(Header):
    has_msg: bool = False
    polling_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PollingInfoRequest(Header):
    consumer_group: str
    topic: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class PollingInfoResponse(Header):
    polling_num: int
