"""How jobs send: rows are first written down, then sent from there.

Rows that a job chose by looking at a log which goes on growing would be others when a task is tried again. Written to
Parquet first they are the same rows in the same order, so that the broker's marks hold, and they are the report of what
was sent.

What a job does not find it sends. A broker that is away has what nobody finds, so that a job which sends must be told
which brokers there are, and all of them must be there whenever one is read: the rule of all jobs is `places`.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameWriter, Observation, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused
from regulus.model import message_properties as names
from regulus.pipeline.jobs.log_source import LogSource
from regulus.spark.sink.options import DeliveryGuarantee

SINK_COLUMNS = ("topic", "body", "keys", "tags", "properties", "sharding_key", "flag")
REDRIVE_OF = "REDRIVE_OF"
REPLAY_OF = "REPLAY_OF"
REPLAY_ID = "REPLAY_ID"
RESEND_OF = "RESEND_OF"
TABLE_PREFIX = "regulus_run_"
"""Of the tables in which rows are written down."""

_OF_A_FORMER_LIFE = (
    names.RETRY_TOPIC, names.REAL_TOPIC, names.REAL_QUEUE_ID, names.DELAY_TIME_LEVEL, names.ORIGIN_MESSAGE_ID,
    names.DLQ_ORIGIN_TOPIC, names.DLQ_ORIGIN_MESSAGE_ID, names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES,
    names.TRANSACTION_PREPARED, names.TRANSACTION_PREPARED_QUEUE_OFFSET, names.TRANSACTION_CHECK_TIMES,
    names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.TIMER_OUT_MS,
    names.TIMER_ENQUEUE_MS, names.TIMER_DEQUEUE_MS, names.TIMER_ROLL_TIMES, names.TIMER_DEL_UNIQUE_KEY,
    names.UNIQUE_KEY, "SINK", "SEQ", "DEDUP_KEY", REDRIVE_OF, REPLAY_OF, REPLAY_ID, RESEND_OF)
"""Properties that a message brings along and that are not true of it when it is sent anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where and how to send. `expected_brokers`: all that there are, without which nothing is sent. `rate_limit` is in
    messages a second, all tasks together.

    A task that is tried again sends nothing twice, for the broker knows each `send` by a name of its own. A job whose
    sends are many names them itself, so that the broker has one to remember: `sink_id`, another in each run, and `run`,
    which ascends.
    """

    name_server: str
    expected_brokers: tuple[str, ...] = ()
    sink_id: str | None = None
    run: int = 0
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    rate_limit: int | None = None
    dedup_key: str | None = None
    credentials: str | None = None

    def options(self) -> dict[str, str]:
        options = {"nameServer": self.name_server, "deliveryGuarantee": str(self.guarantee)}
        if self.guarantee is not DeliveryGuarantee.AT_LEAST_ONCE:
            if self.sink_id is not None:
                options |= {"sinkId": self.sink_id, "jobId": str(self.run)}
            if self.dedup_key:
                options["dedupKey"] = self.dedup_key
        if self.rate_limit is not None:
            options["rateLimit"] = str(self.rate_limit)
        if self.credentials:
            options["credentials"] = self.credentials
        return options

    @property
    def brokers(self) -> LogSource:
        """Those that are sent to, as a place to read."""
        credentials = {"credentials": self.credentials} if self.credentials else {}
        return self._expecting(LogSource({"nameServer": self.name_server, **credentials}))

    def beside(self, source: LogSource) -> tuple[LogSource, LogSource | None]:
        """The source, and the brokers where it takes more than the source to see what they have; None where it reads
        them itself."""
        if source.options.get("nameServer") == self.name_server:
            return self._expecting(source), None
        return source, self.brokers

    def _expecting(self, source: LogSource) -> LogSource:
        expected = {"expectedBrokers": ",".join(self.expected_brokers)} if self.expected_brokers else {}
        return source.with_options(**expected)


@dataclass(frozen=True, slots=True)
class Places:
    """Where a job reads, and where it looks for what was sent before, with their topics as they are now.

    `beside`: the brokers that are sent to, where the source does not read them itself.
    """

    source: LogSource
    beside: LogSource | None

    @property
    def target(self) -> LogSource:
        """The place that knows the topics which are sent to."""
        return self.source if self.beside is None else self.beside

    @property
    def all(self) -> list[LogSource]:
        return [self.source] if self.beside is None else [self.source, self.beside]


def places(spark: SparkSession, source: LogSource, target: Target | None, *, sends: bool) -> Places:
    """Where a job looks. Raises JobRefused for one that sends and does not say which brokers there are; and this, as
    each read of a place does, fails where they are others."""
    source, beside = (source, None) if target is None else target.beside(source)
    found = Places(source.listed(spark), None if beside is None else beside.listed(spark))
    if sends and target is not None and not target.expected_brokers:
        there = ",".join(found.target.brokers)
        raise JobRefused("it is not said which brokers there are, so that what lies at one that is away would be sent "
                         f"again; now these are there: {there}; if they are all, say so (--brokers {there})")
    return found


def names_of(brokers: Sequence[str]) -> str:
    """The end of a report's sentence."""
    return f"; brokers: {', '.join(brokers)}" if brokers else ""


