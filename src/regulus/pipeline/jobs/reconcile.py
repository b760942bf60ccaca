"""The job `reconcile`: compares business tables with the log, and sends lost messages again.

A stub is a row that says that a message is to be sent, written together with the business data. A stub that is not in
the log is lost. The job sends it from its own columns with its key, so that a second run finds it in the log. The job
also checks the brokers that it sends to, not only the source that it reads, because files may be those of one broker of
many, or an old copy.

Nothing is sent again by a guess: the user says by which condition a stub is due, from which age on, and how many a run
may send. A stub without a time, or with one of unknown zone, is not sent.

Verdicts go to a table that the user names, in one transaction, so that the table has all of a run's verdicts or none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused
from regulus.model.message_properties import REAL_TOPIC, RETRY_TOPIC
from regulus.model.redrive import RESEND_OF, names_of
from regulus.model.topics import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    dlq_topic,
    retry_topic,
)
from regulus.pipeline.jobs.log_source import LogSource
from regulus.pipeline.jobs.sending import Places, Target, places, send, written_down
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.steps.verdicts import (
    FINE,
    LOST,
    NOT_DUE,
    WAITING,
    Limits,
    emptied_queues_complete_since,
    key_verdicts,
    log_complete_since,
    topics_made,
    verdict_counts,
)
from regulus.pipeline.tables.outside import OutsideTable, as_time, lacks_zone

_COLUMNS = ("topic", "broker_name", "queue_id", "queue_offset", "offset_message_id", "message_id", "keys", "born_time",
            "store_time")
_COPY_COLUMNS = (*_COLUMNS, "properties", "deliver_time")
_HALF_COLUMNS = (*_COPY_COLUMNS, "body")
_RECORD = ("topic", "queue_id", "queue_offset", "offset_message_id")
"""Columns that identify a record. The broker's name is not one, because a store's files do not have it."""

_FIRST_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""The earliest time of a stub; an earlier one must be in other units."""

NO_TIME, TOO_YOUNG, BEYOND_CAP = "has no time", "not old enough yet", "beyond the cap of a run"
VERDICT_COLUMNS = {"key": str, "verdict": str, "decided_ms": int, "sent_ms": int}


@dataclass(frozen=True, slots=True, kw_only=True)
class StubColumns:
    """The columns of the stub table. To send a lost stub, `body` is needed, and `tags` if there are any.

    `mark`: a column that gets the verdict of each key that is not fine. `zone`: the time zone of `created` if its
    values have none, for example UTC or Europe/Paris. `due`: a condition in SQL over the table's columns; without it
    all stubs are due.
    """

    key: str = "key"
    created: str | None = None
    body: str | None = None
    tags: str | None = None
    mark: str | None = None
    zone: str | None = None
    due: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendLimits:
    """The limits of a run: it sends lost stubs of at least `min_age_ms`, at most `cap`, the oldest first."""

    min_age_ms: int
    cap: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileRequest:
    """`effects`: `key string, applied_time timestamp`. `verdicts`: the table for verdicts, created if it is missing.

    A dry run sends nothing and writes to no table, but also checks the target; without a target it is always a dry run.
    Any other run needs `limits`, and in `columns` those for the body, the time and the condition. `report`: a directory
    that keeps what each run sent.
    """

    source: LogSource
    topic: str
    stubs: OutsideTable
    columns: StubColumns
    effects: DataFrame | None = None
    group: str | None = None
    late_ms: int = 60_000
    verdicts: OutsideTable | None = None
    target: Target | None = None
    limits: ResendLimits | None = None
    report: str | None = None
    is_dry_run: bool = False

    @property
    def sends(self) -> bool:
        return self.target is not None and not self.is_dry_run

    def __post_init__(self) -> None:
        if not self.sends:
            return
        wanted = {"the column with the message's body": self.columns.body,
                  "the column with the time when a stub was made": self.columns.created,
                  "the condition that makes a stub due": self.columns.due,
                  "a minimal age and a cap": self.limits}
        missing = [what for what, given in wanted.items() if not given]
        if missing:
            raise JobRefused(f"lost stubs are not sent by a guess; this is not said: {', '.join(missing)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileReport:
    """`counts`: verdict -> keys. `frame` has a row per key; Spark keeps it until `close`.

    `left_out`: reason -> lost stubs that were not sent. `brokers`: the brokers that were checked.
    """

    counts: dict[str, int]
    frame: DataFrame
    sent: int | None = None
    written: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    brokers: tuple[str, ...] = ()

    def close(self) -> None:
        self.frame.unpersist()

    def sentence(self) -> str:
        found = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.counts.items())) or "no keys"
        if self.sent is None:
            return f"{found}; nothing sent, nothing written: this was a dry run{names_of(self.brokers)}"
        left = "".join(f", {count} not sent: {why}" for why, count in sorted(self.left_out.items()))
        return f"{found}; {self.sent} sent again{left}, {self.written} verdicts written{names_of(self.brokers)}"


