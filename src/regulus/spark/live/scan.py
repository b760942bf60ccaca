"""Runs one task of a live read: gives the messages of its ranges, batch after batch, and checks that none is missing.

A broker's answer is a sequence of stored records, with the same bytes as in its log, so the same decoder is used. Some
reads are always under way while earlier answers are decoded.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from regulus.client.administration.bulk_admin import BULK_SIZE, PULL_COUNT, QueueRead
from regulus.errors import BrokerRefused, DataLoss, RecordError
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SCHEDULE_TOPIC
from regulus.spark.columns.records import ColumnOptions, Records, found_records, gap_batch, joined_records
from regulus.spark.data_loss import Losses, good_batches
from regulus.spark.live.brokers import LiveBrokers, no_record
from regulus.spark.options import ReadOptions
from regulus.spark.read_plan import CREATED_AGAIN, Gap, ReadRange, UnitRange, is_another_topic

BATCH_BYTES_MAX = 8 << 20
"""Bytes at which a batch ends even if it has fewer rows than requested."""

BATCH_ROWS_GOOD = 1024
"""Rows of a batch from which on a larger one does not cost Spark less per row."""

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
    """An answer about messages [start, next_offset); those that are not in `records` were not wanted or are gone.

    `are_gone`: the broker has none of them, wanted or not. `damaged`: the bytes of the last one, which are not a
    record.
    """

    unit: UnitRange
    start: int
    next_offset: int
    records: Records | None
    cause: str
    are_gone: bool = False
    damaged: bytes | None = None


def scan(options: ReadOptions, columns: tuple[str, ...], part: ReadRange) -> Iterator[pa.RecordBatch]:
    """The batches of one task, queue after queue. Raises DataLoss for a message that is gone or damaged."""
    if part.gaps:
        yield gap_batch(part.gaps, columns)
    if part.units:
        with LiveBrokers(options, was_reached=True) as brokers:
            yield from _Scan(options, columns, brokers).batches(part)


class _Scan:
    """Reads the ranges of a task, and collects records until they are enough for a batch."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...], brokers: LiveBrokers) -> None:
        self._options = options
        self._columns = columns
        self._losses = Losses(options, columns)
        self._gap: Gap | None = None
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
                    yield from self._lose(piece)
                    continue
                yield from self._tell_gap()
                if len(piece.positions) >= BATCH_ROWS_GOOD:
                    # This answer is large enough for a batch of its own; joining it with others would copy it.
                    yield from self._flush()
                self._waiting.append(piece)
                self._waiting_rows += len(piece.positions)
                self._waiting_bytes += len(piece.data)
                if (self._waiting_rows >= min(self._options.batch_rows, BATCH_ROWS_GOOD)
                        or self._waiting_bytes >= BATCH_BYTES_MAX):
                    yield from self._flush()
            if answer.damaged is not None:
                yield from self._flush()
                yield from self._losses.bad(answer.unit.queue, answer.next_offset - 1, answer.cause, answer.damaged)
        yield from self._tell_gap()
        yield from self._flush()
        self._losses.tell()
        if looked_at != part.rows:
            raise DataLoss(f"a task was to read {part.rows} messages of {part.units} and looked at {looked_at}")

    # --- reading -----------------------------------------------------------------------------------------------------

    def _answers(self, part: ReadRange) -> Iterator[_Answer]:
        """The answers for all ranges, in order. If an answer does not finish its range, the rest is requested at
        once."""
        pace = _Pace(self._is_bulk(part.units[0].queue))
        asks = self._asks(part, pace)
        under_way = deque(islice(asks, pace.ahead))
        while under_way:
            ask = under_way.popleft()
            start, end, reading = ask.start, ask.end, ask.reading
            while start < ask.end:
                answer = self._answer(ask.unit, start, end, reading)
                if answer is not None:
                    pace.note(answer)
                    yield answer
                    start = answer.next_offset
                # Ask for one message alone, to find out which one is not a record.
                end = ask.end if answer is not None else start + 1
                if start < ask.end:
                    reading = self._brokers.begin_read(ask.unit.queue, start, end)
            under_way.extend(islice(asks, pace.ahead - len(under_way)))

    def _answer(self, unit: UnitRange, start: int, end: int, reading: "Future[QueueRead]") -> _Answer | None:
        try:
            return _answer(unit, start, end, self._brokers.finish_read(reading, unit.queue, start, end))
        except BrokerRefused as error:
            told = no_record(error, unit.queue)
            if told is None or told.start != start or told.end <= start:
                raise
            if told.is_gone:
                return _Answer(unit, start, min(told.end, end), None, f"because {error.remark}", are_gone=True)
            return _Answer(unit, start, start + 1, None, error.remark, damaged=b"")

    def _asks(self, part: ReadRange, pace: "_Pace") -> Iterator[_Ask]:
        for unit in part.units:
            start = unit.start
            while start < unit.end:
                end = min(start + pace.records, unit.end)
                yield _Ask(unit, start, end, self._brokers.begin_read(unit.queue, start, end))
                start = end

    def _is_bulk(self, queue: MessageQueue) -> bool:
        """Whether the broker knows the request for many messages. Reading the queue's state first lets the broker
        answer, which shows what it knows."""
        self._brokers.states([queue])
        return not self._options.sql and self._brokers.has_bulk(queue)

    # --- checking ----------------------------------------------------------------------------------------------------

    def _checked(self, answer: _Answer) -> Iterator[Records | Gap]:
        """The records of an answer, and the gaps before, between and after them.

        With a filter, absent messages may only be unwanted, so they are gaps only if the broker has none at all.
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
        behind = answer.next_offset - (answer.damaged is not None)
        if at < behind and (answer.are_gone or not self._is_filtered):
            yield Gap(queue, at, behind, answer.cause)

    def _lose(self, gap: Gap) -> Iterator[pa.RecordBatch]:
        """Join a gap to the one before if it continues that one, so that both are reported together. Raises DataLoss
        when the read is to fail."""
        if self._options.fail_on_data_loss:
            yield from self._losses.gone(gap)
        if self._gap is not None and (self._gap.queue, self._gap.end) == (gap.queue, gap.start):
            self._gap = self._gap._replace(end=gap.end)
            return
        yield from self._tell_gap()
        self._gap = gap

    def _tell_gap(self) -> Iterator[pa.RecordBatch]:
        if self._gap is not None:
            yield from self._flush()
            yield from self._losses.gone(self._gap)
            self._gap = None

    # --- giving ------------------------------------------------------------------------------------------------------

    def _flush(self) -> Iterator[pa.RecordBatch]:
        """The batches of the collected records, none larger than requested."""
        if not self._waiting:
            return
        records = joined_records(self._waiting)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        options = ColumnOptions(columns=self._columns, broker_name=self._waiting_broker, tags=self._options.tags,
                                decompress=self._options.decompress, verify_bodies=self._options.verify_bodies,
                                delays_ms=self._delays_ms(records))
        for row in range(0, len(records.positions), self._options.batch_rows):
            yield from good_batches(records.take(slice(row, row + self._options.batch_rows)), options, self._losses)


    def _delays_ms(self, records: Records) -> tuple[int, ...]:
        """The delays of the levels of the records' broker; empty when no column needs them."""
        if "deliver_time" not in self._columns or SCHEDULE_TOPIC not in records.topics:
            return ()
        return self._brokers.delays_ms(self._waiting_broker)


