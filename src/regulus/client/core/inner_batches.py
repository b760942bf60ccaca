"""Batches that rest as one record each, as topics of `queue.type=BatchCQ` have them: the messages in them.

Such a record has a sysFlag with both bits NEED_UNWRAP and INNER_BATCH, the place of its first message for its own, and
the body of SEND_BATCH_MESSAGE for its body. What is taken out keeps the bit INNER_BATCH: a broker has it in the midst
of a record only, and can copy no part of that.

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
    """Whether it was taken out of such a record."""
    return message.sys_flag & _INNER == flags.INNER_BATCH


def offset_behind(message: MessageExt) -> int:
    """Of what follows a record, as that itself says, whether it can be taken apart or not."""
    return message.queue_offset + (inner_count(message.properties) if is_inner_batch(message) else 1)


def tells_its_end(message: MessageExt) -> bool:
    """Whether `offset_behind` is surely right. No checksum covers what a record says of its messages; what is packed is
    not looked at."""
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
    """The messages of an inner batch, whose body is not packed. Raises MessageIllegal for one that is not whole."""
    try:
        inner = message_batch.decode(message.body)
    except HeaderError as error:
        raise MessageIllegal(f"inner batch: {error}") from error
    # Else messages would lie where those of the next record do, or nowhere.
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
    """Without those before: a record is given whole to whoever asks for a message in its midst."""
    return [message for message in messages if message.queue_offset >= queue_offset]
