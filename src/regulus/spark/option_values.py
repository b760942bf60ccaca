"""Converts texts of options to typed values. Each function raises OptionError that names the option, its value and the
remedy."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from regulus.errors import OptionError
from regulus.model.timestamps import may_be_ms

Values = Mapping[str, str]
"""Options under their documented spelling."""

_SIZE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_DURATION_UNITS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def known_values(options: Mapping[str, str], known: Sequence[str], owned: Mapping[str, str]) -> dict[str, str]:
    """The options under their documented spelling. `owned` are names that mean something elsewhere, with what to do
    instead; one that ends with a dot stands for all that begin with it."""
    spelling = {name.lower(): name for name in known}
    values = {}
    for key, value in options.items():
        name = spelling.get(key.lower())
        if name is None:
            raise OptionError(_unknown(key, spelling, owned))
        values[name] = value
    return values


def _unknown(key: str, spelling: Mapping[str, str], owned: Mapping[str, str]) -> str:
    for name, advice in owned.items():
        if key.lower() == name.lower():
            return f"option {name!r} cannot be set: {advice}"   # as documented, because Spark loses its case
        if name.endswith(".") and key.lower().startswith(name.lower()):
            return f"option {key!r} cannot be set: {advice}"
    near = get_close_matches(key.lower(), spelling, n=1, cutoff=0.5)
    hint = f"did you mean {spelling[near[0]]!r}?" if near else f"known are {', '.join(spelling.values())}"
    return f"unknown option {key!r}: {hint}"


def word(values: Values, name: str, default: str, allowed: Sequence[str]) -> str:
    """One of a few words, in any case."""
    text = values.get(name, default).strip()
    for one in allowed:
        if text.lower() == one.lower():
            return one
    raise OptionError(f"option {name!r} is {text!r}: write {', '.join(allowed[:-1])} or {allowed[-1]}")


def flag(values: Values, name: str, default: bool) -> bool:
    return word(values, name, str(default).lower(), ("true", "false")) == "true"


def number(values: Values, name: str, default: int, lowest: int, highest: int) -> int:
    text = values.get(name, str(default)).strip()
    if not re.fullmatch(r"[0-9]{1,18}", text) or not lowest <= int(text) <= highest:
        raise OptionError(f"option {name!r} is {text!r}: write a number from {lowest} to {highest}")
    return int(text)


def size(values: Values, name: str, default: int) -> int:
    """A size in bytes; 64k, 256m and 1g are understood."""
    return _with_unit(values, name, default, _SIZE_UNITS, "write bytes, or a number with k, m or g, like 256m")


def duration(values: Values, name: str, default: int) -> int:
    """A duration in ms; 500ms, 30s, 15m and 1h are understood."""
    return _with_unit(values, name, default, _DURATION_UNITS, "write ms, or a number with s, m or h, like 15m")


def _with_unit(values: Values, name: str, default: int, units: Mapping[str, int], advice: str) -> int:
    text = values.get(name)
    if text is None:
        return default
    match = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in units or int(match[1]) == 0:
        raise OptionError(f"option {name!r} is {text!r}: {advice}")
    return int(match[1]) * units[match[2]]


def names(values: Values, name: str) -> tuple[str, ...] | None:
    """A comma-separated list; None when the option is absent."""
    text = values.get(name)
    if text is None:
        return None
    found = tuple(part for part in (piece.strip() for piece in text.split(",")) if part)
    if not found:
        raise OptionError(f"option {name!r} is empty: leave it out for all")
    return found


def timestamp(values: Values, name: str) -> int | None:
    """Ms since 1970, from a number or from ISO 8601, in which a time without a zone is UTC."""
    text = values.get(name)
    if text is None:
        return None
    text = text.strip()
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return milliseconds(int(text), name)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionError(f"option {name!r} is {text!r}: write ms since 1970 or ISO 8601, as "
                          "2026-01-31T08:00:00Z") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def milliseconds(number: int, name: str) -> int:
    """A time that was given as a number. Raises OptionError if it is most likely not in ms."""
    if not may_be_ms(number):
        raise OptionError(f"option {name!r} is {number}, which as ms since 1970 is before the year 2000: write ms, not "
                          "seconds, or ISO 8601, as 2026-01-31T08:00:00Z")
    return number


def json_object(text: str, option: str, example: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise OptionError(f"option {option!r} is not JSON ({error}): {example}") from error
    if not isinstance(given, dict):
        raise OptionError(f"option {option!r} is not a JSON object: {example}")
    return given
