"""Converts routes for RocketMQ 5 clients, and chooses the queue of a message group.

Source: RouteActivity.genMessageQueueFromQueueData, MessageQueueSelector.selectOneByKey, Hashing.consistentHash.
"""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from regulus.errors import CallRefused
from regulus.model import permission
from regulus.model.java_hash import java_hash
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import TopicRouteData
from regulus.wire.bodies.topic_route_data import QueueData
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import AddressScheme, Code, MessageType, Permission

MASTER_ID = 0
ADDRESSES_MAX = 64
"""Addresses of the access point that a client names; a call with more is refused."""
ENDPOINTS_SIZE_MAX = 2_048
"""Bytes of the access point, including unknown fields: the answer repeats it in each queue of a topic."""
_MULTIPLIER, _MASK = 2862933555777941757, (1 << 64) - 1


def permission_of(perm: int) -> Permission:
    if permission.is_readable(perm):
        return Permission.READ_WRITE if permission.is_writable(perm) else Permission.READ
    return Permission.WRITE if permission.is_writable(perm) else Permission.NONE


def endpoints_of(asked: messages.Endpoints, authority: str, own_port: int) -> messages.Endpoints:
    """The addresses at which the client reaches this server.

    They are those that the client names, because it has just used one of them. Without them it is the address in
    `authority`, and without that `own_port` of this machine. Raises CallRefused for too many or too large ones."""
    if len(asked.addresses) > ADDRESSES_MAX:
        raise CallRefused(Code.BAD_REQUEST, f"{len(asked.addresses)} addresses of an access point; "
                                            f"{ADDRESSES_MAX} are the most")
    if asked.ByteSize() > ENDPOINTS_SIZE_MAX:
        raise CallRefused(Code.BAD_REQUEST, f"the access point has {asked.ByteSize()} bytes; {ENDPOINTS_SIZE_MAX} are "
                                            "the most")
    if asked.addresses and asked.scheme:
        return asked
    if asked.addresses:
        return _with_scheme(asked)
    host, _, port = authority.rpartition(":")
    made = messages.Endpoints()
    address = made.addresses.add()
    address.host, address.port = host.strip("[]") or "127.0.0.1", int(port) if port.isdecimal() else own_port
    return _with_scheme(made)


def echoed(topic: messages.Resource) -> messages.Resource:
    """The topic as the client names it, without unknown fields: the answer repeats it in each queue."""
    return messages.Resource(resource_namespace=topic.resource_namespace, name=topic.name)


def _with_scheme(endpoints: messages.Endpoints) -> messages.Endpoints:
    made = messages.Endpoints()
    made.CopyFrom(endpoints)
    made.scheme = _scheme(endpoints.addresses[0].host)
    return made


def _scheme(host: str) -> AddressScheme:
    try:
        return AddressScheme.IPv6 if ip_address(host).version == 6 else AddressScheme.IPv4
    except ValueError:
        return AddressScheme.DOMAIN_NAME


def queue_entries(route: TopicRouteData, topic: messages.Resource, endpoints: messages.Endpoints,
                  taken: Sequence[MessageType]) -> Iterator[messages.MessageQueue]:
    """All queues of all replicas. Their order is stable, because clients compare the answers."""
    replicas = {data.broker_name: sorted(data.broker_addrs) for data in route.broker_datas}
    for row in sorted(route.queue_datas, key=lambda each: each.broker_name):
        for broker_id in replicas.get(row.broker_name, ()):
            broker = messages.Broker(name=row.broker_name, id=broker_id, endpoints=endpoints)
            for number, perm in enumerate(_permissions(row)):
                yield messages.MessageQueue(topic=topic, id=number, permission=int(perm), broker=broker,
                                            accept_message_types=[int(each) for each in taken])


def _permissions(row: QueueData) -> Iterator[Permission]:
    perm = permission_of(row.perm)
    reads, writes = max(0, row.read_queue_nums), max(0, row.write_queue_nums)
    if perm is not Permission.READ_WRITE:
        count = {Permission.READ: reads, Permission.WRITE: writes}.get(perm, max(1, reads, writes))
        yield from [perm] * count
        return
    both = min(reads, writes)
    yield from [Permission.READ] * (reads - both)
    yield from [Permission.WRITE] * (writes - both)
    yield from [Permission.READ_WRITE] * both


def assignments(route: TopicRouteData, topic: messages.Resource, endpoints: messages.Endpoints,
                fifo: bool) -> Iterator[messages.Assignment]:
    """The queues from which a consumer receives: -1 for each broker as a whole, or each queue of an ordered group."""
    masters = {data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs}
    for row in sorted(route.queue_datas, key=lambda each: each.broker_name):
        if not permission.is_readable(row.perm) or row.read_queue_nums < 1 or row.broker_name not in masters:
            continue
        broker = messages.Broker(name=row.broker_name, id=MASTER_ID, endpoints=endpoints)
        for number in range(row.read_queue_nums) if fifo else (-1,):
            queue = messages.MessageQueue(topic=topic, id=number, permission=int(permission_of(row.perm)),
                                          broker=broker)
            yield messages.Assignment(message_queue=queue)


def readable_brokers(route: TopicRouteData) -> list[str]:
    """Names of the brokers whose master has queues to read."""
    masters = {data.broker_name for data in route.broker_datas if MASTER_ID in data.broker_addrs}
    return sorted({row.broker_name for row in route.queue_datas if row.broker_name in masters
                   and permission.is_readable(row.perm) and row.read_queue_nums > 0})


def queue_of_group(queues: Sequence[MessageQueue], message_group: str) -> MessageQueue:
    """The queue of all messages of a message group, whichever producer sends them.

    RocketMQ chooses the same one, so its proxy may serve the cluster as well. When queues are added, few groups
    move."""
    return queues[_consistent_hash(java_hash(message_group), len(queues))]


def _consistent_hash(seed: int, buckets: int) -> int:
    """Jump consistent hash of Lamping and Veach. Java widens the int seed to a long with its sign."""
    state, candidate = seed & _MASK, 0
    while True:
        state = state * _MULTIPLIER + 1 & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / (1 << 31)))
        if following >= buckets:
            return candidate
        candidate = following
