"""Prepares pulled messages for a listener. Source: PullAPIWrapper.processPullResult."""

import sys
from collections.abc import Collection, Sequence

from regulus.client.core import inner_batches
from regulus.errors import MessageIllegal, RecordError
from regulus.model import message_properties as names
from regulus.model import sys_flag as flags
from regulus.model.message import MessageExt
from regulus.record import message_record
from regulus.wire import compression

NOT_STORED = -1
"""The physical offset of a message that stands for a record that cannot be read."""


def prepare(messages: Sequence[MessageExt], tags: Collection[str], retry_topic: str, min_offset: int,
            max_offset: int) -> tuple[list[MessageExt], dict[int, str]]:
    """The messages whose tag is one of `tags` (all when empty), unpacked and with their original topic.

    The second value has, by queue offset, why a message could not be unpacked; such a message keeps its stored body,
    and no listener may get it. Tags are checked here because brokers compare only hashes of tags, so that a message
    with another tag of the same hash gets this far. An inner batch is replaced by its messages.
    """
    kept, unreadable, _ = prepare_what_fits(messages, tags, retry_topic, min_offset, max_offset, sys.maxsize)
    return kept, unreadable


def prepare_what_fits(messages: Sequence[MessageExt], tags: Collection[str], retry_topic: str, min_offset: int,
                      max_offset: int, room: int) -> tuple[list[MessageExt], dict[int, str], int | None]:
    """Like `prepare`, but stops when unpacked bodies have filled `room` bytes. The last body may exceed it, because its
    size is known only then. The third value is the queue offset of the first message that was left out, if any.

    The limit is needed because a body may unpack to a thousand times its size, whatever the size of the answer.
    """
    low, high = str(min_offset), str(max_offset)
    kept: list[MessageExt] = []
    unreadable: dict[int, str] = {}
    for message in messages:
        if message.sys_flag & flags.NEED_UNWRAP and inner_batches.is_inner_batch(message):
            if room <= 0 and message.sys_flag & flags.COMPRESSED:
                return kept, unreadable, message.queue_offset
            room -= _take_inner(message, tags, (low, high), kept, unreadable)
            continue
        properties = message.properties
        if tags and properties.get(names.TAGS) not in tags:
            continue
        if message.sys_flag & flags.COMPRESSED:
            if room <= 0:
                return kept, unreadable, message.queue_offset
            try:
                message.body = compression.decompress(message.body, message.sys_flag)
            except MessageIllegal as error:
                unreadable[message.queue_offset] = str(error)
            room -= len(message.body)
        if message.topic == retry_topic:
            message.topic = properties.get(names.RETRY_TOPIC, message.topic)
        properties[names.MIN_OFFSET] = low
        properties[names.MAX_OFFSET] = high
        kept.append(message)
    return kept, unreadable, None


def _take_inner(message: MessageExt, tags: Collection[str], bounds: tuple[str, str], kept: list[MessageExt],
                unreadable: dict[int, str]) -> int:
    """Add the messages of an inner batch, or the record itself if it cannot be read; returns the bytes unpacked. Tags
    are checked for each message, because the record has none."""
    is_packed = message.sys_flag & flags.COMPRESSED
    try:
        message.body = compression.decompress(message.body, message.sys_flag)
        inner = inner_batches.unwrap(message)
    except MessageIllegal as error:
        unreadable[message.queue_offset] = str(error)
        kept.append(message)
        return 0
    for each in inner:
        if not tags or each.properties.get(names.TAGS) in tags:
            each.properties[names.MIN_OFFSET], each.properties[names.MAX_OFFSET] = bounds
            kept.append(each)
    return len(message.body) if is_packed else 0


def is_any_packed(messages: Sequence[MessageExt]) -> bool:
    return any(message.sys_flag & flags.COMPRESSED for message in messages)


def decode_to_the_first_bad(body: bytes) -> list[MessageExt]:
    """The messages of a pull answer before the first record that cannot be read."""
    messages = []
    position = 0
    while position < len(body):
        try:
            message = message_record.decode(body, position)
        except RecordError:
            break
        messages.append(message)
        position += message.store_size
    return messages


def stand_in(topic: str, queue_id: int, queue_offset: int, record: bytes) -> MessageExt:
    """A message in the place of a record that cannot be read, with its bytes for a body."""
    return MessageExt(topic, record, {}, queue_id=queue_id, queue_offset=queue_offset, physical_offset=NOT_STORED)
