"""The Parquet files of an archive: how rows are grouped and encoded, and how a file comes to disk.

While a file is written, another thread follows behind: it takes the SHA-256 of what is there and syncs it, so that at
the end little is left to wait for. Where a core is idle, a third makes row groups ahead. Nearly all of the work is in
native code, which lets the other threads run.
"""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from regulus.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from regulus.record import layout
from regulus.spark.table_schema import COLUMNS

ROW_GROUP_ROWS = 65_536
ROW_GROUP_BYTES_MAX = 64 << 20
"""A row group ends here even when it has fewer rows; counted in bytes of the log."""
BATCH_ROWS = 4096

_DICTIONARY_COLUMNS = ["topic", "broker_name", "tags", "born_host", "store_host"]
_ENCODINGS = dict.fromkeys(("physical_offset", "born_time", "store_time"), "DELTA_BINARY_PACKED")
"""Columns that grow by about as much from row to row: as differences they cost less time, and next to no room."""
_PAGE_ROWS = 2048
"""Rows after which a page may end: twice the library's own number, for larger pages cost less time to compress."""
_STATISTICS_COLUMNS = [name for name in COLUMNS if name not in ("body", "properties")]
_HASHED_AT_ONCE = 1 << 20
_VIEW_INLINE_MAX = 12
"""Bytes that an Arrow view holds itself; of more it holds the first 4, and where they lie."""

T = TypeVar("T")


class StagedFile:
    """A file that is written once, through `sink`. Whoever leaves the `with` has handed all of it to `follower`."""

    def __init__(self, path: Path, follower: ThreadPoolExecutor) -> None:
        self.path = path
        self._follower = follower
        self._followed: list[Future[None]] = []
        self._hash = hashlib.sha256()

    def __enter__(self) -> "StagedFile":
        self.sink = pa.OSFile(str(self.path), "wb")
        self._written = self.path.open("rb", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        self.sink.close()
        self.follow()
        self._followed.append(self._follower.submit(self._written.close))

    def follow(self) -> None:
        """Have what is written hashed and synced meanwhile."""
        self._followed.append(self._follower.submit(self._follow))

    def _follow(self) -> None:
        room = memoryview(bytearray(_HASHED_AT_ONCE))
        while count := self._written.readinto(room):
            self._hash.update(room[:count])
        os.fsync(self._written.fileno())

    def finish(self) -> tuple[int, str]:
        """Size and SHA-256, once all of it is on disk. Raises OSError when it cannot be."""
        for followed in self._followed:
            followed.result()
        return self.path.stat().st_size, self._hash.hexdigest()


def write_row_groups(file: StagedFile, schema: pa.Schema, groups: Iterator[pa.Table]) -> None:
    """The same rows give the same bytes, whether bodies are binaries or views; batches of BATCH_ROWS within a table are
    part of that.
    """
    # The schema of Arrow is not stored: it would tell views of views, and Parquet's own says the rest.
    with pq.ParquetWriter(file.sink, schema, compression="zstd", use_dictionary=_DICTIONARY_COLUMNS,
                          column_encoding=_ENCODINGS, write_batch_size=_PAGE_ROWS,
                          write_statistics=_STATISTICS_COLUMNS, store_schema=False,
                          write_page_checksum=True) as writer:
        for number, group in enumerate(groups):
            if number:
                file.follow()
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS)


def made_ahead(items: Iterator[T], maker: ThreadPoolExecutor) -> Iterator[T]:
    """The items, in order; while one is in use, the next is made in the other thread."""
    upcoming = maker.submit(next, items, None)
    while (item := upcoming.result()) is not None:
        upcoming = maker.submit(next, items, None)
        yield item


def row_groups(sizes: Any) -> list[slice]:
    """How rows of these sizes in the log are grouped: by number, and by bytes where they are large."""
    groups = []
    start = 0
    while start < len(sizes):
        room = np.cumsum(sizes[start:start + ROW_GROUP_ROWS])
        stop = start + max(1, int(np.searchsorted(room, ROW_GROUP_BYTES_MAX, side="right")))
        groups.append(slice(start, stop))
        start = stop
    return groups


def body_views(data: Any, positions: Any, sys_flags: Any) -> pa.Array:
    """The bodies of the records at these positions of a log file, as views into it: no body is copied.

    Source: Arrow columnar format, variable-size binary view layout.
    """
    more = ((sys_flags & BORN_HOST_V6) != 0).astype(np.int64) + ((sys_flags & STORE_HOST_V6) != 0)
    starts = positions + layout.BODY_START_V4 + (layout.HOST_V6_SIZE - layout.HOST_V4_SIZE) * more
    views = np.zeros((len(starts), 4), dtype=np.int32)
    views[:, 0] = _words(data, starts - 4, ">i4")
    views[:, 1] = _words(data, np.minimum(starts, len(data) - 4), "<i4")
    views[:, 3] = starts
    short = np.flatnonzero(views[:, 0] <= _VIEW_INLINE_MAX)
    if len(short):
        places = np.arange(_VIEW_INLINE_MAX)
        whole = np.frombuffer(data, dtype=np.uint8)
        letters = whole[np.minimum(starts[short, None] + places, len(whole) - 1)]
        views.view(np.uint8)[short, 4:] = letters * (places < views[short, :1])
    return pa.Array.from_buffers(pa.binary_view(), len(views), [None, pa.py_buffer(views), pa.py_buffer(data)])


def _words(data: Any, positions: Any, kind: str) -> Any:
    """The 4-byte numbers at the positions, aligned or not."""
    return np.ndarray(len(data) - 3, dtype=kind, buffer=data, strides=(1,))[positions]
