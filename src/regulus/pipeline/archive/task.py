"""Runs one task of the archive job: makes Parquet files of a range of the log, in the staging directory.

The range is walked once for places, queues and times. Then its rows are sorted by topic, day and queue, and their
columns are gathered batch by batch from the mapped range. At most one row group is in memory, or two if one is made
while the other is written, without bodies, which the writer takes from the log; nothing passes through the JVM.

Bytes that are not a record, and records whose body differs from the checksum or whose topic is not text, go to the
reject file, one JSON object per line:

    physical_offset, size, reason, data (base64, at most REJECT_DATA_MAX bytes), and topic, queue_id and queue_offset of
    a record whose header can be read
"""

import base64
import errno
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from regulus.errors import ArchiveFailed
from regulus.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from regulus.model.timestamps import DATED_MAX_MS, dated
from regulus.pipeline import log_ranges
from regulus.pipeline.archive.parquet import (
    BATCH_ROWS,
    StagedFile,
    body_views,
    made_ahead,
    row_groups,
    write_row_groups,
)
from regulus.record.log_units import FIELDS, FLAWS, LogWalk
from regulus.spark.archive.manifest import (
    ArchivedFile,
    QueueFacts,
    Range,
    RejectFile,
    Stretch,
    TopicQueue,
    data_path,
    rejects_path,
)
from regulus.spark.columns.records import ColumnOptions, Records, arrow_schema, record_batch
from regulus.spark.store.files import CommitLogFiles, Window
from regulus.spark.table_schema import COLUMNS

REJECT_DATA_MAX = 1 << 20

_DECODED_COLUMNS = tuple(name for name in COLUMNS if name != "body")
_BODY_NUMBER = tuple(COLUMNS).index("body")
_SCHEMA = arrow_schema(tuple(COLUMNS)).set(_BODY_NUMBER, pa.field("body", pa.binary_view()))
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTask:
    """What one task archives and where it stages the files; equal for all attempts."""

    store_path: str
    staging: str
    range: Range
    delays_ms: tuple[int, ...]
    makes_ahead: bool
    """Whether the next row group is made while one is written, because a core would otherwise be idle."""

    @property
    def size(self) -> int:
        return self.range.size


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeFacts:
    """The content that a task has found in a range. `staged` are the files' present places, in the order of `files`."""

    range: Range
    reached: int
    """The end of the last record: that of the range, unless the cut went through a record."""
    records: int
    hidden: int
    rejected: int
    unreadable: tuple[tuple[int, int], ...]
    """Start and end in the log of rejects that do not say which messages they were."""
    queues: dict[TopicQueue, tuple[Stretch, ...]]
    """Each reject that says which message it was has a stretch of its own."""
    files: tuple[ArchivedFile, ...]
    staged: tuple[str, ...]
    rejects: RejectFile | None
    staged_rejects: str
    unplaced: int = 0
    """How many of the unreadable ones the consume queues do not explain as a whole; see `check.settled`."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class Reject(NamedTuple):
    position: int
    size: int
    reason: str
    row: int
    """The row in the range's table; -1 for a stretch of which it is not known which messages it was."""


@dataclass(slots=True)
class _Walked:
    """The records of a range, with a mask of the good ones, and the rejects."""

    table: log_ranges.WalkedPiece
    topics: list[str]
    is_good: Any
    rejects: list[Reject] = field(default_factory=list)
    reached: int = 0

    def column(self, name: str) -> Any:
        return self.table.column(name)


def archive_range(task: RangeTask, attempt: str) -> RangeFacts:
    """Stage the files of one range. Raises ArchiveFailed when the disk is full, DataLoss when the log is gone."""
    log = log_ranges.open_log(task.store_path)
    target = Path(task.staging) / task.range.text / attempt
    with disk_errors(target):
        target.mkdir(parents=True)
        found = _walk(log, task)
        # The rows of a file are gathered from all over the range, so all of that is mapped; never the whole file.
        span = log.span(task.range.start, found.reached)
        with ThreadPoolExecutor(1) as maker, ThreadPoolExecutor(1) as follower:
            return _RangeWriter(task, target, span, found, maker, follower).write()


def _walk(log: CommitLogFiles, task: RangeTask) -> _Walked:
    walk = LogWalk(task.delays_ms, True, False, False)
    base = log.span_start(task.range.start)
    reached = task.range.start
    tables, rejects = [np.empty((len(FIELDS), 0), dtype=np.int64)], []
    rows = 0
    for passage in log_ranges.passages(log, walk, task.range.start, task.range.end):
        reached = passage.end
        if isinstance(passage, log_ranges.Skipped):
            rejects.append(Reject(passage.start - base, passage.end - passage.start, passage.fault, -1))
            continue
        piece = passage.rows
        piece.column("position")[:] += passage.window.start - base
        flaws = piece.column("flaw")
        for row in np.flatnonzero(flaws).tolist():
            rejects.append(Reject(int(piece.column("position")[row]), int(piece.column("size")[row]),
                                  FLAWS[int(flaws[row])], rows + row))
        tables.append(piece.table)
        rows += piece.table.shape[1]
    table = log_ranges.WalkedPiece(np.concatenate(tables, axis=1), np.empty(0, dtype=np.int64))
    nameless = list(_without_topic(table, walk))
    is_bad = table.column("flaw") != 0
    is_bad[[reject.row for reject in nameless]] = True
    rejects = sorted([*rejects, *(reject._replace(row=-1) for reject in nameless)])
    topics = [name.decode("utf-8", "replace") for name in walk.topics]
    return _Walked(table, topics, ~is_bad, rejects, reached)


