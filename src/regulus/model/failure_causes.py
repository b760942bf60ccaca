"""Why a message failed: properties that its retry copies and its dead letter carry, one for each failed attempt.

    CAUSE_<attempt>   the exception's type and text, or the status that the listener returned; attempts count from 1
    CAUSE_STACK       the stack of the newest attempt, its innermost frames

They take what room is left: what they describe must be stored in any case. A consumer sends them with the request that
sends a message back, and the broker does not trust them: it limits and cleans them again.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from regulus.model import message_properties as names

CAUSE_PREFIX = "CAUSE_"
CAUSE_STACK = "CAUSE_STACK"
ATTEMPTS_MAX = 16
"""The attempts whose causes are kept, the newest ones."""
CAUSE_LENGTH_MAX = 200
STACK_LENGTH_MAX = 2_000
"""Characters of a cause and of a stack. A cause keeps its beginning, a stack its end, which has its innermost
frames."""
CAUSES_SIZE_MAX = 8_192
"""Bytes of all causes of a message, with their names."""
ROOM_FOR_OTHERS = 2_048
"""Bytes of properties that stay free for what brokers add to a copy: topics, queue ids, levels, ids."""

RECONSUME_LATER = "RECONSUME_LATER"
"""The cause of an attempt whose listener returned this without an exception."""

CAUSE_PATTERN = "CAUSE_([0-9]{1,9}|STACK)"
"""A regular expression of these properties' names, for Python and for Java."""

_NAME = re.compile(CAUSE_PATTERN)
_SEPARATORS = dict.fromkeys(map(ord, (names.NAME_VALUE_SEPARATOR, names.PROPERTY_SEPARATOR)))


class Cause(NamedTuple):
    text: str
    stack: str = ""


def attempt_of(name: str) -> int:
    """The attempt that a property is the cause of; 0 for other properties."""
    number = name[len(CAUSE_PREFIX):] if is_cause(name) and name != CAUSE_STACK else ""
    return int(number) if number else 0


def is_cause(name: str) -> bool:
    """Whether a property is a cause or a stack."""
    return name.startswith(CAUSE_PREFIX) and _NAME.fullmatch(name) is not None


def causes_of(properties: Mapping[str, str]) -> dict[int, str]:
    """The causes by attempt, the first attempt first."""
    found = {attempt: value for name, value in properties.items() if (attempt := attempt_of(name))}
    return dict(sorted(found.items()))


def newest_cause(properties: Mapping[str, str]) -> str:
    """The cause of the newest attempt; empty if it is not known."""
    return next(reversed(causes_of(properties).values()), "")


def add_cause(properties: dict[str, str], attempt: int, cause: Cause) -> None:
    """Add the cause of an attempt to a copy's properties, as far as there is room. What there is no room for is left
    out: first the stack, then the causes of the oldest attempts."""
    known = causes_of(properties)
    for number in known:
        del properties[f"{CAUSE_PREFIX}{number}"]
    properties.pop(CAUSE_STACK, None)
    text, stack = told(cause)
    if text:
        known[attempt] = text
    kept = {f"{CAUSE_PREFIX}{number}": known[number] for number in sorted(known)[-ATTEMPTS_MAX:]}
    if stack:
        kept[CAUSE_STACK] = stack
    room = min(CAUSES_SIZE_MAX, names.PROPERTIES_SIZE_MAX - ROOM_FOR_OTHERS - _size(properties))
    while kept and _size(kept) > room:
        del kept[CAUSE_STACK if CAUSE_STACK in kept else next(iter(kept))]
    properties.update(kept)


def told(cause: Cause) -> tuple[str | None, str | None]:
    """The cause and the stack as a consumer sends them; None for what there is not."""
    line = " ".join(_clean(cause.text).split())     # because it is also written to logs
    return line[:CAUSE_LENGTH_MAX] or None, _clean(cause.stack)[-STACK_LENGTH_MAX:] or None


def without_causes(properties: dict[str, str]) -> bool:
    """Remove all causes; whether there were any."""
    found = [name for name in properties if is_cause(name)]
    for name in found:
        del properties[name]
    return bool(found)


def _clean(text: str) -> str:
    """The text as a property can have it. Half a surrogate pair, as file names may have, cannot be sent as UTF-8."""
    return text.translate(_SEPARATORS).encode("utf-8", "replace").decode()


def _size(properties: Mapping[str, str]) -> int:
    return sum(len(name.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace")) + 2
               for name, value in properties.items())
