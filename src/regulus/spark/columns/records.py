"""Makes Arrow batches of the requested columns from stored records.

The compiled record.message_columns decodes the bytes; where that module runs interpreted, numpy_columns does. numpy and
pyarrow are used here and not in `record`, because a broker needs neither. Only the requested columns are made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from regulus.errors import CorruptRecord, MessageIllegal, OptionError, RecordError
from regulus.model import message_properties as names
from regulus.model import sys_flag, topics
from regulus.model.message_id import host_text, offset_message_id
from regulus.model.redrive import ORIGIN_TOPICS
from regulus.record import message_columns
from regulus.record.byte_runs import Buffer
from regulus.record.checksum import crc32
from regulus.record.layout import FIXED_SIZE_V1, QUEUE_OFFSET, SYS_FLAG
from regulus.record.message_columns import FIELDS
from regulus.spark.columns import arrow_arrays
from regulus.spark.columns import properties as numpy_columns
from regulus.spark.columns.properties import Bytes, Int64s
from regulus.spark.read_plan import GAP, GAP_CAUSE, GAP_END, Gap
from regulus.spark.table_schema import COLUMNS
from regulus.wire import compression

Booleans: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary(),
    "timestamp": arrow_arrays.TIME, "map<string,string>": pa.map_(pa.string(), pa.string()),
}
_PROPERTIES: dict[str, tuple[str, ...]] = {
    "message_id": (names.UNIQUE_KEY,),
    "message_type": (names.PRIORITY, names.SHARDING_KEY, names.DELAY_TIME_LEVEL, names.TIMER_OUT_MS,
                     names.TRANSACTION_PREPARED),
    "keys": (names.KEYS,),
    "tags": (names.TAGS,),
    "deliver_time": (names.TIMER_OUT_MS, names.TIMER_DELIVER_MS),
    "sharding_key": (names.SHARDING_KEY,),
    "origin_topic": ORIGIN_TOPICS,
    "origin_message_id": (names.DLQ_ORIGIN_MESSAGE_ID, names.ORIGIN_MESSAGE_ID),
}
"""The properties that a column is made of. The value is that of the first property that a message has."""

UNPACKED_BYTES_MAX = 64 << 20
"""Bytes of unpacked bodies at which a batch ends; a single larger one makes a batch of its own."""

SCHEMAS_MAX = 64
"""Selections of columns whose schemas are kept; beyond that, the least recently used is dropped."""

_MESSAGE_TYPES = ("normal", "ordered", "delayed", "transaction", "half", "retry", "dead_letter", "priority")
_FIELD_NUMBER = {name: number for number, name in enumerate(FIELDS)}


class RecordReader(Protocol):
    """The functions of record.message_columns, where they are described."""

    def find_records(self, data: Buffer, positions: memoryview) -> int: ...

    def read_fields(self, data: Buffer, positions: memoryview, table: memoryview) -> None: ...

    def properties_max(self, starts: memoryview, ends: memoryview) -> int: ...

    def read_properties(self, data: Buffer, starts: memoryview, ends: memoryview, names: tuple[bytes, ...],
                        counts: memoryview, places: memoryview, offsets: memoryview, entries: memoryview) -> int: ...

    def lay_out(self, starts: memoryview, ends: memoryview, offsets: memoryview) -> int: ...

    def gather(self, data: Buffer, starts: memoryview, ends: memoryview, offsets: memoryview,
               target: memoryview) -> None: ...

    def read_words(self, data: Buffer, starts: memoryview, words: memoryview) -> None: ...

    def write_ids(self, hosts: memoryview, physical_offsets: memoryview, target: memoryview) -> None: ...


_READER: RecordReader = numpy_columns if str(message_columns.__file__).endswith(".py") else message_columns


@lru_cache(maxsize=SCHEMAS_MAX)
def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, _ARROW_TYPES[COLUMNS[name]]) for name in columns])


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The places of records in `data`, in ascending order, and what their consume queues say about them."""

    data: Buffer
    base: int | None                # physical offset of data's first byte; None if data is not a piece of the log
    positions: Int64s               # in data
    sizes: Int64s
    queue_offsets: Int64s
    tags_codes: "Int64s | None"     # None if there are no consume queues to read them from
    queue_numbers: Int64s           # index into topics and queue_ids
    topics: Sequence[str]
    queue_ids: Sequence[int]

    def take(self, rows: Any) -> "Records":
        """Some of the rows: a slice, a mask, or row numbers."""
        return Records(data=self.data, base=self.base, positions=self.positions[rows], sizes=self.sizes[rows],
                       queue_offsets=self.queue_offsets[rows],
                       tags_codes=None if self.tags_codes is None else self.tags_codes[rows],
                       queue_numbers=self.queue_numbers[rows], topics=self.topics, queue_ids=self.queue_ids)

    def place(self, row: int) -> str:
        """The name of a row's message for errors."""
        queue = int(self.queue_numbers[row])
        return f"{self.topics[queue]}/{self.queue_ids[queue]}: message {self.queue_offsets[row]}"


