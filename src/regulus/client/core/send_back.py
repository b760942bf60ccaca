"""How a message that could not be consumed goes back to the broker when the broker does not take it back by itself.

Normally the broker makes the retry copy (CONSUMER_SEND_MSG_BACK). When that request fails, the consumer sends the copy
to the retry topic as an ordinary message, on any broker.

Source: DefaultMQPushConsumerImpl.sendMessageBackAsNormalMessage.
"""

from regulus.model import message_properties as names
from regulus.model.delay_level import FIRST_RETRY_LEVEL
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import offset_message_id
from regulus.model.topics import retry_topic

DEAD_LETTER = -1
"""`delay_level` of a message that goes to the dead-letter topic at once."""

UNREADABLE = "UNREADABLE_REASON"
"""The property of a dead letter whose body no consumer could read: why."""

_DROPPED = (names.TRANSACTION_PREPARED, names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME,
            names.MAX_RECONSUME_TIMES)
"""The limit among them: it is for the group to set, not for whoever sent the message."""


def retry_message(message: MessageExt, group: str, delay_level: int, max_reconsume_times: int) -> Message:
    """The retry copy. `delay_level` 0 is one level more for each failure; `max_reconsume_times` -1: the group's.

    RocketMQ forgets the wished level on this path; we keep it: a dead letter is sent with a limit that it exceeds.
    """
    properties = {name: value for name, value in message.properties.items() if name not in _DROPPED}
    properties.setdefault(names.RETRY_TOPIC, message.topic)
    properties.setdefault(names.ORIGIN_MESSAGE_ID, offset_message_id(message.store_host, message.physical_offset))
    properties[names.RECONSUME_TIME] = str(message.reconsume_times + 1)
    if delay_level == DEAD_LETTER:
        max_reconsume_times = 0
        properties.pop(names.DELAY_TIME_LEVEL, None)
    else:
        properties[names.DELAY_TIME_LEVEL] = str(delay_level or FIRST_RETRY_LEVEL + message.reconsume_times)
    if max_reconsume_times >= 0:
        properties[names.MAX_RECONSUME_TIMES] = str(max_reconsume_times)
    return Message(retry_topic(group), message.body, properties=properties, flag=message.flag)
