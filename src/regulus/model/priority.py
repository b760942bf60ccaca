"""How urgent a message is: the property `_SYS_MSG_PRIORITY_`, a number from 0 on, and the greater the sooner.

Each queue of a topic has its own: the message goes to the queue of its number, or to the last one. A message that is
delayed, transactional or ordered has none.

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
    """NONE where there is none, or what is there is no number as Java reads one of 32 bits."""
    text = properties.get(names.PRIORITY)
    if text is None or not _NUMBER.fullmatch(text):
        return NONE
    number = int(text)
    return number if 0 <= number <= PRIORITY_MAX else NONE


def rival(properties: Mapping[str, str]) -> str:
    """The property beside which a priority does not count; empty: it counts.

    A delay level of 0 is none, unlike with RocketMQ: dead letters have it.
    """
    for name in _RIVALS:
        value = properties.get(name)
        if value is not None and not (value == "0" and name == names.DELAY_TIME_LEVEL) \
                and not (name == names.TRANSACTION_PREPARED and value.lower() != "true"):
            return name
    return ""


def queue_of(number: int, queues: int) -> int:
    """The queue of a priority in a topic with so many queues to write to."""
    return max(0, min(number, queues - 1))
