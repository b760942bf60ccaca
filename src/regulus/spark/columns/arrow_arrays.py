"""Makes Arrow arrays from numpy buffers and small lists.

`pyarrow.array` could do this, but its first call imports pandas, which takes each of Spark's Python processes longer
than reading a small table.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from regulus.model.java_numbers import INT_MAX
from regulus.model.timestamps import DATED_MAX_MS

TIME = pa.timestamp("us", tz="UTC")
SIZE_MAX = INT_MAX
"""Bytes that 32-bit offsets can address. Batches are far smaller; in a larger array the offsets would wrap."""

REPEATED_MAX = 16
"""Columns of one repeated text that are kept for the next batch; beyond that, the least recently used is dropped."""

_NUMBERS = {np.dtype(np.int8): pa.int8(), np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}


def numbers(values: "np.ndarray[Any, Any]") -> pa.Array:
    """An Arrow array of the numpy array's type, without nulls and without copying."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(_NUMBERS[values.dtype], len(values), [None, pa.py_buffer(values)])


def times(milliseconds: "np.ndarray[Any, Any]", present: "np.ndarray[Any, Any] | None" = None) -> pa.Array:
    """UTC times; null where not `present`. A time beyond all dates, of a damaged record, becomes the nearest date,
    because Spark could keep such a time, but a Python program could not collect it.
    """
    if len(milliseconds) and (milliseconds.min() < 0 or milliseconds.max() > DATED_MAX_MS):
        milliseconds = np.clip(milliseconds, 0, DATED_MAX_MS)
    buffers = [None if present is None else _bits(present), pa.py_buffer(milliseconds * 1000)]
    return pa.Array.from_buffers(TIME, len(milliseconds), buffers)


def texts(items: Sequence[str]) -> pa.Array:
    return binaries([item.encode("utf-8") for item in items]).view(pa.string())


def chosen(items: Sequence[str], numbers_of_items: "np.ndarray[Any, Any]") -> pa.Array:
    """For each row the item of its number. It is mostly the same for all rows, for which there is a faster way."""
    if len(set(items)) > 1 and (numbers_of_items != numbers_of_items[:1]).any():
        return texts(items).take(numbers(numbers_of_items))
    rows = len(numbers_of_items)
    return repeated(items[numbers_of_items[0]] if rows else "", rows)


def repeated(item: str, rows: int) -> pa.Array:
    """An array with the item in each of `rows` rows."""
    # Rounded up to a power of two, so that batches of nearly equal length use the same cached array.
    return _repeated(item.encode("utf-8"), 1 << (rows - 1).bit_length() if rows else 0).slice(0, rows)


@lru_cache(maxsize=REPEATED_MAX)
def _repeated(item: bytes, rows: int) -> pa.Array:
    return pieces(pa.string(), np.arange(rows + 1, dtype=np.int32) * len(item), item * rows)


def room(size: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Bytes to fill, from Arrow's pool: they were mostly used before, so the kernel need not clear them."""
    return np.frombuffer(pa.allocate_buffer(size), dtype=np.uint8)


def binaries(items: Sequence[bytes]) -> pa.Array:
    ends = np.cumsum([0, *map(len, items)], dtype=np.int64)
    assert ends[-1] <= SIZE_MAX, f"{ends[-1]} bytes in one array"
    return pieces(pa.binary(), ends.astype(np.int32), b"".join(items))


def pieces(kind: pa.DataType, offsets: "np.ndarray[Any, Any]", data: Any) -> pa.Array:
    """Strings or binaries without nulls. The 32-bit offsets point into `data`; there is one more than items."""
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def decoded_texts(offsets: "np.ndarray[Any, Any]", data: "np.ndarray[Any, Any]",
                  present: "np.ndarray[Any, Any]") -> pa.Array:
    """Strings from bytes that should be UTF-8; other bytes are replaced, as in Java. Null where not `present`."""
    buffers = [None if present.all() else _bits(present), pa.py_buffer(offsets), pa.py_buffer(data)]
    if data.size == 0 or data.max() < 0x80:
        return pa.Array.from_buffers(pa.string(), len(present), buffers)
    binary = pa.Array.from_buffers(pa.binary(), len(present), buffers)
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if item is None else item.decode("utf-8", "replace") for item in binary.to_pylist()],
                        pa.string())


def _bits(present: "np.ndarray[Any, Any]") -> pa.Buffer:
    """The validity bitmap of an array."""
    return pa.py_buffer(np.packbits(present, bitorder="little"))
