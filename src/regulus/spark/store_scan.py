"""One task of a read: the records of its range of the log, batch after batch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from regulus.errors import DataLoss
from regulus.model.topics import SCHEDULE_TOPIC
from regulus.record.java_hash import tags_code
from regulus.spark.columns import BadRecord, ColumnOptions, Records, record_batch
from regulus.spark.options import ReadOptions
from regulus.spark.read_plan import ReadRange
from regulus.spark.store_files import StoreFiles

BATCH_BYTES_MAX = 16 << 20
"""A batch ends here even when it has fewer rows than asked for; a single greater record makes a batch of its own."""

_ADVICE = "set failOnDataLoss to false to go on without it"
_UNITS = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])


def scan(options: ReadOptions, columns: tuple[str, ...], part: ReadRange) -> Iterator[pa.RecordBatch]:
    """The batches of one task, in the order of the log. Raises DataLoss for a message that is gone or damaged."""
    store = StoreFiles(options.store_path)
    column_options = ColumnOptions(columns=columns, broker_name=options.broker_name, tags=options.tags,
                                   decompress=options.decompress, verify_bodies=options.verify_bodies)
    for records in _records(options, store, part):
        batch = _batch(records, column_options, options.fail_on_data_loss)
        if batch.num_rows:
            yield batch


def _records(options: ReadOptions, store: StoreFiles, part: ReadRange) -> Iterator[Records]:
    """The records of a part in the order of the log, at most a batch at a time, each time of one log file."""
    units = _unit_table(options, store, part)
    row = 0
    while row < len(units.positions):
        try:
            piece = store.log.piece_at(int(units.positions[row]))
            data = store.log.map(piece)
        except DataLoss as error:
            if options.fail_on_data_loss:
                raise DataLoss(f"{units.place(row)}: {error}; {_ADVICE}") from error
            row += 1
            continue
        store.log.release_before(piece.start)
        end = row + int(np.searchsorted(units.positions[row:], piece.start + piece.size))
        in_file = replace(units.take(slice(row, end)), data=data, base=piece.start,
                          positions=units.positions[row:end] - piece.start)
        yield from _batches(in_file, options.batch_rows)
        row = end


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
        tags_codes=whole["tags_code"].astype(np.int64),
        queue_numbers=np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
        topics=[unit.topic for unit in part.units], queue_ids=[unit.queue_id for unit in part.units])
    if options.tags is not None:
        units = units.take(_may_have_tags(units, options.tags))
    return units if len(tables) == 1 else units.take(np.argsort(units.positions, kind="stable"))


def _may_have_tags(units: Records, tags: frozenset[str]) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Which units' hash is that of one of the tags; in the schedule topic the unit keeps a time instead."""
    is_scheduled = np.array([topic == SCHEDULE_TOPIC for topic in units.topics])
    codes = np.array(sorted(tags_code(tag) for tag in tags), dtype=np.int64)
    mask: np.ndarray[Any, np.dtype[np.bool_]] = np.isin(units.tags_codes, codes) | is_scheduled[units.queue_numbers]
    return mask


def _batch(records: Records, options: ColumnOptions, fail_on_data_loss: bool) -> pa.RecordBatch:
    """The batch of the records that are good. Raises DataLoss for a bad one unless it may be left out."""
    while True:
        try:
            return record_batch(records, options)
        except BadRecord as error:
            if fail_on_data_loss:
                raise DataLoss(f"{error}; {_ADVICE}") from error
            records = records.take(np.arange(len(records.positions)) != error.row)
