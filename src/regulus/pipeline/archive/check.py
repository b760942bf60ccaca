"""Checks a range before it is committed: nothing is missing, nothing is there twice, and nothing was made up.

Three sources are compared. The ranges of the log must join up. The queue offsets of a queue must continue where the
manifest before ends. Each unit of the consume queues that points into the range must have its row. A hole is accepted
if its cause is known: the message is among the rejects, or the store itself has a filler in its place. A queue that
begins again at 0 is one whose topic was deleted and created again.

A reject says which message it was only if its header is whole, and no checksum covers the header. So its queue offset
counts if the records around it agree. Any other reject is the message that a consume queue has at its place.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from regulus.errors import ArchiveFailed, DataLoss
from regulus.model.timestamps import milliseconds_of
from regulus.pipeline.archive.task import RangeFacts
from regulus.record.consume_queue_unit import FILLER, unpack_all
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive.manifest import Manifest, Stretch, TopicQueue
from regulus.spark.store.files import CommitLogFiles, ConsumeQueueFiles

_ADVICE = "nothing of this range is visible; to archive what is there all the same, run with --accept-gaps"


class Hole(NamedTuple):
    """Queue offsets [first, next) whose messages are missing from the log."""

    topic: str
    queue_id: int
    first: int
    next: int


class QueueEnds:
    """The ends of a broker's queues in the archive, followed range by range."""

    def __init__(self, manifests: Iterable[Manifest], unknown_begin: int | None) -> None:
        """`unknown_begin`: the offset at which a queue that was not seen before must begin; None: any."""
        self._ends: dict[TopicQueue, int] = {}
        self._seen_at: dict[TopicQueue, int] = {}
        self._unreadable_at = -1
        self._unknown_begin = unknown_begin
        for manifest in manifests:
            self._pass(manifest.range.start, ends_of(manifest.queues), bool(manifest.unreadable))

    def pass_range(self, facts: RangeFacts) -> None:
        """Continue after a range."""
        self._pass(facts.range.start, ends_of(facts.queues), bool(facts.unreadable))

    def _pass(self, start: int, ends: Mapping[TopicQueue, int], has_unreadable: bool) -> None:
        self._ends |= ends
        self._seen_at |= dict.fromkeys(ends, start)
        if has_unreadable:
            self._unreadable_at = start

    def expected(self, queue: TopicQueue) -> int | None:
        """The offset with which the queue must continue; None when it may be any."""
        return self._ends.get(queue, self._unknown_begin)

    def may_be_unreadable(self, queue: TopicQueue) -> bool:
        """Whether messages of the queue may be in an unreadable stretch since the queue was seen last."""
        return self._unreadable_at >= self._seen_at.get(queue, 0)


def check_same_log(archive: Path, manifests: Sequence[Manifest], log: CommitLogFiles) -> None:
    """Check that the last archived row of a broker is still in the log, which otherwise has lost its end and grown
    again with other messages. It is not checked if the log has no archived row any more. Raises DataLoss."""
    last = next((manifest for manifest in reversed(manifests) if manifest.rows), None)
    row = None if last is None else _last_row(archive, last)
    if last is None or row is None or row["physical_offset"] < log.start:
        return
    found = log.mark(row["physical_offset"])
    stored = milliseconds_of(row["store_time"])
    if found is None or found.store_time != stored or row["message_id"] not in (None, "", found.id):
        stored_at = row["store_time"].isoformat(timespec="milliseconds")
        raise DataLoss(f"at byte {row['physical_offset']} of the log of {last.range.broker_name} the archive has "
                       f"message {row['message_id']}, stored at {stored_at}, and the log has there "
                       f"{found or 'no message'}: this is another store, or one that lost its end and grew again; "
                       "give its broker another name, so that its log is archived from its beginning")


def _last_row(archive: Path, manifest: Manifest) -> dict[str, Any] | None:
    """The place, time and id of the archived row that is last in the log."""
    last: dict[str, Any] | None = None
    for file in manifest.files:
        rows = pq.read_table(archive / file.path, columns=["physical_offset", "store_time", "message_id"])
        place = pc.index(rows["physical_offset"], pc.max(rows["physical_offset"])).as_py() if rows.num_rows else -1
        if place < 0:
            continue
        row = rows.slice(place, 1).to_pylist()[0]
        if last is None or row["physical_offset"] > last["physical_offset"]:
            last = row
    return last


def check_joins(facts: Sequence[RangeFacts], start: int) -> None:
    """Raises ArchiveFailed when the ranges do not join up from `start` on."""
    for part in facts:
        if part.range.start != start or part.reached != part.range.end:
            raise ArchiveFailed(f"range {part.range.text} was read from {part.range.start} to {part.reached}, but "
                                f"should join up at {start} and end at {part.range.end}: a record crosses that place; "
                                "let the broker flush, or stop it, and run again")
        start = part.range.end


