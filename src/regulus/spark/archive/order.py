"""What the tasks of a stream's batch read, where an archive has all or some of it.

A batch that is done again must have the same tasks with the same rows in the same order. Meanwhile a job may archive
what brokers had, and compaction may put other files in the place of those that were read. So a task is a stretch of
offsets, and its rows come queue by queue in the order of offsets, whoever has them and in whatever files they lie.

A task reads pieces one after the other. Those of an archive are put in order in memory, so they are cut where they
become large, which changes no order.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from regulus.model.message_queue import MessageQueue
from regulus.spark.archive.plan import ArchiveRange, FilePart, Wanted
from regulus.spark.read_plan import Gap, ReadRange, UnitRange

PIECE_BYTES_MAX = 64 << 20
"""Bytes of the log that a piece of an archive has, as far as manifests tell it."""

Piece = ArchiveRange | ReadRange


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """What one task reads, from an archive and from brokers, one piece after the other."""

    pieces: tuple[Piece, ...]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for piece in self.pieces for gap in piece.gaps)


Task = HistoryRange | ArchiveRange | ReadRange


class _Stretch(NamedTuple):
    """What a file has of a queue."""

    unit: UnitRange
    file: FilePart

    def within(self, unit: UnitRange) -> UnitRange:
        return unit._replace(start=max(unit.start, self.unit.start), end=min(unit.end, self.unit.end))

    def steps(self, unit: UnitRange) -> Iterator[tuple[int, int]]:
        """What it has of a unit in steps of a piece at most: where each begins, and its bytes."""
        start, end = self.within(unit)[2:4]
        weight = self.file.weight * (end - start) // self.file.rows
        count = max(1, -(-weight // PIECE_BYTES_MAX))
        return ((start + (end - start) * number // count, weight // count) for number in range(count))


class OrderedFiles:
    """The files that have some of a batch, by what they have."""

    def __init__(self, files: Iterable[FilePart]) -> None:
        self._stretches: dict[MessageQueue, list[_Stretch]] = {}
        for file in files:
            for unit in file.units:
                self._stretches.setdefault(unit.queue, []).append(_Stretch(unit, file))
        for stretches in self._stretches.values():
            stretches.sort(key=lambda each: each.unit.start)

    def pieces(self, units: Sequence[UnitRange]) -> Iterator[ArchiveRange]:
        """The rows of `units` in their order, none left out that a file has."""
        for _, of_topic in groupby(units, key=lambda unit: (unit.broker_name, unit.topic)):
            for taken in self._cut(list(of_topic)):
                if files := self._files(taken):
                    yield ArchiveRange(tuple(files), by_queue=True)

    def _cut(self, units: Sequence[UnitRange]) -> Iterator[list[UnitRange]]:
        """The units, cut where a piece has enough."""
        taken: list[UnitRange] = []
        weight = 0
        for unit in units:
            start = unit.start
            for step, more in (each for stretch in self._of(unit) for each in stretch.steps(unit)):
                if weight and weight + more > PIECE_BYTES_MAX:
                    yield [*taken, unit._replace(start=start, end=step)] if start < step else taken
                    taken, weight, start = [], 0, max(start, step)
                weight += more
            taken.append(unit._replace(start=start))
        yield taken

    def _files(self, units: Iterable[UnitRange]) -> list[FilePart]:
        """Each file once, with the windows of all the units that it has some of."""
        windows: dict[str, FilePart] = {}
        for unit in units:
            for stretch in self._of(unit):
                found = windows.setdefault(stretch.file.path, replace(stretch.file, wanted=(), units=()))
                windows[stretch.file.path] = replace(
                    found, wanted=(*(found.wanted or ()), Wanted(unit.queue_id, unit.start, unit.end)),
                    units=(*found.units, stretch.within(unit)))
        return list(windows.values())

    def _of(self, unit: UnitRange) -> list[_Stretch]:
        return [each for each in self._stretches.get(unit.queue, ())
                if each.unit.start < unit.end and unit.start < each.unit.end]


def in_order(parts: Sequence[ReadRange], archived_to: Callable[[MessageQueue], int], files: OrderedFiles,
             alone: Collection[MessageQueue], gaps: Sequence[Gap]) -> list[Task]:
    """The tasks, each with what its part is in archive and brokers, the first with the gaps.

    `archived_to`: up to where the archive has a queue. Of queues that it has `alone`, brokers have nothing behind it.
    """
    tasks = [_task(part, archived_to, files, alone) for part in parts]
    if gaps and not tasks:
        return [ReadRange((), tuple(gaps))]
    if gaps:
        first = tasks[0].pieces if isinstance(tasks[0], HistoryRange) else (tasks[0],)
        tasks[0] = _joined([ReadRange((), tuple(gaps)), *first])
    return tasks


def _task(part: ReadRange, archived_to: Callable[[MessageQueue], int], files: OrderedFiles,
          alone: Collection[MessageQueue]) -> Task:
    halves = [half for unit in part.units for half in _halves(unit, archived_to(unit.queue), alone)]
    pieces: list[Piece] = []
    for is_archived, found in groupby(halves, key=lambda half: half.is_archived):
        units = [half.unit for half in found]
        pieces += files.pieces(units) if is_archived else [ReadRange(tuple(units))]
    return _joined(pieces)


class _Half(NamedTuple):
    is_archived: bool
    unit: UnitRange


def _halves(unit: UnitRange, behind: int, alone: Collection[MessageQueue]) -> Iterator[_Half]:
    """What of a unit the archive has, and what the brokers."""
    cut = min(max(behind, unit.start), unit.end)
    if unit.start < cut:
        yield _Half(True, unit._replace(end=cut))
    if cut < unit.end and unit.queue not in alone:
        yield _Half(False, unit._replace(start=cut))


def _joined(pieces: Sequence[Piece]) -> Task:
    return pieces[0] if len(pieces) == 1 else HistoryRange(tuple(pieces))
