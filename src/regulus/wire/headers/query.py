"""QUERY_MESSAGE (12), SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30), GET_MIN_OFFSET (31),
GET_EARLIEST_MSG_STORETIME (32), VIEW_MESSAGE_BY_ID (33).

Source: QueryMessageRequestHeader, SearchOffsetRequestHeader, GetMaxOffsetRequestHeader, GetMinOffsetRequestHeader,
GetEarliestMsgStoretimeRequestHeader, ViewMessageRequestHeader and the matching response headers.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageRequest(Header):
    """Find messages by key. Times in ms, compared with store times. `unique_key_query`: `key` is a unique key, not one
    of KEYS.

    `regulus_before`, which RocketMQ does not know, limits the answer to smaller physical offsets: a client reads more
    hits than fit into one answer page by page.
    """

    topic: str
    key: str
    max_num: int
    begin_timestamp: Long
    end_timestamp: Long
    unique_key_query: bool = spelled("_UNIQUE_KEY_QUERY", default=False)
    broker_name: str | None = spelled("bname", default=None)
    regulus_before: Long | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageResponse(Header):
    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRecords(Header):
    """The number of records named by the index, after the first one of the answer, that cannot be read.

    It is part of any answer to QUERY_MESSAGE; RocketMQ does not know it.
    """

    regulus_unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessageByIdRequest(Header):
    """`offset` is physical."""

    offset: Long
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOffsetByTimestampRequest(Header):
    """`boundary_type` is LOWER (default) or UPPER, in upper or lower case."""

    topic: str
    queue_id: int
    timestamp: Long
    boundary_type: str | None = None
    broker_name: str | None = spelled("bname", default=None)


@dataclass(frozen=True, slots=True)
class SearchOffsetByTimestampResponse(Header):
    offset: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMaxOffsetRequest(Header):
    topic: str
    queue_id: int
    committed: bool | None = None
    broker_name: str | None = spelled("bname", default=None)


@dataclass(frozen=True, slots=True)
class GetMaxOffsetResponse(Header):
    """The offset of the next message to be written."""

    offset: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMinOffsetRequest(Header):
    topic: str
    queue_id: int
    broker_name: str | None = spelled("bname", default=None)


@dataclass(frozen=True, slots=True)
class GetMinOffsetResponse(Header):
    offset: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEarliestMsgStoretimeRequest(Header):
    topic: str
    queue_id: int
    broker_name: str | None = spelled("bname", default=None)


@dataclass(frozen=True, slots=True)
class GetEarliestMsgStoretimeResponse(Header):
    timestamp: Long
