"""The batch reader of an archive: plans on the driver from the manifests, scans Parquet files in the tasks."""

import os

from pyspark.sql.datasource import InputPartition

from regulus.spark.archive.place import plan
from regulus.spark.archive.plan import ArchiveRange
from regulus.spark.readers.batch import BatchReader, RangePartition


class ArchiveReader(BatchReader):
    """Reads `columns` of the messages in an archive."""

    def partitions(self) -> list[InputPartition]:
        parts = plan(self._options, os.cpu_count() or 1)
        return [RangePartition(part) for part in parts or [ArchiveRange(())]]
