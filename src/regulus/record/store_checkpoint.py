"""The checkpoint file: 4096 bytes of which the first 40 are used, big-endian.

    offset  size  field
         0     8  physic_msg_timestamp    store time of the last flushed message of the commit log
         8     8  logics_msg_timestamp    store time of the last consume queue unit built
        16     8  index_msg_timestamp     end time of the last full index file that was flushed
        24     8  master_flushed_offset   since 5.0, zero before
        32     8  confirm_phy_offset      since 5.0, zero before

Source: StoreCheckpoint.
"""

from struct import Struct
from typing import NamedTuple

from regulus.errors import TruncatedRecord

CHECKPOINT_SIZE = 4096
SAFETY_MARGIN_MS = 3000
"""Recovery assumes that everything this much older than the checkpoint is on disk."""

_LAYOUT = Struct(">qqqqq")


class StoreCheckpoint(NamedTuple):
    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0

    @property
    def min_timestamp(self) -> int:
        """Messages stored up to this time have their consume queue units on disk."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - SAFETY_MARGIN_MS)


def encode(checkpoint: StoreCheckpoint) -> bytes:
    """The whole file, with zeros after the fields."""
    return _LAYOUT.pack(*checkpoint).ljust(CHECKPOINT_SIZE, b"\0")


def decode(data: bytes | memoryview) -> StoreCheckpoint:
    """Raises TruncatedRecord when there are fewer than 40 bytes."""
    if len(data) < _LAYOUT.size:
        raise TruncatedRecord("checkpoint cut short", 0)
    return StoreCheckpoint._make(_LAYOUT.unpack_from(data))