@dataclass(frozen=True, slots=True)
class _Log:
    """Everything that was read, as one log; the time from which on it is complete; and what Spark keeps until `close`.

    It is kept so that it is read once: reads for each use could be of other brokers each time, or of another topic if
    one was created again.
    """

    messages: DataFrame
    since: datetime | None
    kept: tuple[DataFrame, ...]

    def close(self) -> None:
        for frame in self.kept:
            frame.unpersist()


def reconcile(spark: SparkSession, request: ReconcileRequest, now: datetime, run: int,
              say: Say = say_nothing) -> ReconcileReport:
    """Run the job. `run` numbers the runs, ascending, such as ms since 1970.

    Raises JobRefused for a table or column that is not there, for a key that no message can have, for times of unknown
    zone, for lost stubs that have nothing to send, and if brokers are not named.
    """
    where = places(spark, request.source, request.target, sends=request.sends)
    where.source.check(spark, request.topic)
    if request.sends:
        _check_writes(request)
    stubs = _stubs(spark, request)
    # Stubs are read before the log, so that stubs made in between are left out. All others have been sent by now, or
    # still have time.
    frame = stubs.persist(StorageLevel.MEMORY_AND_DISK)
    count = _checked(frame, request, say)
    say(f"{count} stubs in {request.stubs.table or request.stubs.place}; reading {request.topic} from "
        f"{where.source.name}")
    log = _log(spark, request, where, now, say)
    limits = Limits(now=now, late_ms=request.late_ms, log_since=log.since)
    promised = frame.select("key", "created_time", "is_due")
    verdicts = key_verdicts(log.messages, limits, promised, request.effects).persist(
        StorageLevel.MEMORY_AND_DISK)
    counts = {row["verdict"]: row["keys"] for row in verdict_counts(verdicts).collect()}
    log.close()
    report = ReconcileReport(counts=counts, frame=verdicts, brokers=where.target.brokers)
    if request.sends and request.target is not None and request.limits is not None:
        plan = _lost(frame, verdicts, request.topic, request.limits, now)
        with written_down(plan, request.report, run) as (rows, _):
            report = _resent(rows, report, request, request.target, run, say)
    frame.unpersist()
    return report


def _check_writes(request: ReconcileRequest) -> None:
    """Raises JobRefused when the verdicts cannot be written, before anything is sent."""
    if request.verdicts is not None:
        request.verdicts.upsert(VERDICT_COLUMNS, "key", ())
    if request.columns.mark is not None:
        request.stubs.mark(request.columns.key, request.columns.mark, ())


def _stubs(spark: SparkSession, request: ReconcileRequest) -> DataFrame:
    """`key, created_time, lacks_zone, body, tags, is_due`."""
    wanted = request.columns
    named = {"key": wanted.key, "created": wanted.created, "body": wanted.body, "tags": wanted.tags}
    rows = request.stubs.read(spark, {new: old for new, old in named.items() if old}, wanted.due)
    nothing, all_are = F.lit(None), F.lit(True)
    return rows.select(
        F.col("key").cast("string").alias("key"),
        (as_time(rows, "created", wanted.zone) if wanted.created else nothing.cast("timestamp")).alias("created_time"),
        (lacks_zone(rows, "created") if wanted.created else F.lit(False)).alias("lacks_zone"),
        (F.col("body").cast("binary") if wanted.body else nothing.cast("binary")).alias("body"),
        (F.col("tags").cast("string") if wanted.tags else nothing.cast("string")).alias("tags"),
        (F.col("is_chosen") if wanted.due else all_are).alias("is_due"))