class _Pace:
    """Decides how many messages to request at a time: as many as an answer has room for."""

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


def _answer(unit: UnitRange, start: int, end: int, read: QueueRead) -> _Answer | None:
    """The answer that a read gives about [start, end), cut at `end`. None if it has bytes that are not a record, and
    several messages were requested, so that it is not known which one they are."""
    if is_another_topic(unit.topic_epoch, read.topic_epoch):
        return _Answer(unit, start, end, None, CREATED_AGAIN, are_gone=True)
    cause = "the broker passes over them: they were deleted, or their place in the queue was never used"
    next_offset = min(read.next_offset, end)
    if not read.data:
        return _empty_answer(unit, start, end, read, cause)
    try:
        records = found_records(read.data, unit.topic, unit.queue_id, start, read.next_offset - start)
    except RecordError as error:
        if error.position:
            # The records before the damaged one are good.
            good = read.data[:error.position]
            records = found_records(good, unit.topic, unit.queue_id, start, len(good))
            next_offset = min(int(records.queue_offsets[-1]) + 1, end)
        elif end - start > 1:
            return None
        elif read.next_offset > end:
            # The record is after the requested range: RocketMQ skips messages that a filter does not want.
            return _Answer(unit, start, end, None, cause)
        else:
            return _Answer(unit, start, end, None, str(error), damaged=bytes(read.data))
    within = int(np.searchsorted(records.queue_offsets, end))
    if within < len(records.positions):
        records = records.take(slice(0, within))
    return _Answer(unit, start, next_offset, records if within else None, cause)


def _empty_answer(unit: UnitRange, start: int, end: int, read: QueueRead, cause: str) -> _Answer:
    """The answer of a read that gave no records, because none was wanted or none is there."""
    next_offset = min(read.next_offset, end)
    if next_offset > start:
        return _Answer(unit, start, next_offset, None, cause)
    if start < read.min_offset:
        next_offset, cause = min(read.min_offset, end), f"no longer kept: the first there is {read.min_offset}"
    else:
        next_offset = end
        cause = (f"the queue ends at {read.max_offset}: the broker lost its end, or the topic was created again"
                 if start >= read.max_offset else "the broker has their places and not their records")
    return _Answer(unit, start, next_offset, None, cause, are_gone=True)
