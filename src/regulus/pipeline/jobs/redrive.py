"""The job `redrive`: dead letters, or what waits in a retry topic, back to the topic they came from.

A message that was sent again carries in REDRIVE_OF the place of the dead letter that it was. So the log itself tells
what was sent before, and a second run, or one after a crash, sends only what is missing. What the brokers have that the
job sends to is looked at besides what it reads, for files may be those of another broker, or older. A message that
fails again makes a dead letter of its own, which may be sent again.

A topic that was deleted and made anew has lost what tells that, and so has one of whose log retention took the begin. A
dead letter that is older than what is left is therefore left where it is, unless the topic is set: whoever names it
knows what it had. Where an archive is read, it has what brokers no longer have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused, TopicMissing
from regulus.model.topics import dlq_topic, retry_topic
from regulus.pipeline.jobs.log_source import LogSource
from regulus.pipeline.jobs.sending import (
    REDRIVE_OF,
    Places,
    Target,
    anew,
    names_of,
    place_text,
    places,
    send,
    written_down,
)
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.steps.message_facts import is_first_copy
from regulus.pipeline.steps.verdicts import shortened_logs

COLUMNS = ("topic", "broker_name", "queue_id", "queue_offset", "physical_offset", "message_id",
           "offset_message_id", "keys", "tags", "properties", "body", "flag", "born_time", "store_time",
           "reconsume_times", "sharding_key", "origin_topic", "origin_message_id")
SETTABLE = ("topic", "body", "keys", "tags", "sharding_key")
TO_SEND, SENT, SENT_BEFORE, NO_TOPIC = "to send", "sent", "sent before", "no such topic"
BEYOND_CAP, TOPIC_IS_NEWER, LOG_IS_NEWER = "beyond the cap", "topic is newer", "log is newer"
CLOCKS_APART_MAX = timedelta(hours=1)
"""How far a broker's clock may be behind another's: what was sent again to the one may seem to be older than the dead
letter at the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRequest:
    """`where`: a condition in SQL over COLUMNS. `changes`: SETTABLE column -> its new value in SQL over COLUMNS.

    `cap`: send at most this many, the oldest first. `report`: a directory in which each run leaves its rows;
    `from_retries` takes the group's retry topic in place of its dead letters. A dry run looks at the target too;
    without a target it is always one.
    """

    source: LogSource
    group: str
    where: str | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    cap: int | None = None
    from_retries: bool = False
    starting: datetime | None = None
    ending: datetime | None = None
    target: Target | None = None
    is_dry_run: bool = False
    report: str | None = None

    def __post_init__(self) -> None:
        """Raises JobRefused for an archive without a target."""
        if self.target is None and set(self.source.options) & {"storePath", "nameServer"} == set():
            raise JobRefused("an archive lags behind the log, which alone tells what was sent again: give a name "
                             "server too")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveReport:
    """`counts`: (topic, status) -> messages; `place`: where the rows of this run lie, when a report was asked for;
    `brokers`: those that were asked."""

    counts: dict[tuple[str, str], int]
    is_dry_run: bool
    place: str | None = None
    brokers: tuple[str, ...] = ()

    def count(self, status: str) -> int:
        return sum(count for (_, found), count in self.counts.items() if found == status)

    def sentence(self) -> str:
        what = f"{self.count(TO_SEND)} to send" if self.is_dry_run else f"{self.count(SENT)} sent"
        why = {NO_TOPIC: "whose topic is gone or not known", BEYOND_CAP: "not sent: beyond the cap of a run",
               TOPIC_IS_NEWER: "not sent: older than the topic, which was made anew and may have had them (with --set "
                               "topic=... they are sent)",
               LOG_IS_NEWER: "not sent: older than what is left of the log of the topic, which may have had them (with "
                             "--set topic=... they are sent)"}
        left = "".join(f", {self.count(status)} {text}" for status, text in why.items() if self.count(status))
        return f"{what}, {self.count(SENT_BEFORE)} sent before{left}{names_of(self.brokers)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """`rows`: `dead_letter, status`, what the sink takes, `message_id, origin_message_id, reconsume_times, born_time,
    store_time`. `made`: when the topics to send to were made, where that is known."""

    rows: DataFrame
    places: Places
    topics: list[str]
    made: dict[str, datetime]

    def check(self, spark: SparkSession) -> None:
        """Raises JobRefused when a topic was made anew since, with what it had of the dead letters."""
        if self.places.target.made(spark, self.topics) != self.made:
            raise JobRefused("a topic was made anew while its messages were read: nothing was sent; run this again")


def redrive(spark: SparkSession, request: RedriveRequest, run: int, say: Say = say_nothing) -> RedriveReport:
    """`run` numbers the runs, ascending, such as ms since 1970.

    Raises JobRefused for a group without dead letters, an unknown column, or brokers that are not named.
    """
    plan = planned(spark, request, say)
    brokers = plan.places.target.brokers
    if request.target is None or request.is_dry_run:
        return RedriveReport(counts=_counts(plan.rows), is_dry_run=True, brokers=brokers)
    with written_down(plan.rows, request.report, run) as (rows, place):
        plan.check(spark)
        counts = _counts(rows)
        if to_send := sum(count for (_, status), count in counts.items() if status == TO_SEND):
            say(f"sending {to_send} messages")
            send(rows.where(F.col("status") == TO_SEND), request.target)
    sent = {(topic, SENT if status == TO_SEND else status): count for (topic, status), count in counts.items()}
    return RedriveReport(counts=sent, is_dry_run=False, place=place if request.report else None, brokers=brokers)


def planned(spark: SparkSession, request: RedriveRequest, say: Say = say_nothing) -> Plan:
    """What is to be done."""
    source, home = request.source, (retry_topic if request.from_retries else dlq_topic)(request.group)
    where = places(spark, source, request.target, sends=not request.is_dry_run)
    source = where.source
    if not source.there(spark, home):
        raise TopicMissing(f"{source.name} has no {home}: no message of group {request.group!r} ever "
                           f"{'came there to be tried again' if request.from_retries else 'became a dead letter'}")
    say(f"reading {home} from {source.name}")
    chosen = source.messages(spark, [home], COLUMNS, request.starting, request.ending)
    if request.where:
        chosen = chosen.where(request.where)
    rows = _changed(chosen.withColumn("dead_letter", place_text()), request.changes)
    known = where.target.topics(spark)
    targets = sorted(row["topic"] for row in rows.select("topic").distinct().collect() if row["topic"] in known)
    first = rows.agg(F.unix_millis(F.min("store_time")).alias("ms")).first()
    sent = _sent(spark, where.all, targets, None if first is None or first["ms"] is None else int(first["ms"]))
    made = where.target.made(spark, targets)
    is_named = "topic" in request.changes
    is_older, is_forgotten = (F.lit(False) if is_named else _is_older(since) for since in (
        made, {} if is_named else _shortened(spark, where, targets, home)))
    status = (F.when(F.col("was_sent"), SENT_BEFORE).when(~F.col("topic").isin(*targets), NO_TOPIC)
              .when(is_older, TOPIC_IS_NEWER).when(is_forgotten, LOG_IS_NEWER).otherwise(TO_SEND))
    plan = rows.join(sent, "dead_letter", "left").withColumn("status", status).drop("was_sent")
    return Plan(plan if request.cap is None else _capped(plan, request.cap), where, targets, made)


def _is_older(since: Mapping[str, datetime | None]) -> Column:
    """Whether the dead letter is of before what its topic has, which is all since then; nothing where that is None."""
    older = ((F.col("topic") == topic) & (F.lit(True) if moment is None else F.col("store_time") < F.lit(moment))
             for topic, moment in since.items())
    return reduce(Column.__or__, older, F.lit(False))


def _shortened(spark: SparkSession, where: Places, topics: list[str], home: str) -> dict[str, datetime | None]:
    """The topics that brokers have no longer as a whole, nor an archive that is read; from when on they have all."""
    bounds = where.target.bounds(spark, where.target.there(spark, home, *topics))
    if bounds is None:
        return {}
    queue = ["topic", "broker_name", "queue_id"]
    archived = F.lit(0)
    if "archivePath" in where.source.options:
        kept = where.source.messages(spark, where.source.there(spark, *topics), (*queue, "queue_offset"))
        bounds = bounds.join(kept.groupBy(*queue).agg((F.max("queue_offset") + 1).alias("archived")), queue, "left")
        archived = F.coalesce("archived", F.lit(0))
    is_target = F.col("topic").isin(*topics)
    return shortened_logs(bounds.withColumn("has_lost", is_target & (F.col("min_offset") > archived)))


def _sent(spark: SparkSession, where: Sequence[LogSource], topics: list[str], first_ms: int | None) -> DataFrame:
    """The dead letters, of which the first was stored at that time, that these topics say were sent again."""
    since = None if first_ms is None else datetime.fromtimestamp(first_ms / 1000, UTC) - CLOCKS_APART_MAX
    there = reduce(DataFrame.unionByName, [
        place.messages(spark, place.there(spark, *topics), ("topic", "properties"), since) for place in where])
    sent = F.col("properties")[REDRIVE_OF].alias("dead_letter")
    return there.where(is_first_copy()).select(sent, F.lit(True).alias("was_sent")).where(
        "dead_letter IS NOT NULL").distinct()


def _changed(rows: DataFrame, changes: Mapping[str, str]) -> DataFrame:
    """The rows as they are to be sent: to the topic they came from unless it is changed, '' where that is not known."""
    for name in changes:
        if name not in SETTABLE:
            raise JobRefused(f"column {name!r} cannot be set; these can: {', '.join(SETTABLE)}")
    values = {"topic": F.col("origin_topic"), **{name: F.expr(text) for name, text in changes.items()}}
    values["topic"] = F.coalesce(values["topic"], F.lit(""))
    kept = {name: F.col(name) for name in ("body", "keys", "tags", "sharding_key", "flag")}
    return rows.select(
        "dead_letter", *[value.alias(name) for name, value in {**kept, **values}.items()],
        anew(F.col("properties"), **{REDRIVE_OF: F.col("dead_letter")}).alias("properties"),
        "message_id", "origin_message_id", "reconsume_times", "born_time", "store_time")


def _capped(plan: DataFrame, cap: int) -> DataFrame:
    """The plan with at most `cap` rows to send, the oldest."""
    is_to_send = F.col("status") == TO_SEND
    first = plan.where(is_to_send).orderBy("store_time", "dead_letter").limit(cap).select(
        "dead_letter", F.lit(True).alias("is_within"))
    status = F.when(is_to_send & F.col("is_within").isNull(), BEYOND_CAP).otherwise(F.col("status"))
    return plan.join(first, "dead_letter", "left").withColumn("status", status).drop("is_within")


def _counts(rows: DataFrame) -> dict[tuple[str, str], int]:
    counted = rows.groupBy("topic", "status").agg(F.count("*").alias("messages"))
    return {(row["topic"], row["status"]): row["messages"] for row in counted.collect()}
