"""Makes the messages of batch requests from Arrow columns, without a Python object per row.

Arrow joins the property strings, row by row; in a map column the entries of a row are already next to each other. Then
both parts of a message are columns, from which `wire.message_batch` makes the body of a request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from regulus.errors import RowRefused
from regulus.model import message_properties as names
from regulus.model.java_numbers import INT_MAX
from regulus.wire.message_batch import RECORD_SIZE_MIN, ColumnBatch

_HEX4 = pa.array([f"{number:04X}".encode() for number in range(1 << 16)], pa.binary())
_NAME_END = names.NAME_VALUE_SEPARATOR.encode()
_PROPERTY_END = names.PROPERTY_SEPARATOR.encode()
_EMPTY = pa.scalar(b"", pa.binary())
_UNIQUE_KEY_SIZE = len(names.UNIQUE_KEY) + len(_NAME_END) + 32 + len(_PROPERTY_END)
DEDUP_COLUMN = "dedup key"
"""The column that becomes the property DEDUP_KEY. No DataFrame can send a column of this name."""
DEDUP_KEY = "DEDUP_KEY"
_TEXT_COLUMNS = {"keys": names.KEYS, "key": names.KEYS, "tags": names.TAGS, "sharding_key": names.SHARDING_KEY,
                 DEDUP_COLUMN: DEDUP_KEY}
TRANSACTION_OF_SINK = "SINK_TRANSACTION"
"""Property of a transactional sink's message that names the attempt, task and batch that sent it."""

NOT_FROM_MAP = frozenset((
    names.UNIQUE_KEY, names.WAIT_STORE_MSG_OK, names.DELAY_TIME_LEVEL, names.REAL_TOPIC, names.REAL_QUEUE_ID,
    names.RETRY_TOPIC, names.ORIGIN_MESSAGE_ID, names.DLQ_ORIGIN_TOPIC, names.DLQ_ORIGIN_MESSAGE_ID,
    names.TRANSACTION_PREPARED, names.PRODUCER_GROUP, names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME,
    names.MSG_REGION, names.TRACE_ON, names.CLUSTER, names.TRANSACTION_ID, names.TRANSACTION_CHECK_TIMES,
    names.TRANSACTION_PREPARED_QUEUE_OFFSET, names.CHECK_IMMUNITY_TIME, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS,
    names.TIMER_DELIVER_MS, names.TIMER_OUT_MS, names.TIMER_ENQUEUE_MS, names.TIMER_DEQUEUE_MS, names.TIMER_ROLL_TIMES,
    names.TIMER_DEL_UNIQUE_KEY, names.POP_CK, names.CRC32, names.INNER_NUM, names.INNER_BASE,
    names.EXTEND_UNIQUE_INFO, names.SINK, names.SEQUENCE, names.SINK_DIGEST, DEDUP_KEY, TRANSACTION_OF_SINK))
"""Entries of the column `properties` that are left out. Client and brokers write these themselves, so a copied message
must not bring those of its original. The column `delay_level` requests a delay."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in the form in which they are sent. All arrays have one entry per row; absent columns are None."""

    first_row: int                  # number of the first row in its task
    bodies: Any                     # pa.BinaryArray
    properties: Any                 # pa.BinaryArray: property strings
    flags: Any                      # np.ndarray of i4
    queue_ids: Any | None           # np.ndarray; -1 where the row names none
    delay_levels: Any | None        # np.ndarray; 0 where the row names none
    sharding_keys: Any | None       # pa.StringArray
    topics: Any | None              # pa.StringArray

    def __len__(self) -> int:
        return len(self.bodies)

    def take(self, order: Any) -> "Rows":
        """The rows in another order."""
        def taken(array: Any) -> Any:
            return None if array is None else array.take(order)

        return Rows(self.first_row, taken(self.bodies), taken(self.properties), taken(self.flags),
                    taken(self.queue_ids), taken(self.delay_levels), taken(self.sharding_keys), taken(self.topics))