def _checked(stubs: DataFrame, request: ReconcileRequest, say: Say) -> int:
    """The number of stubs. Raises JobRefused for keys that would not be found again in the log, and for times of
    unknown zone if stubs are to be sent by their age."""
    bad = F.col("key").isNull() | (F.col("key") == "") | F.col("key").contains(" ")
    ancient = F.col("created_time") < F.lit(_FIRST_TIME)
    row = stubs.agg(F.count("*").alias("stubs"), F.count_if(bad).alias("bad"),
                    F.min(F.when(bad, F.col("key"))).alias("key"), F.count_if("lacks_zone").alias("no_zone"),
                    F.count_if(ancient).alias("ancient"), F.min("created_time").alias("oldest")).first()
    assert row is not None
    if row["bad"]:
        raise JobRefused(
            f"{row['bad']} stubs have a key that is missing, empty or has a space, such as {row['key']!r} in column "
            f"{request.columns.key!r}: spaces separate the keys of a message, so that this one would not be found in "
            "the log and be sent at every run; name a column of keys without spaces")
    if row["no_zone"] and request.columns.zone is None:
        what = f"{row['no_zone']} stubs have a time in column {request.columns.created!r} that says no time zone"
        if request.sends:
            raise JobRefused(f"{what}, so that it is not known how old they are: name it, UTC or Europe/Paris")
        say(f"{what}; taken as UTC")
    if row["ancient"] and request.sends:
        raise JobRefused(
            f"{row['ancient']} stubs have a time in column {request.columns.created!r} before the year 2000, such as "
            f"{row['oldest']}, so that all would seem old enough to be sent: numbers are ms since 1970; give a column "
            "of ms, such as a view with seconds * 1000, or of timestamps")
    return int(row["stubs"])


def _log(spark: SparkSession, request: ReconcileRequest, where: Places, now: datetime, say: Say) -> _Log:
    """The log of the source, together with that of the brokers that are sent to."""
    messages = _messages(spark, where.source, request).persist(StorageLevel.MEMORY_AND_DISK)
    own = messages.where(F.col("topic") == request.topic)
    since = _latest(log_complete_since(own), _bounds_since(spark, where.source, request.topic, own, now))
    if where.beside is None:
        return _Log(messages, since, (messages,))
    say(f"and from {where.beside.name}")
    there = _messages(spark, where.beside, request).persist(StorageLevel.MEMORY_AND_DISK)
    at_brokers = there.where(F.col("topic") == request.topic)
    since = _latest(_both_complete_since(since, own, at_brokers),
                    _bounds_since(spark, where.beside, request.topic, at_brokers, now))
    both = _each_once(messages.unionByName(there)).persist(StorageLevel.MEMORY_AND_DISK)
    return _Log(both, since, (both, messages, there))


