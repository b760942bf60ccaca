"""Audits deliveries: is everything there, once, in order, and how long did it take.

The audit reads no bodies. If the consumers' own table of effects is named, a message without an effect counts as a
loss, too, once its group has passed it or it is older than the limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from regulus.model.message_properties import REAL_TOPIC, RETRY_TOPIC
from regulus.model.topics import (
    SCHEDULE_TOPIC,
    TRACE_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    dlq_topic,
    retry_topic,
)
from regulus.pipeline.jobs.log_source import LogSource, as_it_is_now
from regulus.pipeline.jobs.quality import OnBreak, Rule, RuleResult, check
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.steps.duplicates import duplicate_effects, duplicate_messages
from regulus.pipeline.steps.latency import latencies, latency_percentiles
from regulus.pipeline.steps.message_facts import with_epoch_by_place
from regulus.pipeline.steps.order import effect_order_violations, order_violations
from regulus.pipeline.steps.queue_holes import queue_extents, queue_holes
from regulus.pipeline.steps.trace_spans import deliveries_from_trace, trace_records, trace_spans
from regulus.pipeline.steps.verdicts import DEAD, NO_EFFECT, STUCK, Limits, key_verdicts, verdict_counts

_COLUMNS = ("topic", "broker_name", "queue_id", "queue_offset", "physical_offset", "message_id", "message_type", "keys",
            "tags", "sharding_key", "born_time", "store_time", "born_host")
_COPY_COLUMNS = (*_COLUMNS, "properties", "deliver_time")
_HALF_COLUMNS = (*_COPY_COLUMNS, "body")

RULES = (
    Rule(name="messages_missing", table="holes", holds="false", on_break=OnBreak.FAIL,
         says="a queue numbers its messages without gaps"),
    Rule(name="queue_ends_lost", table="ends", holds="NOT is_lost", on_break=OnBreak.FAIL,
         says="no file of the store or archive knows of messages of a queue before the first or behind the last one "
              "that can be read"),
    Rule(name="queue_ends_ahead", table="ends", holds="is_lost OR missing_before + missing_behind = 0",
         says="log and queues of a store that its broker did not close begin and end at the same message"),
    Rule(name="rejects_without_place", table="unplaced", holds="false",
         says="it is known which messages the archive job rejected"),
    Rule(name="messages_without_effect", table="verdicts", holds=f"verdict NOT IN ('{NO_EFFECT}', '{STUCK}')",
         on_break=OnBreak.FAIL, says="each message has an effect or is a dead letter"),
    Rule(name="effects_repeated", table="repeated_effects", holds="false", on_break=OnBreak.FAIL,
         says="a message has one effect"),
    Rule(name="messages_without_key", table="messages", holds="keys IS NOT NULL",
         says="a message has a key, by which its effect is found"),
    Rule(name="messages_repeated", table="repeated_messages", holds="false",
         says="a message id stands once in a topic"),
    Rule(name="messages_out_of_order", table="order", holds="false",
         says="messages of one sharding key are stored in the order in which they were sent"),
    Rule(name="effects_out_of_order", table="effect_order", holds="false",
         says="messages of one sharding key are applied in the order in which they are stored"),
    Rule(name="dead_letters", table="verdicts", holds=f"verdict <> '{DEAD}'", says="no message is a dead letter"),
)
_USED_AGAIN = ("holes", "verdicts", "ends")
_NEED_EFFECTS = {"messages_without_effect", "messages_without_key", "effects_repeated", "effects_out_of_order"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """The request for an audit. `effects`: `key string, applied_time timestamp`, one row per effect of `group`'s
    consumers."""

    source: LogSource
    topics: tuple[str, ...]
    group: str | None = None
    effects: DataFrame | None = None
    late_ms: int = 60_000
    starting: datetime | None = None
    ending: datetime | None = None
    rules: tuple[Rule, ...] = RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of an audit. The offenders are in the results' views; `views` are the tables of the rules. Spark keeps
    the data from which they are made until `close`."""

    messages: int
    queues: int
    results: tuple[RuleResult, ...]
    verdicts: dict[str, int]
    latencies: tuple[Row, ...]
    views: dict[str, DataFrame] = field(repr=False)
    kept: tuple[DataFrame, ...] = field(repr=False)

    @property
    def passed(self) -> bool:
        return not any(result.fails for result in self.results)

    @property
    def missing(self) -> int:
        """The number of missing messages, including those lost before the beginning of a queue or after its end."""
        lost = self.views["ends"].where("is_lost").selectExpr("missing_before + missing_behind AS missing")
        row = self.views["holes"].select("missing").unionAll(lost).agg(F.sum("missing").alias("missing")).first()
        return 0 if row is None else int(row["missing"] or 0)

    def count(self, rule: str) -> int:
        """The number of rows that break a rule; 0 for a rule that was not checked."""
        return sum(result.count for result in self.results if result.rule.name == rule)

    def close(self) -> None:
        """Release the data that Spark keeps. The views can still be used, but they read the messages again."""
        for frame in self.kept:
            frame.unpersist()

    def sentence(self) -> str:
        broken = ", ".join(f"{result.rule.name} ({result.count})" for result in self.results if result.fails)
        verdict = f"FAILED by {broken}" if broken else "passed"
        unplaced = self.count("rejects_without_place")
        more = f", {unplaced} rejected without a place" if unplaced else ""
        return (f"{verdict}: {self.messages} messages in {self.queues} queues, {self.missing} missing, "
                f"{self.count('messages_repeated')} stored repeatedly, {self.count('messages_out_of_order')} out of "
                f"order, {self.count('messages_without_effect')} without effect{more}")


