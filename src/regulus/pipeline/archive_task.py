"""One task of the archive job: a range of the log becomes Parquet files in the staging directory.

The range is walked once for places, queues and times. Its rows are then put in order, topic by topic and day by day,
queue by queue, and their columns gathered batch by batch out of the mapped log file: no more than a row group is in
memory, and nothing passes through the JVM.

What is no record, or has a body that differs from its checksum, goes to the reject file, one JSON object a line:

    physical_offset, size, reason, data (base64, at most REJECT_DATA_MAX bytes), and of a record whose header can be
    read topic, queue_id and queue_offset
"""

import base64
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from regulus.errors import ArchiveFailed
from regulus.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from regulus.pipeline import log_ranges
from regulus.record.log_units import FLAWS, LogWalk
from regulus.spark.archive_manifest import (
    ArchivedFile,
    QueueFacts,
    Range,
    RejectFile,
    TopicQueue,
    data_path,
    rejects_path,
)
from regulus.spark.columns import ColumnOptions, Records, arrow_schema, record_batch
from regulus.spark.table_schema import COLUMNS

ROW_GROUP_ROWS = 65_536
ROW_GROUP_BYTES_MAX = 64 << 20
"""A row group ends here even when it has fewer rows; counted in bytes of the log."""
BATCH_ROWS = 4096
REJECT_DATA_MAX = 1 << 20

_ALL_COLUMNS = tuple(COLUMNS)
_DICTIONARY_COLUMNS = ["topic", "broker_name", "tags", "born_host", "store_host"]
_STATISTICS_COLUMNS = [name for name in COLUMNS if name not in ("body", "properties")]
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTask:
    """What one task archives and where it stages it; the same for every attempt."""

    store_path: str
    staging: str
    range: Range
    delays_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeFacts:
    """What a range turned out to consist of. `staged` are the files' present places, in the order of `files`."""

    range: Range
    reached: int
    """Where the last record ends: the end of the range, unless that was no place to cut at."""
    records: int
    hidden: int
    rejected: int
    unreadable: tuple[tuple[int, int], ...]
    """The rejects that are stretches in which no record could be found, from where to where in the log."""
    queues: dict[TopicQueue, tuple[tuple[int, int], ...]]
    rejected_offsets: dict[TopicQueue, tuple[int, ...]]
    files: tuple[ArchivedFile, ...]
    staged: tuple[str, ...]
    rejects: RejectFile | None
    staged_rejects: str

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class Reject(NamedTuple):
    position: int
    size: int
    reason: str
    row: int
    """Of the range's table; -1 for a stretch that is no record."""


@dataclass(slots=True)
class _Walked:
    """The records of a range and what was no record."""

    table: log_ranges.WalkedPiece
    topics: list[str]
    rejects: list[Reject] = field(default_factory=list)
    reached: int = 0

    def column(self, name: str) -> Any:
        return self.table.column(name)


def archive_range(task: RangeTask, attempt: str) -> RangeFacts:
    """Stage the files of one range. Raises ArchiveFailed when the disk is full, DataLoss when the log is gone."""
    log = log_ranges.open_log(task.store_path)
    piece = log.piece_at(task.range.start)
    data = log.map(piece)
    target = Path(task.staging) / task.range.text / attempt
    with disk_errors(target):
        target.mkdir(parents=True)
        found = _walk(data, piece.start, task)
        with ThreadPoolExecutor(1) as syncer:
            writer = _RangeWriter(task, target, data, piece.start, found, syncer)
            return writer.write()


def _walk(data: Any, base: int, task: RangeTask) -> _Walked:
    walk = LogWalk(task.delays_ms, True, False, False)
    position, limit = task.range.start - base, task.range.end - base
    tables, rejects = [], []
    rows = 0
    while position < limit:
        piece = log_ranges.walked(walk, data, position, limit, base)
        flaws = piece.column("flaw")
        for row in np.flatnonzero(flaws).tolist():
            rejects.append(Reject(int(piece.column("position")[row]), int(piece.column("size")[row]),
                                  FLAWS[int(flaws[row])], rows + row))
        tables.append(piece.table)
        rows += piece.table.shape[1]
        position, reason = log_ranges.step_over(walk, data, limit, base)
        if reason:
            rejects.append(Reject(walk.position, position - walk.position, reason, -1))
    table = log_ranges.WalkedPiece(np.concatenate(tables, axis=1), np.empty(0, dtype=np.int64))
    topics = [name.decode("utf-8", "replace") for name in walk.topics]
    return _Walked(table, topics, rejects, base + position)


