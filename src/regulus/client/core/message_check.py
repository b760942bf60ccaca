"""Checks messages, topics and groups before anything is sent. Source: Validators."""

import re
from functools import lru_cache

from regulus.errors import ConfigError, MessageIllegal
from regulus.model import message_properties as names
from regulus.model import priority
from regulus.model.message import Message, body_type_fault
from regulus.model.message_properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TIMER_PROPERTIES
from regulus.model.topics import is_retry_topic, is_sendable, name_fault

_LEVEL_DIGITS_MAX = 9
TIMER_NUMBER = re.compile(r"-?[0-9]{1,15}")
RESERVED_GROUPS = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})


def check_message(message: Message, body_size_max: int) -> None:
    """Raises MessageIllegal."""
    check_topic(message.topic)
    body = message.body
    # The body may have been set after the message was made. The compiled build refuses such a value at once.
    if not isinstance(body, bytes) and body is not None:
        raise MessageIllegal(body_type_fault(body))
    if not body:
        raise MessageIllegal("the message has no body; send at least one byte")
    if len(body) > body_size_max:
        raise MessageIllegal(f"the message body has {len(body)} bytes, more than max_message_size {body_size_max}")
    if message.properties:
        _check_properties(message.properties, message.topic)
        _check_delay_level(message)
        _check_timer(message)
        if names.PRIORITY in message.properties:
            _check_priority(message)


def _check_properties(properties: dict[str, str], topic: str) -> None:
    try:
        text = "".join([*properties, *properties.values()])
    except TypeError:
        raise MessageIllegal(f"the message properties are {properties!r}; names and values are texts") from None
    # What a consumer sends to its retry topic was read from a record, and must not be lost for strange properties.
    if (NAME_VALUE_SEPARATOR in text or PROPERTY_SEPARATOR in text) and not is_retry_topic(topic):
        raise MessageIllegal(f"the message properties {properties!r} contain the characters 0x01 or 0x02, which "
                             f"separate properties")


def _check_delay_level(message: Message) -> None:
    """Refuse a level that is not a number, which a broker would ignore: it would deliver the message without delay.

    Messages for a retry topic pass, because a consumer must not lose what it sends back.
    """
    level = message.properties.get(names.DELAY_TIME_LEVEL)
    if level is None or is_retry_topic(message.topic):
        return
    if not (level.isascii() and level.isdigit() and len(level) <= _LEVEL_DIGITS_MAX):
        raise MessageIllegal(f"the delay level {names.DELAY_TIME_LEVEL} is {level!r}; give a number, as a text")


def _check_timer(message: Message) -> None:
    properties = message.properties
    timers = TIMER_PROPERTIES & properties.keys()
    if not timers or is_retry_topic(message.topic):
        return
    if properties.get(names.DELAY_TIME_LEVEL, "0") != "0":
        raise MessageIllegal(f"the message has a delay level and {', '.join(sorted(timers))}; a broker would go by the "
                             "level: give one of them")
    for name in timers:
        if not TIMER_NUMBER.fullmatch(properties[name]):
            raise MessageIllegal(f"{name} is {properties[name]!r}; give a whole number, as a text")


def _check_priority(message: Message) -> None:
    """Refuse a priority that a broker would ignore or remove."""
    properties = message.properties
    if is_retry_topic(message.topic):
        return
    if priority.of(properties) == priority.NONE:
        raise MessageIllegal(f"{names.PRIORITY} is {properties[names.PRIORITY]!r}; give a whole number from 0 to "
                             f"{priority.PRIORITY_MAX}, as a text")
    check_priority_alone(properties)


def check_priority_alone(properties: dict[str, str]) -> None:
    """Raises MessageIllegal for a priority on a message whose other properties make a broker ignore it."""
    rival = priority.rival(properties)
    if rival and names.PRIORITY in properties:
        raise MessageIllegal(f"the message has a priority and {rival}: what is delayed, transactional or ordered has "
                             "no priority at a broker; give one of them")


@lru_cache(maxsize=1024)
def check_topic(topic: str) -> None:
    """Raises MessageIllegal when no application may send to the topic."""
    fault = name_fault(topic)
    if fault:
        raise MessageIllegal(fault)
    if not is_sendable(topic):
        raise MessageIllegal(f"topic {topic} is the broker's own; nothing can be sent to it")


def check_group(group: str) -> None:
    """Raises ConfigError."""
    fault = name_fault(group, "group")
    if fault:
        raise ConfigError(fault)
    if group in RESERVED_GROUPS:
        raise ConfigError(f"group {group} is reserved; choose a name of your own")
