"""The job `outbox`: compares the tables of the reliability layer with the log, and makes lost messages due again.

The job sends nothing. It makes lost stubs due for the relay, the only sender, which claims and counts them like any
other. The relay's rules apply, except that the log has shown what they cannot know: that there is no message to wait
for. A row is changed only if it is still as it was read, in one transaction per partition. So a killed job can be
started again, and two jobs at once do together what one does.

The order of reading makes sure that nothing that came meanwhile seems lost or unmade: first the database's time and the
ends of the queues, then log and tables, and finally the queues again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused
from regulus.model.message_properties import REAL_TOPIC, RETRY_TOPIC
from regulus.model.redrive import names_of
from regulus.model.timestamps import milliseconds_of
from regulus.model.topics import SCHEDULE_TOPIC, TIMER_TOPIC, dlq_topic, retry_topic
from regulus.pipeline.jobs.log_source import LogSource
from regulus.pipeline.progress import Say, say_nothing
from regulus.pipeline.steps.outbox_facts import (
    QUEUE,
    accounts,
    applied_rows,
    group_rows,
    log_rows,
    receipt_rows,
    told_rows,
)
from regulus.pipeline.steps.outbox_verdicts import GOOD_VERDICTS, OutboxLimits, needs_log_since, outbox_verdicts
from regulus.pipeline.steps.verdicts import topics_made
from regulus.pipeline.tables.outbox_database import OutboxDatabase
from regulus.reliability import outbox_table, tables
from regulus.reliability.confirms import CONFIRMATION_TOPIC, GROUP_PROPERTY
from regulus.reliability.outbox_table import Gone
from regulus.reliability.retry_policy import KEEP_MS, ResendPolicy

BEYOND_CAP = "beyond the cap of a run"
ROWS_OF_A_TRANSACTION = 10_000
_ROWS_OF_A_STATEMENT = 1_000

_NEEDED = (tables.stubs, tables.confirmations, tables.message_log, tables.watermarks, tables.attempts)
_STUB_COLUMNS = ("message_id", *QUEUE, "queue_offset", "status", "is_manual", "send_count", "resend_time",
                 "first_send_time", "create_time", "version")
_LOG_COLUMNS = (*QUEUE, "queue_offset", "store_time", "properties")
_APPLIED = f"kind = '{tables.DELIVERY}' AND outcome = '{tables.APPLIED}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRequest:
    """`topics`: those of all stubs if none are named. `groups`: groups whose retries and dead letters are checked,
    besides those that received something. `effects`: the consumer's database, if it has one of its own.

    `brokers`: all brokers that exist, each of which must be there; without them a stub whose place is not known is not
    lost. `cap`: the most that a run makes due, the oldest first; None for a dry run. `policy`: that of the relays.
    """

    source: LogSource
    database: OutboxDatabase
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    effects: OutboxDatabase | None = None
    confirmation_topic: str = CONFIRMATION_TOPIC
    brokers: tuple[str, ...] = ()
    policy: ResendPolicy = field(default_factory=ResendPolicy)
    late_ms: int = 60_000
    keep_ms: int = KEEP_MS
    cap: int | None = None

    def __post_init__(self) -> None:
        """Raises JobRefused for a source that cannot answer the question, or effects that would be counted twice."""
        if self.source.is_archive:
            raise JobRefused("an archive does not tell where its queues end, so that nothing can be called lost: name "
                             "the brokers, too, or a store's directory")
        if self.brokers and "nameServer" not in self.source.options:
            raise JobRefused("a store's files do not tell which brokers there are: read the brokers (-n), or name none")
        if self.effects is not None and self.effects.name == self.database.name:
            raise JobRefused("the effects are in the database of the stubs, where they are looked for anyway: name a "
                             "database of effects only where the consumer has one of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxReport:
    """`counts`: verdict -> ids. `frame` has a row for each id, `outbox_verdicts.COLUMNS`; Spark keeps its data until
    `close`. `due`: stubs that this run has made due, None for a dry run; `changed`: stubs that have changed since they
    were read. `left_out`: reason -> lost stubs that were left as they are."""

    counts: dict[str, int]
    frame: DataFrame
    kept: DataFrame
    lost_again: int
    left_out: Mapping[str, int]
    due: int | None = None
    changed: int = 0
    brokers: tuple[str, ...] = ()

    def close(self) -> None:
        self.kept.unpersist()

    @property
    def not_good(self) -> DataFrame:
        """The rows whose verdict an operator may want to look into, sorted."""
        bad = self.frame.where(~F.col("verdict").isin(*GOOD_VERDICTS))
        return bad.orderBy("verdict", "message_id").select(
            "verdict", "message_id", "why", *QUEUE, "queue_offset", F.col("send_count").alias("sends"),
            F.timestamp_millis("create_time").alias("committed"), F.timestamp_millis("resend_time").alias("due"),
            "why_not")

    def sentence(self) -> str:
        found = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.counts.items())) or "no stubs"
        left = "".join(f", {count} left: {why}" for why, count in sorted(self.left_out.items()))
        if self.due is None:
            return (f"{found}; {self.lost_again} would be due again{left}; nothing was written: this was a dry run"
                    f"{names_of(self.brokers)}")
        changed = f", {self.changed} changed meanwhile" if self.changed else ""
        return f"{found}; {self.due} due now, for the relay to send{left}{changed}{names_of(self.brokers)}"


def reconcile_outbox(spark: SparkSession, request: OutboxRequest, say: Say = say_nothing) -> OutboxReport:
    """Run the job. Raises TopicMissing for a named topic that does not exist; ReliabilityRefused for tables that are
    missing or of an earlier version; JobRefused for what cannot be read."""
    database = request.database
    database.check(*_NEEDED)
    named = {"expectedBrokers": ",".join(request.brokers)} if request.brokers else {}
    source = request.source.with_options(**named).listed(spark)
    source.check(spark, *request.topics)
    topics = source.there(spark, *(request.topics or database.topics()))
    now_ms = database.now_ms()
    ends = _bounds(spark, source, topics)
    say(f"reading {', '.join(topics) or 'no topics'} from {source.name}, and the stubs of {database.name}")
    kept = _accounts(spark, request, source, topics, ends, now_ms).persist(StorageLevel.MEMORY_AND_DISK)
    row = kept.agg(F.count_if(needs_log_since()).alias("nowhere")).first()     # reads all
    assert row is not None
    after = _bounds(spark, source, topics)
    is_whole = bool(request.brokers) and row["nowhere"] > 0
    limits = OutboxLimits(resend=request.policy.limits(now_ms), late_ms=request.late_ms,
                          log_since_ms=_log_since_ms(spark, source, topics, after, now_ms) if is_whole else None)
    frame = outbox_verdicts(kept, _both(ends, after), limits)
    say("counting")
    report = _counted(frame, kept, source)
    return report if request.cap is None else _made_due(report, database, request.cap, say)


def _bounds(spark: SparkSession, source: LogSource, topics: list[str]) -> DataFrame:
    bounds = source.bounds(spark, topics)
    assert bounds is not None       # only an archive alone has none, and it is refused
    return bounds


def _both(before: DataFrame, after: DataFrame) -> DataFrame:
    """QUEUE, `known_end`, `begin`, `end` of the queues that were there both times."""
    return before.select(*QUEUE, F.col("max_offset").alias("known_end")).join(
        after.select(*QUEUE, F.col("min_offset").alias("begin"), F.col("max_offset").alias("end")), list(QUEUE))


def _accounts(spark: SparkSession, request: OutboxRequest, source: LogSource, topics: list[str], ends: DataFrame,
              now_ms: int) -> DataFrame:
    database = request.database
    stubs = database.read(spark, tables.stubs, _STUB_COLUMNS)
    messages = _messages(spark, source, topics, {*request.groups, *database.groups()})
    told = source.messages(spark, source.there(spark, request.confirmation_topic), _LOG_COLUMNS)
    known = ends.select(*QUEUE, F.col("max_offset").alias("known_end"))
    found = accounts(stubs, [
        log_rows(messages, known, now_ms - request.keep_ms),
        told_rows(told, GROUP_PROPERTY),
        group_rows(database.read(spark, tables.confirmations, ("message_id", "consumer_group", "status"))),
        receipt_rows(database.read(spark, tables.message_log, ("message_id", "consumer_group", "receive_time"))),
        *[applied_rows(each.read(spark, tables.attempts, ("message_id", "consumer_group", "end_time"), _APPLIED))
          for each in (database, request.effects) if each is not None],
    ], database.read(spark, tables.watermarks, [column.name for column in tables.watermarks.columns]))
    # Filtered only here: a group's row does not name its topic, so it must first be joined with its stub.
    return found.where(F.col("topic").isNull() | F.col("topic").isin(*request.topics)) if request.topics else found


def _messages(spark: SparkSession, source: LogSource, topics: list[str], groups: set[str]) -> DataFrame:
    """The messages of the topics, and their copies that are waiting, are retried or are dead letters."""
    ends = tuple(retry_topic(group) + "_" for group in groups)      # POP has a retry topic for each group and topic
    of_groups = {retry_topic(group) for group in groups} | {dlq_topic(group) for group in groups}
    copies = [topic for topic in sorted(source.topics(spark)) if topic in (SCHEDULE_TOPIC, TIMER_TOPIC)
              or topic in of_groups or topic.startswith(ends)]
    own = source.messages(spark, topics, _LOG_COLUMNS)
    home = F.coalesce(F.col("properties")[RETRY_TOPIC], F.col("properties")[REAL_TOPIC])
    return own.unionByName(source.messages(spark, copies, _LOG_COLUMNS).where(home.isin(topics)))


def _log_since_ms(spark: SparkSession, source: LogSource, topics: list[str], bounds: DataFrame, now_ms: int) -> int:
    """The time from which on the log has everything that was sent to the topics. Retention removes the beginning of a
    broker's log, so it is complete from the first remaining message of any queue on. A topic that was created again has
    no messages of the one before."""
    cut = bounds.where("min_offset > 0").select("broker_name").distinct()
    first = source.messages(spark, topics, ("broker_name", "store_time")).groupBy("broker_name").agg(
        F.unix_millis(F.min("store_time")).alias("ms"))
    begins = [now_ms if row["ms"] is None else row["ms"] for row in cut.join(first, "broker_name", "left").collect()]
    made = [milliseconds_of(time) for time in topics_made(bounds).values()]
    return max([*begins, *made], default=0)


def _counted(frame: DataFrame, kept: DataFrame, source: LogSource) -> OutboxReport:
    counts: dict[str, int] = {}
    left: dict[str, int] = {}
    again = 0
    for row in frame.groupBy("verdict", "is_again", "why_not").count().collect():
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + row["count"]
        if row["is_again"]:
            again += row["count"]
        elif row["why_not"] is not None:
            left[row["why_not"]] = left.get(row["why_not"], 0) + row["count"]
    return OutboxReport(counts=counts, frame=frame, kept=kept, lost_again=again, left_out=left, brokers=source.brokers)


def _made_due(report: OutboxReport, database: OutboxDatabase, cap: int, say: Say) -> OutboxReport:
    """Make lost stubs due, and complete the report."""
    wanted = min(cap, report.lost_again)
    due = 0
    if wanted:
        say(f"{wanted} lost stubs are made due")
        rows = report.frame.where("is_again").orderBy("create_time", "message_id").limit(wanted)
        due = write_due(database, rows.repartition((wanted - 1) // ROWS_OF_A_TRANSACTION + 1))
    beyond = {BEYOND_CAP: report.lost_again - wanted} if report.lost_again > wanted else {}
    return replace(report, left_out={**report.left_out, **beyond}, due=due, changed=wanted - due)


def write_due(database: OutboxDatabase, rows: DataFrame) -> int:
    """Make the stubs due, and return their number. Each partition is one transaction, so a job that ends in the middle
    has done all of a partition or nothing."""
    due = 0
    for _, partition in groupby(_gone(rows), key=lambda each: each[0]):
        # Sorted, so that two jobs do not deadlock.
        gone = sorted(each for _, each in partition)
        with database.engine.begin() as connection:
            for start in range(0, len(gone), _ROWS_OF_A_STATEMENT):
                due += outbox_table.make_due(connection, gone[start:start + _ROWS_OF_A_STATEMENT])
    return due


def _gone(rows: DataFrame) -> Iterator[tuple[int, Gone]]:
    numbered = rows.select("message_id", "version", *QUEUE, "queue_offset", F.spark_partition_id().alias("part"))
    for row in numbered.toLocalIterator():
        place = f"{row['broker_name']}/{row['queue_id']}/{row['queue_offset']}"
        yield row["part"], Gone(row["message_id"], row["version"], f"its message is not at {place} any more")