def _without_topic(table: log_ranges.WalkedPiece, walk: LogWalk) -> Iterator[Reject]:
    """Rejects of records whose only fault is a topic that is not text, so that their queue is not known."""
    for number, name in enumerate(walk.topics):
        try:
            name.decode()
        except UnicodeDecodeError:
            rows = np.flatnonzero((table.column("topic") == number) & (table.column("flaw") == 0))
            yield from (Reject(int(table.column("position")[row]), int(table.column("size")[row]),
                               f"its topic {name!r} is not UTF-8", row) for row in rows.tolist())


class _RangeWriter:
    """Writes the files of one range."""

    def __init__(self, task: RangeTask, target: Path, span: Window, found: _Walked,
                 maker: ThreadPoolExecutor, follower: ThreadPoolExecutor) -> None:
        self._task = task
        self._target = target
        self._data = span.data
        self._base = span.start
        self._found = found
        self._maker = maker
        self._follower = follower
        self._options = ColumnOptions(columns=_DECODED_COLUMNS, broker_name=task.range.broker_name)

    def write(self) -> RangeFacts:
        found = self._found
        kinds = found.column("sys_flag") & TRANSACTION_MASK
        is_visible = (kinds == TRANSACTION_NOT) | (kinds == TRANSACTION_COMMIT)
        rows = np.flatnonzero(is_visible & found.is_good)
        groups = self._groups(rows)
        tables = self._tables([order for _, _, order in groups])
        if self._task.makes_ahead:
            tables = made_ahead(tables, self._maker)
        staged = [self._write_file(number, part) for number, part in groupby(tables, key=itemgetter(0))]
        rejects = self._write_rejects()
        files = [self._file_facts(file, *group) for file, group in zip(staged, groups, strict=True)]
        unreadable = tuple((self._base + reject.position, self._base + reject.position + reject.size)
                           for reject in found.rejects if reject.row < 0)
        return RangeFacts(
            range=self._task.range, reached=found.reached, records=len(found.is_good), hidden=int((~is_visible).sum()),
            rejected=len(found.rejects), unreadable=unreadable, queues=self._stretches(rows, is_visible),
            files=tuple(files), unplaced=len(unreadable),
            staged=tuple(str(self._staged(number)) for number in range(len(files))), rejects=rejects,
            staged_rejects=str(self._target / "rejects.jsonl") if rejects else "")

    # --- sorting rows ------------------------------------------------------------------------------------------------

    def _groups(self, rows: Any) -> list[tuple[str, str, Any]]:
        """Topic, day and row numbers in the file's order, for each file."""
        found = self._found
        ranks = np.argsort(np.argsort(found.topics)) if found.topics else np.empty(0, dtype=np.int64)
        topic = found.column("topic")[rows]
        days = np.clip(found.column("store_timestamp")[rows], 0, DATED_MAX_MS) // _DAY_MS
        queue_ids, queue_offsets = found.column("queue_id")[rows], found.column("queue_offset")[rows]
        keys = ranks[topic], days, queue_ids
        order = log_ranges.stable_order(*keys)
        is_next = np.diff(queue_offsets[order]) >= 0
        for key in keys:
            is_next |= np.diff(key[order]) != 0
        if not is_next.all():
            # The log has a queue's messages in order, unless the topic was deleted and created again.
            order = np.lexsort((rows, queue_offsets, *keys[::-1]))
        ordered = rows[order]
        topic, days = topic[order], days[order]
        borders = np.flatnonzero((np.diff(topic) != 0) | (np.diff(days) != 0)) + 1
        return [(found.topics[int(found.column("topic")[part[0]])],
                 day_text(int(found.column("store_timestamp")[part[0]])), part)
                for part in np.split(ordered, borders) if len(part)]

    def _stretches(self, good: Any, is_visible: Any) -> dict[TopicQueue, tuple[Stretch, ...]]:
        """Runs of consecutive queue offsets of each queue, in the order of the log; rejects each alone."""
        found = self._found
        named = np.array([reject.row for reject in found.rejects if reject.row >= 0], dtype=np.int64)
        rejected = named[is_visible[named]]
        rows = np.sort(np.concatenate([good, rejected]))
        topic, queue_ids = found.column("topic")[rows], found.column("queue_id")[rows]
        order = log_ranges.stable_order(topic, queue_ids)
        topic, queue_ids, rows = topic[order], queue_ids[order], rows[order]
        offsets, is_bad = found.column("queue_offset")[rows], np.isin(rows, rejected)
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = (np.diff(topic) != 0) | (np.diff(queue_ids) != 0) | (np.diff(offsets) != 1)
        is_first[1:] |= is_bad[1:] | is_bad[:-1]
        starts = np.flatnonzero(is_first)
        lasts = np.append(starts[1:], len(order)) - 1
        stretches: dict[TopicQueue, list[Stretch]] = {}
        for start, last in zip(starts.tolist(), lasts[:len(starts)].tolist(), strict=True):
            key = found.topics[int(topic[start])], int(queue_ids[start])
            place = self._base + int(found.column("position")[rows[start]])
            stretches.setdefault(key, []).append(
                Stretch(int(offsets[start]), int(offsets[last]) + 1, place, bool(is_bad[start])))
        return {key: tuple(parts) for key, parts in stretches.items()}

    # --- files -------------------------------------------------------------------------------------------------------

    def _staged(self, number: int) -> Path:
        return self._target / f"{number}.parquet"

    def _tables(self, orders: Sequence[Any]) -> Iterator[tuple[int, pa.Table]]:
        """The row groups of all files, each with the number of its file."""
        for number, order in enumerate(orders):
            queues = np.unique(self._found.column("queue_id")[order])
            for group in row_groups(self._found.column("size")[order]):
                rows = order[group]
                yield number, pa.Table.from_batches([self._batch(rows[at:at + BATCH_ROWS], queues)
                                                     for at in range(0, len(rows), BATCH_ROWS)])

    def _batch(self, rows: Any, queues: Any) -> pa.RecordBatch:
        found = self._found
        topic = found.topics[int(found.column("topic")[rows[0]])]
        positions = found.column("position")[rows]
        records = Records(
            data=self._data, base=self._base, positions=positions, sizes=found.column("size")[rows],
            queue_offsets=found.column("queue_offset")[rows], tags_codes=found.column("tags_code")[rows],
            queue_numbers=np.searchsorted(queues, found.column("queue_id")[rows]), topics=[topic] * len(queues),
            queue_ids=queues.tolist())
        columns = record_batch(records, self._options).columns
        columns.insert(_BODY_NUMBER, body_views(self._data, positions, found.column("sys_flag")[rows]))
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def _write_file(self, number: int, tables: Iterator[tuple[int, pa.Table]]) -> StagedFile:
        with StagedFile(self._staged(number), self._follower) as file:
            write_row_groups(file, _SCHEMA, (table for _, table in tables))
        return file

    def _file_facts(self, file: StagedFile, topic: str, day: str, order: Any) -> ArchivedFile:
        size, sha256 = file.finish()
        return ArchivedFile(path=data_path(self._task.range, topic, day), topic=topic, day=day, rows=len(order),
                            size=size, sha256=sha256, log_bytes=int(self._found.column("size")[order].sum()),
                            queues=self._queue_facts(order))

    def _queue_facts(self, order: Any) -> dict[int, QueueFacts]:
        found = self._found
        queue_ids, offsets = found.column("queue_id")[order], found.column("queue_offset")[order]
        times = found.column("store_timestamp")[order]
        borders = np.flatnonzero(np.diff(queue_ids)) + 1
        facts = {}
        for part in np.split(np.arange(len(order)), borders):
            facts[int(queue_ids[part[0]])] = QueueFacts(
                int(offsets[part[0]]), int(offsets[part[-1]]) + 1, len(part), int(times[part].min()),
                int(times[part].max()))
        return facts

    def _write_rejects(self) -> RejectFile | None:
        if not self._found.rejects:
            return None
        with StagedFile(self._target / "rejects.jsonl", self._follower) as file:
            for reject in self._found.rejects:
                file.sink.write(json.dumps(self._reject_line(reject), sort_keys=True).encode() + b"\n")
        size, sha256 = file.finish()
        return RejectFile(path=rejects_path(self._task.range), size=size, sha256=sha256)

    def _reject_line(self, reject: Reject) -> dict[str, object]:
        found = self._found
        data = bytes(self._data[reject.position:reject.position + min(reject.size, REJECT_DATA_MAX)])
        line: dict[str, object] = {"physical_offset": self._base + reject.position, "size": reject.size,
                                   "reason": reject.reason, "data": base64.b64encode(data).decode()}
        if reject.row >= 0:
            line |= {"topic": found.topics[int(found.column("topic")[reject.row])],
                     "queue_id": int(found.column("queue_id")[reject.row]),
                     "queue_offset": int(found.column("queue_offset")[reject.row])}
        return line


def day_text(timestamp_ms: int) -> str:
    """The UTC day in the form of `dt`."""
    return f"{datetime.fromtimestamp(dated(timestamp_ms) // _DAY_MS * 86_400, UTC):%Y-%m-%d}"


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Turns an error of the disk into one sentence, in ArchiveFailed."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ArchiveFailed(f"the disk of {place} is full: nothing of this run is visible; make room and run the "
                                "archive job again") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO):
            raise ArchiveFailed(f"{place} cannot be written ({error.strerror}): nothing of this run is "
                                "visible") from error
        raise
