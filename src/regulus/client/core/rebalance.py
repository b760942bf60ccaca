"""Assigns queues to the clients of a group. Every client computes the same assignment from the same two lists.

Source: AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle, AllocateMessageQueueConsistentHash,
ConsistentHashRouter, AllocateMessageQueueByConfig.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from hashlib import md5

from regulus.model.message_queue import MessageQueue

AllocateStrategy = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]
"""(all queues of the topic, all client ids of the group, own client id) -> own queues. Both lists come sorted."""

VIRTUAL_NODES = 10


def java_string_order(text: str) -> bytes:
    """A sort key that orders as Java's String.compareTo: by UTF-16 code units, a prefix first."""
    return text.encode("utf-16-be", "surrogatepass")


def sort_queues(queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    return sorted(queues, key=lambda queue: (java_string_order(queue.topic), java_string_order(queue.broker_name),
                                             queue.queue_id))


def sort_client_ids(client_ids: Sequence[str]) -> list[str]:
    """Sorted, each id once."""
    return sorted(set(client_ids), key=java_string_order)


def average(queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str) -> list[MessageQueue]:
    """AVG: contiguous blocks; the first (queues modulo clients) clients get one more; surplus clients get none."""
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    size, remainder = divmod(len(queues), len(client_ids))
    start = index * size + min(index, remainder)
    return list(queues[start:start + size + (index < remainder)])


def average_by_circle(queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queue k goes to client k modulo the number of clients."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id)::len(client_ids)])


def consistent_hash(queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str) -> list[MessageQueue]:
    """CONSISTENT_HASH: ten points for each client on a ring; a queue belongs to the next point at or after its hash."""
    if client_id not in client_ids:
        return []
    ring = sorted({_ring_hash(f"{owner}-{point}"): owner for owner in client_ids for point in range(VIRTUAL_NODES)}
                  .items())
    points = [point for point, _ in ring]

    def owner_of(queue: MessageQueue) -> str:
        place = bisect_left(points, _ring_hash(
            f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"))
        return ring[place % len(ring)][1]

    return [queue for queue in queues if owner_of(queue) == client_id]


def by_config(assignment: Mapping[str, Sequence[MessageQueue]]) -> AllocateStrategy:
    """CONFIG: a fixed list of queues for each client id."""
    def allocate(queues: Sequence[MessageQueue], client_ids: Sequence[str], client_id: str) -> list[MessageQueue]:
        return [queue for queue in assignment.get(client_id, ()) if queue in queues]
    return allocate


def _ring_hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


STRATEGIES: Mapping[str, AllocateStrategy] = {
    "AVG": average,
    "AVG_BY_CIRCLE": average_by_circle,
    "CONSISTENT_HASH": consistent_hash,
}
