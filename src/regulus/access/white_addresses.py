"""Patterns of addresses, for senders that need no signature, and for slaves that may copy the log.

    pattern               matches
    (empty)               no address
    *   *.*.*.*           every address
    10.0.0.1              this one; also an IPv6 address in any spelling
    10.0.0.*  10.0.*.*    every number there
    10.0.0.1-5            1 to 5 there; what follows is every number
    10.0.0.{1,7}          the listed ones
    10.0.0.1,10.0.0.9     any of several
    fe80::*  fe80::1-ff   IPv6: the last group or groups, numbers in hexadecimal
    fe80::{1,2}

An IPv4 address received on an IPv6 socket (`::ffff:10.0.0.1`) counts as the IPv4 address.

Source: RemoteAddressStrategyFactory.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from regulus.errors import ConfigError

PATTERN_LENGTH_MAX = 4096
_EVERYBODY = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_V4_MAX, _V6_MAX = 255, 0xFFFF

Ranges = tuple[range, ...]
"""One range for each number of an address: 4, or 8."""


class WhiteAddresses:
    """Raises ConfigError that names the pattern."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns = tuple(pattern.strip() for pattern in patterns if pattern.strip())
        self._is_everybody = any(pattern in _EVERYBODY for pattern in self.patterns)
        self._ranges = [each for pattern in self.patterns if pattern not in _EVERYBODY for each in _parsed(pattern)]

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def matches(self, source: str) -> bool:
        """Whether `source`, which has no port, matches. Text that is not an address matches only the pattern for every
        address."""
        if self._is_everybody:
            return True
        numbers = _numbers_of(source)
        return numbers is not None and any(
            len(ranges) == len(numbers) and all(number in each for number, each in zip(numbers, ranges, strict=True))
            for ranges in self._ranges)


def _numbers_of(source: str) -> Sequence[int] | None:
    try:
        address: IPv4Address | IPv6Address = ip_address(source.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return [int(group, 16) for group in address.exploded.split(":")]
        address = address.ipv4_mapped
    return address.packed


def _parsed(pattern: str) -> list[Ranges]:
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise ConfigError(f"a white address has {len(pattern)} characters; {PATTERN_LENGTH_MAX} are the most")
    return [_ranges(pattern, each) for each in _spread(pattern)]


def _spread(pattern: str) -> list[str]:
    """The patterns with braces and commas expanded."""
    head, brace, tail = pattern.partition("{")
    if not brace:
        return [each.strip() for each in pattern.split(",") if each.strip()]
    if not tail.endswith("}") or "," in head:
        raise _fault(pattern, "braces must be at the end, around numbers with commas between them")
    return [head + each.strip() for each in tail[:-1].split(",")]


def _ranges(pattern: str, single: str) -> Ranges:
    if ":" in single:
        return _v6_ranges(pattern, single)
    parts = single.split(".")
    if len(parts) != 4:
        raise _fault(pattern, "an IPv4 address has four numbers")
    return _checked(pattern, [_range(pattern, part, 10, _V4_MAX) for part in parts])


def _v6_ranges(pattern: str, single: str) -> Ranges:
    head, double, tail = single.partition("::")
    front = [part for part in head.split(":") if part]
    back = [part for part in tail.split(":") if part]
    missing = 8 - len(front) - len(back)
    if (missing < 1 if double else missing) or "::" in tail:
        raise _fault(pattern, "an IPv6 address has eight groups, or :: once for those that are 0")
    parts = [*front, *["0"] * missing, *back]
    return _checked(pattern, [_range(pattern, part, 16, _V6_MAX) for part in parts])


def _range(pattern: str, part: str, base: int, highest: int) -> range:
    if part == "*":
        return range(highest + 1)
    first, dash, last = part.partition("-")
    try:
        start, end = int(first, base), int(last if dash else first, base)
    except ValueError:
        raise _fault(pattern, f"{part!r} is not a number, range or *") from None
    if not (first + last).isalnum() or not part.isascii() or not 0 <= start <= end <= highest:
        raise _fault(pattern, f"{part!r} is not from 0 to {highest:{'x' if base == 16 else 'd'}}, the smaller first")
    return range(start, end + 1)


def _checked(pattern: str, ranges: list[range]) -> Ranges:
    """Raises unless ranges come last: RocketMQ looks no further than the first, so a single number after it would have
    no effect."""
    first = next((place for place, each in enumerate(ranges) if len(each) > 1), len(ranges))
    highest = _V6_MAX if len(ranges) == 8 else _V4_MAX
    if first == 0 or any(len(each) != highest + 1 for each in ranges[first + 1:]):
        raise _fault(pattern, "a range or * must not be first, and only * may follow it")
    return tuple(ranges)


def _fault(pattern: str, mend: str) -> ConfigError:
    return ConfigError(f"white address {pattern!r} cannot be read: {mend}")
