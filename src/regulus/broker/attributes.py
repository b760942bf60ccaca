"""Attributes of topics and groups: settings by name, changed by a list such as `+message.type=FIFO,-reserve.time`.

`+key=value` adds or changes an attribute, `-key` deletes it. Some attributes can be set only when the topic is created.
Unknown attributes are refused, and so are values that ask for something this broker does not do. Such a value in a
document of RocketMQ is kept, and can be deleted.

Source: TopicAttributes, SubscriptionGroupAttributes, AttributeUtil.alterCurrentAttributes, AttributeParser.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from regulus.errors import HeaderError


class Attribute(NamedTuple):
    """One known attribute. It can change later only if it is `changeable`.

    `is_legal` says whether RocketMQ accepts a value, and `legal` describes such values for an error message. `served`
    are the values that this broker implements, all if it is empty. `instead` says what to do in place of the others.
    """

    changeable: bool
    is_legal: Callable[[str], bool]
    legal: str
    served: tuple[str, ...] = ()
    instead: str = ""

    def is_served(self, value: str) -> bool:
        return not self.served or value in self.served


def _one_of(changeable: bool, *values: str, served: tuple[str, ...] = (), instead: str = "") -> Attribute:
    return Attribute(changeable, frozenset(values).__contains__, _listed(values), served, instead)


def _listed(values: tuple[str, ...]) -> str:
    return f"{', '.join(values[:-1])} or {values[-1]}"


def _minutes(text: str) -> bool:
    return text == "-1" or (text.isascii() and text.isdigit())


_MESSAGE_TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED")
TOPIC_ATTRIBUTES = {
    "queue.type": _one_of(False, "SimpleCQ", "BatchCQ"),
    "cleanup.policy": _one_of(
        False, "DELETE", "COMPACTION", served=("DELETE",),
        instead="leave cleanup.policy away, and let consumers keep the newest message of each key"),
    "message.type": Attribute(
        True, frozenset((*_MESSAGE_TYPES, "LITE")).__contains__, _listed(_MESSAGE_TYPES), _MESSAGE_TYPES,
        "send to topics of their own, for lite topics are not served"),
    "reserve.time": Attribute(True, _minutes, "minutes, or -1", ("-1",),
                              "leave reserve.time away, and set fileReservedTime, which holds for all topics"),
}
"""`message.type` is for proxies, which read it from the route; brokers, including RocketMQ's, accept any message.
Topics of type PRIORITY are popped from the last queue to the first."""


def _percent(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 100


GROUP_ATTRIBUTES = {
    "priority.factor": Attribute(True, _percent, "0 to 100"),
}


def keeps_batches(attributes: Mapping[str, str]) -> bool:
    """Whether a topic with these attributes stores a batch as one record."""
    return attributes.get("queue.type") == "BatchCQ"


def is_popped_by_priority(attributes: Mapping[str, str]) -> bool:
    """Whether pops of a topic with these attributes take the last queues first."""
    return attributes.get("message.type") == "PRIORITY"


def priority_factor(attributes: Mapping[str, str]) -> int:
    """Percentage of a group's pops that follow the priority of a topic. An invalid factor in a document counts as
    100."""
    text = attributes.get("priority.factor", "")
    return int(text) if _percent(text) else 100


def parse_changes(text: str) -> dict[str, str]:
    """Parse `+a=1,-b` to {"+a": "1", "-b": ""}. Raises HeaderError."""
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
    """The attributes after the changes. `current` is None for a new topic or group. A key without a sign is added
    unchanged.

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
        is_undone = key in result and not attribute.is_served(result[key])
        if current is not None and not attribute.changeable and not (deletes and is_undone):
            raise HeaderError(f"attempt to update an unchangeable attribute: {key}")
        if deletes:
            if key not in result:
                raise HeaderError(f"attempt to delete a nonexistent key: {key}")
            del result[key]
        elif not attribute.is_legal(value):
            raise HeaderError(f"value {value!r} is not allowed for the attribute {key}: write {attribute.legal}")
        elif not attribute.is_served(value):
            raise HeaderError(unserved(attribute, key, value))
        else:
            result[key] = value
    return result


def unserved(attribute: Attribute, key: str, value: str) -> str:
    return f"{key}={value} is not served by this broker: {attribute.instead}"


def unserved_in(known: Mapping[str, Attribute], attributes: Mapping[str, str]) -> list[str]:
    """A sentence for each attribute of another broker's document that this broker does not implement."""
    return [unserved(known[key], key, value) for key, value in attributes.items()
            if key in known and not known[key].is_served(value)]
