"""One task of a live read: the messages of its ranges, batch after batch, checked to be all of them.

Answers of a broker are stored records one behind the other, the same bytes as in its log, so the same decoder serves.
Some reads are always under way while what came before is decoded.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from regulus.client.bulk_admin import BULK_SIZE, PULL_COUNT, QueueRead
from regulus.errors import DataLoss, RecordError
from regulus.model.message_queue import MessageQueue
from regulus.spark.columns import (
    BadRecord,
    ColumnOptions,
    Records,
    found_records,
    gap_batch,
    joined_records,
    record_batch,
)
from regulus.spark.live_brokers import LiveBrokers
from regulus.spark.options import OnDataLoss, ReadOptions
from regulus.spark.read_bounds import data_loss
from regulus.spark.read_plan import Gap, ReadRange, UnitRange

BATCH_BYTES_MAX = 8 << 20
"""A batch ends here even when it has fewer rows than asked for."""

BATCH_ROWS_GOOD = 1024
"""From this many rows on, a batch costs Spark no more per row than a larger one."""

BULK_READS_AHEAD = 2
PULLS_AHEAD = 16
BULK_RECORDS_FIRST = 1024
BULK_RECORDS_MAX = 16_384


class _Ask(NamedTuple):
    unit: UnitRange
    start: int
    end: int
    reading: "Future[QueueRead]"


class _Answer(NamedTuple):
    """Messages [start, next_offset) were looked at; what is not in `records` was not wanted or is gone.

    `are_gone`: the broker has none of them, whatever is wanted.
    """

    unit: UnitRange
    start: int
    next_offset: int
    records: Records | None
    cause: str
    are_gone: bool = False


def scan(options: ReadOptions, columns: tuple[str, ...], part: ReadRange) -> Iterator[pa.RecordBatch]:
    """The batches of one task, queue after queue. Raises DataLoss for a message that is gone or damaged."""
    if part.gaps:
        yield gap_batch(part.gaps, columns)
    if part.units:
        with LiveBrokers(options) as brokers:
            yield from _Scan(options, columns, brokers).batches(part)


class _Scan:
    """Records gather until they are worth a batch."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...], brokers: LiveBrokers) -> None:
        self._options = options
        self._columns = columns
        self._brokers = brokers
        self._is_filtered = bool(options.sql) or options.tags is not None
        self._waiting: list[Records] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._waiting_broker = ""

    def batches(self, part: ReadRange) -> Iterator[pa.RecordBatch]:
        looked_at = 0
        for answer in self._answers(part):
            looked_at += answer.next_offset - answer.start
            if answer.unit.broker_name != self._waiting_broker:
                yield from self._flush()
                self._waiting_broker = answer.unit.broker_name
            for piece in self._checked(answer):
                if isinstance(piece, Gap):
                    yield from self._flush()
                    yield from self._lose(piece)
                    continue
                if len(piece.positions) >= BATCH_ROWS_GOOD:
                    # Joining it with others would copy it for nothing.
                    yield from self._flush()
                self._waiting.append(piece)
                self._waiting_rows += len(piece.positions)
                self._waiting_bytes += len(piece.data)
                if (self._waiting_rows >= min(self._options.batch_rows, BATCH_ROWS_GOOD)
                        or self._waiting_bytes >= BATCH_BYTES_MAX):
                    yield from self._flush()
        yield from self._flush()
        if looked_at != part.rows:
            raise DataLoss(f"a task was to read {part.rows} messages of {part.units} and looked at {looked_at}")

    # --- reading -----------------------------------------------------------------------------------------------------

    def _answers(self, part: ReadRange) -> Iterator[_Answer]:
        """All that the ranges hold, in order; the rest of a range that an answer leaves unfinished is asked for at
        once."""
        pace = _Pace(self._is_bulk(part.units[0].queue))
        asks = self._asks(part, pace)
        under_way = deque(islice(asks, pace.ahead))
        while under_way:
            ask = under_way.popleft()
            start, reading = ask.start, ask.reading
            while start < ask.end:
                read = self._brokers.finish_read(reading, ask.unit.queue, start, ask.end)
                answer = _answer(ask, start, read)
                pace.note(answer)
                yield answer
                start = answer.next_offset
                if start < ask.end:
                    reading = self._brokers.begin_read(ask.unit.queue, start, ask.end)
            under_way.extend(islice(asks, pace.ahead - len(under_way)))

    def _asks(self, part: ReadRange, pace: "_Pace") -> Iterator[_Ask]:
        for unit in part.units:
            start = unit.start
            while start < unit.end:
                end = min(start + pace.records, unit.end)
                yield _Ask(unit, start, end, self._brokers.begin_read(unit.queue, start, end))
                start = end

    def _is_bulk(self, queue: MessageQueue) -> bool:
        """Asks a broker for nothing, to see whether it knows how to answer."""
        self._brokers.states([queue])
        return not self._options.sql and self._brokers.has_bulk(queue)

    # --- checking ----------------------------------------------------------------------------------------------------

    def _checked(self, answer: _Answer) -> Iterator[Records | Gap]:
        """The records of an answer, and what is missing before, between and behind them.

        A filter leaves out messages where others are, so only where the broker has nothing at all are they gone.
        """
        queue, at = answer.unit.queue, answer.start
        if answer.records is not None:
            offsets = answer.records.queue_offsets
            if (np.diff(offsets, prepend=at - 1) <= 0).any() or offsets[-1] >= answer.next_offset:
                raise DataLoss(f"{queue.topic}/{queue.broker_name}/{queue.queue_id}: the broker answered a read from "
                               f"{at} with messages {offsets[0]} to {offsets[-1]}, not in order")
            if self._is_filtered:
                yield answer.records
                return
            steps = np.flatnonzero(np.diff(offsets, prepend=at - 1) != 1).tolist()
            first = 0
            for row in steps:
                if row > first:
                    yield answer.records.take(slice(first, row))
                yield Gap(queue, int(offsets[row - 1]) + 1 if row else at, int(offsets[row]), answer.cause)
                first = row
            yield answer.records.take(slice(first, len(offsets)))
            at = int(offsets[-1]) + 1
        if at < answer.next_offset and (answer.are_gone or not self._is_filtered):
            yield Gap(queue, at, answer.next_offset, answer.cause)

    def _lose(self, gap: Gap) -> Iterator[pa.RecordBatch]:
        """Fail, go on, or report, as the options say."""
        if self._options.on_data_loss is OnDataLoss.FAIL:
            raise data_loss(gap)
        if self._options.on_data_loss is OnDataLoss.REPORT:
            yield gap_batch([gap], self._columns)

    # --- giving ------------------------------------------------------------------------------------------------------

    def _flush(self) -> Iterator[pa.RecordBatch]:
        """The batches of what waits, none greater than asked for."""
        if not self._waiting:
            return
        records = joined_records(self._waiting)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        options = ColumnOptions(columns=self._columns, broker_name=self._waiting_broker, tags=self._options.tags,
                                decompress=self._options.decompress, verify_bodies=self._options.verify_bodies)
        for row in range(0, len(records.positions), self._options.batch_rows):
            yield from self._good(records.take(slice(row, row + self._options.batch_rows)), options)

    def _good(self, records: Records, options: ColumnOptions) -> Iterator[pa.RecordBatch]:
        """A batch of the records; damaged ones are lost like those that are gone."""
        while len(records.positions):
            try:
                batch = record_batch(records, options)
            except BadRecord as error:
                number = int(records.queue_numbers[error.row])
                queue = MessageQueue(records.topics[number], options.broker_name, records.queue_ids[number])
                offset = int(records.queue_offsets[error.row])
                yield from self._good(records.take(slice(0, error.row)), options)
                yield from self._lose(Gap(queue, offset, offset + 1, f"because it is damaged: {error}"))
                records = records.take(slice(error.row + 1, None))
                continue
            if batch.num_rows:
                yield batch
            return


