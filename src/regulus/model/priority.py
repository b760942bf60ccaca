"""How urgent a message is: the property `_SYS_MSG_PRIORITY_`, a number from 0 on; higher numbers are delivered sooner.

Each priority has a queue of the topic: a message goes to the queue of its number, or to the last queue. A message that
is delayed, transactional or ordered has no priority.

Source: Message.getPriority, SendMessageProcessor.sendMessage, TopicMessageType.parseFromMessageProperty.
"""

import re
from collections.abc import Mapping

from regulus.model import message_properties as names

NONE = -1
PRIORITY_MAX = 0x7FFFFFFF
_NUMBER = re.compile(r"[+-]?\d{1,10}")
_RIVALS = (names.TRANSACTION_PREPARED, names.DELAY_TIME_LEVEL, names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC,
           names.TIMER_DELAY_MS, names.SHARDING_KEY)


def of(properties: Mapping[str, str]) -> int:
    """The priority; NONE when the property is missing or is not a 32-bit number as Java reads one."""
    text = properties.get(names.PRIORITY)
    if text is None or not _NUMBER.fullmatch(text):
        return NONE
    number = int(text)
    return number if 0 <= number <= PRIORITY_MAX else NONE


def rival(properties: Mapping[str, str]) -> str:
    """The property that overrides a priority; empty when the priority counts.

    Unlike in RocketMQ, a delay level of 0 is not a delay: dead letters have it.
    """
    for name in _RIVALS:
        value = properties.get(name)
        if value is not None and not (value == "0" and name == names.DELAY_TIME_LEVEL) \
                and not (name == names.TRANSACTION_PREPARED and value.lower() != "true"):
            return name
    return ""


def queue_of(number: int, queues: int) -> int:
    """The queue for a priority, in a topic with `queues` queues to write to."""
    return max(0, min(number, queues - 1))
