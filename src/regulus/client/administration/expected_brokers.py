"""Checks that all brokers that a reader expects are there.

A name server forgets a broker that is away, and then its messages look as if they had never existed. A reader that acts
upon missing messages therefore names all brokers in the option `expectedBrokers`. A broker that is there and is not
named is refused as well, because its absence the next time would not be noticed. A queue that has messages and cannot
be read, because its topic was given fewer queues or may only be written, is refused, too.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from regulus.client.administration.topic_admin import TopicAdmin
from regulus.errors import ClientError, NoRoute
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import ClusterInfo

MASTER = 0
FORMER_QUEUES_MAX = 16
"""Queues beyond those of a topic that are looked at, because a topic may have had more before."""


def broker_names(cluster: ClusterInfo) -> set[str]:
    """The brokers that have a master. One without a master may lack the last messages, so it counts as away."""
    return {name for name, broker in cluster.broker_addr_table.items() if MASTER in broker.broker_addrs}


def check_brokers(expected: Collection[str], cluster: ClusterInfo) -> None:
    """Raises ClientError that names the brokers which are away, or are not expected."""
    there = broker_names(cluster)
    if away := sorted(set(expected) - there):
        raise ClientError(f"expected brokers are away: {', '.join(away)}, and it is not known what they have: start "
                          "them; leave out of the list (option 'expectedBrokers', of a job --brokers) only brokers "
                          "that are gone for good")
    if more := sorted(there - set(expected)):
        raise ClientError(f"brokers are there that are not expected: {', '.join(more)}: add them to the list (option "
                          "'expectedBrokers', of a job --brokers), so that they are missed when they are away")


def check_all_is_readable(unreadable: Mapping[str, Sequence[MessageQueue]]) -> None:
    """Raises ClientError that names queues. `unreadable` has, by topic, those with messages that cannot be read."""
    for topic, queues in unreadable.items():
        if queues:
            count = max(queue.queue_id for queue in queues) + 1
            listed = ", ".join("/".join(map(str, queue)) for queue in queues)
            raise ClientError(f"queues of topic {topic!r} have messages and cannot be read, so that it is not known "
                              f"what they are: {listed}: let the topic be read, with at least {count} read queues, "
                              "while this runs")


async def unreadable_queues(admin: TopicAdmin, topic: str) -> list[MessageQueue]:
    """The topic's queues that have messages and cannot be read, because it had more queues or is not readable."""
    try:
        readable = set(await admin.queues(topic))
        known = set(await admin.topic_stats(topic))
    except NoRoute:
        return []
    # A broker reports only queues that can be written or read, so former ones are asked for by number.
    for broker_name in {queue.broker_name for queue in known}:
        behind = sum(queue.broker_name == broker_name for queue in known)
        known |= {MessageQueue(topic, broker_name, behind + more) for more in range(FORMER_QUEUES_MAX)}
    asked = sorted(known - readable)
    ends = await asyncio.gather(*(_ends(admin, queue) for queue in asked))
    return [queue for queue, (low, high) in zip(asked, ends, strict=True) if low < high]


async def _ends(admin: TopicAdmin, queue: MessageQueue) -> tuple[int, int]:
    return await admin.min_offset(queue), await admin.max_offset(queue)
