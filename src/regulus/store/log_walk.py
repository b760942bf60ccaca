"""Count the whole consecutive records in a piece of the log, by their heads alone.

Source: see record.layout.
"""

from struct import Struct

from regulus.record.layout import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PHYSICAL_OFFSET

WALK_COUNT_MAX = 8192
"""The maximum number of records in one walk, which runs on the thread that appends."""

_HEAD = Struct(">iI")
_PLACE = Struct(">q")
_MAGICS = frozenset({MAGIC_V1 & 0xFFFFFFFF, MAGIC_V2 & 0xFFFFFFFF})
_BLANK = MAGIC_BLANK & 0xFFFFFFFF


def whole_records(file: memoryview, position: int, size_max: int, physical_offset: int) -> tuple[int, bool]:
    """The position in `file` after the whole records from `position` on, and whether a blank follows.

    The first record counts whatever its size, the others within `size_max` bytes. If no record begins at `position`, or
    one that does not state `physical_offset` as its position, the result is `position` itself.
    """
    end = position
    for _ in range(WALK_COUNT_MAX):
        if end + _HEAD.size > len(file):
            break
        size, magic = _HEAD.unpack_from(file, end)
        if magic == _BLANK:
            return end, True
        behind = end + size
        if magic not in _MAGICS or size <= PHYSICAL_OFFSET + _PLACE.size or behind > len(file):
            break
        if end == position:
            if _PLACE.unpack_from(file, end + PHYSICAL_OFFSET)[0] != physical_offset:
                break
        elif behind - position > size_max:
            break
        end = behind
    return end, False
