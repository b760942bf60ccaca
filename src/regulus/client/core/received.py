"""What a pulled message goes through before a listener sees it. Source: PullAPIWrapper.processPullResult."""

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
"""The physical offset of a message that stands for a record which cannot be read."""


def prepare(messages: Sequence[MessageExt], tags: Collection[str], retry_topic: str, min_offset: int,
            max_offset: int) -> tuple[list[MessageExt], dict[int, str]]:
    """Those whose tag is one of `tags` (all when empty), unpacked, under their own topic; and why some could not be
    unpacked, by their queue offsets: these have the body as it was stored, and no listener may see them.

    Brokers compare hashes of tags only, so a message with another tag of the same hash gets this far. An inner batch
    gives the messages in it.
    """
    kept, unreadable, _ = prepare_what_fits(messages, tags, retry_topic, min_offset, max_offset, sys.maxsize)
    return kept, unreadable


def prepare_what_fits(messages: Sequence[MessageExt], tags: Collection[str], retry_topic: str, min_offset: int,
                      max_offset: int, room: int) -> tuple[list[MessageExt], dict[int, str], int | None]:
    """As `prepare`, until unpacked bodies fill the room of so many bytes: one may go beyond it, as its size is known
    only then. Also the queue offset of the first message that was left out, if there is one.

    What is packed may be a thousand times as large: the size of an answer says nothing of what it unpacks to.
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
    """Add the messages of an inner batch, or the record itself where it cannot be read; how many bytes were unpacked.
    Its tags are those of its messages: the record has none."""
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
    """The messages of a pull answer that lie before the first record which cannot be read."""
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
