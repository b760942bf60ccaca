"""The interface between a push consumer and its listener.

Source: MessageListenerConcurrently, ConsumeConcurrentlyContext.
"""

from collections.abc import Awaitable, Callable, Collection
from enum import StrEnum

from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue


class ConsumeStatus(StrEnum):
    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    """The answer of an orderly listener instead of RECONSUME_LATER; both mean the same."""


class ConsumeContext:
    """The context of one call of a listener. It tells the queue and the group of the messages, and whether they are
    consumed in order (`is_ordered`). A listener may set the following attributes.

    `ack_index`: with CONSUME_SUCCESS, messages up to this index are done and the others count as failed.
    `failed_indexes`: with CONSUME_SUCCESS, the indexes of messages that failed. In order both are ignored.
    `delay_level_when_next_consume`: -1 dead letter at once; 0 the broker's growing delay; above 0 this delay level.
    `suspend_current_queue_time_millis`: in order, how long the queue rests after a failure; -1: as configured.
    """

    __slots__ = ("ack_index", "consumer_group", "delay_level_when_next_consume", "failed_indexes", "is_ordered",
                 "message_queue", "suspend_current_queue_time_millis")

    def __init__(self, message_queue: MessageQueue, consumer_group: str = "", *, is_ordered: bool = False) -> None:
        self.message_queue = message_queue
        self.consumer_group = consumer_group
        self.is_ordered = is_ordered
        self.failed_indexes: Collection[int] = ()
        self.delay_level_when_next_consume = 0
        self.ack_index = 0x7FFFFFFF
        self.suspend_current_queue_time_millis = -1


MessageListener = (Callable[[list[MessageExt], ConsumeContext], ConsumeStatus]
                   | Callable[[list[MessageExt], ConsumeContext], Awaitable[ConsumeStatus]])
"""Called with the messages of one queue. RECONSUME_LATER and any exception mean: try again later. The same holds for an
answer that is not a ConsumeStatus, such as the None of a listener that forgets its return.

A coroutine function runs in the event loop; any other function runs in a pool of `consume_thread_max` threads.
"""
