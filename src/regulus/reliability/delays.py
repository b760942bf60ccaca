"""How long a broker delays a message before consumers see it, by the properties that request it.

    DELAY                               a level, by the default ladder of brokers
    TIMER_DELAY_SEC, TIMER_DELAY_MS     a time from the send on
    TIMER_DELIVER_MS                    a moment, in ms since 1970
"""

from collections.abc import Mapping

from regulus.model import message_properties as names
from regulus.model.delay_level import DEFAULT_LADDER, parse_ladder

_LADDER_MS = parse_ladder(DEFAULT_LADDER)
_NAMES = (names.DELAY_TIME_LEVEL, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)


def has_delay(properties: Mapping[str, str]) -> bool:
    return any(_number(properties, name) for name in _NAMES)


def delay_ms(properties: Mapping[str, str], now_ms: int) -> int:
    """The longest delay that is requested."""
    level = min(_number(properties, names.DELAY_TIME_LEVEL), len(_LADDER_MS))
    return max(_LADDER_MS[level - 1] if level else 0, _number(properties, names.TIMER_DELAY_SEC) * 1000,
               _number(properties, names.TIMER_DELAY_MS), _number(properties, names.TIMER_DELIVER_MS) - now_ms)


def without_delay(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in _NAMES}


def _number(properties: Mapping[str, str], name: str) -> int:
    """The number; 0 for anything else, as brokers treat it."""
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else 0
