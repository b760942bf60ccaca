"""The bits of a name in RocketMQ's Bloom filter: messages may be stored with such a bit map.

    k = ceil(log2(100 / error_rate))            bits of one name
    m = ceil(n * log2(100 / error_rate) * log2(e)), then up to a multiple of 8      bits of the map, for n names

The name's bits come from the two halves of the first 64 bits of its MurmurHash3 (x64, 128 bits, seed 0).

Source: BloomFilter.calcBitPositions, Hashing.murmur3_128.
"""

import math
from typing import NamedTuple

_MASK = 0xFFFFFFFFFFFFFFFF
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_BLOCK = 16


class BloomPositions(NamedTuple):
    bit_pos: tuple[int, ...]
    bit_num: int


def bloom_positions(name: str, names_expected: int, error_percent: int) -> BloomPositions:
    """The bits of a name. `names_expected` is 1 or more, `error_percent` 1 to 99."""
    rate = error_percent / 100.0
    count = math.ceil(math.log(rate) / math.log(0.5))
    bits = math.ceil(names_expected * (math.log(1 / rate) / math.log(2)) * (1 / math.log(2)))
    bits = 8 * math.ceil(bits / 8)
    hash_ = murmur3_64(name.encode("utf-8", "replace"))
    first, second = hash_ & 0xFFFFFFFF, hash_ >> 32
    return BloomPositions(tuple(_positive(first + number * second) % bits for number in range(1, count + 1)), bits)


def _positive(number: int) -> int:
    """The number as Java's int; all bits of a negative one are flipped."""
    number &= 0xFFFFFFFF
    return number if number < 0x80000000 else number ^ 0xFFFFFFFF


def murmur3_64(data: bytes) -> int:
    """The first 64 bits of the 128, the lowest byte first."""
    first = second = 0
    whole = len(data) - len(data) % _BLOCK
    for position in range(0, whole, _BLOCK):
        first ^= _mix_first(int.from_bytes(data[position:position + 8], "little"))
        first = (_rotate(first, 27) + second) * 5 + 0x52DCE729 & _MASK
        second ^= _mix_second(int.from_bytes(data[position + 8:position + _BLOCK], "little"))
        second = (_rotate(second, 31) + first) * 5 + 0x38495AB5 & _MASK
    second ^= _mix_second(int.from_bytes(data[whole + 8:], "little"))
    first ^= _mix_first(int.from_bytes(data[whole:whole + 8], "little"))
    first ^= len(data)
    second ^= len(data)
    first = first + second & _MASK
    second = second + first & _MASK
    return _finish(first) + _finish(second) & _MASK


def _mix_first(number: int) -> int:
    return _rotate(number * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_second(number: int) -> int:
    return _rotate(number * _C2 & _MASK, 33) * _C1 & _MASK


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _MASK


def _finish(number: int) -> int:
    number ^= number >> 33
    number = number * 0xFF51AFD7ED558CCD & _MASK
    number ^= number >> 33
    number = number * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33