def settled(facts: RangeFacts, before: QueueEnds, queues: Mapping[TopicQueue, ConsumeQueueFiles]) -> RangeFacts:
    """The facts with a place for each reject of which the records around it, or the consume queues, show which message
    it was; any other one counts as unreadable."""
    if not facts.rejected:
        return facts
    kept: dict[TopicQueue, list[Stretch]] = {}
    unreadable = list(facts.unreadable)
    for key, stretches in facts.queues.items():
        kept[key] = []
        expected = before.expected(key)
        for number, each in enumerate(stretches):
            follower = next((later.first for later in stretches[number + 1:]), None)
            if not each.is_rejected or each.first in (expected, 0) or each.next == follower:
                kept[key].append(each)
                expected = each.next
            else:
                unreadable.append((each.place, each.place + 1))
    explained = dict.fromkeys(unreadable, 0)
    for key, queue in queues.items():
        for start, end in unreadable:
            for offset, unit in queue.units_within(start, end):
                kept.setdefault(key, []).append(Stretch(offset, offset + 1, unit.physical_offset, True))
                explained[start, end] += unit.size
    return replace(facts, unreadable=tuple(sorted(unreadable)),
                   unplaced=sum(size < end - start for (start, end), size in explained.items()),
                   queues={key: archive_manifest.joined(sorted(stretches, key=attrgetter("place")))
                           for key, stretches in kept.items() if stretches})


def check_contiguity(facts: RangeFacts, before: QueueEnds, queues: Mapping[TopicQueue, ConsumeQueueFiles],
                     log: CommitLogFiles) -> None:
    """Raises ArchiveFailed for a hole whose cause is not known."""
    for hole in holes(facts, before):
        key = hole.topic, hole.queue_id
        is_known = bool(facts.unreadable) or before.may_be_unreadable(key)
        if not is_known and not _is_filler(hole, queues.get(key), log):
            raise ArchiveFailed(f"{hole.topic}/{hole.queue_id}: messages {hole.first} to {hole.next - 1} are not in "
                                f"the log where they should be, in {facts.range.text}; {_ADVICE}")


def ends_of(queues: Mapping[TopicQueue, Sequence[Stretch]]) -> dict[TopicQueue, int]:
    """The offsets at which the queues of a range end; a rejected message keeps its place."""
    return {queue: stretches[-1].next for queue, stretches in queues.items()}


def holes(facts: RangeFacts, before: QueueEnds) -> list[Hole]:
    """The holes in the queue offsets of a range."""
    found = []
    for (topic, queue_id), stretches in facts.queues.items():
        expected = before.expected((topic, queue_id))
        for first, behind, _, _ in stretches:
            if expected is not None and first not in (expected, 0):
                found.append(Hole(topic, queue_id, min(expected, first), max(expected, first)))
            expected = behind
    return found


def _is_filler(hole: Hole, queue: ConsumeQueueFiles | None, log: CommitLogFiles) -> bool:
    if queue is None:
        return False
    first, end = queue.bounds(log)
    if not first <= hole.first < hole.next <= end:
        return hole.next <= first
    return all(unit == FILLER for unit in unpack_all(queue.units(hole.first, hole.next)))


def check_counts(facts: Sequence[RangeFacts], queues: Mapping[TopicQueue, ConsumeQueueFiles],
                 log: CommitLogFiles) -> None:
    """Check that each unit that points into the ranges has a row or reject, and each row a unit. Raises ArchiveFailed.

    The ranges must join up. Rows after the end of their consume queue are not dispatched yet. Rows without a consume
    queue are of a deleted topic.
    """
    met = {key for part in facts for key in part.queues}
    for key, queue in queues.items():
        first, end = queue.bounds(log)
        low = queue.first_at_or_behind(facts[0].range.start, first, end)
        upto = queue.first_at_or_behind(facts[-1].range.end, low, end)
        if low == upto and key not in met:
            continue
        for part in facts:
            high = queue.first_at_or_behind(part.range.end, low, upto)
            _check_queue(part, key, queue, (first, end), (low, high))
            low = high


def _check_queue(facts: RangeFacts, key: TopicQueue, queue: ConsumeQueueFiles, bounds: tuple[int, int],
                 units: tuple[int, int]) -> None:
    """Check one queue. `units`: from which unit up to which the queue points into the range."""
    archived = sorted((each.first, each.next) for each in facts.queues.get(key, ()))
    for start, behind in without(units, archived):
        _check_missing(facts, key, queue, start, behind)
    for part in archived:
        for start, behind in without(part, [units]):
            _check_extra(facts, key, queue, max(start, bounds[0]), min(behind, bounds[1]))


def _check_missing(facts: RangeFacts, key: TopicQueue, queue: ConsumeQueueFiles, start: int, behind: int) -> None:
    for number, unit in enumerate(unpack_all(queue.units(start, behind)), start):
        is_unreadable = any(low <= unit[0] < high for low, high in facts.unreadable)
        if unit != FILLER and not is_unreadable:
            raise ArchiveFailed(f"{key[0]}/{key[1]}: message {number} is in the consume queue at {unit[0]}, but was "
                                f"not found in {facts.range.text} of the log; {_ADVICE}")


def _check_extra(facts: RangeFacts, key: TopicQueue, queue: ConsumeQueueFiles, start: int, behind: int) -> None:
    # A message of a former topic of that name is in the log before the message that has its number now.
    if start < behind and queue.unit(start).physical_offset < facts.range.end:
        raise ArchiveFailed(f"{key[0]}/{key[1]}: message {start} is in {facts.range.text} of the log, but the consume "
                            f"queue has it at {queue.unit(start).physical_offset}; {_ADVICE}")


def without(part: tuple[int, int], others: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of [start, end) that none of the others, sorted, covers."""
    left = []
    start, end = part
    for low, high in others:
        if low > start:
            left.append((start, min(low, end)))
        start = max(start, high)
    left.append((start, end))
    return [(low, high) for low, high in left if low < high]
