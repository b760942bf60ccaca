"""The receipt of a popped message, `extraInfo` or property POP_CK: eight parts with blanks between them,

    startOffset popTime invisibleTime reviveQid retry brokerName queueId queueOffset

Also the names of retry topics, which a client distinguishes by a flag.

Source: ExtraInfoUtil, KeyBuilder.
"""

from typing import NamedTuple

from regulus.errors import HeaderError
from regulus.model.topics import RETRY_PREFIX

ORDER_REVIVE_QUEUE_ID = 999
"""The revive queue in receipts of a pop in order, which leaves no checkpoint."""
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
_PARTS = 8
_NUMBER_SIZE_MAX = 19


class ReceiptHandle(NamedTuple):
    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue_id: int
    retry: str
    broker_name: str
    queue_id: int
    queue_offset: int


def encode(handle: ReceiptHandle) -> str:
    return " ".join(map(str, handle))


def size_max(broker_name: str) -> int:
    """The size in bytes of the longest receipt that this broker issues."""
    return len(broker_name.encode()) + 6 * (_NUMBER_SIZE_MAX + 1) + 2


def decode(text: str) -> ReceiptHandle:
    """Decode a receipt. The last part may be missing, and is -1 then. Raises HeaderError."""
    parts = text.split(" ")
    if len(parts) == _PARTS - 1:
        parts.append("-1")
    if len(parts) < _PARTS or parts[4] not in (NORMAL, RETRY_V1, RETRY_V2):
        raise HeaderError(f"{text[:100]!r} is not a receipt of a popped message")
    start, popped, invisible, revive, retry, broker_name, queue_id, offset = parts[:_PARTS]
    return ReceiptHandle(_number(start), _number(popped), _number(invisible), _number(revive), retry, broker_name,
                         _number(queue_id), _number(offset))


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _NUMBER_SIZE_MAX):
        raise HeaderError(f"{text[:100]!r} is not a number of a receipt")
    return int(text)


def retry_topic_v1(topic: str, group: str) -> str:
    return f"{RETRY_PREFIX}{group}_{topic}"


def retry_topic_v2(topic: str, group: str) -> str:
    return f"{RETRY_PREFIX}{group}+{topic}"


def real_topic(topic: str, group: str, retry: str) -> str:
    """The topic from which a message with this flag was popped."""
    if retry == RETRY_V1:
        return retry_topic_v1(topic, group)
    return retry_topic_v2(topic, group) if retry == RETRY_V2 else topic


def normal_topic(topic: str, group: str) -> str:
    """The topic whose retry topic for the group may be `topic`."""
    for prefix in (retry_topic_v2("", group), retry_topic_v1("", group)):
        if topic.startswith(prefix):
            return topic[len(prefix):]
    return topic


def is_popped_retry_topic(topic: str, group: str) -> bool:
    """Whether messages that the group popped may be retried in this topic."""
    return topic.startswith(RETRY_PREFIX) and normal_topic(topic, group) != topic


def retry_flag(topic: str, group: str) -> str:
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if topic.startswith(retry_topic_v2("", group)) else RETRY_V1