def _messages(spark: SparkSession, source: LogSource, request: ReconcileRequest) -> DataFrame:
    """_HALF_COLUMNS of the topic's messages, of its parked and retried copies, and of half messages."""
    there = partial(source.there, spark)
    of_the_group = (retry_topic(request.group), dlq_topic(request.group)) if request.group else ()
    copies = there(SCHEDULE_TOPIC, TIMER_TOPIC, *of_the_group)
    halves = there(TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
    rows = source.messages_in_parts(
        spark, {tuple(there(request.topic)): _COLUMNS, tuple(copies): _COPY_COLUMNS, tuple(halves): _HALF_COLUMNS})
    home: Column = F.coalesce(F.col("properties")[RETRY_TOPIC], F.col("properties")[REAL_TOPIC])
    mine = F.coalesce(home == request.topic, F.lit(False))
    return rows.where(F.col("topic").isin(request.topic, TRANS_OP_HALF_TOPIC) | mine).select(*_HALF_COLUMNS)


def _each_once(messages: DataFrame) -> DataFrame:
    """Drop the second of two rows of one record that was read in two ways.

    Halves are all kept, because a half is matched with the record that ended it by the broker's name, which differs
    between the two ways.
    """
    is_half = F.col("topic").isin(TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
    told_apart = messages.withColumn("half_of", F.when(is_half, F.col("broker_name")))
    return told_apart.dropDuplicates([*_RECORD, "half_of"]).drop("half_of")


def _both_complete_since(since: datetime | None, own: DataFrame, at_brokers: DataFrame) -> datetime | None:
    """The time from which on the source, complete from `since` on, and the brokers together have the whole topic.

    A broker's queue whose first message is also in the source continues that one. Others begin with their own first
    message.
    """
    begin = F.min(F.struct("queue_offset", "offset_message_id", "store_time")).alias("begin")
    begins = at_brokers.groupBy("topic", "broker_name", "queue_id").agg(begin).select(
        "topic", "broker_name", "queue_id", "begin.*")
    apart = log_complete_since(begins.join(own.select(*_RECORD), list(_RECORD), "left_anti"))
    return _latest(since, apart)


def _bounds_since(spark: SparkSession, source: LogSource, topic: str, own: DataFrame,
                  now: datetime) -> datetime | None:
    """The time from which on the log is complete, by the brokers' state after the topic's messages were read."""
    bounds = source.bounds(spark, source.there(spark, topic))
    if bounds is None:
        return None
    return _latest(emptied_queues_complete_since(own, bounds, now), *topics_made(bounds).values())


def _latest(*times: datetime | None) -> datetime | None:
    return max((time for time in times if time is not None), default=None)


def _lost(stubs: DataFrame, verdicts: DataFrame, topic: str, limits: ResendLimits, now: datetime) -> DataFrame:
    """One row per lost key: the sink's columns, and `why_not`, which is null in the rows to send."""
    keys = verdicts.where(F.col("verdict") == LOST).select("key")
    # The oldest row of a key; comparing `body` as well gives the same row whenever Spark computes it again.
    first = F.min_by(F.struct("created_time", "body", "tags"), F.struct("created_time", "body", "tags")).alias("stub")
    lost = stubs.where("is_due").join(keys, "key").groupBy("key").agg(first).select("key", "stub.*")
    old_enough = F.col("created_time") <= F.lit(now - timedelta(milliseconds=limits.min_age_ms))
    why_not = F.when(F.col("created_time").isNull(), NO_TIME).when(~old_enough, TOO_YOUNG)
    judged = lost.withColumn("why_not", why_not)
    oldest = judged.where("why_not IS NULL").orderBy("created_time", "key").limit(limits.cap).select(
        "key", F.lit(True).alias("is_within"))
    beyond = F.when(F.col("is_within").isNull(), BEYOND_CAP)
    return judged.join(oldest, "key", "left").select(
        F.lit(topic).alias("topic"), "body", F.col("key").alias("keys"), "tags",
        F.create_map(F.lit(RESEND_OF), F.col("key")).alias("properties"), "created_time",
        F.coalesce("why_not", beyond).alias("why_not"))


def _resent(plan: DataFrame, report: ReconcileReport, request: ReconcileRequest, target: Target, run: int,
            say: Say) -> ReconcileReport:
    """Carry out the plan, and complete the report."""
    counts = {row["why_not"]: row["count"] for row in plan.groupBy("why_not").count().collect()}
    rows, count = plan.where("why_not IS NULL"), counts.pop(None, 0)
    if nothing := rows.where("body IS NULL OR length(body) = 0").count():
        raise JobRefused(f"{nothing} of {count} lost stubs have nothing in column {request.columns.body!r}, so that "
                         "there is nothing to send; nothing was sent")
    if count:
        say(f"sending {count} lost messages again")
        send(rows, target)
    sent = rows.select(F.col("keys").alias("key"), F.lit(run).alias("sent_ms"))
    written = _write(report.frame.join(sent, "key", "left"), request, run, say)
    return replace(report, sent=count, left_out=counts, written=written)


def _write(verdicts: DataFrame, request: ReconcileRequest, run: int, say: Say) -> int:
    """Write all verdicts except `fine`, `waiting` and `not due`, and return their number."""
    written = 0
    is_worth_it = ~F.col("verdict").isin(FINE, WAITING, NOT_DUE)
    rest = verdicts.where(is_worth_it).select("key", "verdict", "sent_ms").orderBy("key")
    if request.verdicts is not None:
        say(f"writing verdicts to {request.verdicts.table}")
        written = request.verdicts.upsert(VERDICT_COLUMNS, "key", _verdict_rows(rest, run))
    if request.columns.mark is not None:
        marks = ({"key": row["key"], "value": row["verdict"]} for row in rest.toLocalIterator())
        written = max(written, request.stubs.mark(request.columns.key, request.columns.mark, marks))
    return written


def _verdict_rows(rest: DataFrame, run: int) -> Iterator[dict[str, Any]]:
    for row in rest.toLocalIterator():
        yield {"key": row["key"], "verdict": row["verdict"], "decided_ms": run, "sent_ms": row["sent_ms"]}
