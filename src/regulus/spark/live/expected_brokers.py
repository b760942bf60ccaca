"""Whether all brokers are there that a reader says there are.

A name server forgets a broker that is away, and what lies there looks like what never was. Whoever acts upon what is
missing names all brokers in the option `expectedBrokers`. One that is there and is not named is refused as well: nobody
would miss it when it is away the next time. So is a queue of theirs that has messages and cannot be read, for a topic
was given fewer queues than it had, or may only be written.
"""

from collections.abc import Collection, Mapping, Sequence

from regulus.errors import ClientError
from regulus.model.message_queue import MessageQueue
from regulus.spark.selection import queue_text
from regulus.wire.bodies import ClusterInfo

MASTER = 0


def broker_names(cluster: ClusterInfo) -> set[str]:
    """Those that have a master: another may lack what was stored last."""
    return {name for name, broker in cluster.broker_addr_table.items() if MASTER in broker.broker_addrs}


def check_brokers(expected: Collection[str], cluster: ClusterInfo) -> None:
    """Raises ClientError that names the brokers which are away, or are not expected."""
    there = broker_names(cluster)
    if away := sorted(set(expected) - there):
        raise ClientError(f"expected brokers are away: {', '.join(away)}, and nobody knows what they have: start them; "
                          "leave out of the list (option 'expectedBrokers', of a job --brokers) only what is gone for "
                          "good")
    if more := sorted(there - set(expected)):
        raise ClientError(f"brokers are there that are not expected: {', '.join(more)}: add them to the list (option "
                          "'expectedBrokers', of a job --brokers), so that they are missed when they are away")


def check_all_is_readable(unreadable: Mapping[str, Sequence[MessageQueue]]) -> None:
    """`unreadable`: by topic, the queues that have messages and cannot be read. Raises ClientError that names them."""
    for topic, queues in unreadable.items():
        if queues:
            count = max(queue.queue_id for queue in queues) + 1
            raise ClientError(f"queues of topic {topic!r} have messages and cannot be read, so that nobody knows what "
                              f"they are: {', '.join(map(queue_text, queues))}: let the topic be read, with at least "
                              f"{count} read queues, while this runs")
