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
    """Of our own, from a slave: the number of the offset's last set-back, as far as it knows. A master of ours takes no
    smaller offset then, and none that it has set back since; RocketMQ's does not read it."""
