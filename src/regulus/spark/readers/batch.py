"""The batch reader that Spark calls: plans on the driver, scans in the tasks."""

import os
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from regulus.spark.open_place import open_place, scan_part
from regulus.spark.options import ReadOptions
from regulus.spark.read_bounds import Part, batch_bounds
from regulus.spark.read_plan import ReadRange
from regulus.spark.runtime.worker_memory import keep_imports, told_of_memory

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """One task's share; empty when there is nothing to read."""

    def __init__(self, part: Part) -> None:
        super().__init__(part)
        self.part = part


class BatchReader(DataSourceReader):
    """Reads `columns` of the messages in a store's files or at running brokers."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        with closing(open_place(self._options)) as place:
            ranges, gaps = batch_bounds(self._options, place)
            parts = place.partitions(ranges, gaps, cores=os.cpu_count() or 1)
        return [RangePartition(part) for part in parts or [ReadRange(())]]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        assert isinstance(partition, RangePartition)
        return read_part(self._options, self._columns, partition.part)


def read_part(options: ReadOptions, columns: tuple[str, ...], part: Part) -> Iterator["pa.RecordBatch"]:
    """The batches of one task, in a worker of Spark's. Raises DataLoss, OptionError, ClientError, TaskOutOfMemory."""
    batches = scan_part(options, columns, part)
    keep_imports()
    return told_of_memory(batches)
