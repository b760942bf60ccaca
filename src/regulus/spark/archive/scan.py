"""One task of a read from an archive: the rows of its share of the files, batch after batch.

Of a file only the asked columns are read, those that a filter needs, and of its row groups those whose statistics do
not rule out every wanted row.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from regulus.errors import DataLoss, MessageIllegal
from regulus.model import sys_flag
from regulus.model.message_queue import MessageQueue
from regulus.record.checksum import crc32
from regulus.spark.archive.plan import ArchiveRange, FilePart, Wanted
from regulus.spark.columns import arrow_arrays
from regulus.spark.columns.properties import Int64s
from regulus.spark.columns.records import UNPACKED_BYTES_MAX, arrow_schema, gap_batch
from regulus.spark.data_loss import Losses
from regulus.spark.options import OnDataLoss, ReadOptions
from regulus.spark.read_plan import Gap
from regulus.spark.table_schema import COLUMNS
from regulus.wire import compression

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

BATCH_BYTES_MAX = 16 << 20
"""A batch ends here even when it has fewer rows than asked for; a single larger row makes a batch of its own."""

_PLACE = ("topic", "broker_name", "queue_id", "queue_offset")


def scan(options: ReadOptions, columns: tuple[str, ...], part: ArchiveRange) -> Iterator[pa.RecordBatch]:
    """The batches of one task. Raises DataLoss for a file that is gone or damaged, and for a damaged body."""
    if part.gaps:
        yield gap_batch(part.gaps, columns)
    losses = Losses(options, columns)
    if part.by_queue:
        yield from _scan_by_queue(options, columns, part, losses)
    else:
        for piece in part.parts:
            batches = _scan_file(options, columns, piece, losses)
            yield from _as_far_as_it_is(options, piece, batches, losses)
    losses.tell()


def _as_far_as_it_is(options: ReadOptions, piece: FilePart, batches: Iterator[pa.RecordBatch],
                     losses: Losses) -> Iterator[pa.RecordBatch]:
    """The batches of a file, and what is told where it is gone or damaged. Raises DataLoss."""
    try:
        yield from batches
    except FileNotFoundError as error:
        if options.on_data_loss is OnDataLoss.FAIL:
            raise DataLoss(f"{piece.path} was removed while it was to be read, by compaction or expiry: run the "
                           "query again, which finds what took its place") from error
        cause = f"as {piece.path} was removed while it was to be read: another query finds what took its place"
        for unit in piece.units:
            yield from losses.gone(Gap(unit.queue, unit.start, unit.end, cause))
    except (OSError, pa.ArrowException, KeyError, UnicodeDecodeError) as error:
        told = f"{piece.path} is damaged ({str(error).strip() or type(error).__name__})"
        if options.on_data_loss is OnDataLoss.FAIL:
            raise DataLoss(f"{told}: bring it back from a copy, or archive its range anew; set failOnDataLoss to "
                           "false or report to go on without it") from error
        for unit in piece.units:
            yield from losses.gone(Gap(unit.queue, unit.start, unit.end,
                                       f"as {told}; what lies before the damage was read"))


def _scan_file(options: ReadOptions, columns: tuple[str, ...], part: FilePart,
               losses: Losses) -> Iterator[pa.RecordBatch]:
    for batch in _wanted(options, columns, part):
        yield from _chosen(options, columns, batch, losses)


def _scan_by_queue(options: ReadOptions, columns: tuple[str, ...], part: ArchiveRange,
                   losses: Losses) -> Iterator[pa.RecordBatch]:
    """The rows of all files together, put in order. Planning limits their bytes."""
    tables: list[pa.Table] = []
    for file in part.parts:
        yield from _as_far_as_it_is(options, file, _kept(_wanted(options, columns, file), tables), losses)
    if not tables:
        return
    whole = pa.concat_tables(tables).combine_chunks()
    tables.clear()
    order = np.lexsort((whole.column("queue_offset").to_numpy(), whole.column("queue_id").to_numpy()))
    rows, = whole.to_batches()
    for start in range(0, len(order), options.batch_rows):
        batch = rows.take(arrow_arrays.numbers(order[start:start + options.batch_rows]))
        for piece in _in_pieces(batch):
            yield from _chosen(options, columns, piece, losses)


def _kept(batches: Iterator[pa.RecordBatch], tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Gives none of them; they are put by."""
    tables += (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
    yield from ()


def _wanted(options: ReadOptions, columns: tuple[str, ...], part: FilePart) -> Iterator[pa.RecordBatch]:
    """The wanted rows as they are stored, one row group after the other, whose bytes the archive job limits; a batch
    has as many rows as fit."""
    needed = _needed(options, columns, part)
    with pq.ParquetFile(part.path, page_checksum_verification=True) as file:
        for number in _row_groups(file.metadata, part):
            left = file.metadata.row_group(number).num_rows
            for batch in file.iter_batches(options.batch_rows, row_groups=[number], columns=needed, use_threads=False):
                left -= batch.num_rows
                if part.wanted is not None:
                    batch = _filtered(batch, _wanted_rows(batch, part.wanted))
                yield from _in_pieces(batch.select(needed))
            if left:        # a page whose header is damaged is passed over without a word
                raise pa.ArrowInvalid(f"a row group lacks {left} of its rows")


def _in_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most BATCH_BYTES_MAX; a single larger row is a slice of its own."""
    if batch.nbytes <= BATCH_BYTES_MAX:
        yield batch
        return
    sizes = _row_sizes(batch)
    row = 0
    while row < batch.num_rows:
        stop = row + max(1, int(np.searchsorted(np.cumsum(sizes[row:]), BATCH_BYTES_MAX, side="right")))
        yield batch.slice(row, stop - row)
        row = stop


def _row_sizes(batch: pa.RecordBatch) -> Int64s:
    """The bytes of each row's body, and an even share of what the other columns take."""
    if "body" not in batch.schema.names:
        return np.full(batch.num_rows, -(-batch.nbytes // batch.num_rows), dtype=np.int64)
    body = batch.column("body")
    sizes: Int64s = pc.binary_length(body).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes += (batch.nbytes - body.nbytes) // batch.num_rows
    return sizes


def _needed(options: ReadOptions, columns: tuple[str, ...], part: FilePart) -> list[str]:
    """The asked columns and those that filters look at; never none, since rows are counted by a column."""
    extra: set[str] = set()
    if part.wanted is not None:
        extra |= {"queue_id", "queue_offset", "store_time"}
    if options.tags is not None:
        extra.add("tags")
    if options.verify_bodies:
        extra |= {*_PLACE, "body", "body_crc"}
    if options.decompress and "body" in columns:
        extra |= {*_PLACE, "sys_flag"}
    asked = extra.union(columns) or {"queue_id"}
    return [name for name in COLUMNS if name in asked]


def _chosen(options: ReadOptions, columns: tuple[str, ...], batch: pa.RecordBatch,
            losses: Losses) -> Iterator[pa.RecordBatch]:
    """The asked columns of the rows with a wanted tag; and what becomes of those that are damaged."""
    if options.tags is not None and batch.num_rows:
        tags = pc.is_in(batch.column("tags"), arrow_arrays.texts(sorted(options.tags)))
        batch = _filtered(batch, np.asarray(tags.to_numpy(zero_copy_only=False)))
    if options.verify_bodies and batch.num_rows:
        good = _good_bodies(batch)
        for row in np.flatnonzero(~good).tolist():
            yield from losses.bad(*_bad_row(batch, row, "body and its checksum differ"))
        batch = _filtered(batch, good)
    if batch.num_rows and options.decompress and "body" in columns:
        yield from _unpacked(columns, batch, losses)
    elif batch.num_rows:
        yield _with_columns(columns, batch)


def _with_columns(columns: tuple[str, ...], batch: pa.RecordBatch, body: pa.Array | None = None) -> pa.RecordBatch:
    arrays = [body if name == "body" and body is not None else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _unpacked(columns: tuple[str, ...], batch: pa.RecordBatch, losses: Losses) -> Iterator[pa.RecordBatch]:
    """Batches with unpacked bodies, which end where those become many bytes."""
    flags = batch.column("sys_flag").to_numpy()
    if not (flags & sys_flag.COMPRESSED).any():
        yield _with_columns(columns, batch)
        return
    bodies: list[bytes] = []
    rows: list[int] = []
    size = 0
    for row, (body, flag) in enumerate(zip(batch.column("body"), flags.tolist(), strict=True)):
        try:
            bodies.append(compression.decompress(body.as_py(), flag))
        except MessageIllegal as error:
            yield from losses.bad(*_bad_row(batch, row, str(error)))
            continue
        rows.append(row)
        size += len(bodies[-1])
        if size >= UNPACKED_BYTES_MAX:
            yield _with_columns(columns, _taken(batch, rows), arrow_arrays.binaries(bodies))
            bodies, rows, size = [], [], 0
    if rows:
        yield _with_columns(columns, _taken(batch, rows), arrow_arrays.binaries(bodies))


def _taken(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    return batch.take(arrow_arrays.numbers(np.array(rows, dtype=np.int64)))


def _filtered(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    if mask.all():
        return batch
    return batch.take(arrow_arrays.numbers(np.flatnonzero(mask)))


def _wanted_rows(batch: pa.RecordBatch, wanted: tuple[Wanted, ...]) -> Mask:
    queue_ids = batch.column("queue_id").to_numpy()
    queue_offsets = batch.column("queue_offset").to_numpy()
    times = batch.column("store_time").view(pa.int64()).to_numpy()
    mask: Mask = np.zeros(batch.num_rows, dtype=np.bool_)
    for window in wanted:
        mask |= ((queue_ids == window.queue_id) & (queue_offsets >= window.start) & (queue_offsets < window.end)
                 & (times >= window.time_start * 1000) & (times < window.time_end * 1000))
    return mask


def _good_bodies(batch: pa.RecordBatch) -> Mask:
    checks = [crc32(body.as_py()) & 0x7FFFFFFF for body in batch.column("body")]
    good: Mask = np.array(checks) == batch.column("body_crc").to_numpy()
    return good


def _bad_row(batch: pa.RecordBatch, row: int, reason: str) -> tuple[MessageQueue, int, str, bytes]:
    topic, broker_name, queue_id, offset, body = (batch.column(name)[row].as_py() for name in (*_PLACE, "body"))
    return MessageQueue(topic, broker_name, queue_id), offset, reason, body


# --- row groups ------------------------------------------------------------------------------------------------------


def _row_groups(metadata: Any, part: FilePart) -> list[int]:
    """The row groups of the part's share that may have a wanted row."""
    count = metadata.num_row_groups
    share = range(count * part.share // part.shares, count * (part.share + 1) // part.shares)
    if part.wanted is None:
        return list(share)
    numbers = {metadata.schema.column(number).name: number for number in range(metadata.num_columns)
               if metadata.schema.column(number).path in ("queue_id", "queue_offset", "store_time")}
    return [group for group in share if _may_have(metadata.row_group(group), numbers, part.wanted)]


def _may_have(group: Any, numbers: Mapping[str, int], wanted: tuple[Wanted, ...]) -> bool:
    limits = {name: group.column(number).statistics for name, number in numbers.items()}
    if any(limit is None or not limit.has_min_max for limit in limits.values()):
        return True
    queue, offset, time = limits["queue_id"], limits["queue_offset"], limits["store_time"]
    return any(queue.min <= window.queue_id <= queue.max and window.start <= offset.max and offset.min < window.end
               and window.time_start * 1000 <= time.max_raw and time.min_raw < window.time_end * 1000
               for window in wanted)
