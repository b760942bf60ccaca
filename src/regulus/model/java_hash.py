"""Java's `String.hashCode`, over which RocketMQ's tag codes and index slots are computed.

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
    """Go on from `value`, 0 to begin with, over the ASCII characters text[start:end]; the hash without a sign."""
    for position in range(start, end):
        value = (value * 31 + text[position]) & _MASK
    return value


def in_map_order(names: Iterable[str]) -> list[str]:
    """These names in the order in which Java's HashMap, made for 128, gives those that were put into it in this order.

    Source: HashMap.hash, MessageDecoder.string2messageProperties. Not for more than 8 in one bucket, of which Java
    makes a tree."""
    put = list(names)
    buckets = _BUCKETS
    while len(put) > buckets * 3 // 4:
        buckets *= 2
    return sorted(put, key=lambda name: _spread(java_hash(name)) & (buckets - 1))


def _spread(value: int) -> int:
    value &= _MASK
    return value ^ value >> 16


def tags_code(tags: str | None) -> int:
    """What a consume queue unit keeps of a message's tags: the hash of the whole text, 0 for none."""
    return java_hash(tags) if tags else 0
