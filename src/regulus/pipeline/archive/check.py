"""What must be true of a range before it is committed: nothing missing, nothing twice, nothing made up.

Three witnesses speak of the same messages. The log: its ranges join up. The queue offsets: those of a queue go on where
the manifest before ends. The consume queues: each of their units into the range has its row. A hole is accepted where
its cause is known: the message is among the rejects, or the store itself has a filler in its place. A queue that begins
anew at 0 is one whose topic was deleted and made again.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from regulus.errors import ArchiveFailed, DataLoss
from regulus.pipeline.archive.task import RangeFacts
from regulus.record.consume_queue_unit import FILLER, unpack_all
from regulus.spark.archive.manifest import Manifest, TopicQueue
from regulus.spark.store.files import CommitLogFiles, ConsumeQueueFiles

_ADVICE = "nothing of this range is visible; to archive what is there all the same, run with --accept-gaps"


class Hole(NamedTuple):
    """Queue offsets [first, next) of which the log has no message where it should."""

    topic: str
    queue_id: int
    first: int
    next: int


class QueueEnds:
    """Where the queues of a broker end in the archive, range by range."""

    def __init__(self, manifests: Iterable[Manifest], unknown_begin: int | None) -> None:
        """`unknown_begin`: where a queue must begin that was not seen before; None: anywhere."""
        self._ends: dict[TopicQueue, int] = {}
        self._seen_at: dict[TopicQueue, int] = {}
        self._unreadable_at = -1
        self._unknown_begin = unknown_begin
        for manifest in manifests:
            self._pass(manifest.range.start, {queue: parts[-1][1] for queue, parts in manifest.queues.items()},
                       bool(manifest.unreadable))

    def pass_range(self, facts: RangeFacts) -> None:
        """Go on behind a range."""
        self._pass(facts.range.start, ends_after(facts), bool(facts.unreadable))

    def _pass(self, start: int, ends: Mapping[TopicQueue, int], has_unreadable: bool) -> None:
        self._ends |= ends
        self._seen_at |= dict.fromkeys(ends, start)
        if has_unreadable:
            self._unreadable_at = start

    def expected(self, queue: TopicQueue) -> int | None:
        """The offset with which the queue goes on; None when it may be any."""
        return self._ends.get(queue, self._unknown_begin)

    def may_be_unreadable(self, queue: TopicQueue) -> bool:
        """Whether messages of the queue may lie in a stretch that nobody could read, since it was seen last."""
        return self._unreadable_at >= self._seen_at.get(queue, 0)


def check_same_log(archive: Path, last: Manifest, log: CommitLogFiles) -> None:
    """The last row of a range is in the log still: the log did not lose its end, to grow again with other messages.
    Nothing is known of a range without rows, and of one that the log has no more. Raises DataLoss."""
    row = _last_row(archive, last)
    if row is None or row["physical_offset"] < log.start:
        return
    found = log.mark(row["physical_offset"])
    stored = int(row["store_time"].timestamp() * 1000)
    if found is None or found.store_time != stored or row["message_id"] not in (None, "", found.id):
        stored_at = row["store_time"].isoformat(timespec="milliseconds")
        raise DataLoss(f"at byte {row['physical_offset']} of the log of {last.range.broker_name} the archive has "
                       f"message {row['message_id']}, stored at {stored_at}, and the log has there "
                       f"{found or 'no message'}: this is another store, or one that lost its end and went on; give "
                       "its broker another name, so that its log is archived from its beginning")


def _last_row(archive: Path, manifest: Manifest) -> dict[str, Any] | None:
    """Of the archived rows that which lies last in the log: its place, time and id."""
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
    """The ranges follow one another from `start` on. Raises ArchiveFailed."""
    for part in facts:
        if part.range.start != start or part.reached != part.range.end:
            raise ArchiveFailed(f"range {part.range.text} was read from {part.range.start} to {part.reached}, but "
                                f"should join up at {start} and end at {part.range.end}: a record lies across that "
                                "place; let the broker flush, or stop it, and run again")
        start = part.range.end


def check_contiguity(facts: RangeFacts, before: QueueEnds, queues: Mapping[TopicQueue, ConsumeQueueFiles],
                     log: CommitLogFiles) -> None:
    """Raises ArchiveFailed for a hole whose cause is not known."""
    for hole in holes(facts, before):
        key = hole.topic, hole.queue_id
        rejected = set(facts.rejected_offsets.get(key, ()))
        is_known = (bool(facts.unreadable) or before.may_be_unreadable(key)
                    or rejected.issuperset(range(hole.first, hole.next)))
        if not is_known and not _is_filler(hole, queues.get(key), log):
            raise ArchiveFailed(f"{hole.topic}/{hole.queue_id}: messages {hole.first} to {hole.next - 1} are not in "
                                f"the log where they should be, in {facts.range.text}; {_ADVICE}")


def ends_after(facts: RangeFacts) -> dict[TopicQueue, int]:
    """Where the queues of a range end; a message that was rejected has its place."""
    ends = {queue: stretches[-1][1] for queue, stretches in facts.queues.items()}
    for queue, offsets in facts.rejected_offsets.items():
        ends[queue] = max(ends.get(queue, 0), offsets[-1] + 1)
    return ends


def holes(facts: RangeFacts, before: QueueEnds) -> list[Hole]:
    """Where the queue offsets of a range do not go on."""
    found = []
    for (topic, queue_id), stretches in facts.queues.items():
        expected = before.expected((topic, queue_id))
        for first, behind in stretches:
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
    """Each unit of a consume queue into the ranges has its row or reject, and each row its unit. Raises ArchiveFailed.

    The ranges join up. Rows behind the end of their consume queue are not dispatched yet. Rows without one are of a
    deleted topic.
    """
    met = {key for part in facts for key in (*part.queues, *part.rejected_offsets)}
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
    """`units`: which of the queue point into the range."""
    archived = sorted([*facts.queues.get(key, ()),
                       *((offset, offset + 1) for offset in facts.rejected_offsets.get(key, ()))])
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
    # A message of a former topic of that name lies before the one that its number belongs to now.
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
