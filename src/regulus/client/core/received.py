"""What a pulled message goes through before a listener sees it. Source: PullAPIWrapper.processPullResult."""

from collections.abc import Collection, Sequence

from regulus.model import message_properties as names
from regulus.model import sys_flag as flags
from regulus.model.message import MessageExt
from regulus.wire import compression

TAG = "TAG"
SUB_ALL = "*"


def prepare(messages: Sequence[MessageExt], tags: Collection[str], retry_topic: str, min_offset: int,
            max_offset: int) -> list[MessageExt]:
    """Those whose tag is one of `tags` (all when empty), unpacked, under their own topic.

    Brokers compare hashes of tags only, so a message with another tag of the same hash gets this far.
    """
    low, high = str(min_offset), str(max_offset)
    kept = []
    for message in messages:
        properties = message.properties
        if tags and properties.get(names.TAGS) not in tags:
            continue
        if message.sys_flag & flags.COMPRESSED:
            message.body = compression.decompress(message.body, message.sys_flag)
        if message.topic == retry_topic:
            message.topic = properties.get(names.RETRY_TOPIC, message.topic)
        properties[names.MIN_OFFSET] = low
        properties[names.MAX_OFFSET] = high
        kept.append(message)
    return kept
