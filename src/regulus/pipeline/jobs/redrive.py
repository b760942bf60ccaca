"""The job `redrive`: sends dead letters, or messages in a retry topic, back to the topic from which they came.

A message that is sent again has in REDRIVE_OF the place of its dead letter. So the log itself shows what was sent
before, and a second run, or one after a crash, sends only what is missing. The job also checks the brokers that it
sends to, not only the source that it reads, because files may be those of another broker, or older. A message that
fails again becomes a new dead letter, which may be sent again.

A topic that was deleted and created again no longer shows what was sent before, nor does one from which retention has
removed the beginning. Therefore a dead letter that is older than what is left is not sent, unless the user sets the
topic, and so is responsible for what it had. If an archive is read, it has what brokers no longer have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused, TopicMissing
from regulus.model.receipt_handle import retry_topic_v1, retry_topic_v2
from regulus.model.redrive import (
    BEYOND_CAP,
    CLOCKS_APART_MAX_MS,
    LOG_IS_NEWER,
    NO_TOPIC,
    REASONS_NOT_TO_SEND,
    REDRIVE_OF,
    SENT,
    SENT_BEFORE,
    TO_SEND,
    TOPIC_IS_NEWER,
    is_of_first_copies,
    sentence,
)
from regulus.model.topics import TOPIC_SIZE_MAX, dlq_topic, retry_topic
from regulus.pipeline.jobs.log_source import LogSource
from regulus.pipeline.jobs.sending import (
    Places,
    Target,
    anew,
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
_CLOCKS_APART_MAX = timedelta(milliseconds=CLOCKS_APART_MAX_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRequest:
    """`where`: a condition in SQL over COLUMNS. `changes`: SETTABLE column -> its new value in SQL over COLUMNS.

    `cap`: send at most this many, the oldest first. `report`: a directory in which each run leaves its rows;
    `from_retries` reads the group's retry topic instead of its dead letters. A dry run also checks the target; without
    a target it is always a dry run.
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
            raise JobRefused("an archive lags behind the log, which alone shows what was sent again: give a name "
                             "server too")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveReport:
    """`counts`: (topic, status) -> messages; `place`: where the rows of this run are, if a report was requested;
    `brokers`: the brokers that were checked."""

    counts: dict[tuple[str, str], int]
    is_dry_run: bool
    place: str | None = None
    brokers: tuple[str, ...] = ()

    def count(self, status: str) -> int:
        return sum(count for (_, found), count in self.counts.items() if found == status)

    def sentence(self) -> str:
        counts: dict[str, int] = {}
        for (_, status), count in self.counts.items():
            counts[status] = counts.get(status, 0) + count
        return sentence(counts, is_dry_run=self.is_dry_run, brokers=self.brokers, other_topic="--set topic=...")


@dataclass(frozen=True, slots=True)
class Plan:
    """`rows`: `dead_letter, status`, the sink's columns, `message_id, origin_message_id, reconsume_times, born_time,
    store_time`. `made`: when the topics to send to were created, if that is known."""

    rows: DataFrame
    places: Places
    topics: list[str]
    made: dict[str, datetime]

    def check(self, spark: SparkSession) -> None:
        """Raises JobRefused when a topic was created again since, and has lost what shows which ones were sent."""
        if self.places.target.made(spark, self.topics) != self.made:
            raise JobRefused("a topic was created again while its messages were read: nothing was sent; run this again")


