"""Takes the messages out of inner batches: batches that are stored as one record, in topics of `queue.type=BatchCQ`.

Such a record has both bits NEED_UNWRAP and INNER_BATCH in its sysFlag, the queue offset of its first message, and the
body of SEND_BATCH_MESSAGE. A message that is taken out keeps the bit INNER_BATCH, because the broker has it only inside
a record, and cannot copy a part of a record.

Source: MessageDecoder.decodeMessage, PullAPIWrapper.processPullResult.
"""

from collections.abc import Sequence

from regulus.errors import HeaderError, MessageIllegal
from regulus.model import message_properties as names
from regulus.model import sys_flag as flags
from regulus.model.message import MessageExt
from regulus.record.dispatch_request import inner_count
from regulus.wire import message_batch

_INNER = flags.NEED_UNWRAP | flags.INNER_BATCH


def is_inner_batch(message: MessageExt) -> bool:
    return message.sys_flag & _INNER == _INNER


def is_of_inner_batch(message: MessageExt) -> bool:
    """Whether the message was taken out of an inner batch."""
    return message.sys_flag & _INNER == flags.INNER_BATCH


def offset_behind(message: MessageExt) -> int:
    """The queue offset after a record, by the number of messages that it states, whether it can be unwrapped or not."""
    return message.queue_offset + (inner_count(message.properties) if is_inner_batch(message) else 1)


def tells_its_end(message: MessageExt) -> bool:
    """Whether `offset_behind` is certainly right. No checksum covers the number that a record states, so the messages
    are counted; a packed record is not checked, and the answer is False."""
    if not is_inner_batch(message):
        return True
    if message.sys_flag & flags.COMPRESSED:
        return False
    try:
        unwrap(message)
    except MessageIllegal:
        return False
    return True


def unwrap(message: MessageExt) -> list[MessageExt]:
    """The messages of an inner batch with an unpacked body. Raises MessageIllegal when the batch is not whole."""
    try:
        inner = message_batch.decode(message.body)
    except HeaderError as error:
        raise MessageIllegal(f"inner batch: {error}") from error
    # Otherwise messages would have the queue offsets of the next record, or offsets would have no message.
    if str(len(inner)) != message.properties.get(names.INNER_NUM):
        raise MessageIllegal(f"inner batch: it has {len(inner)} messages and says that it has "
                             f"{message.properties.get(names.INNER_NUM)}")
    return [MessageExt(message.topic, each.body, each.properties, queue_id=message.queue_id, flag=each.flag,
                       sys_flag=message.sys_flag & ~(flags.NEED_UNWRAP | flags.COMPRESSED | flags.COMPRESSION_MASK),
                       born_timestamp=message.born_timestamp, born_host=message.born_host,
                       store_host=message.store_host, queue_offset=message.queue_offset + index,
                       physical_offset=message.physical_offset, store_timestamp=message.store_timestamp,
                       store_size=message.store_size)
            for index, each in enumerate(inner)]


def from_offset(messages: Sequence[MessageExt], queue_offset: int) -> list[MessageExt]:
    """The messages from an offset on. A broker sends a whole record, even if the request begins in the middle of it."""
    return [message for message in messages if message.queue_offset >= queue_offset]