def rows_of(batch: Any, first_row: int, unique_key_prefix: str, where: str) -> Rows:
    """The rows of a pa.RecordBatch, at most 65536.

    A row's unique key is `unique_key_prefix`, which has 28 digits, and four digits of the row's number. `where` names
    the task in errors. Raises RowRefused when a row cannot be a message.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    count = batch.num_rows
    refuse = _Refusal(first_row, where)
    bodies = _binary(columns["body"] if "body" in columns else columns["value"])
    refuse.where(_empty(bodies), "has no body; a message needs at least one byte")
    topics = columns.get("topic")
    if topics is not None:
        refuse.where(_empty(topics), "names no topic")
    counters = (np.arange(first_row, first_row + count) & 0xFFFF).astype(np.int32)
    return Rows(
        first_row, bodies, _properties(columns, unique_key_prefix, counters, refuse),
        _integers(columns.get("flag"), count, 0, refuse, "flag", -INT_MAX - 1, INT_MAX),
        _optional_integers(columns, "queue_id", -1, 0, INT_MAX, refuse),
        _optional_integers(columns, "delay_level", 0, 0, INT_MAX, refuse),
        _as_string(columns.get("sharding_key")), _as_string(topics))


class Records:
    """The messages of some rows in the form of batch requests. Their properties begin with the unique key."""

    def __init__(self, rows: Rows) -> None:
        bodies, properties = rows.bodies, rows.properties
        body_ends, property_ends = _ends(bodies), _ends(properties)
        self._batch = ColumnBatch(_data(bodies), memoryview(body_ends), _data(properties), memoryview(property_ends),
                                  memoryview(rows.flags), _UNIQUE_KEY_SIZE)
        self._ends = body_ends.astype(np.int64) + property_ends + RECORD_SIZE_MIN * np.arange(len(body_ends))

    def fitting(self, start: int, end: int, size_max: int) -> int:
        """The row after the last one that fits into a request from `start` to `end` at most; one always fits."""
        behind = int(self._ends.searchsorted(self._ends[start] + size_max, side="right")) - 1
        return max(start + 1, min(end, behind))

    def size(self, start: int, end: int) -> int:
        """Bytes of the body of a request with these rows."""
        return int(self._ends[end] - self._ends[start])

    def request(self, start: int, end: int) -> memoryview:
        """The body of a request with these rows."""
        return memoryview(self._batch.encode(start, end))

    def digest(self, start: int, end: int, digest: int) -> int:
        """Continue a digest over these rows, as the broker does when it stores them."""
        return self._batch.digest(start, end, digest)


# --- properties ------------------------------------------------------------------------------------------------------


def _properties(columns: Mapping[str, Any], unique_key_prefix: str, counters: Any, refuse: "_Refusal") -> Any:
    """Property strings with the unique key, keys, tags, sharding key, and the entries of the map, in this order."""
    parts = [pa.scalar(names.UNIQUE_KEY.encode() + _NAME_END + unique_key_prefix.encode(), pa.binary()),
             _HEX4.take(pa.array(counters)), pa.scalar(_PROPERTY_END, pa.binary())]
    promoted = set()
    for column, name in _TEXT_COLUMNS.items():
        if column in columns:
            promoted.add(name)
            values = _binary(columns[column])
            _check_separators(values, refuse, f"has a control character in {column!r} that separates properties")
            parts.append(_property(name, values))
    if "properties" in columns:
        parts.append(_map_text(columns["properties"], NOT_FROM_MAP | promoted, refuse))
    texts = pc.binary_join_element_wise(*parts, _EMPTY)
    refuse.where(pa.array(_sizes(texts) > names.PROPERTIES_SIZE_MAX),
                 f"has more than {names.PROPERTIES_SIZE_MAX} bytes of properties")
    return texts


def _property(name: str, values: Any) -> Any:
    """`name 0x01 value 0x02`; nothing where the value is null or empty."""
    values = pc.if_else(pc.equal(pc.binary_length(values), 0), pa.scalar(None, pa.binary()), values)
    text = pc.binary_join_element_wise(pa.scalar(name.encode() + _NAME_END, pa.binary()), values,
                                       pa.scalar(_PROPERTY_END, pa.binary()), _EMPTY, null_handling="emit_null")
    return pc.fill_null(text, _EMPTY)


def _map_text(maps: Any, left_out: frozenset[str], refuse: "_Refusal") -> Any:
    """The property strings of a map column."""
    offsets = maps.offsets.to_numpy()
    start = int(offsets[0])
    count = int(offsets[-1]) - start
    keys, values = _binary(maps.keys.slice(start, count)), _binary(maps.items.slice(start, count))
    kept = _kept_entries(keys, values, left_out)
    if maps.null_count:
        # A null map may still have entries in the array below it.
        kept &= np.repeat(np.asarray(maps.is_valid()), np.diff(offsets))
    for side in (keys, values):
        bad = _has_separator(side)
        if bad is not None:
            position = int(np.flatnonzero(np.asarray(bad))[0]) + start
            refuse.row(int(np.searchsorted(offsets, position, side="right")) - 1,
                       "has a control character in 'properties' that separates properties")
    ends = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(kept)))[offsets - start]
    mask = pa.array(kept)
    entries = pc.binary_join_element_wise(
        keys.filter(mask), pa.scalar(_NAME_END, pa.binary()), values.filter(mask),
        pa.scalar(_PROPERTY_END, pa.binary()), _EMPTY)
    byte_offsets = _ends(entries)[ends].astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(maps), [None, pa.py_buffer(byte_offsets.tobytes()),
                                                          entries.buffers()[2]])


def _kept_entries(keys: Any, values: Any, left_out: frozenset[str]) -> Any:
    """Which entries are sent, as np.ndarray of bool."""
    owned = pc.is_in(keys, pa.array([name.encode() for name in sorted(left_out)], pa.binary()))
    kept = pc.and_(pc.invert(owned), pc.invert(_empty(values)))
    return np.asarray(pc.and_(kept, pc.invert(_empty(keys))))


def _check_separators(values: Any, refuse: "_Refusal", text: str) -> None:
    bad = _has_separator(values)
    if bad is not None:
        refuse.where(bad, text)


def _has_separator(values: Any) -> Any | None:
    """Which values contain 0x01 or 0x02; None when none does, which is found by a search of all bytes at once."""
    data = values.buffers()[2]
    if data is None or not len(values):
        return None
    ends = _ends(values)
    window = np.frombuffer(data, dtype=np.uint8)[int(ends[0]):int(ends[-1])]
    if not ((window == 1) | (window == 2)).any():
        return None
    bad = pc.fill_null(pc.or_(pc.match_substring(values, "\x01"), pc.match_substring(values, "\x02")), False)
    return bad if pc.any(bad).as_py() else None


# --- columns ---------------------------------------------------------------------------------------------------------


class _Refusal:
    """Raises RowRefused for the first row that cannot be sent, with its number."""

    def __init__(self, first_row: int, where: str) -> None:
        self._first_row = first_row
        self._where = where

    def where(self, bad: Any, text: str) -> None:
        if pc.any(bad).as_py():
            self.row(int(np.flatnonzero(np.asarray(bad))[0]), text)

    def row(self, number: int, text: str) -> None:
        raise RowRefused(f"row {self._first_row + number} of {self._where} {text}")


def _binary(array: Any) -> Any:
    """Cast to the type `binary`, whose offsets have 4 bytes."""
    if array.type == pa.binary():
        return array
    if array.type == pa.string():
        return array.view(pa.binary())
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.string() if pa.types.is_large_string(array.type) else pa.binary()).cast(pa.binary())


def _as_string(array: Any | None) -> Any | None:
    return None if array is None else array.cast(pa.string())


def _empty(values: Any) -> Any:
    """Which values are null or have no bytes."""
    return pc.fill_null(pc.equal(pc.binary_length(values), 0), True)


def _ends(values: Any) -> Any:
    """The end of each value in the data buffer, as np.ndarray; entry 0 is the start of the first."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)
    return offsets[values.offset:values.offset + len(values) + 1]


def _data(values: Any) -> memoryview:
    return memoryview(values.buffers()[2]).cast("B")


def _sizes(values: Any) -> Any:
    return np.diff(_ends(values))


def _optional_integers(columns: Mapping[str, Any], name: str, default: int, lowest: int, highest: int,
                       refuse: _Refusal) -> Any | None:
    column = columns.get(name)
    return None if column is None else _integers(column, len(column), default, refuse, name, lowest, highest)


def _integers(column: Any | None, count: int, default: int, refuse: _Refusal, name: str, lowest: int,
              highest: int) -> Any:
    """np.ndarray of i4, with the default where the column is null."""
    if column is None:
        return np.full(count, default, dtype=np.int32)
    values = column.cast(pa.int64())
    refuse.where(pc.fill_null(pc.or_(pc.less(values, lowest), pc.greater(values, highest)), False),
                 f"has a {name!r} that is not from {lowest} to {highest}")
    return np.asarray(pc.fill_null(values, default)).astype(np.int32)
