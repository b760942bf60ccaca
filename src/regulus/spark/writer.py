"""The writers that Spark calls: each task sends its own rows, the driver hears of it afterwards."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from regulus.errors import OptionError
from regulus.spark.sink_options import DeliveryGuarantee, SinkOptions, check_columns
from regulus.spark.sink_task import TaskPlace, TaskReport, run_task

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass
class Sent(WriterCommitMessage):
    """What one task tells the driver."""

    report: TaskReport


class BatchWriter(DataSourceArrowWriter):
    """`df.write`. Raises OptionError when the columns cannot be sent."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(options, schema, overwrite)
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        return Sent(run_task(iterator, self._options, task_place(self._options)))


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`. Raises OptionError when the columns cannot be sent."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(options, schema, overwrite)
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        return Sent(run_task(iterator, self._options, task_place(self._options)))


def check(options: SinkOptions, schema: StructType, overwrite: bool) -> None:
    """Raises OptionError when the write cannot be done as asked."""
    if overwrite:
        raise OptionError("a topic cannot be overwritten: use mode('append'), or outputMode('append') or 'update'")
    if options.delivery_guarantee is not DeliveryGuarantee.AT_LEAST_ONCE or options.credentials or options.dedup_key:
        raise OptionError("the sink does deliveryGuarantee=atLeastOnce so far, without credentials and dedupKey")
    check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, options)


def task_place(options: SinkOptions) -> TaskPlace:
    """Which task of which batch runs here, as Spark says."""
    context = TaskContext.get()
    assert context is not None, "writers run in tasks"
    batch = context.getLocalProperty(_BATCH_ID)
    return TaskPlace(
        sink_id=options.sink_id or context.getLocalProperty(_QUERY_ID) or "",
        batch=options.job_id if batch is None else int(batch),
        partition=context.partitionId(), attempt=context.attemptNumber())
