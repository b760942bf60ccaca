"""Ranges of a store's commit log: how far it goes, and where it may be cut.

A range lies in one log file and begins and ends where a record does, or where the file does. Cuts are looked for from
fixed places on, the multiples of the range's size in each file; so another run over the same log cuts it alike, however
far the log has grown meanwhile.

The end of a log that no broker writes is the one that recovery would find: the walk begins in the file where recovery
begins and ends before the first record that is none, or whose checksum differs.

Source: CommitLog.recoverNormally, CommitLog.recoverAbnormally.
"""

from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from regulus.errors import DataLoss, OptionError, RecordError, StoreNewer
from regulus.record import store_checkpoint
from regulus.record.byte_runs import Buffer
from regulus.record.consume_queue_unit import FILLER
from regulus.record.layout import MAGIC_V1, MAGIC_V2
from regulus.record.log_units import FIELDS, FLAWS, LogWalk
from regulus.spark.store.files import CommitLogFiles, ConsumeQueueFiles, FilePiece
from regulus.spark.store.log_walk import MAGIC_START, next_record, whole_record_size

WALK_ROWS = 16_384
"""Records taken apart at a time."""
HASHES_MAX = WALK_ROWS * 4 + 32_768
"""Room for the key hashes of that many records; one alone may have half as many as its properties have bytes."""

RECOVERED_FILES = 3
"""Without queues that say more, recovery after a clean stop looks at this many files."""

_MAGICS = (MAGIC_V1, MAGIC_V2)

Int64s: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class LogEnd(NamedTuple):
    """Where the log ends; `reason` when something lies there that is neither a record nor zeros."""

    offset: int
    reason: str


class WalkedPiece(NamedTuple):
    """Records that lie one behind the other: one row of `table` for each field of log_units.FIELDS."""

    table: Int64s
    hashes: Int64s

    def column(self, name: str) -> Int64s:
        column: Int64s = self.table[FIELDS.index(name)]
        return column

    def first(self, rows: int) -> "WalkedPiece":
        return WalkedPiece(self.table[:, :rows], self.hashes[:int(self.column("entries")[:rows].sum())])


def open_log(store_path: str) -> CommitLogFiles:
    """Raises OptionError when that is not a store's directory, StoreDamaged when its files do not join up."""
    directory = Path(store_path) / "commitlog"
    if not directory.is_dir():
        raise OptionError(f"{store_path!r} has no directory 'commitlog': it must be the root of a broker's store")
    return CommitLogFiles(directory)


def queues_of(store_path: str) -> list[ConsumeQueueFiles]:
    """All consume queues; none where the directory, of a backup, has only the log."""
    found = []
    for directory in sorted((Path(store_path) / "consumequeue").glob("*/*")):
        if directory.name.isdecimal() and directory.is_dir() and any(directory.iterdir()):
            found.append(ConsumeQueueFiles(directory.parent.name, int(directory.name), directory))
    return found


# --- walking ---------------------------------------------------------------------------------------------------------


def walked(walk: LogWalk, data: Buffer, start: int, limit: int, base: int) -> WalkedPiece:
    """The next records of a file's bytes, at most WALK_ROWS. `walk` says where they end and why."""
    table = np.empty((len(FIELDS), WALK_ROWS), dtype=np.int64)
    hashes = np.empty(HASHES_MAX, dtype=np.int64)
    # A slice of a memoryview is not a copy; one of a mapped file is.
    rows = walk.walk(memoryview(data), data, start, limit, base, table.reshape(-1).data, WALK_ROWS, hashes.data)
    return WalkedPiece(table[:, :rows], hashes[:walk.hashes_used])


class Step(NamedTuple):
    """Where a walk goes on; `reason` when the bytes up to there are not records."""

    position: int
    reason: str


def step_over(walk: LogWalk, data: Any, limit: int, base: int) -> Step:
    """From where `walk` stands: over a blank, a good record that reaches beyond `limit`, or what is not a record."""
    position = walk.position
    if walk.is_blank:
        return Step(position + int.from_bytes(data[position:position + 4], "big"), "")
    if walk.fault is None:
        return Step(position, "")
    if beyond := _end_beyond(walk, data, limit):
        return Step(beyond, "")
    return Step(next_record(data, position + 1, limit, base), reason_of(walk.fault))


