"""The writers that Spark calls: each task sends its own rows, the driver hears of it afterwards."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from regulus.errors import OptionError
from regulus.spark.sink_options import SinkOptions, check_columns
from regulus.spark.sink_task import TaskPlace, TaskReport, renew_routes, run_task

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass
class Sent(WriterCommitMessage):
    """What one task tells the driver."""

    sink_id: str
    report: TaskReport


def _write(iterator: "Iterator[pa.RecordBatch]", options: SinkOptions) -> Sent:
    place = task_place(options)
    return Sent(place.sink_id, run_task(iterator, options, place, os.environ))


def _committed(messages: Sequence[WriterCommitMessage | None], options: SinkOptions, batch: int) -> None:
    """All tasks of a batch are done."""
    sent = [message for message in messages if isinstance(message, Sent)]
    if sent:
        renew_routes([message.report for message in sent], options, sent[0].sink_id, batch, os.environ)


class BatchWriter(DataSourceArrowWriter):
    """`df.write`. Raises OptionError when the columns cannot be sent."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(options, schema, overwrite)
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        return _write(iterator, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _committed(messages, self._options, self._options.job_id)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`. Raises OptionError when the columns cannot be sent."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(options, schema, overwrite)
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        return _write(iterator, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _committed(messages, self._options, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: what was sent is stored, and the batch comes again."""


def check(options: SinkOptions, schema: StructType, overwrite: bool) -> None:
    """Raises OptionError when the write cannot be done as asked."""
    if overwrite:
        raise OptionError("a topic cannot be overwritten: use mode('append'), or outputMode('append') or 'update'")
    if options.is_transactional:
        raise OptionError("deliveryGuarantee=transactional is not served yet: use exactlyOnce or atLeastOnce")
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
