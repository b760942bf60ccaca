"""Runs one task of a read: gives the records of its range of the log, batch after batch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

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
from regulus.spark.read_plan import CREATED_AGAIN, Gap, ReadRange, UnitRange, is_another_topic
from regulus.spark.store.files import StoreFiles

BATCH_BYTES_MAX = 16 << 20
"""Bytes at which a batch ends, even with fewer rows than requested; a larger record makes a batch of its own."""

_NO_UNITS = "because the consume queue has no file with their units"
_Array: TypeAlias = "np.ndarray[Any, Any]"
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
    spans, gaps = _read_units(options, store, part)
    for gap in gaps:
        yield from losses.gone(gap)
    for piece in _pieces(options, store, part, spans):
        if isinstance(piece, Gap):
            yield from losses.gone(piece)
        else:
            yield from good_batches(piece, column_options, losses)
        del piece       # it keeps its window mapped, and the next piece may be in another window
    losses.tell()


class _Span(NamedTuple):
    """Consecutive units of unit range `number` of a part, from queue offset `start` on."""

    number: int
    start: int
    units: _Array


def _read_units(options: ReadOptions, store: StoreFiles, part: ReadRange) -> tuple[list[_Span], list[Gap]]:
    """The units of a part, and gaps for those whose files are gone or are of another topic than the plan was."""
    spans: list[_Span] = []
    gaps: list[Gap] = []
    for number, unit in enumerate(part.units):
        read, lost = _read_range(options, store, number, unit)
        spans += read
        gaps += lost
    # Look at the epochs after the units were read: those of a topic that was created before the look count as its.
    epochs = store.topic_epochs()
    others = {number for number, unit in enumerate(part.units)
              if is_another_topic(unit.topic_epoch, epochs.get(unit.topic, 0)) or _is_elsewhere(store, unit)}
    if not others:
        return spans, gaps
    replaced = [Gap(MessageQueue(unit.topic, options.broker_name, unit.queue_id), unit.start, unit.end, CREATED_AGAIN)
                for number, unit in enumerate(part.units) if number in others]
    queues = {gap.queue for gap in replaced}
    return [span for span in spans if span.number not in others], [
        *(gap for gap in gaps if gap.queue not in queues), *replaced]


def _is_elsewhere(store: StoreFiles, unit: UnitRange) -> bool:
    """Whether the message that the plan found in the queue is no longer at its place."""
    if unit.anchor is None:
        return False
    queue_offset, physical_offset = unit.anchor
    files = store.queue(unit.topic, unit.queue_id)
    try:
        return (bool(files.spans(queue_offset, queue_offset + 1))
                and files.unit(queue_offset).physical_offset != physical_offset)
    except DataLoss:    # the file was removed in this moment
        return False


def _read_range(options: ReadOptions, store: StoreFiles, number: int,
                unit: UnitRange) -> tuple[list[_Span], list[Gap]]:
    """The units of one range that files have, and the gaps between them."""
    queue, files = MessageQueue(unit.topic, options.broker_name, unit.queue_id), store.queue(unit.topic, unit.queue_id)
    spans, gaps = [], []
    at = unit.start
    for start, end in files.spans(unit.start, unit.end):
        if at < start:
            gaps.append(Gap(queue, at, start, _NO_UNITS))
        try:
            spans.append(_Span(number, start, np.frombuffer(files.units(start, end), dtype=_UNITS)))
        except DataLoss as error:
            gaps.append(Gap(queue, start, end, f"because {error}"))
        at = end
    if at < unit.end:
        gaps.append(Gap(queue, at, unit.end, _NO_UNITS))
    return spans, gaps


def _pieces(options: ReadOptions, store: StoreFiles, part: ReadRange,
            spans: list[_Span]) -> Iterator[Records | Gap]:
    """The records of a part in the order of the log, at most a batch at a time, each batch from one mapped window."""
    units = _unit_table(options, part, spans)
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


def _unit_table(options: ReadOptions, part: ReadRange, spans: list[_Span]) -> Records:
    """The units of a part in the order of the log; positions are physical offsets."""
    whole = np.concatenate([np.empty(0, dtype=_UNITS), *(span.units for span in spans)])
    units = Records(
        data=b"", base=0, positions=whole["physical_offset"].astype(np.int64), sizes=whole["size"].astype(np.int64),
        queue_offsets=np.concatenate([np.empty(0, dtype=np.int64),
                                      *(np.arange(span.start, span.start + len(span.units), dtype=np.int64)
                                        for span in spans)]),
        tags_codes=(codes := whole["tags_code"].astype(np.int64)),
        queue_numbers=np.repeat(np.array([span.number for span in spans], dtype=np.int64),
                                [len(span.units) for span in spans]),
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
