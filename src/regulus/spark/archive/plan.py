"""Which rows of an archive a read takes, and how they are divided among tasks.

The manifests say all that is needed; no Parquet file is opened here. A message is found by its queue and queue offset,
or by its store time; a file that has none of the wanted ones is left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from regulus.model.message_queue import MessageQueue
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import ArchivedFile, Manifest, QueueFacts, Range
from regulus.spark.options import OnDataLoss, ReadOptions
from regulus.spark.read_plan import Gap, UnitRange, partition_count, task_bytes_max

FOREVER = 1 << 52
"""Beyond any offset, and any time in ms; in microseconds it still is a 64-bit number."""

_NOT_ARCHIVED = "as they left the log before they were archived"
_REJECTED = ("as the log had no good record of them when it was archived; what it had instead lies in the archive's "
             f"directory {archive_manifest.REJECTS}")


class QueueBounds(NamedTuple):
    """The archive has messages [first, behind) of a queue, as far as none was rejected.

    Of a queue whose topic was deleted and made anew these are the last ones, which begin in the range of the log that
    starts at `log_start`. `is_mixed`: in the middle of it, so that its rows there cannot be told from the others.
    `time_last`: when the last one stored of them was, in ms.
    `epoch`: of its topic, the start of the range with the first message of any queue after it was made anew; 0 when it
    never was. `is_past`: this queue had none since, so what it has is of the topic before.
    """

    first: int
    behind: int
    log_start: int = 0
    is_mixed: bool = False
    time_last: int = 0
    epoch: int = 0
    is_past: bool = False


class Wanted(NamedTuple):
    """Rows of one queue: offsets [start, end), store times [time_start, time_end) in ms, and only such as lie in ranges
    of the log from `log_start` on."""

    queue_id: int
    start: int
    end: int
    time_start: int = -FOREVER
    time_end: int = FOREVER
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class FilePart:
    """Share number `share` of `shares` of a file's row groups, and of their rows those of `wanted`; None for all.

    `units`: which messages the wanted rows are, as far as the manifest says.
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
    """What one task reads. It reports `gaps`, which were found while planning.

    `by_queue`: of one topic and broker, and its rows come queue by queue in the order of offsets, whatever file has
    them; else file by file.
    """

    parts: tuple[FilePart, ...]
    gaps: tuple[Gap, ...] = ()
    by_queue: bool = False


def tasks(parts: Sequence[FilePart], gaps: Sequence[Gap], options: ReadOptions,
          cores: int | None) -> list[ArchiveRange]:
    """What each task reads: tasks of about equal weight, the first with the gaps."""
    found = _divide(parts, options, cores)
    if gaps:
        found[:1] = [ArchiveRange(found[0].parts if found else (), tuple(gaps))]
    return found


def parts(archive: Path, manifests: Iterable[Manifest], wanted: Mapping[MessageQueue, Wanted]) -> Iterator[FilePart]:
    """The files with wanted rows, in the order of the log."""
    for manifest in manifests:
        for file in manifest.files:
            part = _part(archive, manifest.range, file, wanted)
            if part is not None:
                yield part


def lost(manifests: Iterable[Manifest], wanted: Mapping[MessageQueue, Wanted]) -> Iterator[Gap]:
    """Which of the wanted rows are missing though later ones are there: they were damaged, or left the log before.

    An offset that is not a step forward is not a gap: there the topic was deleted and made anew.
    """
    passed: dict[MessageQueue, _Passed] = {}
    joined_since = before = Range("", 0, 0)
    for manifest in manifests:
        if before.broker_name != manifest.range.broker_name or before.end != manifest.range.start:
            joined_since = manifest.range
        before = manifest.range
        for (topic, queue_id), stretches in manifest.queues.items():
            queue = MessageQueue(topic, manifest.range.broker_name, queue_id)
            last = passed.get(queue)
            passed[queue] = _Passed(stretches[-1][1], manifest)
            window = wanted.get(queue)
            if window is None or manifest.range.start < window.log_start:
                continue
            for first, behind in stretches:
                if last is not None and _misses(window, queue, last, _Passed(first, manifest)):
                    cause = _REJECTED if last.manifest.range.start >= joined_since.start else _NOT_ARCHIVED
                    yield Gap(queue, max(last.offset, window.start), min(first, window.end), cause)
                last = _Passed(behind, manifest)