def _end_beyond(walk: LogWalk, data: Any, limit: int) -> int:
    """Where the good record ends that is not whole before `limit` and so stopped the walk; 0 when there is none."""
    end = walk.position + whole_record_size(data, walk.position, len(data), check_crc=True)
    return end if end > limit else 0


def reason_of(fault: RecordError) -> str:
    """What is wrong, without the place."""
    return str(fault).rpartition(" at ")[0]


def stable_order(*keys: Int64s) -> Int64s:
    """Row numbers sorted by the keys, the first one first; equal rows keep their order.

    Few different values, as topics and queues are, become one small number, which is sorted several times as fast.
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
    """Where recovery would end the log of a stopped store. Raises StoreNewer."""
    walk = LogWalk((), True, False, False)
    for piece in log.pieces[recovery_start(store_path, log):]:
        end = _end_in_file(walk, log.map(piece), piece)
        if end is not None:
            refuse_newer(log, end.offset)
            return end
        log.release_before(piece.start)
    return LogEnd(log.end, "")


def _end_in_file(walk: LogWalk, data: Any, piece: FilePiece) -> LogEnd | None:
    position = 0
    while position < piece.size:
        rows = walked(walk, data, position, piece.size, piece.start)
        end = end_in(rows, walk, data, piece.size, piece.start)
        if end is not None or walk.is_blank:
            return end
        position = walk.position
    return None


def end_in(rows: WalkedPiece, walk: LogWalk, data: Any, limit: int, base: int) -> LogEnd | None:
    """Where recovery would end the log among the records that `walk`, with sums, just took; None when it goes on."""
    flaws = rows.column("flaw")
    if flaws.any():
        row = int(np.argmax(flaws > 0))
        return LogEnd(base + int(rows.column("position")[row]), FLAWS[int(flaws[row])])
    if walk.fault is None or _end_beyond(walk, data, limit):
        return None
    is_empty = data[walk.position:walk.position + 8].strip(b"\0") == b""
    return LogEnd(base + walk.position, "" if is_empty else reason_of(walk.fault))


def refuse_newer(log: CommitLogFiles, end: int) -> None:
    """Raises StoreNewer when what lies where the log ends is a record, of a later format."""
    if end < log.end:
        piece = log.piece_at(end)
        position = end - piece.start
        magic = log.map(piece)[position + 4:position + 8]
        is_known = int.from_bytes(magic, "big", signed=True) in _MAGICS
        if magic[:3] == MAGIC_START and magic[3:] != b"\0" and not is_known:
            raise StoreNewer(f"{piece.path} has a record of a later format (0x{magic.hex()}) at {position}: read the "
                             "store with the version of RocketMQ or Regulus that wrote it")


def recovery_start(store_path: str, log: CommitLogFiles) -> int:
    """Which file recovery of a stopped store would begin with, as a number in `log.pieces`."""
    return (_first_after_crash if (Path(store_path) / "abort").exists() else _first_clean)(store_path, log)


def _first_clean(store_path: str, log: CommitLogFiles) -> int:
    """The last file that begins where the queues are complete."""
    ends = [end for queue in queues_of(store_path) if (end := _physical_end(queue, log)) is not None]
    if not ends:
        return max(0, len(log.pieces) - RECOVERED_FILES)
    return max((number for number, piece in enumerate(log.pieces) if piece.start <= max(ends)), default=0)


def _physical_end(queue: ConsumeQueueFiles, log: CommitLogFiles) -> int | None:
    """Behind the last record that the queue speaks of; None when it speaks of none."""
    first, end = queue.bounds(log)
    while end > first:
        unit = queue.unit(end - 1)
        if unit != FILLER:
            return unit.physical_offset + unit.size
        end -= 1
    return None


def _first_after_crash(store_path: str, log: CommitLogFiles) -> int:
    """The last file that was begun before the checkpoint; the first one when none was."""
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
    """The ranges of [start, end), which join up. Raises DataLoss when the log does not hold all of it."""
    ranges = []
    while start < end:
        piece = log.piece_at(start)
        file_end = min(end, piece.start + piece.size)
        target = piece.start + ((start - piece.start) // range_size + 1) * range_size
        upto = file_end
        if target < file_end:
            data = log.map(piece)
            limit = file_end - piece.start
            upto = piece.start + next_record(data, target - piece.start, limit, piece.start)
        ranges.append((start, upto))
        start = upto
    if end > log.end:
        raise DataLoss(f"the log was to be read up to {end} and its files end at {log.end}")
    return ranges
