"""The writers that Spark calls: each task sends its own rows, and then reports to the driver."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from regulus.errors import OptionError
from regulus.spark.sink.options import SinkOptions, check_columns, for_this_run
from regulus.spark.sink.task import TaskPlace, TaskReport, abort, commit, run_task

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass
class Sent(WriterCommitMessage):
    """The report of one task to the driver."""

    sink_id: str
    report: TaskReport


def _write(iterator: "Iterator[pa.RecordBatch]", options: SinkOptions, place: TaskPlace) -> Sent:
    return Sent(place.sink_id, run_task(iterator, options, place, os.environ))


def _commit(messages: Sequence[WriterCommitMessage | None], options: SinkOptions, batch: int) -> None:
    """Commit a batch whose tasks are all done."""
    sent = _sent(messages)
    if sent:
        commit([message.report for message in sent], options, sent[0].sink_id, batch, os.environ)


def _abort(messages: Sequence[WriterCommitMessage | None], options: SinkOptions) -> None:
    """Clean up after a failed batch. What was sent without a transaction stays; the batch comes again."""
    sent = _sent(messages)
    sink_id = sent[0].sink_id if sent else options.sink_id
    if sink_id is not None:
        reports = [message.report if isinstance(message, Sent) else None for message in messages]
        abort(reports, options, sink_id, os.environ)


def _sent(messages: Sequence[WriterCommitMessage | None]) -> list[Sent]:
    return [message for message in messages if isinstance(message, Sent)]


class BatchWriter(DataSourceArrowWriter):
    """The writer of `df.write`. Raises OptionError when the columns cannot be sent."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(options, schema, overwrite)
        # Here, because the driver makes the writer once, and all attempts of its tasks get copies with the same id.
        self._options = for_this_run(options)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        return _write(iterator, self._options, batch_place(self._options))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _commit(messages, self._options, self._options.job_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _abort(messages, self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of `df.writeStream`. Raises OptionError when the columns cannot be sent."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(options, schema, overwrite)
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Sent:
        return _write(iterator, self._options, stream_place(self._options))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _commit(messages, self._options, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _abort(messages, self._options)


def check(options: SinkOptions, schema: StructType, overwrite: bool) -> None:
    """Raises OptionError when the columns cannot be sent, or the write is to overwrite."""
    if overwrite:
        raise OptionError("a topic cannot be overwritten: use mode('append'), or outputMode('append') or 'update'")
    check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, options)


def batch_place(options: SinkOptions) -> TaskPlace:
    """The task that runs here, in a batch write. Its batch is the job's id, even within foreachBatch, where Spark also
    gives a batch number of the stream, because the commit does not get that number."""
    context = _context()
    return TaskPlace(sink_id=options.sink_id or "", batch=options.job_id, partition=context.partitionId(),
                     attempt=context.attemptNumber())


def stream_place(options: SinkOptions) -> TaskPlace:
    """The task and the batch of a stream that runs here, as Spark says."""
    context = _context()
    batch = context.getLocalProperty(_BATCH_ID)
    return TaskPlace(
        sink_id=options.sink_id or context.getLocalProperty(_QUERY_ID) or "",
        batch=options.job_id if batch is None else int(batch),
        partition=context.partitionId(), attempt=context.attemptNumber())


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "writers run in tasks"
    return context
