"""QUERY_CONSUMER_OFFSET (14), UPDATE_CONSUMER_OFFSET (15).

Source: QueryConsumerOffsetRequestHeader, QueryConsumerOffsetResponseHeader, UpdateConsumerOffsetRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumerOffsetRequest(Header):
    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None
    broker_name: str | None = spelled("bname", default=None)


@dataclass(frozen=True, slots=True)
class QueryConsumerOffsetResponse(Header):
    offset: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConsumerOffsetRequest(Header):
    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: Long
    broker_name: str | None = spelled("bname", default=None)
    set_backs: Long | None = None
    """Our own field, sent by a slave: the number of the offset's last reset that it knows. A master of ours then
    accepts no smaller offset, and none that it has reset since; RocketMQ's master ignores the field."""
