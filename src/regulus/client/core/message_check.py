"""What is checked before anything is sent. Source: Validators."""

from functools import lru_cache

from regulus.errors import ConfigError, MessageIllegal
from regulus.model.message import Message
from regulus.model.topics import NOT_SENDABLE_TOPICS, name_fault

RESERVED_GROUPS = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})


def check_message(message: Message, body_size_max: int) -> None:
    """Raises MessageIllegal."""
    check_topic(message.topic)
    body = message.body
    if not body:
        raise MessageIllegal("the message has no body; send at least one byte")
    if len(body) > body_size_max:
        raise MessageIllegal(f"the message body has {len(body)} bytes, more than max_message_size {body_size_max}")


@lru_cache(maxsize=1024)
def check_topic(topic: str) -> None:
    """Raises MessageIllegal when no application may send to the topic."""
    fault = name_fault(topic)
    if fault:
        raise MessageIllegal(fault)
    if topic in NOT_SENDABLE_TOPICS:
        raise MessageIllegal(f"topic {topic} is the broker's own; nothing can be sent to it")


def check_group(group: str) -> None:
    """Raises ConfigError."""
    fault = name_fault(group, "group")
    if fault:
        raise ConfigError(fault)
    if group in RESERVED_GROUPS:
        raise ConfigError(f"group {group} is reserved; choose a name of your own")
