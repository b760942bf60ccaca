"""The job `trace`: what the clients' message trace says about groups and the ways of messages."""

from dataclasses import dataclass, field
from datetime import datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import TopicMissing
from regulus.model.topics import TRACE_TOPIC
from regulus.pipeline.jobs.log_source import LogSource
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.steps.trace_spans import service_map, slow_groups, trace_records, trace_rejects, trace_spans


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """`topic`: the trace topic; clients may be set to use another one."""

    source: LogSource
    topic: str = TRACE_TOPIC
    slow_ms: int = 1000
    message_id: str | None = None
    starting: datetime | None = None
    ending: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """The tables of steps.trace_spans; `rejects` are records that cannot be read. `spans` is kept by Spark until
    `close`."""

    spans: DataFrame = field(repr=False)
    groups: DataFrame = field(repr=False)
    ways: DataFrame = field(repr=False)
    rejects: DataFrame = field(repr=False)

    def close(self) -> None:
        self.spans.unpersist()


def trace_report(spark: SparkSession, request: TraceRequest, say: Say = say_nothing) -> TraceReport:
    """Raises TopicMissing when there is no such topic, that is when no client traced."""
    if not request.source.there(spark, request.topic):
        raise TopicMissing(f"{request.source.name} has no topic {request.topic!r}: no client sent its trace there; "
                           "Java's do with enableMsgTrace, and --topic names another topic")
    say(f"reading {request.topic} from {request.source.name}")
    messages = request.source.messages(spark, [request.topic], ("body", "born_host"), request.starting, request.ending)
    spans = trace_spans(trace_records(messages))
    if request.message_id is not None:
        spans = spans.where(F.col("message_id") == request.message_id)
    spans = spans.persist(StorageLevel.MEMORY_AND_DISK)
    return TraceReport(
        spans=spans, rejects=trace_rejects(messages),
        groups=slow_groups(spans, request.slow_ms).orderBy(F.desc("p99_ms"), "consumer_group", "topic"),
        ways=service_map(spans).orderBy("producer_group", "topic", "consumer_group"))
