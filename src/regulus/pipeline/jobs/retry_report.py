"""The job `retries`: who failed, how often, why, how it ended, over all groups or some."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from regulus.errors import JobRefused
from regulus.model.topics import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, dlq_topic, retry_topic
from regulus.pipeline.jobs.log_source import LogSource
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.steps.retries import (
    CAUSE_PROPERTIES,
    dead_letters_by_cause,
    retry_ladder,
    retry_outcomes,
    time_to_success,
)

_COLUMNS = ("topic", "broker_name", "queue_id", "queue_offset", "message_id", "keys", "tags", "properties", "born_time",
            "store_time", "reconsume_times", "origin_topic", "origin_message_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest:
    """`groups` empty for all. `effects`: `key string, applied_time timestamp` of the groups' consumers.

    `cause_properties`: where applications leave why they failed, looked at before the usual names.
    """

    source: LogSource
    groups: tuple[str, ...] = ()
    effects: DataFrame | None = None
    cause_properties: tuple[str, ...] = ()
    starting: datetime | None = None
    ending: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryReport:
    """The tables of steps.retries; `outcomes` is kept by Spark until `close`."""

    groups: tuple[str, ...]
    outcomes: DataFrame = field(repr=False)
    ladder: DataFrame = field(repr=False)
    causes: DataFrame = field(repr=False)
    success: DataFrame = field(repr=False)

    def close(self) -> None:
        self.outcomes.unpersist()


def retry_report(spark: SparkSession, request: RetryRequest, say: Say = say_nothing) -> RetryReport:
    """Raises JobRefused for a group that never had a retry or dead letter."""
    request = replace(request, source=request.source.listed(spark))
    groups = _groups(spark, request)
    names = [name for group in groups for name in (retry_topic(group), dlq_topic(group))]
    say(f"reading retries and dead letters of {len(groups)} groups from {request.source.name}")
    topics = request.source.there(spark, *names, SCHEDULE_TOPIC)
    messages = request.source.messages(spark, topics, _COLUMNS, request.starting, request.ending)
    causes = tuple(dict.fromkeys((*request.cause_properties, *CAUSE_PROPERTIES)))
    outcomes = retry_outcomes(messages, request.effects, request.source.progress(spark, groups), causes,
                              request.source.retry_limits(spark))
    kept = outcomes.where(outcomes["consumer_group"].isin(*groups)).persist(StorageLevel.MEMORY_AND_DISK)
    return RetryReport(
        groups=tuple(groups), outcomes=kept,
        ladder=retry_ladder(kept).orderBy("consumer_group", "topic", "tries"),
        causes=dead_letters_by_cause(kept).orderBy("consumer_group", "topic", "cause"),
        success=time_to_success(kept).orderBy("consumer_group", "topic"))


def _groups(spark: SparkSession, request: RetryRequest) -> Sequence[str]:
    known = request.source.topics(spark)
    found = sorted({topic.removeprefix(prefix) for topic in known for prefix in (RETRY_PREFIX, DLQ_PREFIX)
                    if topic.startswith(prefix)})
    for group in request.groups:
        if group not in found:
            raise JobRefused(f"{request.source.name} has no retry or dead-letter topic of group {group!r}; it has "
                             f"those of {', '.join(found) or 'no group'}")
    return request.groups or found
