"""Whether all brokers are there that a reader says there are.

A name server forgets a broker that is away, and what lies there looks like what never was. Whoever acts upon what is
missing names all brokers in the option `expectedBrokers`. One that is there and is not named is refused as well: nobody
would miss it when it is away the next time.
"""

from collections.abc import Collection

from regulus.errors import ClientError
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
