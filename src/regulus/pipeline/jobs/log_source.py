"""The source of a job's messages: the options of the data source, and what jobs need besides the rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial, reduce
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused, TopicMissing
from regulus.model.topics import RETRY_PREFIX, retry_topic
from regulus.pipeline.range_tasks import Look, SparkTasks
from regulus.pipeline.steps.verdicts import topics_made
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.archive import plan as archive_plan
from regulus.spark.selection import is_special
from regulus.spark.store.files import StoreFiles
from regulus.spark.table_schema import COLUMNS, ddl

BOUNDS = ("topic string, broker_name string, queue_id int, min_offset bigint, max_offset bigint, "
          "first_store_time timestamp, topic_made_time timestamp")
ENDS = ("topic string, broker_name string, queue_id int, missing_before bigint, missing_behind bigint, "
        "missing_cause string, is_lost boolean")
UNPLACED = "broker_name string, log_start bigint, log_end bigint, rejects bigint"
PROGRESS = "consumer_group string, topic string, broker_name string, queue_id int, consumer_offset bigint"
_ALL_TOPICS = f"{RETRY_PREFIX}.*|.*"
"""The pattern of all topics. It selects retries, dead letters and system topics because it begins with a prefix of
theirs."""

_WHERE = ("storePath", "nameServer", "archivePath")
_OF_BROKERS = ("nameServer", "credentials", "expectedBrokers")


@dataclass(frozen=True, slots=True)
class LogSource:
    """A source. `options`: those of `spark.read.format("rocketmq")` that name the place: storePath, nameServer,
    archivePath and related ones. `known`: the topics, if they were listed before; None to list them each time.
    `brokers`: those that were registered at the name server then."""

    options: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] | None = field(default=None, repr=False)
    brokers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not any(self.options.get(name) for name in _WHERE):
            raise JobRefused("it is not said where the messages are: a store's directory, a name server or an archive")

    @property
    def name(self) -> str:
        return " and ".join(self.options[name] for name in _WHERE if self.options.get(name))

    def with_options(self, **options: str) -> "LogSource":
        """The source with more options; those of the user take precedence."""
        return replace(self, options={**options, **self.options})

    def listed(self, spark: SparkSession) -> "LogSource":
        """The source with its present topics and brokers, so that a job lists them once."""
        topics, brokers = self._found(spark)
        return replace(self, known=frozenset(topics), brokers=tuple(sorted(brokers)))

    def topics(self, spark: SparkSession) -> set[str]:
        """All topics, including special ones."""
        return set(self.known) if self.known is not None else self._found(spark)[0]

    def _found(self, spark: SparkSession) -> tuple[set[str], set[str]]:
        """All topics, and the brokers of a name server, which are known because each has topics of its own."""
        # In a task, because this program may see other disks than Spark does.
        if "storePath" in self.options:
            return SparkTasks(spark).run(_topics_of_a_store, [Look(self.options["storePath"])])[0], set()
        topics: set[str] = set()
        brokers: set[str] = set()
        if "archivePath" in self.options:
            topics |= SparkTasks(spark).run(_topics_of_an_archive, [Look(self.options["archivePath"])])[0]
        if "nameServer" in self.options:
            live = {name: value for name, value in self.options.items() if name in _OF_BROKERS}
            table = spark.read.format("rocketmq").options(**live, table="topics", subscribePattern=_ALL_TOPICS).load()
            for row in table.select("topic", "broker_name").collect():
                topics.add(row["topic"])
                brokers.add(row["broker_name"])
        return topics, brokers

    def there(self, spark: SparkSession, *topics: str) -> list[str]:
        """The topics that exist, of those that are given."""
        known = self.topics(spark)
        return [topic for topic in topics if topic in known]

    def check(self, spark: SparkSession, *topics: str) -> None:
        """Raises TopicMissing for the first topic that does not exist."""
        known = self.topics(spark)
        for topic in topics:
            if topic not in known:
                near = get_close_matches(topic, known, n=1)
                listed = ", ".join(sorted(name for name in known if not is_special(name))) or "no topics"
                hint = f"did you mean {near[0]!r}?" if near else f"it has {listed}"
                raise TopicMissing(f"{self.name} has no topic {topic!r}: {hint}")

    def messages(self, spark: SparkSession, topics: Sequence[str], columns: Sequence[str] = tuple(COLUMNS),
                 starting: datetime | None = None, ending: datetime | None = None) -> DataFrame:
        """Table `messages` of these topics, stored from `starting` until before `ending`; empty for no topics."""
        if not topics:
            return _empty(spark, ddl(columns))
        reader = spark.read.format("rocketmq").options(**self.options).schema(ddl(columns))
        for name, moment in (("startingTimestamp", starting), ("endingTimestamp", ending)):
            if moment is not None:
                # Not as a number, because small numbers are refused, and a damaged record may be of 1970.
                reader = reader.option(name, moment.astimezone(UTC).isoformat())
        if "body" in columns:
            reader = reader.option("decompress", "true")
        return reader.option("subscribe", ",".join(topics)).load()

    def messages_in_parts(self, spark: SparkSession, parts: Mapping[Sequence[str], Sequence[str]],
                          starting: datetime | None = None, ending: datetime | None = None) -> DataFrame:
        """Like `messages`, but some topics are read with fewer columns (topics -> columns); other columns are null."""
        tables = [self.messages(spark, topics, columns, starting, ending).selectExpr(
            *[name if name in columns else f"CAST(NULL AS {kind}) AS {name}" for name, kind in COLUMNS.items()])
            for topics, columns in parts.items() if topics]
        if not tables:
            return _empty(spark, ddl(tuple(COLUMNS)))
        return reduce(DataFrame.unionByName, tables)

    def bounds(self, spark: SparkSession, topics: Sequence[str]) -> DataFrame | None:
        """What brokers have of the topics now, as BOUNDS; None for an archive, from which retention removes nothing."""
        if self.is_archive:
            return None
        return self._snapshot(spark, "queues", topics, BOUNDS)

    def ends(self, spark: SparkSession, topics: Sequence[str]) -> DataFrame:
        """What is missing before the beginning of each queue and after its end, as ENDS. Only a store's files and an
        archive show it; other sources have no rows."""
        if self.is_archive:
            return self._archived(spark, partial(_lost_ends, frozenset(topics)), ENDS)
        if "storePath" not in self.options:
            return _empty(spark, ENDS)
        return self._snapshot(spark, "queues", topics, ENDS)

    def unplaced(self, spark: SparkSession) -> DataFrame:
        """The ranges of an archive with rejects that may be messages of any queue, as UNPLACED; empty for another
        source."""
        return self._archived(spark, _unplaced, UNPLACED) if self.is_archive else _empty(spark, UNPLACED)

    def made(self, spark: SparkSession, topics: Sequence[str]) -> dict[str, datetime]:
        """When the topics were created, if their brokers report it: see `topics_made`."""
        bounds = self.bounds(spark, topics)
        return {} if bounds is None else topics_made(bounds)

    def progress(self, spark: SparkSession, groups: Sequence[str]) -> DataFrame | None:
        """The offsets of the groups in their retry topics, as PROGRESS; None for an archive, which has no groups."""
        if self.is_archive:
            return None
        return self._snapshot(spark, "offsets", self.there(spark, *map(retry_topic, groups)), PROGRESS)

    def retry_limits(self, spark: SparkSession) -> DataFrame | None:
        """The largest number of retries that a broker allows each group, as `consumer_group, retry_max_times`; None for
        an archive."""
        if self.is_archive:
            return None
        groups = self._table(spark, "groups").load()
        limit = F.max("retry_max_times").alias("retry_max_times")
        return as_it_is_now(groups.groupBy("consumer_group").agg(limit))

    @property
    def is_archive(self) -> bool:
        """Whether the source is only an archive, which has no groups, and no ends of queues."""
        return not {"storePath", "nameServer"} & set(self.options)

    def _archived(self, spark: SparkSession, look: Callable[[Look, str], list[tuple[Any, ...]]],
                  schema: str) -> DataFrame:
        """What the manifests of the archive say, read in a task, because this program may see other disks."""
        rows = SparkTasks(spark).run(look, [Look(self.options["archivePath"])])[0]
        return spark.createDataFrame(rows, schema) if rows else _empty(spark, schema)

    def _snapshot(self, spark: SparkSession, table: str, topics: Sequence[str], schema: str) -> DataFrame:
        if not topics:
            return _empty(spark, schema)
        names = [column.split()[0] for column in schema.split(", ")]
        reader = self._table(spark, table).option("subscribe", ",".join(topics))
        return as_it_is_now(reader.load().select(*names))

    def _table(self, spark: SparkSession, table: str) -> DataFrameReader:
        live = {name: value for name, value in self.options.items() if name not in ("archivePath", "failOnDataLoss")}
        return spark.read.format("rocketmq").options(**live).option("table", table)


def _topics_of_a_store(store: Look, attempt: str) -> set[str]:
    return StoreFiles(store.path).topics()


def _topics_of_an_archive(archive: Look, attempt: str) -> set[str]:
    manifests = archive_manifest.load(archive_manifest.place(archive.path))
    return {topic for manifest in manifests for topic, _ in manifest.queues}


def _lost_ends(topics: frozenset[str], archive: Look, attempt: str) -> list[tuple[Any, ...]]:
    manifests = archive_manifest.load(archive_manifest.place(archive.path))
    return [(*queue, lost.before, lost.behind, archive_plan.REJECTED, True)
            for queue, lost in archive_plan.lost_ends(manifests) if queue.topic in topics]


def _unplaced(archive: Look, attempt: str) -> list[tuple[Any, ...]]:
    return [(*manifest.range, manifest.unplaced)
            for manifest in archive_manifest.load(archive_manifest.place(archive.path)) if manifest.unplaced]


def _empty(spark: SparkSession, schema: str) -> DataFrame:
    """A frame without rows. Spark sees from its plan that it is empty, and leaves out joins with it."""
    nulls = (f"CAST(NULL AS {kind}) AS {name}" for name, kind in map(str.split, schema.split(", ")))
    return spark.sql(f"SELECT {', '.join(nulls)} WHERE false")


def as_it_is_now(frame: DataFrame) -> DataFrame:
    """Read the rows of a small table now, not when the result is used. They are kept as Arrow data in the plan; rows of
    Python objects would start Python again at each use."""
    return frame.sparkSession.createDataFrame(frame.toArrow())
