"""Attributes of topics and groups: settings by name, altered by a list such as `+message.type=FIFO,-reserve.time`.

`+key=value` adds or alters, `-key` deletes. Some may only be given when the topic is made.

Source: TopicAttributes, SubscriptionGroupAttributes, AttributeUtil.alterCurrentAttributes, AttributeParser.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from regulus.errors import HeaderError


class Attribute(NamedTuple):
    """`is_legal` says whether a value may be given; not `changeable`: only when the topic or group is made."""

    changeable: bool
    is_legal: Callable[[str], bool]


def _one_of(*values: str) -> Callable[[str], bool]:
    return frozenset(values).__contains__


def _minutes(text: str) -> bool:
    return text == "-1" or (text.isascii() and text.isdigit())


TOPIC_ATTRIBUTES = {
    "queue.type": Attribute(False, _one_of("SimpleCQ", "BatchCQ")),
    "cleanup.policy": Attribute(False, _one_of("DELETE", "COMPACTION")),
    "message.type": Attribute(True, _one_of("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")),
    "reserve.time": Attribute(True, _minutes),
}
GROUP_ATTRIBUTES = {
    "priority.factor": Attribute(True, lambda text: text.isascii() and text.isdigit() and int(text) <= 100),
}


def parse_changes(text: str) -> dict[str, str]:
    """`+a=1,-b` as {"+a": "1", "-b": ""}. Raises HeaderError."""
    changes: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, separator, value = part.partition("=")
        if key[:1] not in "+-" or len(key) < 2 or (key[0] == "+") != bool(separator and value):
            raise HeaderError(f"attribute {part!r} is neither +key=value nor -key")
        if key in changes:
            raise HeaderError(f"attribute {key[1:]} is given twice")
        changes[key] = value
    return changes


def altered(known: Mapping[str, Attribute], current: Mapping[str, str] | None,
            changes: Mapping[str, str]) -> dict[str, str]:
    """The attributes after the changes; `current` None: they are being made. A key without sign is added as it is.

    Raises HeaderError.
    """
    result = dict(current or {})
    for signed_key, value in changes.items():
        key = signed_key.lstrip("+-")
        attribute = known.get(key)
        if attribute is None:
            raise HeaderError(f"unsupported key: {key}; known are {', '.join(known)}")
        deletes = signed_key.startswith("-")
        if not deletes and result.get(key) == value:
            continue
        if current is not None and not attribute.changeable:
            raise HeaderError(f"attempt to update an unchangeable attribute: {key}")
        if deletes:
            if key not in result:
                raise HeaderError(f"attempt to delete a nonexistent key: {key}")
            del result[key]
        elif attribute.is_legal(value):
            result[key] = value
        else:
            raise HeaderError(f"value {value!r} is not allowed for the attribute {key}")
    return result
