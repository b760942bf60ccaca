"""Numbers the queues of several brokers like Kafka's partitions. Pure.

A partition's number is that of its broker times 65,536, plus the queue's id. A broker's number depends on its name
alone, so that partitions keep their numbers when a broker is added or removed. It is 0 for the default name of brokers,
so that their queues and partitions have the same numbers, and a checksum of any other name.
"""

from collections.abc import Collection, Iterable
from zlib import crc32

from regulus.errors import OptionError
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import QUEUE_NUMS_MAX

DEFAULT_BROKER_NAME = "broker-a"
_BROKERS_MAX = (1 << 31) // QUEUE_NUMS_MAX


def first_partition(broker_name: str) -> int:
    """The partition of a broker's queue 0."""
    if broker_name == DEFAULT_BROKER_NAME:
        return 0
    return QUEUE_NUMS_MAX * (1 + crc32(broker_name.encode()) % (_BROKERS_MAX - 1))


def queue_of(wanted: MessageQueue, there: Iterable[MessageQueue]) -> MessageQueue:
    """The queue that a user means: if `wanted` has no broker, its number is a partition's, if there is such a one."""
    if wanted.broker_name:
        return wanted
    return next((queue for queue in there if queue.topic == wanted.topic
                 and first_partition(queue.broker_name) + queue.queue_id == wanted.queue_id), wanted)


def check_brokers(queues: Collection[MessageQueue]) -> None:
    """Raises OptionError when two brokers of a topic have the same number, which is rare: about 1 in 32,767 pairs."""
    names: dict[tuple[str, int], str] = {}
    for queue in queues:
        first = names.setdefault((queue.topic, first_partition(queue.broker_name)), queue.broker_name)
        if first != queue.broker_name:
            raise OptionError(f"option 'kafkaSchema' numbers the partitions of topic {queue.topic!r} at brokers "
                              f"{first} and {queue.broker_name} alike: read the table under its own names, or give one "
                              "of the brokers another name")
