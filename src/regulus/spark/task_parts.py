"""The parts that one task reads: a range of a store's log or of brokers, files of an archive, or both."""

from dataclasses import dataclass
from typing import NamedTuple

from regulus.spark.read_plan import Gap, ReadRange, UnitRange

FOREVER = 1 << 52
"""A value beyond any offset, and any time in ms; as a time in microseconds it is still a 64-bit number."""


class Wanted(NamedTuple):
    """Wanted rows of one queue: offsets [start, end), store times [time_start, time_end) in ms, and only in ranges of
    the log from `log_start` on."""

    queue_id: int
    start: int
    end: int
    time_start: int = -FOREVER
    time_end: int = FOREVER
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class FilePart:
    """Share number `share` of `shares` of a file's row groups; of their rows those in `wanted`, or all if it is None.

    `units`: the messages that the wanted rows are, as far as the manifest shows it.
    """

    path: str
    wanted: tuple[Wanted, ...] | None
    rows: int
    weight: int
    share: int = 0
    shares: int = 1
    units: tuple[UnitRange, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveRange:
    """What one task reads of an archive. It also reports `gaps`, which planning has found.

    `by_queue`: the files are of one topic and broker, and rows come queue by queue in the order of offsets, no matter
    which file has them; else rows come file by file.
    """

    parts: tuple[FilePart, ...]
    gaps: tuple[Gap, ...] = ()
    by_queue: bool = False


Piece = ArchiveRange | ReadRange


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """What one task reads of an archive and of brokers, one piece after the other."""

    pieces: tuple[Piece, ...]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for piece in self.pieces for gap in piece.gaps)


Part = ReadRange | ArchiveRange | HistoryRange
"""What one task reads."""