class _RangeWriter:
    """Writes what was found in one range."""

    def __init__(self, task: RangeTask, target: Path, data: Any, base: int, found: _Walked,
                 syncer: ThreadPoolExecutor) -> None:
        self._task = task
        self._target = target
        self._data = data
        self._base = base
        self._found = found
        self._syncer = syncer
        self._synced: list[Future[None]] = []
        self._options = ColumnOptions(columns=_ALL_COLUMNS, broker_name=task.range.broker_name)

    def write(self) -> RangeFacts:
        found = self._found
        kinds = found.column("sys_flag") & TRANSACTION_MASK
        is_visible = (kinds == TRANSACTION_NOT) | (kinds == TRANSACTION_COMMIT)
        is_good = found.column("flaw") == 0
        rows = np.flatnonzero(is_visible & is_good)
        groups = self._groups(rows)
        files = [self._write_file(number, topic, day, order) for number, (topic, day, order) in enumerate(groups)]
        rejects = self._write_rejects()
        for synced in self._synced:
            synced.result()
        unreadable = tuple((self._base + reject.position, self._base + reject.position + reject.size)
                           for reject in found.rejects if reject.row < 0)
        return RangeFacts(
            range=self._task.range, reached=found.reached, records=len(is_good), hidden=int((~is_visible).sum()),
            rejected=len(found.rejects), unreadable=unreadable, queues=self._stretches(rows),
            rejected_offsets=self._rejected_offsets(), files=tuple(files),
            staged=tuple(str(self._staged(number)) for number in range(len(files))), rejects=rejects,
            staged_rejects=str(self._target / "rejects.jsonl") if rejects else "")

    # --- which rows where --------------------------------------------------------------------------------------------

    def _groups(self, rows: Any) -> list[tuple[str, str, Any]]:
        """Topic, day and row numbers in the file's order, for each file."""
        found = self._found
        ranks = np.argsort(np.argsort(found.topics)) if found.topics else np.empty(0, dtype=np.int64)
        topic = found.column("topic")[rows]
        days = found.column("store_timestamp")[rows] // _DAY_MS
        queue_ids, queue_offsets = found.column("queue_id")[rows], found.column("queue_offset")[rows]
        keys = ranks[topic], days, queue_ids
        order = log_ranges.stable_order(*keys)
        is_next = np.diff(queue_offsets[order]) >= 0
        for key in keys:
            is_next |= np.diff(key[order]) != 0
        if not is_next.all():
            # The log has a queue's messages in order, unless the topic was deleted and made anew.
            order = np.lexsort((rows, queue_offsets, *keys[::-1]))
        ordered = rows[order]
        topic, days = topic[order], days[order]
        borders = np.flatnonzero((np.diff(topic) != 0) | (np.diff(days) != 0)) + 1
        return [(found.topics[int(found.column("topic")[part[0]])],
                 day_text(int(found.column("store_timestamp")[part[0]])), part)
                for part in np.split(ordered, borders) if len(part)]

    def _stretches(self, rows: Any) -> dict[TopicQueue, tuple[tuple[int, int], ...]]:
        """Runs of queue offsets one behind the other, in the order of the log, of the rows of each queue."""
        found = self._found
        topic, queue_ids = found.column("topic")[rows], found.column("queue_id")[rows]
        order = log_ranges.stable_order(topic, queue_ids)
        topic, queue_ids, offsets = topic[order], queue_ids[order], found.column("queue_offset")[rows][order]
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = (np.diff(topic) != 0) | (np.diff(queue_ids) != 0) | (np.diff(offsets) != 1)
        starts = np.flatnonzero(is_first)
        lasts = np.append(starts[1:], len(order)) - 1
        stretches: dict[TopicQueue, list[tuple[int, int]]] = {}
        for start, last in zip(starts.tolist(), lasts[:len(starts)].tolist(), strict=True):
            key = found.topics[int(topic[start])], int(queue_ids[start])
            stretches.setdefault(key, []).append((int(offsets[start]), int(offsets[last]) + 1))
        return {key: tuple(parts) for key, parts in stretches.items()}

    def _rejected_offsets(self) -> dict[TopicQueue, tuple[int, ...]]:
        found = self._found
        offsets: dict[TopicQueue, list[int]] = {}
        for row in (reject.row for reject in found.rejects if reject.row >= 0):
            key = found.topics[int(found.column("topic")[row])], int(found.column("queue_id")[row])
            offsets.setdefault(key, []).append(int(found.column("queue_offset")[row]))
        return {key: tuple(sorted(parts)) for key, parts in offsets.items()}

    # --- files -------------------------------------------------------------------------------------------------------

    def _staged(self, number: int) -> Path:
        return self._target / f"{number}.parquet"

    def _write_file(self, number: int, topic: str, day: str, order: Any) -> ArchivedFile:
        sizes = self._found.column("size")[order]
        with HashedFile(self._staged(number), self._syncer, self._synced) as file:
            write_row_groups(file, (self._row_group(order[rows]) for rows in row_groups(sizes)))
        return ArchivedFile(path=data_path(self._task.range, topic, day), topic=topic, day=day, rows=len(order),
                            size=file.size, sha256=file.sha256, log_bytes=int(sizes.sum()),
                            queues=self._queue_facts(order))

    def _row_group(self, order: Any) -> pa.Table:
        return pa.Table.from_batches([self._batch(order[at:at + BATCH_ROWS])
                                      for at in range(0, len(order), BATCH_ROWS)])

    def _batch(self, rows: Any) -> pa.RecordBatch:
        found = self._found
        topic, queue_ids = found.column("topic")[rows], found.column("queue_id")[rows]
        queues, numbers = np.unique(queue_ids, return_inverse=True)
        records = Records(
            data=self._data, base=self._base, positions=found.column("position")[rows],
            sizes=found.column("size")[rows], queue_offsets=found.column("queue_offset")[rows],
            tags_codes=found.column("tags_code")[rows], queue_numbers=numbers.astype(np.int64),
            topics=[found.topics[int(topic[0])]] * len(queues), queue_ids=queues.tolist())
        return record_batch(records, self._options)

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
        with HashedFile(self._target / "rejects.jsonl", self._syncer, self._synced) as file:
            for reject in self._found.rejects:
                file.write(json.dumps(self._reject_line(reject), sort_keys=True).encode() + b"\n")
        return RejectFile(path=rejects_path(self._task.range), size=file.size, sha256=file.sha256)

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


