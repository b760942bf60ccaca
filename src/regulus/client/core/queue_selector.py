"""Chooses the queue of a message.

Source: TopicPublishInfo.selectOneMessageQueue, ThreadLocalIndex, SelectMessageQueueByHash.
"""

from collections.abc import Callable, Collection, Sequence

from regulus.model.java_hash import java_hash
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue

QueueSelector = Callable[[Sequence[MessageQueue], Message, object], MessageQueue]
"""(queues of the topic, the message, the caller's argument) -> one of the queues."""


class RoundRobin:
    """Takes each queue in turn. Clients start at random places, so that they do not all load one queue at once."""

    def __init__(self, start: int) -> None:
        self._index = start

    def select(self, queues: Sequence[MessageQueue], avoid: Collection[str] = ()) -> MessageQueue:
        """The next queue whose broker is not in `avoid`; simply the next one when every broker is."""
        count = len(queues)
        self._index = first = (self._index + 1) % count
        if not avoid:
            return queues[first]
        for step in range(count):
            queue = queues[(first + step) % count]
            if queue.broker_name not in avoid:
                self._index = (first + step) % count
                return queue
        return queues[first]


def select_by_hash(queues: Sequence[MessageQueue], message: Message, argument: object) -> MessageQueue:
    """The queue of a sharding key: the Java hash of `str(argument)`, so that Java and Python producers agree."""
    return queues[abs(java_hash(str(argument))) % len(queues)]


def check_selected(queues: Sequence[MessageQueue], selected: MessageQueue) -> MessageQueue:
    """Raises ValueError when a selector answered with anything but one of the queues."""
    if selected not in queues:
        raise ValueError(f"the selector chose {selected!r}, which is not one of the topic's {len(queues)} queues")
    return selected
