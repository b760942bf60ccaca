"""Java's `String.hashCode`, from which RocketMQ computes tag codes and index slots.

h = 31 * h + unit over the UTF-16 code units, wrapping at 32 bits, read as a signed number.

Source: String.hashCode, MessageExtBrokerInner.tagsString2tagsCode.
"""

from collections.abc import Iterable

_MASK = 0xFFFFFFFF
_POSITIVE_MAX = 0x7FFFFFFF
_BUCKETS = 128


def java_hash(text: str) -> int:
    """The signed 32-bit hash of `text`; a character beyond U+FFFF counts as its two surrogates."""
    value = 0
    for character in text:
        code = ord(character)
        if code > 0xFFFF:
            code -= 0x10000
            value = (value * 31 + (0xD800 + (code >> 10))) & _MASK
            code = 0xDC00 + (code & 0x3FF)
        value = (value * 31 + code) & _MASK
    return value - _MASK - 1 if value > _POSITIVE_MAX else value


def java_hash_of(text: bytes | bytearray, start: int, end: int) -> int:
    """The hash of the ASCII characters text[start:end]."""
    value = hash_on(0, text, start, end)
    return value - _MASK - 1 if value > _POSITIVE_MAX else value


def hash_on(value: int, text: bytes | bytearray, start: int, end: int) -> int:
    """Continue a hash from `value`, 0 at the beginning, over the ASCII characters text[start:end]; the result is
    unsigned."""
    for position in range(start, end):
        value = (value * 31 + text[position]) & _MASK
    return value


def in_map_order(names: Iterable[str]) -> list[str]:
    """The names in the order of Java's HashMap with 128 buckets, when they are inserted in the given order.

    Source: HashMap.hash, MessageDecoder.string2messageProperties. Not valid for more than 8 names in one bucket, which
    Java turns into a tree.
    """
    put = list(names)
    buckets = _BUCKETS
    while len(put) > buckets * 3 // 4:
        buckets *= 2
    return sorted(put, key=lambda name: _spread(java_hash(name)) & (buckets - 1))


def _spread(value: int) -> int:
    value &= _MASK
    return value ^ value >> 16


def tags_code(tags: str | None) -> int:
    """The tags code in a consume queue unit: the hash of the whole text, 0 for no tags."""
    return java_hash(tags) if tags else 0
