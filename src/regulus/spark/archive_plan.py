"""Which rows of an archive a read takes, and how they are divided among tasks.

The manifests say all that is needed; no Parquet file is opened here. A message is found by its queue and queue offset,
or by its store time; a file that has none of the wanted ones is left out.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark import archive_manifest
from regulus.spark import offsets as queue_offsets
from regulus.spark.archive_manifest import ArchivedFile, Manifest, QueueFacts, Range
from regulus.spark.offsets import QueueOffsets
from regulus.spark.options import NoMatch, ReadOptions
from regulus.spark.read_plan import Gap, partition_count
from regulus.spark.selection import queue_text

_FOREVER = 1 << 52
"""Beyond any offset, and any time in ms; in microseconds it still is a 64-bit number."""


class Wanted(NamedTuple):
    """Rows of one queue: offsets [start, end), store times [time_start, time_end) in ms."""

    queue_id: int
    start: int
    end: int
    time_start: int
    time_end: int


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
    """What one task reads."""

    parts: tuple[FilePart, ...]


def plan(options: ReadOptions, cores: int) -> list[ArchiveRange]:
    """What each task reads. Raises OptionError or DataLoss."""
    archive = Path(options.archive_path)
    manifests = archive_manifest.load(archive)
    windows = _windows(options, manifests)
    _check_gaps(options, manifests, windows)
    return tasks(archive, manifests, windows, options, cores)


def tasks(archive: Path, manifests: Sequence[Manifest], windows: Mapping[MessageQueue, Wanted], options: ReadOptions,
          cores: int) -> list[ArchiveRange]:
    """What each task reads, of the wanted rows."""
    parts = [part for manifest in manifests for file in manifest.files
             if (part := _part(archive, manifest.range.broker_name, file, windows)) is not None]
    return _divide(parts, options, cores)


def never_archived(manifests: Sequence[Manifest], queues: Container[MessageQueue]) -> Iterator[Gap]:
    """What of the queues lies in parts of the log that went before they were archived."""
    behind: dict[MessageQueue, int] = {}
    before = Range("", 0, 0)
    for manifest in manifests:
        broker_name = manifest.range.broker_name
        joins = before.broker_name != broker_name or before.end == manifest.range.start
        before = manifest.range
        for (topic, queue_id), stretches in manifest.queues.items():
            queue = MessageQueue(topic, broker_name, queue_id)
            last, first = behind.get(queue), stretches[0][0]
            if not joins and last is not None and queue in queues and last < first:
                yield Gap(queue, last, first, "they left the log before they were archived")
            behind[queue] = stretches[-1][1]


def bounds(manifests: Iterable[Manifest]) -> dict[MessageQueue, tuple[int, int]]:
    """For each queue in the archive the first offset, and the one behind the last: where a live tail goes on.

    Of a topic that was deleted and made anew, what lies behind the last restart.
    """
    found: dict[MessageQueue, tuple[int, int]] = {}
    for manifest in manifests:
        for (topic, queue_id), stretches in manifest.queues.items():
            queue = MessageQueue(topic, manifest.range.broker_name, queue_id)
            for first, behind in stretches:
                known = found.get(queue)
                found[queue] = (first if known is None or first < known[1] else known[0], behind)
    return found


def ends(archive_path: str) -> dict[MessageQueue, int]:
    """For each queue in the archive the offset behind its last row. Raises OptionError when there is no archive."""
    return {queue: end for queue, (_, end) in bounds(archive_manifest.load(Path(archive_path))).items()}


# --- which rows ------------------------------------------------------------------------------------------------------


def _windows(options: ReadOptions, manifests: Sequence[Manifest]) -> dict[MessageQueue, Wanted]:
    """For each queue that is read the offsets and times; a time beats an offset."""
    there = bounds(manifests)
    chosen = set(options.selection.topics_of({queue.topic for queue in there}, "the archive"))
    queues = options.selection.queues_of((queue for queue in there if queue.topic in chosen), "the archive")
    times = _last_times(manifests)
    starting_times = _per_queue(options.starting_times, queues, "startingOffsetsByTimestamp")
    ending_times = _per_queue(options.ending_times, queues, "endingOffsetsByTimestamp")
    starts = _offsets(options.starting_offsets, queues, "startingOffsets",
                      options.starting_timestamp is not None or bool(starting_times), queue_offsets.EARLIEST)
    ends_ = _offsets(options.ending_offsets, queues, "endingOffsets",
                     options.ending_timestamp is not None or bool(ending_times), queue_offsets.LATEST)
    windows = {}
    for queue in queues:
        low, high = there[queue]
        time_start = starting_times.get(queue, options.starting_timestamp)
        time_end = ending_times.get(queue, options.ending_timestamp)
        if time_start is not None and options.no_match is NoMatch.ERROR and times[queue] < time_start:
            raise OptionError(f"{queue_text(queue)} has no message stored at {time_start} ms or later in the archive; "
                              "set startingOffsetsByTimestampStrategy to latest to read none of it")
        start, end = 0, _FOREVER
        wanted_start = starts if isinstance(starts, int) else starts[queue]
        wanted_end = ends_ if isinstance(ends_, int) else ends_[queue]
        if time_start is None and wanted_start != queue_offsets.EARLIEST:
            start = queue_offsets.resolve_start(wanted_start, low, high, queue, options.fail_on_data_loss)
        if time_end is None and wanted_end != queue_offsets.LATEST:
            end = queue_offsets.resolve_end(wanted_end, low, high, queue, options.fail_on_data_loss)
        windows[queue] = Wanted(queue.queue_id, start, end, -_FOREVER if time_start is None else time_start,
                                _FOREVER if time_end is None else time_end)
    return windows


def _per_queue(given: QueueOffsets | None, queues: Sequence[MessageQueue], option: str) -> QueueOffsets:
    if given is None:
        return {}
    placed = queue_offsets.at_brokers(given, queues, option)
    queue_offsets.check_queues(placed, queues, option)
    return placed


def _offsets(given: QueueOffsets | int, queues: Sequence[MessageQueue], option: str, is_beaten: bool,
             default: int) -> QueueOffsets | int:
    """`default` where a time beats the offsets."""
    if is_beaten:
        return default
    return given if isinstance(given, int) else _per_queue(given, queues, option)


def _last_times(manifests: Iterable[Manifest]) -> dict[MessageQueue, int]:
    times: dict[MessageQueue, int] = {}
    for manifest in manifests:
        for file in manifest.files:
            for queue_id, facts in file.queues.items():
                queue = MessageQueue(file.topic, manifest.range.broker_name, queue_id)
                times[queue] = max(times.get(queue, -_FOREVER), facts.time_last)
    return times


def _check_gaps(options: ReadOptions, manifests: Sequence[Manifest], windows: dict[MessageQueue, Wanted]) -> None:
    """Raises DataLoss where a wanted queue has messages in a part of the log that went before it was archived."""
    if not options.fail_on_data_loss:
        return
    for gap in never_archived(manifests, windows):
        window = windows[gap.queue]
        if window.start < gap.end and window.end > gap.start:
            raise DataLoss(f"{queue_text(gap.queue)}: messages {gap.start} to {gap.end - 1} left the log before they "
                           "were archived; set failOnDataLoss to false to go on without them")


def _part(archive: Path, broker_name: str, file: ArchivedFile,
          windows: Mapping[MessageQueue, Wanted]) -> FilePart | None:
    """What to read of a file; None for nothing."""
    wanted = []
    is_whole = True
    rows = 0
    for queue_id, facts in file.queues.items():
        window = windows.get(MessageQueue(file.topic, broker_name, queue_id))
        if window is None or not _meets(window, facts):
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
    """Tasks of about equal weight; a file that is more than one task's share is cut between its row groups."""
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