class _Pace:
    """How many messages to ask for at a time: as many as an answer has room for."""

    def __init__(self, is_bulk: bool) -> None:
        self._is_bulk = is_bulk
        self.ahead = BULK_READS_AHEAD if is_bulk else PULLS_AHEAD
        self.records = BULK_RECORDS_FIRST if is_bulk else PULL_COUNT

    def note(self, answer: _Answer) -> None:
        looked_at = answer.next_offset - answer.start
        if answer.records is None or looked_at < 1:
            return
        if self._is_bulk:
            fitting = BULK_SIZE * looked_at // len(answer.records.data)
            self.records = max(1, min(fitting, BULK_RECORDS_MAX))


def _answer(ask: _Ask, start: int, read: QueueRead) -> _Answer:
    """What a read says of [start, ask.end), and no further. Raises DataLoss for bytes that are not records."""
    unit, cause = ask.unit, "the broker passes over them: they were deleted, or their place in the queue was never used"
    next_offset = min(read.next_offset, ask.end)
    are_gone = not read.data and next_offset <= start
    if are_gone:
        if start < read.min_offset:
            next_offset, cause = min(read.min_offset, ask.end), f"no longer kept: the first there is {read.min_offset}"
        else:
            next_offset = ask.end
            cause = (f"the queue ends at {read.max_offset}: the broker lost its end, or the topic was made anew"
                     if start >= read.max_offset else "the broker has their places and not their records")
    if not read.data:
        return _Answer(unit, start, next_offset, None, cause, are_gone)
    try:
        records = found_records(read.data, unit.topic, unit.queue_id, start, read.next_offset - start)
    except RecordError as error:
        raise DataLoss(f"{unit.topic}/{unit.broker_name}/{unit.queue_id}: the answer to a read from {start} has bytes "
                       f"that are no record: {error}") from error
    within = int(np.searchsorted(records.queue_offsets, ask.end))
    if within < len(records.positions):
        records = records.take(slice(0, within))
    return _Answer(unit, start, next_offset, records if within else None, cause)
