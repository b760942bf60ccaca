"""Decides when pulling a queue pauses, because too much of it is cached.

Source: DefaultMQPushConsumerImpl.pullMessage.
"""

from dataclasses import dataclass, replace

from regulus.client.core.process_queue import ProcessQueue

MIB = 1 << 20
NO_SHARE = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """A queue pauses when it is above a limit, not at it. The size is compared in whole MiB, as RocketMQ does.

    `share`: the bytes of bodies at which the queue pauses; its part of what all queues together may cache. Each queue
    has its own part, so that queues that make no progress do not stop the others.
    """

    count_max: int = 1000
    size_max_mib: int = 100
    span_max: int = 2000
    share: int = NO_SHARE

    def exceeded(self, queue: ProcessQueue) -> str | None:
        """The name of the limit that the queue is above; None when it may pull."""
        if queue.count > self.count_max:
            return "count"
        if queue.size // MIB > self.size_max_mib:
            return "size"
        if queue.size >= self.share:
            return "share"
        if queue.span() > self.span_max:
            return "span"
        return None

    def size_left(self, queue: ProcessQueue) -> int:
        """Bytes of bodies that the queue may still take; at least 1, because its pull began within the limits."""
        return max(1, min((self.size_max_mib + 1) * MIB, self.share) - queue.size)

    def shared_by(self, queue_count: int, *, topic_count_max: int, topic_size_max_mib: int) -> "FlowLimits":
        """The limits of one of `queue_count` queues when the topic has limits of its own (-1: it has none)."""
        owned = max(1, queue_count)
        return FlowLimits(
            count_max=self.count_max if topic_count_max < 0 else max(1, topic_count_max // owned),
            size_max_mib=self.size_max_mib if topic_size_max_mib < 0 else max(1, topic_size_max_mib // owned),
            span_max=self.span_max, share=self.share)

    def part_of(self, size_max_mib: int, queue_count: int) -> "FlowLimits":
        """These limits with the share of one of `queue_count` queues in `size_max_mib`, which all may cache together
        (-1: no limit)."""
        if size_max_mib < 0:
            return self
        return replace(self, share=max(1, size_max_mib * MIB // max(1, queue_count)))