def bounds(manifests: Iterable[Manifest]) -> dict[MessageQueue, QueueBounds]:
    """What the archive has of each queue."""
    found: dict[MessageQueue, QueueBounds] = {}
    epochs: dict[tuple[str, str], int] = {}
    for manifest in manifests:
        for (topic, queue_id), stretches in manifest.queues.items():
            queue = MessageQueue(topic, manifest.range.broker_name, queue_id)
            for number, (first, behind) in enumerate(stretches):
                known = found.get(queue)
                if known is None:
                    found[queue] = QueueBounds(first, behind, epoch=epochs.get((topic, queue.broker_name), 0))
                elif first < known.behind:
                    if known.epoch == epochs.get((topic, queue.broker_name), 0):
                        # The queue was in the topic that was the last so far; those behind it are of one after that.
                        epochs[topic, queue.broker_name] = manifest.range.start
                    found[queue] = QueueBounds(first, behind, manifest.range.start, number > 0, 0,
                                               epochs[topic, queue.broker_name])
                else:
                    found[queue] = known._replace(behind=behind)
        for file in manifest.files:
            for queue_id, facts in file.queues.items():
                queue = MessageQueue(file.topic, manifest.range.broker_name, queue_id)
                found[queue] = found[queue]._replace(time_last=max(found[queue].time_last, facts.time_last))
    return {queue: each if each.epoch == (epoch := epochs.get((queue.topic, queue.broker_name), 0))
            else each._replace(epoch=epoch, is_past=True) for queue, each in found.items()}


def ends(archive_path: str) -> dict[MessageQueue, int]:
    """For each queue in the archive the offset behind its last row. Raises OptionError when there is no archive."""
    manifests = archive_manifest.load(archive_manifest.place(archive_path))
    return {queue: each.behind for queue, each in bounds(manifests).items()}


# --- what is missing -------------------------------------------------------------------------------------------------


class _Passed(NamedTuple):
    """A queue was followed up to an offset, which lies in the range of the manifest or right behind it."""

    offset: int
    manifest: Manifest


def _misses(window: Wanted, queue: MessageQueue, last: _Passed, then: _Passed) -> bool:
    """Whether what lies between two offsets may have been wanted. Of its time it is only known between which two it
    lies."""
    if not (last.offset < then.offset and window.start < then.offset and last.offset < window.end):
        return False
    earliest = min((facts.time_first for facts in _facts_of(last.manifest, queue)), default=-FOREVER)
    latest = max((facts.time_last for facts in _facts_of(then.manifest, queue)), default=FOREVER)
    return window.time_start <= latest and earliest < window.time_end


def _facts_of(manifest: Manifest, queue: MessageQueue) -> Iterator[QueueFacts]:
    return (file.queues[queue.queue_id] for file in manifest.files
            if file.topic == queue.topic and queue.queue_id in file.queues)


# --- which rows ------------------------------------------------------------------------------------------------------


def _part(archive: Path, log_range: Range, file: ArchivedFile,
          windows: Mapping[MessageQueue, Wanted]) -> FilePart | None:
    """What to read of a file; None for nothing."""
    wanted = []
    units = []
    is_whole = True
    rows = 0
    for queue_id, facts in file.queues.items():
        window = windows.get(MessageQueue(file.topic, log_range.broker_name, queue_id))
        if window is None or log_range.start < window.log_start or not _meets(window, facts):
            is_whole = False
            continue
        is_whole = is_whole and _covers(window, facts)
        wanted.append(window)
        unit = UnitRange(file.topic, queue_id, max(window.start, facts.first), min(window.end, facts.next),
                         log_range.broker_name)
        units.append(unit)
        rows += min(facts.rows, unit.end - unit.start)
    if not wanted or not rows:
        return None
    weight = max(1, file.log_bytes * rows // file.rows)
    return FilePart(str(archive / file.path), None if is_whole else tuple(wanted), rows, weight, units=tuple(units))


def _meets(window: Wanted, facts: QueueFacts) -> bool:
    return (window.start < facts.next and facts.first < window.end
            and window.time_start <= facts.time_last and facts.time_first < window.time_end)


def _covers(window: Wanted, facts: QueueFacts) -> bool:
    return (window.start <= facts.first and facts.next <= window.end
            and window.time_start <= facts.time_first and facts.time_last < window.time_end)


# --- who reads them --------------------------------------------------------------------------------------------------


def _divide(parts: Sequence[FilePart], options: ReadOptions, cores: int | None) -> list[ArchiveRange]:
    """A file that is more than one task's share is cut between its row groups.

    Where what is gone is reported, it is not: one that was removed is told of once, by the one task that has it.
    """
    if not parts:
        return []
    total = sum(part.weight for part in parts)
    rows = sum(part.rows for part in parts)
    least = max(options.partitions_min or 1, -(-rows // options.partition_records_max))
    count = partition_count(total, task_bytes_max(options, cores), least, cores or 1)
    share = max(1, -(-total // count))
    is_cut = options.on_data_loss is not OnDataLoss.REPORT
    pieces = [piece for part in parts for piece in _cut(part, -(-part.weight // share) if is_cut else 1)]
    tasks: list[list[FilePart]] = [[] for _ in range(count)]
    passed = 0
    for piece in pieces:
        tasks[min(count - 1, (passed + piece.weight // 2) // share)].append(piece)
        passed += piece.weight
    return [ArchiveRange(tuple(task)) for task in tasks if task]


def _cut(part: FilePart, count: int) -> list[FilePart]:
    return [replace(part, weight=max(1, part.weight // count), rows=max(1, part.rows // count), share=number,
                    shares=count) for number in range(count)]