def audit(spark: SparkSession, request: AuditRequest, now: datetime, say: Say = say_nothing) -> Audit:
    """Run an audit. Raises JobRefused for a topic that does not exist, and the errors of the source."""
    request = replace(request, source=request.source.listed(spark))
    source, topics = request.source, request.topics
    source.check(spark, *topics)
    before = None if request.starting or request.ending else source.bounds(spark, topics)
    messages = _read(spark, request).persist(StorageLevel.MEMORY_AND_DISK)
    own = messages.where(F.col("topic").isin(*topics))
    if source.is_archive:
        own = with_epoch_by_place(own)
    say(f"reading {', '.join(topics)} from {source.name}")
    extents = queue_extents(own).agg(
        F.sum("rows").alias("rows"), F.countDistinct("topic", "broker_name", "queue_id").alias("queues")).first()
    assert extents is not None
    bounds = None if before is None else _bounds(before, source.bounds(spark, topics))
    say(f"looking at {extents['rows'] or 0} messages in {extents['queues']} queues")
    views = _views(messages, own, bounds, request, now)
    kept = [views[name].persist(StorageLevel.MEMORY_AND_DISK) for name in _USED_AGAIN]
    rules = [rule for rule in request.rules if request.effects is not None or rule.name not in _NEED_EFFECTS]
    results = check(rules, views)
    say("measuring latency")
    return Audit(
        messages=int(extents["rows"] or 0), queues=int(extents["queues"]), results=tuple(results),
        verdicts={row["verdict"]: row["keys"] for row in verdict_counts(views["verdicts"]).collect()},
        latencies=tuple(latency_percentiles(latencies(
            own, _deliveries(spark, request), request.effects)).orderBy("topic", "leg").collect()),
        views=views, kept=(*kept, messages))


def _views(messages: DataFrame, own: DataFrame, bounds: DataFrame | None, request: AuditRequest,
           now: datetime) -> dict[str, DataFrame]:
    views = {
        "messages": own,
        "holes": queue_holes(own, bounds),
        "ends": request.source.ends(own.sparkSession, request.topics),
        "unplaced": request.source.unplaced(own.sparkSession),
        "repeated_messages": duplicate_messages(own),
        "order": order_violations(own),
        "verdicts": key_verdicts(messages, Limits(now=now, late_ms=request.late_ms), effects=request.effects),
    }
    if request.effects is not None:
        views["repeated_effects"] = duplicate_effects(request.effects)
        views["effect_order"] = effect_order_violations(own, request.effects)
    return views


def _read(spark: SparkSession, request: AuditRequest) -> DataFrame:
    """The messages of the topics, and of those existing topics that show what became of a message later."""
    there = partial(request.source.there, spark)
    copies = there(SCHEDULE_TOPIC, *((retry_topic(request.group), dlq_topic(request.group)) if request.group else ()))
    halves = there(TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
    rows = request.source.with_options(failOnDataLoss="false").messages_in_parts(
        spark, {request.topics: _COLUMNS, tuple(copies): _COPY_COLUMNS, tuple(halves): _HALF_COLUMNS},
        request.starting, request.ending)
    # Copies of all topics are in the same few topics, so they are selected by their home topic. A record that ended a
    # half does not name its topic.
    home = F.coalesce(F.col("properties")[RETRY_TOPIC], F.col("properties")[REAL_TOPIC])
    mine = home.isin(*request.topics)
    return rows.where(F.col("topic").isin(*request.topics, TRANS_OP_HALF_TOPIC) | F.coalesce(mine, F.lit(False)))


def _bounds(before: DataFrame, after: DataFrame | None) -> DataFrame:
    """The ends from before the messages were read, and the beginnings from after, because retention and producers
    continue meanwhile. A queue that is no longer there, because its broker left meanwhile, must have everything that it
    had before."""
    queue = ["topic", "broker_name", "queue_id"]
    assert after is not None
    begins = after.select(*queue, F.col("min_offset").alias("begin"))
    joined = before.select(*queue, "min_offset", "max_offset").join(begins, queue, "left")
    return as_it_is_now(joined.select(*queue, F.coalesce("begin", "min_offset").alias("min_offset"), "max_offset"))


def _deliveries(spark: SparkSession, request: AuditRequest) -> DataFrame | None:
    """The times at which messages came to consumers; None if the clients did not trace them."""
    topics: Sequence[str] = request.source.there(spark, TRACE_TOPIC)
    if not topics:
        return None
    rows = request.source.messages(spark, topics, ("body", "born_host"), request.starting)
    found = deliveries_from_trace(trace_spans(trace_records(rows)))
    return found.where(F.col("consumer_group") == request.group) if request.group else found
