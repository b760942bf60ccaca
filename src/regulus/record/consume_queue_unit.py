"""One consume queue unit: 20 bytes, big-endian.

    offset  size  field
         0     8  physical_offset   where the record starts in the commit log
         8     4  size              bytes of the whole record
        12     8  tags_code         Java hash of the tags, sign-extended; the delivery time in ms for a delayed message

A queue whose first unit is not number 0 is filled up to it with FILLER units.

Source: ConsumeQueue.CQ_STORE_UNIT_SIZE, ConsumeQueue.fillPreBlank.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, cast

from regulus.errors import TruncatedRecord
from regulus.record import big_endian

UNIT_SIZE = 20
_LAYOUT = Struct(">qiq")


class ConsumeQueueUnit(NamedTuple):
    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_valid(self) -> bool:
        """Whether recovery continues past this unit; a filler is valid, zeros are not."""
        return self.physical_offset >= 0 and self.size > 0


FILLER = ConsumeQueueUnit(0, 0x7FFFFFFF, 0)


def encode(unit: ConsumeQueueUnit) -> bytes:
    return _LAYOUT.pack(unit.physical_offset, unit.size, unit.tags_code)


def encode_into(cells: memoryview, position: int, physical_offset: int, size: int, tags_code: int) -> None:
    """Write one unit at `position`. Byte by byte, which in compiled form is the fastest way."""
    big_endian.put8(cells, position, physical_offset)
    big_endian.put4(cells, position + 8, size)
    big_endian.put8(cells, position + 12, tags_code)


def decode(data: bytes | memoryview, position: int = 0) -> ConsumeQueueUnit:
    """Raises TruncatedRecord when fewer than 20 bytes remain."""
    if len(data) - position < UNIT_SIZE:
        raise TruncatedRecord("consume queue unit cut short", position)
    return ConsumeQueueUnit._make(_LAYOUT.unpack_from(data, position))


def unpack_all(data: bytes | memoryview) -> Iterator[tuple[int, int, int]]:
    """Like `decode_all`, but yields tuples (physical_offset, size, tags_code), for loops over many units; whole units
    only."""
    return cast(Iterator[tuple[int, int, int]], _LAYOUT.iter_unpack(data))


def decode_all(data: bytes | memoryview) -> Iterator[ConsumeQueueUnit]:
    """The units in `data`, which must hold whole units only. Raises TruncatedRecord when it ends within a unit."""
    if len(data) % UNIT_SIZE:
        raise TruncatedRecord("consume queue unit cut short", len(data) - len(data) % UNIT_SIZE)
    return map(ConsumeQueueUnit._make, _LAYOUT.iter_unpack(data))
