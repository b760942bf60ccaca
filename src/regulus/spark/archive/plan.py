"""Selects the rows of an archive that a read takes, and divides them among tasks.

The manifests have all that is needed; no Parquet file is opened here. A message is found by its queue and queue offset,
or by its store time; a file that has none of the wanted messages is left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from pathlib import Path
from typing import NamedTuple

from regulus.model.message_queue import MessageQueue
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import ArchivedFile, Manifest, QueueFacts, Range, Stretch
from regulus.spark.options import OnDataLoss, ReadOptions
from regulus.spark.read_plan import Gap, UnitRange, partition_count, task_bytes_max
from regulus.spark.task_parts import FOREVER, ArchiveRange, FilePart, Wanted

_NOT_ARCHIVED = "as they left the log before they were archived"
REJECTED = ("as the log had no good record of them when it was archived; what it had instead is in the archive's "
             f"directory {archive_manifest.REJECTS}")


class QueueBounds(NamedTuple):
    """Messages [first, behind) of a queue that the archive has, or has as rejected ones.

    If the topic was deleted and created again, these are the messages of the last one, which begin in the range of the
    log that starts at `log_start`. `is_mixed`: they begin in the middle of it, so that its rows there cannot be
    distinguished from earlier ones. `time_last`: the store time of the last one stored, in ms.
    `epoch` is the topic's: the start of the range with the first message of any queue after the topic was created
    again; 0 if it never was. `is_past`: this queue had no message since, so it has only messages of the topic before.
    """

    first: int
    behind: int
    log_start: int = 0
    is_mixed: bool = False
    time_last: int = 0
    epoch: int = 0
    is_past: bool = False


def tasks(parts: Sequence[FilePart], gaps: Sequence[Gap], options: ReadOptions,
          cores: int | None) -> list[ArchiveRange]:
    """What each task reads: the tasks have about equal weight, and the first also has the gaps."""
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
    """The wanted rows that are missing: they were rejected, or were not archived in time although later ones were.

    An offset that is not a step forward is not a gap: there the topic was deleted and created again.
    """
    passed: dict[MessageQueue, _Passed] = {}
    joined_since = before = Range("", 0, 0)
    manifests = list(manifests)
    times = _times(manifests)
    for manifest in manifests:
        if before.broker_name != manifest.range.broker_name or before.end != manifest.range.start:
            joined_since = manifest.range
        before = manifest.range
        for (topic, queue_id), stretches in manifest.queues.items():
            queue = MessageQueue(topic, manifest.range.broker_name, queue_id)
            last = passed.get(queue)
            passed[queue] = _Passed(stretches[-1].next, manifest)
            window = wanted.get(queue)
            if window is None or manifest.range.start < window.log_start:
                continue
            for first, behind, _, is_rejected in stretches:
                if last is not None and _misses(window, queue, last, _Passed(first, manifest)):
                    cause = REJECTED if last.manifest.range.start >= joined_since.start else _NOT_ARCHIVED
                    yield Gap(queue, max(last.offset, window.start), min(first, window.end), cause)
                last = _Passed(behind, manifest)
                if is_rejected and _may_have_rejected(window, first, behind, times[manifest.range]):
                    yield Gap(queue, max(first, window.start), min(behind, window.end), REJECTED)


def bounds(manifests: Iterable[Manifest]) -> dict[MessageQueue, QueueBounds]:
    """What the archive has of each queue."""
    found: dict[MessageQueue, QueueBounds] = {}
    epochs: dict[tuple[str, str], int] = {}
    for manifest in manifests:
        for (topic, queue_id), stretches in manifest.queues.items():
            queue = MessageQueue(topic, manifest.range.broker_name, queue_id)
            for number, (first, behind, _, _) in enumerate(stretches):
                known = found.get(queue)
                if known is None:
                    found[queue] = QueueBounds(first, behind, epoch=epochs.get((topic, queue.broker_name), 0))
                elif first < known.behind:
                    if known.epoch == epochs.get((topic, queue.broker_name), 0):
                        # The queue was in the last topic so far, so what follows is of a topic after that one.
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


class LostEnds(NamedTuple):
    """Messages of a queue that were rejected before the first archived one and after the last; of one epoch."""

    before: int
    behind: int


def lost_ends(manifests: Iterable[Manifest]) -> list[tuple[MessageQueue, LostEnds]]:
    """What is rejected at the ends of the queues. A queue has an entry for each time that its topic was created, except
    where nothing is rejected at its ends."""
    stretches: dict[MessageQueue, list[Stretch]] = {}
    for manifest in manifests:
        for (topic, queue_id), more in manifest.queues.items():
            stretches.setdefault(MessageQueue(topic, manifest.range.broker_name, queue_id), []).extend(more)
    found = []
    for queue, of_queue in sorted(stretches.items()):
        for epoch in _epochs(of_queue):
            behind = _rejected(reversed(epoch))
            before = _rejected(epoch) if any(not each.is_rejected for each in epoch) else 0
            if before or behind:
                found.append((queue, LostEnds(before, behind)))
    return found


def _epochs(stretches: Sequence[Stretch]) -> list[list[Stretch]]:
    """The stretches of each topic of the name, one after the other."""
    epochs: list[list[Stretch]] = [[]]
    for each in stretches:
        if epochs[-1] and each.first < epochs[-1][-1].next:
            epochs.append([])
        epochs[-1].append(each)
    return epochs


def _rejected(stretches: Iterable[Stretch]) -> int:
    """The number of messages that are rejected before the first archived one."""
    return sum(each.next - each.first for each in takewhile(lambda each: each.is_rejected, stretches))


def ends(archive_path: str) -> dict[MessageQueue, int]:
    """For each queue in the archive the offset after its last row. Raises OptionError when there is no archive."""
    manifests = archive_manifest.load(archive_manifest.place(archive_path))
    return {queue: each.behind for queue, each in bounds(manifests).items()}


# --- what is missing -------------------------------------------------------------------------------------------------


class _Passed(NamedTuple):
    """An offset up to which a queue was followed. It is in the range of the manifest, or right after it."""

    offset: int
    manifest: Manifest


def _misses(window: Wanted, queue: MessageQueue, last: _Passed, then: _Passed) -> bool:
    """Whether messages between two offsets may have been wanted. Their times are only known to lie between two
    others."""
    if not (last.offset < then.offset and window.start < then.offset and last.offset < window.end):
        return False
    earliest = min((facts.time_first for facts in _facts_of(last.manifest, queue)), default=-FOREVER)
    latest = max((facts.time_last for facts in _facts_of(then.manifest, queue)), default=FOREVER)
    return window.time_start <= latest and earliest < window.time_end


class _Times(NamedTuple):
    low: int
    high: int


def _times(manifests: Sequence[Manifest]) -> dict[Range, _Times]:
    """Store times between which each range has its records, as the ranges before and after it show: a broker stores
    messages in the order of time. Of a rejected message nothing else is known."""
    found: dict[Range, _Times] = {}
    for _, group in groupby(manifests, key=lambda manifest: manifest.range.broker_name):
        of_broker = list(group)
        low, high = -FOREVER, FOREVER
        for manifest in of_broker:
            found[manifest.range] = _Times(low, high)
            low = max((facts.time_last for file in manifest.files for facts in file.queues.values()), default=low)
        for manifest in reversed(of_broker):
            found[manifest.range] = found[manifest.range]._replace(high=high)
            high = min((facts.time_first for file in manifest.files for facts in file.queues.values()), default=high)
    return found


def _may_have_rejected(window: Wanted, first: int, behind: int, times: _Times) -> bool:
    """Whether rejected messages [first, behind) may have been wanted."""
    return (window.start < behind and first < window.end
            and window.time_start <= times.high and times.low < window.time_end)


def _facts_of(manifest: Manifest, queue: MessageQueue) -> Iterator[QueueFacts]:
    return (file.queues[queue.queue_id] for file in manifest.files
            if file.topic == queue.topic and queue.queue_id in file.queues)


# --- which rows ------------------------------------------------------------------------------------------------------


def _part(archive: Path, log_range: Range, file: ArchivedFile,
          windows: Mapping[MessageQueue, Wanted]) -> FilePart | None:
    """The part of a file to read; None for nothing."""
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
    """Divide the files among tasks. A file that is more than one task's share is divided between its row groups.

    If gaps are reported it is not divided, so that a removed file is reported once, by the only task that has it.
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
