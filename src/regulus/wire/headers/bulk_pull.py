"""BULK_PULL (20005).

A request of Regulus's own: many stored messages of one queue at a time, for readers that are no consumers. RocketMQ has
no such request; its broker answers with REQUEST_CODE_NOT_SUPPORTED.
"""

from dataclasses import dataclass
from struct import Struct

from regulus.wire.ext_fields import Header, Long

BOUNDS_OF_ALL = -1
QUEUE_BOUNDS = Struct(">qq")
"""First and next offset of a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPullRequest(Header):
    """Messages [queue_offset, queue_offset_end), at most `size_max` bytes of them but at least one; with 0 none, for
    the state of the queue alone, and where `queue_offset_end` is BOUNDS_OF_ALL, too, for that of the queues behind it.
    `expression` names the tags that are wanted, `A || B`."""

    topic: str
    queue_id: int
    queue_offset: Long
    queue_offset_end: Long
    size_max: int
    expression: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPullResponse(Header):
    """The body has whole records; what lies between them and before `next_offset` was not wanted or is gone.

    Where the queues behind it were asked for, it has QUEUE_BOUNDS of this queue and those, by number, as many as the
    broker tells at a time.

    The queue holds [min_offset, max_offset). `topic_epoch` differs from that of an earlier topic of the same name;
    0 for a topic that is older than such numbers.
    """

    next_offset: Long
    min_offset: Long
    max_offset: Long
    topic_epoch: Long