def found_records(data: Buffer, topic: str, queue_id: int, start: int, count_max: int) -> Records:
    """The records of one queue that fill `data` without gaps, as a broker gives them for messages
    [start, start + count_max). Raises RecordError with the position of bytes that are not a record.
    """
    room = np.empty(min(count_max, len(data) // FIXED_SIZE_V1) + 1, dtype=np.int64)
    positions = room[:_READER.find_records(data, room.data)]
    sizes = np.diff(positions, append=len(data))
    # Before gaps are looked for, because such a record takes the places of all its messages.
    _refuse_inner_batches(numpy_columns.numbers_at(np.frombuffer(data, dtype=np.uint8), positions + SYS_FLAG, 4), topic)
    if len(positions) == count_max:
        # Then none is missing. The decoder checks their offsets, as it does for the log's files.
        offsets = np.arange(start, start + count_max, dtype=np.int64)
    else:
        offsets = numpy_columns.numbers_at(np.frombuffer(data, dtype=np.uint8), positions + QUEUE_OFFSET, 8)
    return Records(data=data, base=None, positions=positions, sizes=sizes, queue_offsets=offsets, tags_codes=None,
                   queue_numbers=np.zeros(len(positions), dtype=np.int64), topics=[topic], queue_ids=[queue_id])


def _refuse_inner_batches(sys_flags: Int64s, topic: str) -> None:
    """Raises OptionError for a record that has a whole batch, because a row is a single message."""
    if (sys_flags & sys_flag.NEED_UNWRAP).any():
        raise OptionError(f"{topic}: a record has a whole batch (queue.type=BatchCQ), and such topics are not read as "
                          "tables: have a consumer send their messages on to a topic without queue.type")


def joined_records(parts: Sequence[Records]) -> Records:
    """The records of several answers as one Records."""
    if len(parts) == 1:
        return parts[0]
    lengths = [len(part.data) for part in parts]
    starts = np.cumsum([0, *lengths[:-1]])
    return Records(
        data=b"".join(part.data for part in parts), base=None,
        positions=np.concatenate([part.positions + start for part, start in zip(parts, starts, strict=True)]),
        sizes=np.concatenate([part.sizes for part in parts]),
        queue_offsets=np.concatenate([part.queue_offsets for part in parts]), tags_codes=None,
        queue_numbers=np.repeat(np.arange(len(parts), dtype=np.int64), [len(part.positions) for part in parts]),
        topics=[part.topics[0] for part in parts], queue_ids=[part.queue_ids[0] for part in parts])


def gap_batch(gaps: Sequence[Gap], columns: Sequence[str]) -> pa.RecordBatch:
    """A row for each gap. It has the gap's place, and in the properties its messages and the cause."""
    rows = [{"topic": gap.queue.topic, "broker_name": gap.queue.broker_name, "queue_id": gap.queue.queue_id,
             "queue_offset": gap.start, "message_type": GAP,
             "properties": [(GAP_END, str(gap.end)), (GAP_CAUSE, gap.cause)]} for gap in gaps]
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in columns} for row in rows],
                                      schema=arrow_schema(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    columns: tuple[str, ...]
    broker_name: str
    tags: frozenset[str] | None = None
    decompress: bool = False
    verify_bodies: bool = False
    delays_ms: tuple[int, ...] = ()
    """Delays of the broker's levels. They give the time when a message is due if there are no consume queues, which
    have it."""


class BadRecord(CorruptRecord):
    """A record that is not what its consume queue says. `row` is its number in the Records."""

    def __init__(self, text: str, position: int, row: int) -> None:
        super().__init__(text, position)
        self.row = row


class BatchFull(Exception):
    """The unpacked bodies of the rows before `row` are enough for a batch."""

    def __init__(self, row: int) -> None:
        super().__init__(f"a batch ends before row {row}")
        self.row = row


def record_batch(records: Records, options: ColumnOptions) -> pa.RecordBatch:
    """One batch of the requested columns. Raises BadRecord for the first record that is not what it should be, and
    BatchFull when the records must be read in two batches."""
    table = RecordTable(records, options)
    kept = None
    if options.tags is not None:
        matches = np.array([tag in options.tags for tag in table.column("tags").to_pylist()], dtype=np.bool_)
        if not matches.all():
            kept = np.flatnonzero(matches)
            table = RecordTable(records.take(kept), options)
    schema = arrow_schema(options.columns)
    try:
        return pa.RecordBatch.from_arrays([table.column(name) for name in options.columns], schema=schema)
    except (BadRecord, BatchFull) as error:
        if kept is not None:
            error.row = int(kept[error.row])
        raise


@dataclass(frozen=True, slots=True)
class _Properties:
    """The places of property values: of those that columns are made of and some message has, and of all."""

    places: dict[str, tuple[Int64s, Int64s]]
    """Starts and ends of the values by property name; -1 for a message without the property."""

    offsets: Any
    """The index into `listed` of the first property of each message, and at the end the number of all."""

    listed: Int64s
    """Four rows: name starts, name ends, value starts, value ends."""


class RecordTable:
    """Decoded records; each column is a fixed field, or has a method of its name."""

    def __init__(self, records: Records, options: ColumnOptions) -> None:
        self._records = records
        self._options = options
        self._rows = len(records.positions)
        self._data = records.data
        self._table = self._checked_fields()
        if options.verify_bodies:
            self._verify_bodies()

    def column(self, name: str) -> pa.Array:
        """A column of `options.columns`, or the tags."""
        maker: Callable[[], pa.Array] | None = getattr(self, f"_{name}_column", None)
        if maker is not None:
            return maker()
        if name in _PROPERTIES:
            return self._first_property(name)
        values = self._field(name)
        return arrow_arrays.numbers(values.astype(np.int32) if COLUMNS[name] == "int" else values)

    # --- decoding -----------------------------------------------------------------------------------------------------

    def _field(self, name: str) -> Int64s:
        values: Int64s = self._table[_FIELD_NUMBER[name]]
        return values

    def _checked_fields(self) -> Int64s:
        """The fixed fields, checked: one row of numbers per field. Raises BadRecord."""
        records = self._records
        table = np.empty((len(FIELDS), self._rows), dtype=np.int64)
        try:
            _READER.read_fields(self._data, records.positions.data, table.reshape(-1).data)
        except RecordError as error:
            row = int(np.searchsorted(records.positions, error.position))
            raise BadRecord(f"{records.place(row)}: {error}", (records.base or 0) + error.position, row) from error
        matches = (table[_FIELD_NUMBER["queue_offset"]] == records.queue_offsets)
        matches &= table[_FIELD_NUMBER["queue_id"]] == np.array(records.queue_ids)[records.queue_numbers]
        matches &= table[_FIELD_NUMBER["store_size"]] == records.sizes
        if records.base is not None:
            matches &= table[_FIELD_NUMBER["physical_offset"]] == records.positions + records.base
        matches &= self._has_its_topic(table)
        if not matches.all():
            raise self._bad(int(np.argmin(matches)), "another record is where its consume queue points")
        _refuse_inner_batches(table[_FIELD_NUMBER["sys_flag"]], ", ".join(sorted(set(records.topics))))
        return table

    def _has_its_topic(self, table: Int64s) -> Booleans:
        """For each row, whether the record's topic is its queue's. Queue ids and offsets do not show this.

        Topics are compared eight bytes at a time, from the end. A comparison may begin before the topic, which is safe,
        because other bytes of the record are there."""
        ends, numbers = table[_FIELD_NUMBER["topic_end"]], self._records.queue_numbers
        sizes = ends - table[_FIELD_NUMBER["topic_start"]]
        # The number in the eight bytes that begin at each byte of the data.
        eights = np.ndarray((max(0, len(self._data) - 7),), np.dtype("<u8"), self._data, strides=(1,))
        matches: Booleans = np.ones(self._rows, dtype=np.bool_)
        for number, topic in enumerate(self._records.topics):
            name = topic.encode()
            rows: Any = slice(None) if len(self._records.topics) == 1 else np.flatnonzero(numbers == number)
            same = sizes[rows] == len(name)
            for end in range(len(name), 0, -8):
                wanted = int.from_bytes(name[max(0, end - 8):end].rjust(8, b"\0"), "little")
                # A topic of another size differs anyway; position 0 is only a place that can be read.
                found = eights[np.where(same, ends[rows] - (len(name) - end) - 8, 0)]
                unwanted = np.uint64(8 * max(0, 8 - end))
                same &= (found >> unwanted << unwanted) == np.uint64(wanted)
            matches[rows] = same
        return matches

    def _bad(self, row: int, text: str) -> BadRecord:
        records = self._records
        return BadRecord(f"{records.place(row)}: {text}", int(records.positions[row]) + (records.base or 0), row)

    def _verify_bodies(self) -> None:
        pieces = zip(self._field("body_start").tolist(), self._field("body_end").tolist(), strict=True)
        for row, (start, end) in enumerate(pieces):
            if crc32(self._data[start:end]) & 0x7FFFFFFF != self._table[_FIELD_NUMBER["body_crc"], row]:
                raise self._bad(row, "body and its checksum differ")

    @cached_property
    def _properties(self) -> "_Properties":
        columns = ("tags", *self._options.columns)
        starts, ends = self._field("properties_start").data, self._field("properties_end").data
        wanted = sorted({name for column in columns for name in _PROPERTIES.get(column, ())})
        room = _READER.properties_max(starts, ends) if "properties" in columns else 0
        counts = np.empty(len(wanted), dtype=np.int64)
        places = np.empty((2 * len(wanted), self._rows), dtype=np.int64)
        offsets = np.empty(self._rows + 1, dtype=np.int32)
        entries = np.empty((4, room), dtype=np.int64)
        listed = _READER.read_properties(
            self._data, starts, ends, tuple(name.encode() for name in wanted), counts.data,
            places.reshape(-1).data, offsets.data, entries.reshape(-1).data)
        return _Properties({name: (places[2 * number], places[2 * number + 1])
                            for number, name in enumerate(wanted) if counts[number]}, offsets, entries[:, :listed])

    def _has(self, name: str) -> Booleans:
        places = self._properties.places.get(name)
        return np.zeros(self._rows, dtype=np.bool_) if places is None else places[0] >= 0

    def _first_property(self, column: str) -> pa.Array:
        """A column with the first property that a message has of those that the column is made of."""
        places = self._properties.places
        found = [places[name] for name in _PROPERTIES[column] if name in places]
        if not found:
            return pa.nulls(self._rows, pa.string())
        starts, ends = found[0]
        for other_starts, other_ends in found[1:]:
            is_missing = starts < 0
            starts, ends = np.where(is_missing, other_starts, starts), np.where(is_missing, other_ends, ends)
        return self._text(starts, ends)

    def _gathered(self, starts: Int64s, ends: Int64s) -> tuple[Any, Bytes]:
        """32-bit offsets and bytes of the pieces, in Arrow's form of columns of variable size."""
        offsets = np.empty(len(starts) + 1, dtype=np.int32)
        target = arrow_arrays.room(_READER.lay_out(starts.data, ends.data, offsets.data))
        _READER.gather(self._data, starts.data, ends.data, offsets.data, target.data)
        return offsets, target

    def _text(self, starts: Int64s, ends: Int64s) -> pa.Array:
        """A string column; null where start is -1."""
        offsets, target = self._gathered(starts, ends)
        return arrow_arrays.decoded_texts(offsets, target, starts >= 0)

    # --- columns ------------------------------------------------------------------------------------------------------

    def _topic_column(self) -> pa.Array:
        return arrow_arrays.chosen(self._records.topics, self._records.queue_numbers)

    def _broker_name_column(self) -> pa.Array:
        return arrow_arrays.chosen([self._options.broker_name], np.zeros(self._rows, dtype=np.int8))

    def _offset_message_id_column(self) -> pa.Array:
        """Upper-case hex of the store host and the physical offset."""
        hosts = self._field("store_host_start")
        if (self._field("sys_flag") & sys_flag.STORE_HOST_V6).any():
            return arrow_arrays.texts([offset_message_id(host, offset) for host, offset in zip(
                self._hosts(hosts, sys_flag.STORE_HOST_V6), self._field("physical_offset").tolist(), strict=True)])
        target = arrow_arrays.room(32 * self._rows)
        _READER.write_ids(self._words(hosts).data, self._field("physical_offset").data, target.data)
        return arrow_arrays.pieces(pa.string(), np.arange(0, len(target) + 1, 32, dtype=np.int32), target)

    def _born_host_column(self) -> pa.Array:
        return self._host_column("born_host_start", sys_flag.BORN_HOST_V6)

    def _store_host_column(self) -> pa.Array:
        return self._host_column("store_host_start", sys_flag.STORE_HOST_V6)

    def _host_column(self, field: str, v6_bit: int) -> pa.Array:
        """Host and port as text; each distinct host is formatted once."""
        starts = self._field(field)
        if (self._field("sys_flag") & v6_bit).any():
            return arrow_arrays.texts([host_text(host) for host in self._hosts(starts, v6_bit)])
        hosts = self._words(starts)
        if (hosts == hosts[:1]).all():
            different, numbers = hosts[:1], np.zeros(self._rows, dtype=np.int64)
        else:
            different, numbers = np.unique(hosts, return_inverse=True)
        texts = [host_text(host.to_bytes(8, "big", signed=True)) for host in different.tolist()]
        return arrow_arrays.chosen(texts, numbers)

    def _words(self, starts: Int64s) -> Int64s:
        """The 8 bytes at each of the places, as numbers."""
        words = np.empty(len(starts), dtype=np.int64)
        _READER.read_words(self._data, starts.data, words.data)
        return words

    def _hosts(self, starts: Int64s, v6_bit: int) -> list[bytes]:
        """Hosts in stored form, for records of which some have IPv6 hosts."""
        sizes = np.where((self._field("sys_flag") & v6_bit) != 0, 20, 8)
        return [bytes(self._data[start:start + size])
                for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]

    def _body_column(self) -> pa.Array:
        if self._options.decompress and (self._field("sys_flag") & sys_flag.COMPRESSED).any():
            return self._decompressed_bodies()
        offsets, target = self._gathered(self._field("body_start"), self._field("body_end"))
        return arrow_arrays.pieces(pa.binary(), offsets, target)

    def _decompressed_bodies(self) -> pa.Array:
        """Raises BadRecord for a body that is not compressed data, BatchFull when they become too many bytes."""
        bodies: list[bytes] = []
        size = 0
        pieces = zip(self._field("body_start").tolist(), self._field("body_end").tolist(),
                     self._field("sys_flag").tolist(), strict=True)
        for row, (start, end, flags) in enumerate(pieces):
            try:
                bodies.append(compression.decompress(bytes(self._data[start:end]), flags))
            except MessageIllegal as error:
                raise self._bad(row, str(error)) from error
            size += len(bodies[row])
            if row and size > UNPACKED_BYTES_MAX:
                raise BatchFull(row)
        return arrow_arrays.binaries(bodies)

    def _properties_column(self) -> pa.Array:
        listed = self._properties.listed
        return pa.MapArray.from_arrays(arrow_arrays.numbers(self._properties.offsets),
                                       self._text(listed[0], listed[1]), self._text(listed[2], listed[3]))

    def _born_time_column(self) -> pa.Array:
        return arrow_arrays.times(self._field("born_timestamp"))

    def _store_time_column(self) -> pa.Array:
        return arrow_arrays.times(self._field("store_timestamp"))

    def _deliver_time_column(self) -> pa.Array:
        """The time when a message is due: computed in the schedule topic, from a property for a timer message; else
        null."""
        is_scheduled = self._is_topic(lambda topic: topic == topics.SCHEDULE_TOPIC)
        times_due = self._times_due() if is_scheduled.any() else None
        is_timer = self._has(names.TIMER_DELIVER_MS) | self._has(names.TIMER_OUT_MS)
        if times_due is None and not is_timer.any():
            return pa.nulls(self._rows, _ARROW_TYPES["timestamp"])
        texts = self._first_property("deliver_time").to_pylist() if is_timer.any() else [None] * self._rows
        times = np.array([int(text) if text and text.isdecimal() and len(text) < 16 else -1 for text in texts],
                         dtype=np.int64)
        if times_due is None:
            return arrow_arrays.times(times, times >= 0)
        return arrow_arrays.times(np.where(is_scheduled, times_due, times), is_scheduled | (times >= 0))

    def _times_due(self) -> "Int64s | None":
        """Due times of rows of the schedule topic, which has one queue for each level; None when not known."""
        records, delays_ms = self._records, np.array(self._options.delays_ms, dtype=np.int64)
        if records.tags_codes is not None or not len(delays_ms):
            return records.tags_codes
        levels = np.array(records.queue_ids, dtype=np.int64)[records.queue_numbers]
        due: Int64s = self._field("store_timestamp") + delays_ms[np.clip(levels, 0, len(delays_ms) - 1)]
        return due

    def _message_type_column(self) -> pa.Array:
        """The type of each message, mostly by its topic; a later line overrides an earlier one."""
        types = np.zeros(self._rows, dtype=np.int8)
        types[self._has(names.PRIORITY)] = 7
        types[self._has(names.SHARDING_KEY)] = 1
        types[self._has(names.DELAY_TIME_LEVEL) | self._has(names.TIMER_OUT_MS)] = 2
        types[(self._field("sys_flag") & sys_flag.TRANSACTION_MASK) == sys_flag.TRANSACTION_COMMIT] = 3
        types[self._has(names.TRANSACTION_PREPARED)] = 3
        types[self._is_topic(topics.is_retry_topic)] = 5
        types[self._is_topic(topics.is_dlq_topic)] = 6
        types[self._is_topic(lambda topic: topic == topics.SCHEDULE_TOPIC)] = 2
        types[self._is_topic(lambda topic: topic == topics.TRANS_HALF_TOPIC)] = 4
        return arrow_arrays.chosen(_MESSAGE_TYPES, types)

    def _is_topic(self, test: Callable[[str], bool]) -> Booleans:
        """For each row whether its topic passes the test."""
        passes = [test(topic) for topic in self._records.topics]
        if not any(passes):
            return np.zeros(self._rows, dtype=np.bool_)
        rows: Booleans = np.array(passes, dtype=np.bool_)[self._records.queue_numbers]
        return rows
