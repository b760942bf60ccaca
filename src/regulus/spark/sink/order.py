"""Puts the rows of a task into an order that does not depend on the order in which they came.

After a shuffle a task that is tried again gets the same rows, but in the order in which the network brings them. An
exactly-once sink numbers its rows, so it sorts them by the columns of `dedupKey`, which differ between any two rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from regulus.errors import RowRefused
from regulus.spark.sink.options import SINK_COLUMNS
from regulus.spark.sink.rows import DEDUP_COLUMN

SORTED_SIZE_MAX = 1 << 30
"""Bytes of the rows of one task that can be sorted, in memory; a task with more is refused."""
KEY_SEPARATOR = "|"
_ESCAPE = "\\"


def in_key_order(batches: Iterable[Any], keys: Sequence[str], batch_rows: int, where: str) -> Iterator[Any]:
    """All rows of some pa.RecordBatches, sorted by `keys`, with the key as an additional column.

    Raises RowRefused when two rows have the same key, a row has none, or there are too many to sort.
    """
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > SORTED_SIZE_MAX:
            raise RowRefused(f"{where} has more than {SORTED_SIZE_MAX >> 20} MB of rows, too many to put them in the "
                             "order of dedupKey: divide them among more tasks, with repartition()")
    if not held:
        return
    table = pa.Table.from_batches(held).sort_by([(key, "ascending") for key in keys]).combine_chunks()
    for batch in table.to_batches():
        whole = with_key(batch, keys, where)
        _check_apart(whole.column(DEDUP_COLUMN), where)
        for start in range(0, whole.num_rows, batch_rows):
            yield whole.slice(start, batch_rows)


def with_key(batch: Any, keys: Sequence[str], where: str) -> Any:
    """The columns that are sent, with the key as an additional one. Raises RowRefused for a row without a key."""
    texts = [_text(batch.column(key)) for key in keys]
    joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*map(_escaped, texts), KEY_SEPARATOR)
    missing = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(pc.binary_length(joined), 0), True)))
    if len(missing):
        raise RowRefused(f"a row of {where} has no {' or '.join(keys)}, which dedupKey names")
    sent = [name for name in batch.schema.names if name in SINK_COLUMNS]
    return pa.RecordBatch.from_arrays([*(batch.column(name) for name in sent), joined], [*sent, DEDUP_COLUMN])


def _check_apart(texts: Any, where: str) -> None:
    same = np.flatnonzero(np.asarray(pc.equal(texts[1:], texts[:-1])))
    if len(same):
        raise RowRefused(f"two rows of {where} have the dedupKey {texts[int(same[0])].as_py()!r}: it must tell any two "
                         "rows apart")


def _escaped(texts: Any) -> Any:
    """Escape texts for joining: with a separator between columns, two keys are equal only if all columns are."""
    doubled = pc.replace_substring(texts, _ESCAPE, _ESCAPE * 2)
    return pc.replace_substring(doubled, KEY_SEPARATOR, _ESCAPE + KEY_SEPARATOR)


def _text(column: Any) -> Any:
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
    return column.cast(pa.string())
