"""The tables `consume_queue` and `index`: the units and entries of a store's files as they lie there.

One task reads a queue, or an index file.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from regulus.errors import DataLoss, OptionError, StoreDamaged
from regulus.model.message_queue import MessageQueue
from regulus.record import index_entry
from regulus.record.consume_queue_unit import FILLER
from regulus.spark.columns import arrow_arrays
from regulus.spark.options import ReadOptions
from regulus.spark.store.files import ConsumeQueueFiles, StoreFiles

_Array: TypeAlias = "np.ndarray[Any, Any]"

UNIT_TABLES = ("consume_queue", "index")
BATCH_UNITS = 65_536
_UNIT = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_ENTRY = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("time_difference", ">i4"), ("previous", ">i4")])
_ENTRIES_PER_SLOT = 4       # as RocketMQ makes index files, whatever their size


def parts(options: ReadOptions) -> list[Any]:
    """What the tasks read: a queue each, or the path of an index file. Raises OptionError, DataLoss, StoreDamaged."""
    if not options.store_path:
        raise OptionError(f"table {options.table!r} is a look at a store's files: give option 'storePath'")
    store = StoreFiles(options.store_path)
    if options.table == "index":
        directory = store.path / "index"
        return sorted(str(path) for path in directory.iterdir() if path.name.isdecimal()) if directory.is_dir() else []
    queues = [MessageQueue(topic, options.broker_name, queue.queue_id)
              for topic in options.selection.topics_of(store.topics()) for queue in store.queues(topic)]
    return options.selection.queues_of(queues)


def scan(options: ReadOptions, columns: tuple[str, ...], part: Any) -> Iterator[pa.RecordBatch]:
    """The rows of one part. Raises DataLoss when its file is gone, StoreDamaged when it is not an index file."""
    made = _index_entries(Path(part)) if options.table == "index" else _units(options, MessageQueue(*part))
    for arrays in made:
        yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], list(columns))


def units_of(queue: ConsumeQueueFiles, start: int, end: int) -> _Array:
    """The units [start, end) as an array of records, fillers without size."""
    units = np.frombuffer(queue.units(start, end), dtype=_UNIT)
    if len(units) and units[0]["size"] == FILLER.size:
        units = units.copy()
        units["size"][(units["size"] == FILLER.size) & (units["physical_offset"] == FILLER.physical_offset)] = 0
    return units


def _units(options: ReadOptions, queue: MessageQueue) -> Iterator[dict[str, pa.Array]]:
    store = StoreFiles(options.store_path)
    files = store.queue(queue.topic, queue.queue_id)
    low, high = files.bounds(store.log)
    for start in range(low, high, BATCH_UNITS):
        units = units_of(files, start, min(start + BATCH_UNITS, high))
        count = len(units)
        zeros = arrow_arrays.numbers(np.zeros(count, dtype=np.int32))
        yield {"topic": arrow_arrays.texts([queue.topic]).take(zeros),
               "broker_name": arrow_arrays.texts([queue.broker_name]).take(zeros),
               "queue_id": arrow_arrays.numbers(np.full(count, queue.queue_id, dtype=np.int32)),
               "queue_offset": arrow_arrays.numbers(np.arange(start, start + count, dtype=np.int64)),
               "physical_offset": arrow_arrays.numbers(units["physical_offset"].astype(np.int64)),
               "size": arrow_arrays.numbers(units["size"].astype(np.int32)),
               "tags_code": arrow_arrays.numbers(units["tags_code"].astype(np.int64))}


def _index_entries(path: Path) -> Iterator[dict[str, pa.Array]]:
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise DataLoss(f"{path} was removed while it was to be read") from error
    header = index_entry.decode_header(memoryview(mapped))
    slots = _slots(path, len(mapped))
    for start in range(1, header.index_count, BATCH_UNITS):
        count = min(BATCH_UNITS, header.index_count - start)
        entries = np.frombuffer(mapped, dtype=_ENTRY, count=count, offset=index_entry.entry_position(slots, start))
        times = header.begin_timestamp + entries["time_difference"].astype(np.int64) * 1000
        zeros = arrow_arrays.numbers(np.zeros(count, dtype=np.int32))
        yield {"file": arrow_arrays.texts([path.name]).take(zeros),
               "entry": arrow_arrays.numbers(np.arange(start, start + count, dtype=np.int32)),
               "key_hash": arrow_arrays.numbers(entries["key_hash"].astype(np.int32)),
               "physical_offset": arrow_arrays.numbers(entries["physical_offset"].astype(np.int64)),
               "store_time": arrow_arrays.times(times),
               "previous": arrow_arrays.numbers(entries["previous"].astype(np.int32))}


def _slots(path: Path, size: int) -> int:
    """A file does not say how many slots it has; its size does."""
    per_slot = index_entry.SLOT_SIZE + _ENTRIES_PER_SLOT * index_entry.ENTRY_SIZE
    slots, rest = divmod(size - index_entry.HEADER_SIZE, per_slot)
    if rest or slots <= 0:
        raise StoreDamaged(f"{path} has {size} bytes, which is no index file with {_ENTRIES_PER_SLOT} entries a slot")
    return slots
