"""What a push consumer and its listener say to each other.

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
    """What orderly listeners say instead of RECONSUME_LATER; both mean the same."""


class ConsumeContext:
    """What a listener may read during one call, the queue and the group that its messages come by, whether they are
    consumed in order (`is_ordered`), and what it may set.

    `ack_index`: with CONSUME_SUCCESS, messages up to this index are done and the others count as failed.
    `failed_indexes`: with CONSUME_SUCCESS, messages that failed wherever they stand. In order neither has a meaning.
    `delay_level_when_next_consume`: -1 dead letter at once; 0 the broker's growing delay; above 0 this delay level.
    `suspend_current_queue_time_millis`: of orderly consumption, how long the queue rests after a failure; -1: as set.
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
"""Called with the messages of one queue. RECONSUME_LATER and any exception mean: try again later. So does anything that
is no ConsumeStatus, such as the None of a listener that forgets its return.

A coroutine function runs in the event loop; any other function runs in a pool of `consume_thread_max` threads.
"""
