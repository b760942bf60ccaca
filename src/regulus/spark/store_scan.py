"""One task of a read: the records of its range of the log, batch after batch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from regulus.errors import DataLoss
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SCHEDULE_TOPIC
from regulus.record.java_hash import tags_code
from regulus.spark.columns import BadRecord, ColumnOptions, Records, gap_batch, record_batch
from regulus.spark.numpy_columns import Int64s
from regulus.spark.options import OnDataLoss, ReadOptions
from regulus.spark.read_bounds import data_loss
from regulus.spark.read_plan import Gap, ReadRange
from regulus.spark.store_files import StoreFiles

BATCH_BYTES_MAX = 16 << 20
"""A batch ends here even when it has fewer rows than asked for; a single larger record makes a batch of its own."""

_UNITS = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])


def scan(options: ReadOptions, columns: tuple[str, ...], part: ReadRange) -> Iterator[pa.RecordBatch]:
    """The batches of one task, in the order of the log. Raises DataLoss for a message that is gone or damaged."""
    if part.gaps:
        yield gap_batch(part.gaps, columns)
    if not part.units:
        return
    store = StoreFiles(options.store_path)
    column_options = ColumnOptions(columns=columns, broker_name=options.broker_name, tags=options.tags,
                                   decompress=options.decompress, verify_bodies=options.verify_bodies)
    for piece in _pieces(options, store, part):
        for batch in _lost(piece, options, columns) if isinstance(piece, Gap) else _good(piece, options,
                                                                                         column_options):
            if batch.num_rows:
                yield batch


def _pieces(options: ReadOptions, store: StoreFiles, part: ReadRange) -> Iterator[Records | Gap]:
    """The records of a part in the order of the log, at most a batch at a time, each time of one log file."""
    units = _unit_table(options, store, part)
    row = 0
    while row < len(units.positions):
        try:
            piece = store.log.piece_at(int(units.positions[row]))
            data = store.log.map(piece)
        except DataLoss as error:
            yield _gap(units, row, options, f"because {error}")
            row += 1
            continue
        store.log.release_before(piece.start)
        end = row + int(np.searchsorted(units.positions[row:], piece.start + piece.size))
        in_file = replace(units.take(slice(row, end)), data=data, base=piece.start,
                          positions=units.positions[row:end] - piece.start)
        yield from _batches(in_file, options.batch_rows)
        row = end


def _gap(records: Records, row: int, options: ReadOptions, cause: str) -> Gap:
    number, offset = int(records.queue_numbers[row]), int(records.queue_offsets[row])
    queue = MessageQueue(records.topics[number], options.broker_name, records.queue_ids[number])
    return Gap(queue, offset, offset + 1, cause)


def _lost(gap: Gap, options: ReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Fail, go on, or report, as the options say."""
    if options.on_data_loss is OnDataLoss.FAIL:
        raise data_loss(gap)
    if options.on_data_loss is OnDataLoss.REPORT:
        yield gap_batch([gap], columns)


def _batches(records: Records, batch_rows: int) -> Iterator[Records]:
    row = 0
    while row < len(records.positions):
        room = np.cumsum(records.sizes[row:row + batch_rows])
        stop = row + max(1, int(np.searchsorted(room, BATCH_BYTES_MAX, side="right")))
        yield records.take(slice(row, stop))
        row = stop


def _unit_table(options: ReadOptions, store: StoreFiles, part: ReadRange) -> Records:
    """The units of a part in the order of the log; positions are physical offsets."""
    tables = [np.frombuffer(store.queue(unit.topic, unit.queue_id).units(unit.start, unit.end), dtype=_UNITS)
              for unit in part.units]
    sizes = [len(table) for table in tables]
    whole = np.concatenate(tables)
    units = Records(
        data=b"", base=0, positions=whole["physical_offset"].astype(np.int64), sizes=whole["size"].astype(np.int64),
        queue_offsets=np.concatenate([np.arange(unit.start, unit.end, dtype=np.int64) for unit in part.units]),
        tags_codes=(codes := whole["tags_code"].astype(np.int64)),
        queue_numbers=np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
        topics=[unit.topic for unit in part.units], queue_ids=[unit.queue_id for unit in part.units])
    if options.tags is not None:
        units = units.take(_may_have_tags(units, codes, options.tags))
    return units if len(tables) == 1 else units.take(np.argsort(units.positions, kind="stable"))


def _may_have_tags(units: Records, codes: Int64s, tags: frozenset[str]) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Which units' hash is that of one of the tags; in the schedule topic the unit keeps a time instead."""
    is_scheduled = np.array([topic == SCHEDULE_TOPIC for topic in units.topics])
    wanted = np.array(sorted(tags_code(tag) for tag in tags), dtype=np.int64)
    mask: np.ndarray[Any, np.dtype[np.bool_]] = np.isin(codes, wanted) | is_scheduled[units.queue_numbers]
    return mask


def _good(records: Records, options: ReadOptions, column_options: ColumnOptions) -> Iterator[pa.RecordBatch]:
    """The records that are good, and what becomes of the others."""
    while True:
        try:
            batch = record_batch(records, column_options)
        except BadRecord as error:
            yield from _lost(_gap(records, error.row, options, f"because it is damaged: {error}"), options,
                             column_options.columns)
            records = records.take(np.arange(len(records.positions)) != error.row)
        else:
            yield batch
            return
