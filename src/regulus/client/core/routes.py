"""The route of a topic as producers and consumers use it.

Source: MQClientInstance.topicRouteData2TopicPublishInfo, MQClientInstance.topicRouteData2TopicSubscribeInfo.
"""

import re
from dataclasses import dataclass, field, replace

from regulus.client.core.rebalance import java_string_order
from regulus.errors import HeaderError
from regulus.model import permission
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import QUEUE_NUMS_MAX
from regulus.wire.bodies import TopicRouteData

MASTER_ID = 0
QUEUES_MAX = 4 * QUEUE_NUMS_MAX
"""The most queues of a route that take sends, and the most that can be read: what four brokers can give a topic.
Without a limit, a number from a name server could fill the memory of all clients."""
_COUNT = re.compile("[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Route:
    """A topic's route in the form that clients need: queues that take sends, queues to read, and broker addresses."""

    topic: str
    publish_queues: tuple[MessageQueue, ...]
    subscribe_queues: tuple[MessageQueue, ...]
    brokers: dict[str, dict[int, str]]
    """Broker name -> broker id -> address."""
    ordered: bool = False
    has_one_publisher: bool = field(init=False)
    """Whether all queues that take sends belong to one broker."""

    def __post_init__(self) -> None:
        names = {queue.broker_name for queue in self.publish_queues}
        object.__setattr__(self, "has_one_publisher", len(names) == 1)

    def master(self, broker_name: str) -> str | None:
        return self.brokers.get(broker_name, {}).get(MASTER_ID)

    def any_address(self, broker_name: str) -> str | None:
        """The master's address, or else the address of the replica with the lowest id."""
        addresses = self.brokers.get(broker_name)
        return addresses[min(addresses)] if addresses else None

    def replicas(self, broker_name: str) -> list[str]:
        """Addresses of all brokers of this name except the master, by id."""
        addresses = sorted(self.brokers.get(broker_name, {}).items())
        return [address for broker_id, address in addresses if broker_id != MASTER_ID]

    def masters(self) -> list[str]:
        """Addresses of all masters, by broker name."""
        return [addresses[MASTER_ID] for _, addresses in sorted(self.brokers.items()) if MASTER_ID in addresses]

    def readable_addresses(self) -> list[str]:
        """One address of each broker set, the one that `any_address` chooses, by broker name."""
        return [addresses[min(addresses)] for _, addresses in sorted(self.brokers.items()) if addresses]


def route_of(topic: str, data: TopicRouteData) -> Route:
    """Raises HeaderError when the route has more than QUEUES_MAX queues."""
    brokers = {broker.broker_name: dict(broker.broker_addrs) for broker in data.broker_datas}
    return Route(topic, publish_queues=_publish_queues(topic, data, brokers),
                 subscribe_queues=_subscribe_queues(topic, data), brokers=brokers, ordered=bool(data.order_topic_conf))


def default_topic_route(topic: str, data: TopicRouteData, default_topic_queue_nums: int) -> Route:
    """The route for the first message of an unknown topic: the route of TBW102, with as many queues as the broker will
    give the new topic."""
    queues = [replace(row, write_queue_nums=min(default_topic_queue_nums, row.read_queue_nums),
                      read_queue_nums=min(default_topic_queue_nums, row.read_queue_nums)) for row in data.queue_datas]
    return route_of(topic, replace(data, queue_datas=queues))


def _publish_queues(topic: str, data: TopicRouteData, brokers: dict[str, dict[int, str]]) -> tuple[MessageQueue, ...]:
    if data.order_topic_conf:
        return _queues(topic, _order_conf(data.order_topic_conf), "orderTopicConf")
    rows = sorted(data.queue_datas, key=lambda row: java_string_order(row.broker_name))
    return _queues(topic, [(row.broker_name, row.write_queue_nums) for row in rows if permission.is_writable(row.perm)
                           and MASTER_ID in brokers.get(row.broker_name, {})], "writeQueueNums")


def _subscribe_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    return _queues(topic, [(row.broker_name, row.read_queue_nums) for row in data.queue_datas
                           if permission.is_readable(row.perm)], "readQueueNums")


def _queues(topic: str, counts: list[tuple[str, int]], source: str) -> tuple[MessageQueue, ...]:
    total = sum(max(0, count) for _, count in counts)
    if total > QUEUES_MAX:
        raise HeaderError(f"it has {total} queues by its {source}; {QUEUES_MAX} are the most")
    return tuple([MessageQueue(topic, broker_name, queue_id)
                  for broker_name, count in counts for queue_id in range(count)])


def _order_conf(text: str) -> list[tuple[str, int]]:
    """`broker-a:4;broker-b:4` -> pairs; a part that is not a pair is left out, as RocketMQ does not refuse it
    either."""
    pairs = []
    for part in text.split(";"):
        broker_name, _, count = part.rpartition(":")
        if broker_name and _COUNT.fullmatch(count):
            pairs.append((broker_name, int(count)))
    return pairs