# --- Parquet ---------------------------------------------------------------------------------------------------------


class HashedFile:
    """A file that is written once; its SHA-256 is taken on the way, and syncing it goes on in another thread."""

    def __init__(self, path: Path, syncer: ThreadPoolExecutor, synced: list[Future[None]]) -> None:
        self._path = path
        self._syncer = syncer
        self._synced = synced
        self._hash = hashlib.sha256()
        self.size = 0
        self.closed = False
        self._file: BinaryIO | None = None

    def __enter__(self) -> "HashedFile":
        self._file = self._path.open("xb", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._synced.append(self._syncer.submit(_sync_and_close, self._file))

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: Any) -> int:
        assert self._file is not None
        view = memoryview(data)
        self._hash.update(view)
        self.size += len(view)
        written = 0
        while written < len(view):
            written += self._file.write(view[written:])
        return written

    def flush(self) -> None:
        """Nothing is kept back."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        """The end of the `with` closes."""


def _sync_and_close(file: BinaryIO) -> None:
    with file:
        os.fsync(file.fileno())


def write_row_groups(file: HashedFile, groups: Iterator[pa.Table]) -> None:
    """The same tables give the same bytes; batches of BATCH_ROWS within a table are part of that."""
    with pq.ParquetWriter(pa.PythonFile(file, mode="w"), arrow_schema(_ALL_COLUMNS), compression="zstd",
                          use_dictionary=_DICTIONARY_COLUMNS, write_statistics=_STATISTICS_COLUMNS) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS)


def row_groups(sizes: Any) -> list[slice]:
    """How rows of these sizes in the log are grouped: by number, and by bytes where they are large."""
    groups = []
    start = 0
    while start < len(sizes):
        room = np.cumsum(sizes[start:start + ROW_GROUP_ROWS])
        stop = start + max(1, int(np.searchsorted(room, ROW_GROUP_BYTES_MAX, side="right")))
        groups.append(slice(start, stop))
        start = stop
    return groups


def day_text(timestamp_ms: int) -> str:
    """The UTC day, as `dt` has it."""
    return f"{datetime.fromtimestamp(timestamp_ms // _DAY_MS * 86_400, UTC):%Y-%m-%d}"


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Turns an error of the disk into one sentence. Raises ArchiveFailed."""
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
