"""Makes the retry copy of a message that could not be consumed, when the broker does not make it.

Normally the broker makes the copy (CONSUMER_SEND_MSG_BACK). When that request fails, the consumer sends the copy to the
retry topic as an ordinary message, on any broker.

Source: DefaultMQPushConsumerImpl.sendMessageBackAsNormalMessage.
"""

from regulus.model import message_properties as names
from regulus.model.delay_level import FIRST_RETRY_LEVEL
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import retry_topic

DEAD_LETTER = -1
"""`delay_level` of a message that goes to the dead-letter topic at once."""

UNREADABLE = "UNREADABLE_REASON"
"""Property of a dead letter that says why no consumer could read the body."""

NOT_WHOLE = "NOT_WHOLE_REASON"
"""Property of a dead letter from which parts of the message were left out, because they did not fit: which parts, and
where the whole message is."""

PROPERTIES_KEPT_MAX = 28_000
"""Bytes of properties that are kept in a dead letter that was too large: a record has room for 32,767, and brokers add
some."""

_TOLD_MAX = 1000

_NEEDED = {names.RETRY_TOPIC, names.ORIGIN_MESSAGE_ID, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES}

_DROPPED = (names.TRANSACTION_PREPARED, names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME,
            names.MAX_RECONSUME_TIMES)
"""Properties that are not copied. MAX_RECONSUME_TIMES is one of them, because the group sets the limit, not the
producer."""


def retry_message(message: MessageExt, group: str, delay_level: int, max_reconsume_times: int) -> Message:
    """The retry copy. `delay_level` 0: one level more for each failure. `max_reconsume_times` -1: the group's limit.

    RocketMQ ignores the requested level on this path; we keep it. A dead letter is sent with a limit that it exceeds,
    so that the broker stores it in the dead-letter topic.
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


def lacking_letter(message: MessageExt, queue: MessageQueue, letter: Message, reason: str, *,
                   with_body: bool) -> Message | None:
    """A smaller form of a dead letter that no broker takes whole: without its longest properties, and with
    `with_body=False` without its body. None when nothing would be left out."""
    properties = dict(letter.properties)
    lacking = [] if with_body else [f"its body of {len(letter.body)} bytes"]
    size = _size(properties)
    own = message.properties.keys() & properties.keys() - _NEEDED
    for name in sorted(own, key=lambda each: len(properties[each]), reverse=True):
        if size <= PROPERTIES_KEPT_MAX:
            break
        size -= _size({name: properties[name]})
        lacking.append(f"property {name[:50]}, {len(properties.pop(name))} signs")
    if not lacking:
        return None
    place = f"message at offset {message.queue_offset} of {queue} lacks"
    properties[NOT_WHOLE] = text = f"{place} {', '.join(lacking)}: {reason}"[:_TOLD_MAX]
    return Message(letter.topic, letter.body if with_body else text.encode(), properties=properties, flag=letter.flag)


def _size(properties: dict[str, str]) -> int:
    return sum(len(name.encode()) + len(value.encode()) + 2 for name, value in properties.items())
