"""Runs one task of a read: gives the records of its range of the log, batch after batch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from regulus.errors import DataLoss
from regulus.model.java_hash import tags_code
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SCHEDULE_TOPIC
from regulus.spark.columns.properties import Int64s
from regulus.spark.columns.records import ColumnOptions, Records, gap_batch
from regulus.spark.data_loss import Losses, gaps_of, good_batches
from regulus.spark.options import ReadOptions
from regulus.spark.read_plan import Gap, ReadRange
from regulus.spark.store.files import StoreFiles

BATCH_BYTES_MAX = 16 << 20
"""Bytes at which a batch ends, even with fewer rows than requested; a larger record makes a batch of its own."""

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
    losses = Losses(options, columns)
    for gap in _without_units(options, store, part):
        yield from losses.gone(gap)
    for piece in _pieces(options, store, part):
        if isinstance(piece, Gap):
            yield from losses.gone(piece)
        else:
            yield from good_batches(piece, column_options, losses)
        del piece       # it keeps its window mapped, and the next piece may be in another window
    losses.tell()


def _without_units(options: ReadOptions, store: StoreFiles, part: ReadRange) -> Iterator[Gap]:
    """The messages of a part whose files of a consume queue are gone."""
    for unit in part.units:
        at = unit.start
        for start, end in [*store.queue(unit.topic, unit.queue_id).spans(unit.start, unit.end), (unit.end, unit.end)]:
            if at < start:
                yield Gap(MessageQueue(unit.topic, options.broker_name, unit.queue_id), at, start,
                          "because the consume queue has no file with their units")
            at = end


def _pieces(options: ReadOptions, store: StoreFiles, part: ReadRange) -> Iterator[Records | Gap]:
    """The records of a part in the order of the log, at most a batch at a time, each batch from one mapped window."""
    units = _unit_table(options, store, part)
    ends = units.positions + units.sizes
    row = 0
    while row < len(units.positions):
        position = int(units.positions[row])
        try:
            window = store.log.record_window(position)
        except DataLoss as error:
            # Everything in the missing file is one gap, up to where the next file begins.
            behind = store.log.next_start(position)
            end = row + int(np.searchsorted(units.positions[row:], behind)) if behind > position else len(
                units.positions)
            yield from gaps_of(units.take(slice(row, end)), options.broker_name, f"because {error}")
            row = end
            continue
        # A record that is cut by this window begins the next one. A record that is whole in no window is damaged.
        begin_there = row + int(np.searchsorted(units.positions[row:], window.end))
        are_cut = np.flatnonzero(ends[row + 1:begin_there] > window.end)
        end = row + 1 + int(are_cut[0]) if len(are_cut) else begin_there
        in_window = replace(units.take(slice(row, end)), data=window.data, base=window.start,
                            positions=units.positions[row:end] - window.start)
        del window      # so that it can be unmapped before the next one is mapped
        yield from _batches(in_window, options.batch_rows)
        del in_window
        row = end


def _batches(records: Records, batch_rows: int) -> Iterator[Records]:
    row = 0
    while row < len(records.positions):
        room = np.cumsum(records.sizes[row:row + batch_rows])
        stop = row + max(1, int(np.searchsorted(room, BATCH_BYTES_MAX, side="right")))
        yield records.take(slice(row, stop))
        row = stop


def _unit_table(options: ReadOptions, store: StoreFiles, part: ReadRange) -> Records:
    """The existing units of a part in the order of the log; positions are physical offsets."""
    spans = [(number, start, end) for number, unit in enumerate(part.units)
             for start, end in store.queue(unit.topic, unit.queue_id).spans(unit.start, unit.end)]
    tables = [np.frombuffer(store.queue(part.units[number].topic, part.units[number].queue_id).units(start, end),
                            dtype=_UNITS) for number, start, end in spans]
    whole = np.concatenate([np.empty(0, dtype=_UNITS), *tables])
    units = Records(
        data=b"", base=0, positions=whole["physical_offset"].astype(np.int64), sizes=whole["size"].astype(np.int64),
        queue_offsets=np.concatenate([np.empty(0, dtype=np.int64),
                                      *(np.arange(start, end, dtype=np.int64) for _, start, end in spans)]),
        tags_codes=(codes := whole["tags_code"].astype(np.int64)),
        queue_numbers=np.repeat(np.array([number for number, _, _ in spans], dtype=np.int64),
                                [end - start for _, start, end in spans]),
        topics=[unit.topic for unit in part.units], queue_ids=[unit.queue_id for unit in part.units])
    if options.tags is not None:
        units = units.take(_may_have_tags(units, codes, options.tags))
    return units if len(part.units) == 1 else units.take(np.argsort(units.positions, kind="stable"))


def _may_have_tags(units: Records, codes: Int64s, tags: frozenset[str]) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """A mask of the units whose hash is that of one of the tags, or which are of the schedule topic, whose units keep a
    time instead of a hash."""
    is_scheduled = np.array([topic == SCHEDULE_TOPIC for topic in units.topics])
    wanted = np.array(sorted(tags_code(tag) for tag in tags), dtype=np.int64)
    mask: np.ndarray[Any, np.dtype[np.bool_]] = np.isin(codes, wanted) | is_scheduled[units.queue_numbers]
    return mask
