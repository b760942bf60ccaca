"""The messages under the names of Spark's Kafka source, so that a job moves by changing one word.

`key` is the property KEYS, `value` the body, `timestamp` the time at which the broker stored the message (Kafka's
timestamp type 1, log append time), `headers` all properties by name, and `partition` the queue and its broker
(kafka_partitions).
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from regulus.errors import OptionError
from regulus.model.topics import QUEUE_NUMS_MAX
from regulus.spark.kafka_partitions import first_partition

if TYPE_CHECKING:
    import pyarrow as pa

LOG_APPEND_TIME = 1
_SOURCES = {"key": ("keys",), "value": ("body",), "topic": ("topic",), "partition": ("queue_id", "broker_name"),
            "offset": ("queue_offset",), "timestamp": ("store_time",), "headers": ("properties",)}
"""The columns of our own that each is made of; the timestamp's type is a constant."""

_LEAST_COLUMN = "queue_offset"      # of a read that asks for no column of our own


def own_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of our own that `columns` are made of."""
    return tuple(own for name in columns for own in _SOURCES.get(name, ())) or (_LEAST_COLUMN,)


def converted(columns: tuple[str, ...], batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """A batch of our own columns as one with `columns` of Kafka's."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([_column(name, batch) for name in columns], list(columns))


def _column(name: str, batch: "pa.RecordBatch") -> Any:
    import pyarrow as pa

    if name not in _SOURCES:
        return pa.array([LOG_APPEND_TIME] * batch.num_rows, pa.int32())
    source = batch.column(_SOURCES[name][0])
    if name == "partition":
        return _partitions(source, batch.column("broker_name"))
    if name == "key":
        return source.cast(pa.binary())
    if name != "headers":
        return source
    fields = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
    pairs = pa.StructArray.from_arrays([source.keys, source.items.cast(pa.binary())], fields=fields)
    return pa.ListArray.from_arrays(source.offsets, pairs, type=pa.list_(pa.field("element", pairs.type)))


def _partitions(queue_ids: Any, broker_names: Any) -> Any:
    """Raises OptionError for a queue that has no number among those of its broker."""
    import numpy as np
    import pyarrow.compute as pc

    from regulus.spark.columns import arrow_arrays

    if len(queue_ids) and (largest := pc.max(queue_ids).as_py()) >= QUEUE_NUMS_MAX:
        raise OptionError(f"option 'kafkaSchema' has no partition for queue {largest}, only for queues below "
                          f"{QUEUE_NUMS_MAX}: read the table under its own names")
    brokers = broker_names.dictionary_encode()
    firsts = np.array([first_partition(name) for name in brokers.dictionary.to_pylist()], dtype=np.int32)
    return arrow_arrays.numbers(queue_ids.to_numpy() + firsts[brokers.indices.to_numpy()])


class KafkaReader(DataSourceReader):
    """Reads `columns` of Kafka's from what `make_inner` reads of our own."""

    def __init__(self, columns: tuple[str, ...],
                 make_inner: Callable[[tuple[str, ...]], DataSourceReader]) -> None:
        self._columns = columns
        self._inner = make_inner(own_columns(columns))

    def partitions(self) -> Any:
        return self._inner.partitions()

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return (converted(self._columns, batch) for batch in self._inner.read(partition))
