"""The types of messages that a topic accepts, set by its attribute `message.type`. Source: TopicMessageType."""

from collections.abc import Mapping

from regulus.errors import CallRefused
from regulus.model import message_properties as names
from regulus.model.topics import is_dlq_topic, is_retry_topic
from regulus.wire.grpc.codes import Code, MessageType

ATTRIBUTE = "message.type"
UNSPECIFIED, MIXED = "UNSPECIFIED", "MIXED"
_MIXED = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION)
_OF_NAME = {"NORMAL": (MessageType.NORMAL,), "FIFO": (MessageType.FIFO,), "DELAY": (MessageType.DELAY,),
            "TRANSACTION": (MessageType.TRANSACTION,), "PRIORITY": (MessageType.PRIORITY,), MIXED: _MIXED,
            UNSPECIFIED: ()}
NO_LITE_CONSUMERS = "lite topics are not served here, so that a consumer of them would get nothing"
NO_LITE_TOPICS = "lite topics are not served here, and no consumer would get it; send to a topic of its own instead"
_DELAYS = (names.DELAY_TIME_LEVEL, names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS)


def accepted(attributes: Mapping[str, str], untyped_take_all: bool) -> tuple[MessageType, ...]:
    """The types that a topic with these attributes accepts.

    Topics without a type come from clients of RocketMQ 4, which send messages of all types. They accept all of them if
    `untyped_take_all`, and otherwise only NORMAL."""
    name = attributes.get(ATTRIBUTE)
    if name is None:
        return _MIXED if untyped_take_all else (MessageType.NORMAL,)
    return _OF_NAME.get(name.upper(), ())


def type_of(properties: Mapping[str, str]) -> MessageType:
    """The type of a message. Its properties decide, not the type that its sender names."""
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if any(name in properties for name in _DELAYS):
        return MessageType.DELAY
    if names.SHARDING_KEY in properties:
        return MessageType.FIFO
    return MessageType.PRIORITY if names.PRIORITY in properties else MessageType.NORMAL


def check(topic: str, taken: tuple[MessageType, ...], kind: MessageType) -> None:
    """Check that a topic accepts a type of messages; retry and dead-letter topics accept all. Raises CallRefused
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE."""
    is_mixed = taken == _MIXED      # it accepts PRIORITY as well, which routes do not show, as in RocketMQ's proxy
    if kind in taken or (is_mixed and kind is MessageType.PRIORITY) or is_retry_topic(topic) or is_dlq_topic(topic):
        return
    known = ", ".join(each.name for each in taken) or "none"
    # A MIXED topic accepts messages with a priority, but does not deliver them in its order, so do not suggest it.
    or_mixed = "" if kind is MessageType.PRIORITY else f", or {MIXED}"
    raise CallRefused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                      f"topic {topic} takes messages of type {known}, and this one is {kind.name}: use a topic with "
                      f"message.type={kind.name}{or_mixed}")