def send(rows: DataFrame, target: Target) -> int:
    """Send SINK_COLUMNS of the rows, those that are there; the number of the rows. Raises what the sink raises."""
    columns = [name for name in SINK_COLUMNS if name in rows.columns]
    # The sink's limit is each task's, so that with a limit one task sends all.
    tasks = rows.coalesce(1) if target.rate_limit is not None else rows
    sent = Observation()
    counted = tasks.select(*columns).observe(sent, F.count("*").alias("rows"))
    counted.write.format("rocketmq").options(**target.options()).mode("append").save()
    return int(sent.get["rows"])


@contextmanager
def written_down(rows: DataFrame, directory: str | None, run: int) -> Iterator[tuple[DataFrame, str]]:
    """The rows as they were written down, and where: in `<directory>/run=<run>`, or without a directory in a place that
    is gone afterwards.

    Raises JobRefused where not all of them can be read again, because the tasks wrote to disks of their own.
    """
    spark: SparkSession = rows.sparkSession
    if directory is not None:
        yield _in_directory(rows, directory, run)
    elif is_one_process(spark):
        with tempfile.TemporaryDirectory(prefix="regulus-job-") as home:
            yield _in_directory(rows, home, run)
    else:
        # Neither this process nor a task may have a disk that the others see; Spark's tables are where all see them.
        name = f"{TABLE_PREFIX}{run}"
        try:
            yield _kept(rows, name, lambda written: written.saveAsTable(name), spark.table), name
        finally:
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def is_one_process(spark: SparkSession) -> bool:
    """Whether the driver and its tasks run where this program does."""
    try:
        master = str(spark.sparkContext.master)
    except PySparkException:        # of Spark Connect, whose server may be anywhere
        return False
    return master == "local" or master.startswith("local[")


def _in_directory(rows: DataFrame, directory: str, run: int) -> tuple[DataFrame, str]:
    place = f"{directory.rstrip('/')}/run={run}"
    # With its schema, for where no file can be seen there is nothing to infer it from.
    reader = rows.sparkSession.read.schema(rows.schema)
    return _kept(rows, place, lambda written: written.parquet(place), reader.parquet), place


def _kept(rows: DataFrame, place: str, write: Callable[[DataFrameWriter], None],
          read: Callable[[str], DataFrame]) -> DataFrame:
    """The rows, written and read again. The driver ends a write whose files it does not see as one of no rows, so that
    they are counted when they are written."""
    written = Observation()
    write(rows.observe(written, F.count("*").alias("rows")).write.format("parquet").mode("error"))
    kept = read(place)
    check_whole(kept.count(), int(written.get["rows"]), place)
    return kept


def check_whole(kept: int, written: int, place: str) -> None:
    """Raises JobRefused when other rows can be read than were written."""
    if kept != written:
        raise JobRefused(f"{written} rows were written down in {place}, and {kept} are there: Spark's tasks wrote to "
                         "disks that its driver does not see; as the run's report name a directory that all of them "
                         "share, such as hdfs:/... or s3a://...; nothing was sent")


def anew(properties: Column, **added: Column) -> Column:
    """A message's properties without what belongs to its former life, and with some more."""
    kept = F.map_filter(properties, lambda name, _: ~name.isin(*_OF_A_FORMER_LIFE))
    more = F.create_map(*[item for name, value in added.items() for item in (F.lit(name), value)])
    return F.map_concat(kept, more)


def place_text() -> Column:
    """What names a message's place for good: a queue may be made anew, a byte in the log is written once.

    The broker is named by its address, which is in the log, as its name is not: so the text is the same, whether the
    message is read from the broker, from its files or from an archive.
    """
    return F.concat_ws("/", "topic", "queue_id", "queue_offset", "offset_message_id")
