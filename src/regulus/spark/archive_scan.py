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

from regulus.errors import DataLoss
from regulus.model import sys_flag
from regulus.model.message_queue import MessageQueue
from regulus.record.checksum import crc32
from regulus.spark import arrow_arrays
from regulus.spark.archive_plan import ArchiveRange, FilePart, Wanted
from regulus.spark.columns import arrow_schema, gap_batch
from regulus.spark.options import OnDataLoss, ReadOptions
from regulus.spark.read_bounds import to_report
from regulus.spark.read_plan import Gap
from regulus.spark.table_schema import COLUMNS
from regulus.wire import compression

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_PLACE = ("topic", "broker_name", "queue_id", "queue_offset")


def scan(options: ReadOptions, columns: tuple[str, ...], part: ArchiveRange) -> Iterator[pa.RecordBatch]:
    """The batches of one task. Raises DataLoss for a file that is gone or a body that is damaged."""
    if part.gaps:
        yield gap_batch(part.gaps, columns)
    for piece in part.parts:
        try:
            yield from _scan_file(options, columns, piece)
        except FileNotFoundError as error:
            if options.on_data_loss is OnDataLoss.FAIL:
                raise DataLoss(f"{piece.path} was removed while it was to be read, by compaction or expiry: run the "
                               "query again, which finds what took its place") from error
            cause = f"as {piece.path} was removed while it was to be read: another query finds what took its place"
            gaps = [Gap(unit.queue, unit.start, unit.end, cause) for unit in piece.units]
            yield from _reported(gaps, options, columns)


def _reported(gaps: list[Gap], options: ReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Rows for the gaps, where such are wanted. Raises DataLoss when the read is to fail."""
    if told := to_report(gaps, options.on_data_loss):
        yield gap_batch(told, columns)


def _scan_file(options: ReadOptions, columns: tuple[str, ...], part: FilePart) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(part.path) as file:
        groups = _row_groups(file.metadata, part)
        needed = _needed(options, columns, part)
        for batch in file.iter_batches(options.batch_rows, row_groups=groups, columns=needed, use_threads=False):
            yield from _chosen(options, columns, part, batch)


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
        extra.add("sys_flag")
    asked = extra.union(columns) or {"queue_id"}
    return [name for name in COLUMNS if name in asked]


def _chosen(options: ReadOptions, columns: tuple[str, ...], part: FilePart,
            batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows that are wanted, with the asked columns; and a row for what is damaged, where such are wanted."""
    if part.wanted is not None:
        batch = _filtered(batch, _wanted_rows(batch, part.wanted))
    if options.tags is not None and batch.num_rows:
        tags = pc.is_in(batch.column("tags"), arrow_arrays.texts(sorted(options.tags)))
        batch = _filtered(batch, np.asarray(tags.to_numpy(zero_copy_only=False)))
    if options.verify_bodies and batch.num_rows:
        good = _good_bodies(batch)
        yield from _reported(_damaged(_filtered(batch, ~good)), options, columns)
        batch = _filtered(batch, good)
    if not batch.num_rows:
        return
    arrays = [_decompressed(batch) if name == "body" and options.decompress else batch.column(name)
              for name in columns]
    yield pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


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
    checks = [crc32(body) & 0x7FFFFFFF for body in batch.column("body").to_pylist()]
    good: Mask = np.array(checks) == batch.column("body_crc").to_numpy()
    return good


def _damaged(batch: pa.RecordBatch) -> list[Gap]:
    rows = zip(*(batch.column(name).to_pylist() for name in _PLACE), strict=True)
    return [Gap(MessageQueue(topic, broker_name, queue_id), offset, offset + 1,
                "because it is damaged: body and its checksum differ") for topic, broker_name, queue_id, offset in rows]


def _decompressed(batch: pa.RecordBatch) -> pa.Array:
    flags = batch.column("sys_flag").to_numpy()
    if not (flags & sys_flag.COMPRESSED).any():
        return batch.column("body")
    return arrow_arrays.binaries([
        compression.decompress(body, int(flag)) if flag & sys_flag.COMPRESSED else body
        for body, flag in zip(batch.column("body").to_pylist(), flags, strict=True)])


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
