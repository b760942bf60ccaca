"""BULK_PULL (20005).

A request of Regulus's own: it reads many stored messages of one queue at a time, for readers that are not consumers.
RocketMQ has no such request; its broker answers with REQUEST_CODE_NOT_SUPPORTED.
"""

from dataclasses import dataclass
from struct import Struct

from regulus.wire.ext_fields import Header, Long

BOUNDS_OF_ALL = -1
QUEUE_BOUNDS = Struct(">qq")
"""First and next offset of a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPullRequest(Header):
    """Read the messages [queue_offset, queue_offset_end), at most `size_max` bytes of them but at least one.

    A `size_max` of 0 reads no message, only the state of the queue; if `queue_offset_end` is also BOUNDS_OF_ALL, then
    also the state of the queues with higher numbers. `expression` names the wanted tags, `A || B`.
    """

    topic: str
    queue_id: int
    queue_offset: Long
    queue_offset_end: Long
    size_max: int
    expression: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPullResponse(Header):
    """The body has whole records; messages between them and before `next_offset` were not wanted or no longer exist.

    If the queues with higher numbers were asked for, the body has QUEUE_BOUNDS of this queue and those, by number, as
    many as the broker sends at a time.

    The queue holds [min_offset, max_offset). `topic_epoch` differs from that of an earlier topic of the same name; 0
    for a topic that is older than such numbers.
    """

    next_offset: Long
    min_offset: Long
    max_offset: Long
    topic_epoch: Long
