"""Decides which messages may be one batch, and cuts large lists. Source: MessageBatch.generateFromList."""

from collections.abc import Iterator, Sequence

from regulus.errors import MessageIllegal
from regulus.model import message_properties as names
from regulus.model.message import Message
from regulus.model.topics import is_retry_topic

MESSAGE_OVERHEAD = 22 + len(names.UNIQUE_KEY) + 34
"""Bytes of one message in a batch body besides its body and properties: lengths, and the unique key that is added."""
_SEPARATORS_SIZE = 2
"""Bytes of a property besides its name and value."""


def batch_fault(messages: Sequence[Message]) -> str | None:
    """Why these messages cannot be one batch; None when they can."""
    if not messages:
        return "a batch needs at least one message"
    first = messages[0]
    for message in messages:
        if message.topic != first.topic:
            return f"a batch has one topic, not {first.topic!r} and {message.topic!r}"
        if waits(message) != waits(first):
            return "the messages of a batch must all wait for the store, or none of them"
        fault = _alone_fault(message)
        if fault:
            return fault
    return None


def check_batch(messages: Sequence[Message]) -> None:
    """Raises MessageIllegal when these messages cannot be one batch."""
    fault = batch_fault(messages)
    if fault:
        raise MessageIllegal(fault)


def split(messages: Sequence[Message], size_max: int) -> Iterator[list[Message]]:
    """Cut a list into batches whose bodies and properties together stay at or below `size_max` bytes.

    A message that is larger by itself is a batch of its own: the broker decides whether to store it.
    """
    batch: list[Message] = []
    size = 0
    for message in messages:
        message_size = encoded_size(message)
        if batch and size + message_size > size_max:
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += message_size
    if batch:
        yield batch


def encoded_size(message: Message) -> int:
    """The most bytes that the message takes in a batch body; fewer if it has its unique key already."""
    return MESSAGE_OVERHEAD + content_size(message)


def content_size(message: Message) -> int:
    """The most bytes that body and properties take; a property without a value takes fewer."""
    properties = message.properties
    if not properties:
        return len(message.body)
    text = "".join([*properties, *properties.values()])
    return (len(message.body) + _SEPARATORS_SIZE * len(properties) +
            (len(text) if text.isascii() else len(text.encode("utf-8", "replace"))))


def waits(message: Message) -> bool:
    """False when the message asks the broker not to wait for flush and replicas."""
    return message.properties.get(names.WAIT_STORE_MSG_OK, "true") != "false"


def may_gather(message: Message) -> bool:
    """True when the message may wait for others and travel with them."""
    return _alone_fault(message) is None


def _alone_fault(message: Message) -> str | None:
    properties = message.properties
    if is_retry_topic(message.topic):
        return f"a batch cannot go to the retry topic {message.topic!r}"
    if names.DELAY_TIME_LEVEL in properties or any(name in properties for name in names.TIMER_PROPERTIES):
        return "a message with a delay cannot be in a batch"
    if names.PRIORITY in properties:
        return "a message with a priority cannot be in a batch: its priority chooses its queue, and a batch has one"
    if properties.get(names.TRANSACTION_PREPARED) == "true" or names.PRODUCER_GROUP in properties:
        return "a transactional message cannot be in a batch"
    return None
