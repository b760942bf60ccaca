"""What a pulled message goes through before a listener sees it. Source: PullAPIWrapper.processPullResult."""

from collections.abc import Collection, Sequence

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

    Brokers compare hashes of tags only, so a message with another tag of the same hash gets this far.
    """
    low, high = str(min_offset), str(max_offset)
    kept = []
    unreadable: dict[int, str] = {}
    for message in messages:
        properties = message.properties
        if tags and properties.get(names.TAGS) not in tags:
            continue
        if message.topic == retry_topic:
            message.topic = properties.get(names.RETRY_TOPIC, message.topic)
        if message.sys_flag & flags.COMPRESSED:
            try:
                message.body = compression.decompress(message.body, message.sys_flag)
            except MessageIllegal as error:
                unreadable[message.queue_offset] = str(error)
        properties[names.MIN_OFFSET] = low
        properties[names.MAX_OFFSET] = high
        kept.append(message)
    return kept, unreadable


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
