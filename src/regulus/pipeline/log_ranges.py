"""Finds the end of a store's commit log, and divides the log into ranges.

A range is within one log file; it begins and ends where a record does, or where the file does. Each cut is at the first
record from a fixed place on, a multiple of the range's size in each file. So another run over the same log has the same
cuts, even if the log has grown meanwhile.

The end of a log that no broker writes is the one that recovery would find: the walk begins in the file in which
recovery begins, and ends before the first bytes that are not a record or whose checksum differs.

Source: CommitLog.recoverNormally, CommitLog.recoverAbnormally.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from regulus.errors import DataLoss, OptionError, RecordError, StoreNewer
from regulus.record import store_checkpoint
from regulus.record.byte_runs import Buffer
from regulus.record.consume_queue_unit import FILLER
from regulus.record.layout import MAGIC_V1, MAGIC_V2
from regulus.record.log_units import FIELDS, FLAWS, LogWalk
from regulus.spark.store.files import CommitLogFiles, ConsumeQueueFiles, Window
from regulus.spark.store.log_walk import MAGIC_START, next_record_in, whole_record_size

WALK_ROWS = 16_384
"""Records that are decoded at a time."""
HASHES_MAX = WALK_ROWS * 4 + 32_768
"""Room for the key hashes of that many records; a single one may have half as many hashes as bytes of properties."""

RECOVERED_FILES = 3
"""Files that recovery checks after a clean stop, unless the queues require more."""

_MAGICS = (MAGIC_V1, MAGIC_V2)

Int64s: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class LogEnd(NamedTuple):
    """The end of the log; `reason` is set if the bytes there are neither a record nor zeros."""

    offset: int
    reason: str


class WalkedPiece(NamedTuple):
    """Consecutive records: `table` has one row for each field of log_units.FIELDS."""

    table: Int64s
    hashes: Int64s

    def column(self, name: str) -> Int64s:
        column: Int64s = self.table[FIELDS.index(name)]
        return column

    def first(self, rows: int) -> "WalkedPiece":
        return WalkedPiece(self.table[:, :rows], self.hashes[:int(self.column("entries")[:rows].sum())])


def open_log(store_path: str) -> CommitLogFiles:
    """Open the log. Raises OptionError for a path that is not a store, StoreDamaged when its files do not join up."""
    directory = Path(store_path) / "commitlog"
    if not directory.is_dir():
        raise OptionError(f"{store_path!r} has no directory 'commitlog': it must be the root of a broker's store")
    return CommitLogFiles(directory)


def queues_of(store_path: str) -> list[ConsumeQueueFiles]:
    """All consume queues; none if the directory, such as a backup, has only the log."""
    found = []
    for directory in sorted((Path(store_path) / "consumequeue").glob("*/*")):
        if directory.name.isdecimal() and directory.is_dir() and any(directory.iterdir()):
            found.append(ConsumeQueueFiles(directory.parent.name, int(directory.name), directory))
    return found


# --- walking ---------------------------------------------------------------------------------------------------------


def walked(walk: LogWalk, data: Buffer, start: int, limit: int, base: int) -> WalkedPiece:
    """The next records in a file's bytes, at most WALK_ROWS. Then `walk` has their end and the reason for it."""
    table = np.empty((len(FIELDS), WALK_ROWS), dtype=np.int64)
    hashes = np.empty(HASHES_MAX, dtype=np.int64)
    # A slice of a memoryview is not a copy, but one of a mapped file is.
    rows = walk.walk(memoryview(data), data, start, limit, base, table.reshape(-1).data, WALK_ROWS, hashes.data)
    return WalkedPiece(table[:, :rows], hashes[:walk.hashes_used])


class Passage(NamedTuple):
    """Some records of a walk; their positions are those in the window's bytes. `end`: where the walk is after them.

    `fault` is set if there is no record at `end`, and `rows` is then empty.
    """

    rows: WalkedPiece
    window: Window
    end: int
    fault: str


class Skipped(NamedTuple):
    """Bytes [start, end) that are not records, and why."""

    start: int
    end: int
    fault: str


def passages(log: CommitLogFiles, walk: LogWalk, start: int, end: int) -> Iterator[Passage | Skipped]:
    """Walk [start, end) of one file of the log, window by window. A good record that crosses `end` is taken as one that
    ends there: the last item is then a passage without rows behind `end`.

    After a passage with a fault comes what was skipped. It is looked for only when it is asked for, because where a log
    ends the rest of a file has no record.
    """
    position = start
    while position < end:
        window = log.record_window(position)
        limit = min(end, window.end) - window.start
        rows = walked(walk, window.data, position - window.start, limit, window.start)
        position = window.start + walk.position
        if rows.table.shape[1]:
            yield Passage(rows, window, position, "")
            continue
        if walk.is_blank:
            piece = log.piece_at(position)
            position = piece.start + piece.size
        elif beyond := _end_beyond(walk, window.data, limit):
            position = window.start + beyond
        elif walk.fault is not None:
            fault = reason_of(walk.fault)
            yield Passage(rows, window, position, fault)
            del window
            behind = next_record_in(log, position + 1, end)
            yield Skipped(position, behind, fault)
            position = behind
            continue
        yield Passage(rows, window, position, "")


