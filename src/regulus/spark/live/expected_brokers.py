"""Checks that all brokers that a reader expects are there.

A name server forgets a broker that is away, and then its messages look as if they had never existed. A reader that acts
upon missing messages therefore names all brokers in the option `expectedBrokers`. A broker that is there and is not
named is refused as well, because its absence the next time would not be noticed. A queue that has messages and cannot
be read, because its topic was given fewer queues or may only be written, is refused, too.
"""

from collections.abc import Collection, Mapping, Sequence

from regulus.errors import ClientError
from regulus.model.message_queue import MessageQueue
from regulus.spark.selection import queue_text
from regulus.wire.bodies import ClusterInfo

MASTER = 0


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
            raise ClientError(f"queues of topic {topic!r} have messages and cannot be read, so that it is not known "
                              f"what they are: {', '.join(map(queue_text, queues))}: let the topic be read, with at "
                              f"least {count} read queues, while this runs")
