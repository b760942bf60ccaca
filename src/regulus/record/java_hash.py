"""Java's `String.hashCode`, over which RocketMQ's tag codes and index slots are computed.

h = 31 * h + unit over the UTF-16 code units, wrapping at 32 bits, read as a signed number.

Source: String.hashCode, MessageExtBrokerInner.tagsString2tagsCode.
"""


def java_hash(text: str) -> int:
    """The signed 32-bit hash of `text`; a character beyond U+FFFF counts as its two surrogates."""
    value = 0
    for character in text:
        code = ord(character)
        if code > 0xFFFF:
            code -= 0x10000
            value = (value * 31 + (0xD800 + (code >> 10))) & 0xFFFFFFFF
            code = 0xDC00 + (code & 0x3FF)
        value = (value * 31 + code) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def tags_code(tags: str | None) -> int:
    """What a consume queue unit keeps of a message's tags: the hash of the whole text, 0 for none."""
    return java_hash(tags) if tags else 0
