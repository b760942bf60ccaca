"""How far a stream's next batch reads: pure arithmetic over what each queue has waiting.

Every queue gets its share of what fits, in proportion to what it has waiting, so that none falls behind for another.
"""

from collections.abc import Mapping
from typing import NamedTuple

from regulus.model.message_queue import MessageQueue


class Waiting(NamedTuple):
    """Messages [start, end) of a queue are to be read; each has this many bytes, on average."""

    start: int
    end: int
    record_size: float


def admit(waiting: Mapping[MessageQueue, Waiting], records_max: int, bytes_max: int) -> dict[MessageQueue, int]:
    """Where the batch ends in each queue: within both limits, but with one message at least where any waits."""
    ends = {queue: each.start for queue, each in waiting.items()}
    queues = [queue for queue, each in sorted(waiting.items()) if each.start < each.end]
    records = sum(waiting[queue].end - waiting[queue].start for queue in queues)
    size = sum((waiting[queue].end - waiting[queue].start) * waiting[queue].record_size for queue in queues)
    if records <= records_max and size <= bytes_max:
        return {queue: each.end for queue, each in waiting.items()}
    share = min(records_max / records, bytes_max / size)
    for queue in queues:
        each = waiting[queue]
        ends[queue] = min(each.end, each.start + int((each.end - each.start) * share))
    _give_one_each(waiting, queues, ends, records_max, bytes_max)
    return ends


def _give_one_each(waiting: Mapping[MessageQueue, Waiting], queues: list[MessageQueue],
                   ends: dict[MessageQueue, int], records_max: int, bytes_max: int) -> None:
    """What rounding left over goes to queues whose share is less than a message, each time to another one first."""
    records_left = records_max - sum(ends[queue] - waiting[queue].start for queue in queues)
    bytes_left = bytes_max - sum((ends[queue] - waiting[queue].start) * waiting[queue].record_size for queue in queues)
    first = sum(waiting[queue].start for queue in queues) % len(queues)
    is_empty = records_left == records_max
    for queue in queues[first:] + queues[:first]:
        each = waiting[queue]
        fits = records_left >= 1 and each.record_size <= bytes_left
        if ends[queue] == each.start and (fits or is_empty):
            ends[queue] += 1
            records_left, bytes_left, is_empty = records_left - 1, bytes_left - each.record_size, False
