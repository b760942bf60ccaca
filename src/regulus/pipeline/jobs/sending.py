"""Sends for jobs: rows are first written to files, and then sent from there.

Rows that a job selects from a growing log would change when a task is tried again. Written to Parquet first, they are
the same rows in the same order, so that the broker's marks are valid, and they are the report of what was sent.

A job sends what it does not find. It cannot find messages of a broker that is away. So a job that sends must know which
brokers exist, and all of them must be there whenever one is read. `places` is this rule for all jobs.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameWriter, Observation, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused
from regulus.model.failure_causes import CAUSE_PATTERN
from regulus.model.redrive import NOT_KEPT
from regulus.pipeline.jobs.log_source import LogSource
from regulus.spark.sink.options import DeliveryGuarantee

SINK_COLUMNS = ("topic", "body", "keys", "tags", "properties", "sharding_key", "flag")
TABLE_PREFIX = "regulus_run_"
"""The beginning of the names of tables to which rows are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where and how to send. `expected_brokers`: all brokers that exist, without which nothing is sent. `rate_limit` is
    in messages a second, all tasks together.

    A task that is tried again sends nothing twice, because the broker knows each `send` by a unique name. A job with
    many sends names them itself, so that the broker has only one name to remember: `sink_id`, which differs in each
    run, and `run`, which ascends.
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
        """The brokers that are sent to, as a source to read."""
        credentials = {"credentials": self.credentials} if self.credentials else {}
        return self._expecting(LogSource({"nameServer": self.name_server, **credentials}))

    def beside(self, source: LogSource) -> tuple[LogSource, LogSource | None]:
        """The source, and the brokers as a second source, if the first does not show what they have; None if it reads
        them itself."""
        if source.options.get("nameServer") == self.name_server:
            return self._expecting(source), None
        return source, self.brokers

    def _expecting(self, source: LogSource) -> LogSource:
        expected = {"expectedBrokers": ",".join(self.expected_brokers)} if self.expected_brokers else {}
        return source.with_options(**expected)


@dataclass(frozen=True, slots=True)
class Places:
    """The source that a job reads, and where it looks for what was sent before, with their present topics.

    `beside`: the brokers that are sent to, if the source does not read them itself.
    """

    source: LogSource
    beside: LogSource | None

    @property
    def target(self) -> LogSource:
        """The source that has the topics to which the job sends."""
        return self.source if self.beside is None else self.beside

    @property
    def all(self) -> list[LogSource]:
        return [self.source] if self.beside is None else [self.source, self.beside]


def places(spark: SparkSession, source: LogSource, target: Target | None, *, sends: bool) -> Places:
    """The places of a job. Raises JobRefused for one that sends and does not name the brokers. If other brokers are
    there, this fails like each read of a place."""
    source, beside = (source, None) if target is None else target.beside(source)
    found = Places(source.listed(spark), None if beside is None else beside.listed(spark))
    if sends and target is not None and not target.expected_brokers:
        there = ",".join(found.target.brokers)
        raise JobRefused("it is not said which brokers there are, so that what is at one that is away would be sent "
                         f"again; now these are there: {there}; if they are all, say so (--brokers {there})")
    return found


def send(rows: DataFrame, target: Target) -> int:
    """Send those SINK_COLUMNS that the rows have; returns the number of rows. Raises the errors of the sink."""
    columns = [name for name in SINK_COLUMNS if name in rows.columns]
    # The sink's limit applies to each task, so with a limit one task sends everything.
    tasks = rows.coalesce(1) if target.rate_limit is not None else rows
    sent = Observation()
    counted = tasks.select(*columns).observe(sent, F.count("*").alias("rows"))
    counted.write.format("rocketmq").options(**target.options()).mode("append").save()
    return int(sent.get["rows"])


@contextmanager
def written_down(rows: DataFrame, directory: str | None, run: int) -> Iterator[tuple[DataFrame, str]]:
    """The rows as they were written, and the place: `<directory>/run=<run>`, or without a directory a place that is
    removed afterwards.

    Raises JobRefused if not all of them can be read again, because the tasks wrote to separate disks.
    """
    spark: SparkSession = rows.sparkSession
    if directory is not None:
        yield _in_directory(rows, directory, run)
    elif is_one_process(spark):
        with tempfile.TemporaryDirectory(prefix="regulus-job-") as home:
            yield _in_directory(rows, home, run)
    else:
        # This process and the tasks may not share a disk, but all of them see Spark's tables.
        name = f"{TABLE_PREFIX}{run}"
        try:
            yield _kept(rows, name, lambda written: written.saveAsTable(name), spark.table), name
        finally:
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def is_one_process(spark: SparkSession) -> bool:
    """Whether the driver and its tasks run on this machine, in one process."""
    try:
        master = str(spark.sparkContext.master)
    except PySparkException:        # from Spark Connect, whose server may be anywhere
        return False
    return master == "local" or master.startswith("local[")


def _in_directory(rows: DataFrame, directory: str, run: int) -> tuple[DataFrame, str]:
    place = f"{directory.rstrip('/')}/run={run}"
    # With the schema, because it cannot be inferred if no file can be seen.
    reader = rows.sparkSession.read.schema(rows.schema)
    return _kept(rows, place, lambda written: written.parquet(place), reader.parquet), place


def _kept(rows: DataFrame, place: str, write: Callable[[DataFrameWriter], None],
          read: Callable[[str], DataFrame]) -> DataFrame:
    """The rows, written and read again. They are counted while they are written, because a driver that does not see the
    files ends the write as if it had no rows."""
    written = Observation()
    write(rows.observe(written, F.count("*").alias("rows")).write.format("parquet").mode("error"))
    kept = read(place)
    check_whole(kept.count(), int(written.get["rows"]), place)
    return kept


def check_whole(kept: int, written: int, place: str) -> None:
    """Raises JobRefused when the number of rows that can be read is not that of the written ones."""
    if kept != written:
        raise JobRefused(f"{written} rows were written down in {place}, and {kept} are there: Spark's tasks wrote to "
                         "disks that its driver does not see; as the run's report name a directory that all of them "
                         "share, such as hdfs:/... or s3a://...; nothing was sent")


def anew(properties: Column, **added: Column) -> Column:
    """A message's properties without those that are true only of its original, and with some more."""
    kept = F.map_filter(properties, lambda name, _: ~(name.isin(*NOT_KEPT) | name.rlike(f"^{CAUSE_PATTERN}$")))
    more = F.create_map(*[item for name, value in added.items() for item in (F.lit(name), value)])
    return F.map_concat(kept, more)


def place_text() -> Column:
    """The place of a message, as `model.redrive.place_text` writes it."""
    return F.concat_ws("/", "topic", "queue_id", "queue_offset", "offset_message_id")
