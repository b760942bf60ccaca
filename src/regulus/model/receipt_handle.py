"""The receipt of a popped message, `extraInfo` or property POP_CK: eight parts with blanks between them,

    startOffset popTime invisibleTime reviveQid retry brokerName queueId queueOffset [physicalOffset]

Also the names of retry topics, which a client distinguishes by a flag. Old clients leave out the queue offset. A proxy
adds the physical offset, and RocketMQ's own proxy forwards it to the broker.

Source: ExtraInfoUtil, KeyBuilder.
"""

import re
from typing import NamedTuple

from regulus.errors import HeaderError
from regulus.model.java_numbers import INT_MAX, LONG_MAX
from regulus.model.topics import RETRY_PREFIX

ORDER_REVIVE_QUEUE_ID = 999
"""The revive queue in receipts of a pop in order, which leaves no checkpoint."""
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
UNKNOWN = -1
"""An offset that the text does not contain."""
TEXT_SIZE_MAX = 512
_NUMBER_SIZE_MAX = 19
_FORM = re.compile(r"(-?\d{1,19}) (\d{1,19}) (\d{1,19}) (\d{1,10}) ([012]) ([^ ]{1,255}) (\d{1,10})"
                   r"(?: (\d{1,19})(?: (-?\d{1,19}))?)?", re.ASCII)


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
    """Decode a receipt. Raises HeaderError for a text that no broker writes: a client may send anything."""
    return decode_placed(text)[0]


def decode_placed(text: str) -> tuple[ReceiptHandle, int]:
    """Decode a receipt and its physical offset. Either offset of the message may be UNKNOWN. Raises HeaderError."""
    match = _FORM.fullmatch(text) if len(text) <= TEXT_SIZE_MAX else None
    if match is None:
        raise HeaderError(f"{text[:100]!r} is not a receipt of a popped message")
    start, popped, invisible, revive, retry, broker_name, queue_id, offset, physical = match.groups("-1")
    receipt = ReceiptHandle(int(start), int(popped), int(invisible), int(revive), retry, broker_name, int(queue_id),
                            int(offset))
    physical_offset = int(physical)
    if max(receipt.start_offset, receipt.pop_time, receipt.invisible_time, receipt.queue_offset,
           physical_offset) > LONG_MAX or max(receipt.revive_queue_id, receipt.queue_id) > INT_MAX:
        raise HeaderError(f"{text[:100]!r} has a number that no receipt of a popped message can have")
    return receipt, physical_offset


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
