"""The batch reader of an archive: plans on the driver from the manifests, scans Parquet files in the tasks."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from regulus.spark.archive_place import plan
from regulus.spark.archive_plan import ArchiveRange
from regulus.spark.batch_reader import BatchReader

if TYPE_CHECKING:
    import pyarrow as pa


class ArchivePartition(InputPartition):
    """One task's share; empty when there is nothing to read."""

    def __init__(self, part: ArchiveRange) -> None:
        super().__init__(part)
        self.part = part


class ArchiveReader(BatchReader):
    """Reads `columns` of the messages in an archive."""

    def partitions(self) -> list[InputPartition]:
        parts = plan(self._options, os.cpu_count() or 1)
        return [ArchivePartition(part) for part in parts or [ArchiveRange(())]]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from regulus.spark.archive_scan import scan

        assert isinstance(partition, ArchivePartition)
        return scan(self._options, self._columns, partition.part)