def redrive(spark: SparkSession, request: RedriveRequest, run: int, say: Say = say_nothing) -> RedriveReport:
    """Run the job. `run` numbers the runs, ascending, such as ms since 1970.

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
    """The plan of a run: each dead letter with its status."""
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
    rows = _changed(chosen.withColumn("dead_letter", place_text()), request.changes, request.group)
    known = where.target.topics(spark)
    targets = sorted(row["topic"] for row in rows.select("topic").distinct().collect()
                     if row["topic"] in known and is_of_first_copies(row["topic"]))
    first = rows.agg(F.unix_millis(F.min("store_time")).alias("ms")).first()
    sent = _sent(spark, where.all, targets, None if first is None or first["ms"] is None else int(first["ms"]))
    made = where.target.made(spark, targets)
    is_named = "topic" in request.changes
    is_older, is_forgotten = (F.lit(False) if is_named else _is_older(since) for since in (
        made, {} if is_named else _shortened(spark, where, targets, home)))
    applies = {SENT_BEFORE: F.col("was_sent"), NO_TOPIC: ~F.col("topic").isin(*targets), TOPIC_IS_NEWER: is_older,
               LOG_IS_NEWER: is_forgotten}
    status = F.coalesce(*[F.when(applies[reason], reason) for reason in REASONS_NOT_TO_SEND], F.lit(TO_SEND))
    plan = rows.join(sent, "dead_letter", "left").withColumn("status", status).drop("was_sent")
    return Plan(plan if request.cap is None else _capped(plan, request.cap), where, targets, made)


def _is_older(since: Mapping[str, datetime | None]) -> Column:
    """Whether the dead letter is older than what its topic has. `since`: the time from which on a topic is complete;
    None: no dead letter is older."""
    older = ((F.col("topic") == topic) & (F.lit(True) if moment is None else F.col("store_time") < F.lit(moment))
             for topic, moment in since.items())
    return reduce(Column.__or__, older, F.lit(False))


def _shortened(spark: SparkSession, where: Places, topics: list[str], home: str) -> dict[str, datetime | None]:
    """The topics that neither brokers nor an archive have completely, with the time from which on they do."""
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
    """The dead letters that were sent again, according to these topics. The first one was stored at `first_ms`."""
    since = None if first_ms is None else datetime.fromtimestamp(first_ms / 1000, UTC) - _CLOCKS_APART_MAX
    there = reduce(DataFrame.unionByName, [
        place.messages(spark, place.there(spark, *topics), ("topic", "properties"), since) for place in where])
    sent = F.col("properties")[REDRIVE_OF].alias("dead_letter")
    return there.where(is_first_copy()).select(sent, F.lit(True).alias("was_sent")).where(
        "dead_letter IS NOT NULL").distinct()


def _changed(rows: DataFrame, changes: Mapping[str, str], group: str) -> DataFrame:
    """The rows to send, with the changes. The topic is the one from which they came, or '' if it is not known."""
    for name in changes:
        if name not in SETTABLE:
            raise JobRefused(f"column {name!r} cannot be set; these can: {', '.join(SETTABLE)}")
    values = {"topic": _origin_topic(group), **{name: F.expr(text) for name, text in changes.items()}}
    values["topic"] = F.coalesce(values["topic"], F.lit(""))
    kept = {name: F.col(name) for name in ("body", "keys", "tags", "sharding_key", "flag")}
    return rows.select(
        "dead_letter", *[value.alias(name) for name, value in {**kept, **values}.items()],
        anew(F.col("properties"), **{REDRIVE_OF: F.col("dead_letter")}).alias("properties"),
        "message_id", "origin_message_id", "reconsume_times", "born_time", "store_time")


def _origin_topic(group: str) -> Column:
    """Column `origin_topic`, of a message that was popped again without the name of the retry topic: see
    `model.redrive.origin_topic`."""
    origin = F.col("origin_topic")
    for prefix in (retry_topic_v1("", group), retry_topic_v2("", group)):
        normal = F.substring(origin, len(prefix) + 1, TOPIC_SIZE_MAX)
        origin = F.when(origin.startswith(prefix), normal).otherwise(origin)
    return origin


def _capped(plan: DataFrame, cap: int) -> DataFrame:
    """The plan, limited to the `cap` oldest rows to send."""
    is_to_send = F.col("status") == TO_SEND
    first = plan.where(is_to_send).orderBy("store_time", "dead_letter").limit(cap).select(
        "dead_letter", F.lit(True).alias("is_within"))
    status = F.when(is_to_send & F.col("is_within").isNull(), BEYOND_CAP).otherwise(F.col("status"))
    return plan.join(first, "dead_letter", "left").withColumn("status", status).drop("is_within")


def _counts(rows: DataFrame) -> dict[tuple[str, str], int]:
    counted = rows.groupBy("topic", "status").agg(F.count("*").alias("messages"))
    return {(row["topic"], row["status"]): row["messages"] for row in counted.collect()}
