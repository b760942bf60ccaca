"""Which rows of an archive a read takes, and how they are divided among tasks.

The manifests say all that is needed; no Parquet file is opened here. A message is found by its queue and queue offset,
or by its store time; a file that has none of the wanted ones is left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from regulus.model.message_queue import MessageQueue
from regulus.spark import archive_manifest
from regulus.spark.archive_manifest import ArchivedFile, Manifest, QueueFacts, Range
from regulus.spark.options import ReadOptions
from regulus.spark.read_plan import Gap, partition_count

FOREVER = 1 << 52
"""Beyond any offset, and any time in ms; in microseconds it still is a 64-bit number."""


class QueueBounds(NamedTuple):
    """The archive has messages [first, behind) of a queue, as far as none was rejected.

    Of a topic that was deleted and made anew this is the last one of its name, which begins in the range of the log
    that starts at `log_start`. `is_mixed`: in the middle of it, so that its rows there cannot be told from the others.
    """

    first: int
    behind: int
    log_start: int = 0
    is_mixed: bool = False


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
    """Of the row groups of a file the share number `share` of `shares`; of its rows those of `wanted`, None for all."""

    path: str
    wanted: tuple[Wanted, ...] | None
    rows: int
    weight: int
    share: int = 0
    shares: int = 1


@dataclass(frozen=True, slots=True)
class ArchiveRange:
    """What one task reads. It tells of `gaps`, which were found while planning."""

    parts: tuple[FilePart, ...]
    gaps: tuple[Gap, ...] = ()


def tasks(parts: Sequence[FilePart], gaps: Sequence[Gap], options: ReadOptions, cores: int) -> list[ArchiveRange]:
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
    """What of the wanted rows lies in parts of the log that went before they were archived."""
    behind: dict[MessageQueue, int] = {}
    before = Range("", 0, 0)
    for manifest in manifests:
        broker_name = manifest.range.broker_name
        joins = before.broker_name != broker_name or before.end == manifest.range.start
        before = manifest.range
        for (topic, queue_id), stretches in manifest.queues.items():
            queue = MessageQueue(topic, broker_name, queue_id)
            last, first = behind.get(queue), stretches[0][0]
            behind[queue] = stretches[-1][1]
            window = wanted.get(queue)
            if joins or window is None or last is None or last >= first:
                continue
            if window.start < first and last < window.end:
                yield Gap(queue, last, first, "as they left the log before they were archived")


def bounds(manifests: Iterable[Manifest]) -> dict[MessageQueue, QueueBounds]:
    """What the archive has of each queue."""
    found: dict[MessageQueue, QueueBounds] = {}
    for manifest in manifests:
        for (topic, queue_id), stretches in manifest.queues.items():
            queue = MessageQueue(topic, manifest.range.broker_name, queue_id)
            for number, (first, behind) in enumerate(stretches):
                known = found.get(queue)
                if known is None:
                    found[queue] = QueueBounds(first, behind)
                elif first < known.behind:
                    found[queue] = QueueBounds(first, behind, manifest.range.start, is_mixed=number > 0)
                else:
                    found[queue] = known._replace(behind=behind)
    return found


def ends(archive_path: str) -> dict[MessageQueue, int]:
    """For each queue in the archive the offset behind its last row. Raises OptionError when there is no archive."""
    return {queue: each.behind for queue, each in bounds(archive_manifest.load(Path(archive_path))).items()}


# --- which rows ------------------------------------------------------------------------------------------------------


def _part(archive: Path, log_range: Range, file: ArchivedFile,
          windows: Mapping[MessageQueue, Wanted]) -> FilePart | None:
    """What to read of a file; None for nothing."""
    wanted = []
    is_whole = True
    rows = 0
    for queue_id, facts in file.queues.items():
        window = windows.get(MessageQueue(file.topic, log_range.broker_name, queue_id))
        if window is None or log_range.start < window.log_start or not _meets(window, facts):
            is_whole = False
            continue
        is_whole = is_whole and _covers(window, facts)
        wanted.append(window)
        rows += min(facts.rows, max(0, min(window.end, facts.next) - max(window.start, facts.first)))
    if not wanted or not rows:
        return None
    weight = max(1, file.log_bytes * rows // file.rows)
    return FilePart(str(archive / file.path), None if is_whole else tuple(wanted), rows, weight)


def _meets(window: Wanted, facts: QueueFacts) -> bool:
    return (window.start < facts.next and facts.first < window.end
            and window.time_start <= facts.time_last and facts.time_first < window.time_end)


def _covers(window: Wanted, facts: QueueFacts) -> bool:
    return (window.start <= facts.first and facts.next <= window.end
            and window.time_start <= facts.time_first and facts.time_last < window.time_end)


# --- who reads them --------------------------------------------------------------------------------------------------


def _divide(parts: Sequence[FilePart], options: ReadOptions, cores: int) -> list[ArchiveRange]:
    """A file that is more than one task's share is cut between its row groups."""
    if not parts:
        return []
    total = sum(part.weight for part in parts)
    rows = sum(part.rows for part in parts)
    least = max(options.partitions_min or 1, -(-rows // options.partition_records_max))
    count = partition_count(total, options.partition_bytes_max, least, cores)
    share = max(1, -(-total // count))
    pieces = [piece for part in parts for piece in _cut(part, -(-part.weight // share))]
    tasks: list[list[FilePart]] = [[] for _ in range(count)]
    passed = 0
    for piece in pieces:
        tasks[min(count - 1, (passed + piece.weight // 2) // share)].append(piece)
        passed += piece.weight
    return [ArchiveRange(tuple(task)) for task in tasks if task]


def _cut(part: FilePart, count: int) -> list[FilePart]:
    return [replace(part, weight=max(1, part.weight // count), rows=max(1, part.rows // count), share=number,
                    shares=count) for number in range(count)]
