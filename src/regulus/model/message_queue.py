"""One queue of one topic on one broker. Source: MessageQueue."""

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """A queue; queues sort as in RocketMQ: by topic, broker name, queue id."""

    topic: str
    broker_name: str
    queue_id: int
