"""One batch consume queue unit: 46 bytes, big-endian.

    offset  size  field
         0     8  physical_offset   where the record starts in the commit log
         8     4  size              bytes of the whole record
        12     8  tags_code         Java hash of the record's own tags, sign-extended; an inner batch mostly has none
        20     8  store_timestamp
        28     8  queue_offset      of the first message in the record
        36     2  message_count     messages in the record; 1 if it is not an inner batch
        38     4  compacted_offset  -1
        42     4  reserved          0

Source: BatchConsumeQueue.CQ_STORE_UNIT_SIZE.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

UNIT_SIZE = 46
COUNT_MAX = 0x7FFF
"""The largest number of messages in one record."""
FILLER_SIZE = 1
"""The size in a unit that has no record: no record is this short. Its message is the last one before a queue continues
after lost records; its physical position is after the last record that is not lost."""

_LAYOUT = Struct(">qiqqqhii")
_NOT_COMPACTED = -1


class BatchUnit(NamedTuple):
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    queue_offset: int
    message_count: int

    @property
    def is_valid(self) -> bool:
        """Whether recovery continues past this unit; zeros are not a unit."""
        return self.physical_offset >= 0 and self.size > 0 and self.queue_offset >= 0 and self.message_count > 0

    @property
    def is_filler(self) -> bool:
        return self.size == FILLER_SIZE

    @property
    def physical_end(self) -> int:
        """The position after the record; for a filler, after the record before it."""
        return self.physical_offset + (0 if self.is_filler else self.size)

    @property
    def next_offset(self) -> int:
        """The queue offset of the message after those in the record."""
        return self.queue_offset + self.message_count


def encode(unit: BatchUnit) -> bytes:
    return _LAYOUT.pack(*unit, _NOT_COMPACTED, 0)


def decode_all(data: bytes | memoryview) -> Iterator[BatchUnit]:
    """The units in `data`, which must hold whole units only."""
    return (BatchUnit._make(fields[:6]) for fields in _LAYOUT.iter_unpack(data))
