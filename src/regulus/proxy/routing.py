"""Routes as RocketMQ 5 clients read them, and which queue a message goes to.

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
"""Addresses of one access point that are echoed."""
ENDPOINTS_SIZE_MAX = 2_048
"""Bytes of an access point, with fields that we do not know: it stands in each of a topic's queues."""
_MULTIPLIER, _MASK = 2862933555777941757, (1 << 64) - 1


def permission_of(perm: int) -> Permission:
    if permission.is_readable(perm):
        return Permission.READ_WRITE if permission.is_writable(perm) else Permission.READ
    return Permission.WRITE if permission.is_writable(perm) else Permission.NONE


def endpoints_of(asked: messages.Endpoints, authority: str, own_port: int) -> messages.Endpoints:
    """Where the client reaches us: what it says itself, as it has just reached us there; else what its call names;
    else this port of this machine."""
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
    """The topic as the client calls it, and no fields that we do not know: it stands in each of its queues."""
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
    """All queues of all replicas, in a stable order: a client compares the answers."""
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
    """What a consumer receives from: each broker as a whole, or each queue of a group that consumes in order."""
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
    """The one queue of all messages of a group, whoever sends them: RocketMQ's own choice, so that its proxy may stand
    beside ours. Few groups move when queues are added."""
    return queues[_consistent_hash(java_hash(message_group), len(queues))]


def _consistent_hash(seed: int, buckets: int) -> int:
    """Jump consistent hash of Lamping and Veach. The seed is a Java long, which an int is widened to with its sign."""
    state, candidate = seed & _MASK, 0
    while True:
        state = state * _MULTIPLIER + 1 & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / (1 << 31)))
        if following >= buckets:
            return candidate
        candidate = following