def _end_beyond(walk: LogWalk, data: Any, limit: int) -> int:
    """The end of a good record that ends after `limit` and so has stopped the walk; 0 when there is none."""
    end = walk.position + whole_record_size(data, walk.position, len(data), check_crc=True)
    return end if end > limit else 0


def reason_of(fault: RecordError) -> str:
    """The text of a fault, without the place."""
    return str(fault).rpartition(" at ")[0]


def stable_order(*keys: Int64s) -> Int64s:
    """Row numbers sorted by the keys, the first one first; equal rows keep their order.

    Keys with few distinct values, such as topics and queues, become one small number, which is sorted several times as
    fast.
    """
    rows = len(keys[0])
    order: Int64s = np.arange(rows)
    combined = np.zeros(rows, dtype=np.int64)
    values = 1
    for key in keys if rows else ():
        low = int(key.min())
        span = int(key.max()) - low + 1
        values *= span
        combined = combined * span + (key - low) if values <= 1 << 16 else combined
    if values > 1 << 16:
        order = np.lexsort(keys[::-1])
    elif rows:
        order = np.argsort(combined.astype(np.uint16), kind="stable")
    return order


# --- the end ---------------------------------------------------------------------------------------------------------


def recovered_end(store_path: str, log: CommitLogFiles) -> LogEnd:
    """The end that recovery would find for the log of a stopped store. Raises StoreNewer."""
    walk = LogWalk((), True, False, False)
    for piece in log.pieces[recovery_start(store_path, log):]:
        for passage in passages(log, walk, piece.start, piece.start + piece.size):
            end = end_in(passage)
            if end is not None:
                refuse_newer(log, end.offset)
                return end
    return LogEnd(log.end, "")


def end_in(passage: Passage | Skipped) -> LogEnd | None:
    """The end that recovery would find in a passage of a walk with checksums; None if there is none."""
    if isinstance(passage, Skipped):
        return None
    flaws = passage.rows.column("flaw")
    if flaws.any():
        row = int(np.argmax(flaws > 0))
        return LogEnd(passage.window.start + int(passage.rows.column("position")[row]), FLAWS[int(flaws[row])])
    if not passage.fault:
        return None
    within = passage.end - passage.window.start
    is_empty = passage.window.data[within:within + 8].strip(b"\0") == b""
    return LogEnd(passage.end, "" if is_empty else passage.fault)


def refuse_newer(log: CommitLogFiles, end: int) -> None:
    """Raises StoreNewer when the bytes at the log's end are a record of a later format."""
    if end < log.end:
        piece = log.piece_at(end)
        position = end - piece.start
        window = log.window(end, 8)
        magic = window.data[end - window.start + 4:end - window.start + 8]
        is_known = int.from_bytes(magic, "big", signed=True) in _MAGICS
        if magic[:3] == MAGIC_START and magic[3:] != b"\0" and not is_known:
            raise StoreNewer(f"{piece.path} has a record of a later format (0x{magic.hex()}) at {position}: read the "
                             "store with the version of RocketMQ or Regulus that wrote it")


def recovery_start(store_path: str, log: CommitLogFiles) -> int:
    """The index in `log.pieces` of the file with which recovery of a stopped store would begin."""
    return (_first_after_crash if (Path(store_path) / "abort").exists() else _first_clean)(store_path, log)


def _first_clean(store_path: str, log: CommitLogFiles) -> int:
    """The last file up to whose start the queues are complete."""
    ends = [end for queue in queues_of(store_path) if (end := _physical_end(queue, log)) is not None]
    if not ends:
        return max(0, len(log.pieces) - RECOVERED_FILES)
    return max((number for number, piece in enumerate(log.pieces) if piece.start <= max(ends)), default=0)


def _physical_end(queue: ConsumeQueueFiles, log: CommitLogFiles) -> int | None:
    """The end of the last record that the queue points to; None when it points to none."""
    first, end = queue.bounds(log)
    while end > first:
        unit = queue.unit(end - 1)
        if unit != FILLER:
            return unit.physical_offset + unit.size
        end -= 1
    return None


def _first_after_crash(store_path: str, log: CommitLogFiles) -> int:
    """The last file that was begun before the checkpoint; the first file when there is no such file."""
    try:
        checkpoint = store_checkpoint.decode((Path(store_path) / "checkpoint").read_bytes())
    except (FileNotFoundError, RecordError):
        return 0
    for number in range(len(log.pieces) - 1, 0, -1):
        piece = log.pieces[number]
        try:
            timestamp = log.store_timestamp(piece.start)
        except RecordError:
            continue
        if 0 < timestamp <= checkpoint.min_timestamp:
            return number
    return 0


# --- the cuts --------------------------------------------------------------------------------------------------------


def cut(log: CommitLogFiles, start: int, end: int, range_size: int) -> list[tuple[int, int]]:
    """Divide [start, end) into ranges that join up. Raises DataLoss when the log does not hold all of it."""
    ranges = []
    while start < end:
        piece = log.piece_at(start)
        file_end = min(end, piece.start + piece.size)
        target = piece.start + ((start - piece.start) // range_size + 1) * range_size
        upto = file_end
        if target < file_end:
            upto = next_record_in(log, target, file_end)
        ranges.append((start, upto))
        start = upto
    if end > log.end:
        raise DataLoss(f"the log was to be read up to {end} and its files end at {log.end}")
    return ranges
