"""One queue of one topic on one broker. Source: MessageQueue."""

from typing import NamedTuple


class MessageQueue(NamedTuple):
    """Sorts as RocketMQ sorts queues: by topic, broker name, queue id."""

    topic: str
    broker_name: str
    queue_id: int
