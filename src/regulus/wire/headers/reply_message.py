"""PUSH_REPLY_MESSAGE_TO_CLIENT (326), RECALL_MESSAGE (370). SEND_REPLY_MESSAGE (324, 325) is a SendMessageRequest.

Source: ReplyMessageRequestHeader, RecallMessageRequestHeader, RecallMessageResponseHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReplyMessageToClientRequest(Header):
    """`born_host` and `store_host` are `ip:port`; `properties` is the property string."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: Long
    flag: int
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMessageRequest(Header):
    producer_group: str | None = None
    topic: str
    recall_handle: str


@dataclass(frozen=True, slots=True)
class RecallMessageResponse(Header):
    msg_id: str
