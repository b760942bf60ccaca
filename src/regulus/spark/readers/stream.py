"""The stream reader that Spark calls: its planner lives in a process of the driver, its reads in the tasks."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from regulus.spark.open_place import open_place
from regulus.spark.options import ReadOptions
from regulus.spark.read_bounds import Place
from regulus.spark.readers.batch import RangePartition, read_part
from regulus.spark.readers.kafka import converted, own_columns
from regulus.spark.readers.stream_planner import StreamPlanner

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads `columns` of the messages, with the option `kafkaSchema` of Kafka's.

    A copy goes to the tasks, so what planning needs is made when it is needed.
    """

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._place: Place | None = None
        self._planner: StreamPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:
        return self._planning().initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The engine knows one limit; the one in bytes is observed as well."""
        return ReadMaxRows(self._options.trigger_records_max)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._planning().latest(start, is_limited=not isinstance(limit, ReadAllAvailable))

    def prepareForTriggerAvailableNow(self) -> None:
        self._planning().freeze()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._planning().report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [RangePartition(part) for part in self._planning().partitions(start, end)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        assert isinstance(partition, RangePartition)
        if not self._options.kafka_schema:
            return read_part(self._options, self._columns, partition.part)
        batches = read_part(self._options, own_columns(self._columns), partition.part)
        return (converted(self._columns, batch) for batch in batches)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: it is called a batch late, and never for the last one. See `progress.ProgressPublisher`."""

    def stop(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None
            self._planner = None

    def _planning(self) -> StreamPlanner:
        if self._place is None or self._planner is None:
            self._place = open_place(self._options)
            self._planner = StreamPlanner(self._options, self._place, time.monotonic,
                                          lambda: time.time_ns() // 1_000_000, time.sleep)
        return self._planner
