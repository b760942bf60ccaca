"""Where a job reads messages: the options of the data source, and what the jobs ask of it besides the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import reduce

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from regulus.errors import JobRefused, TopicMissing
from regulus.model.topics import RETRY_PREFIX, retry_topic
from regulus.pipeline.range_tasks import Look, SparkTasks
from regulus.pipeline.steps.verdicts import topics_made
from regulus.spark.archive import manifest as archive_manifest
from regulus.spark.selection import is_special
from regulus.spark.store.files import StoreFiles
from regulus.spark.table_schema import COLUMNS, ddl

BOUNDS = ("topic string, broker_name string, queue_id int, min_offset bigint, max_offset bigint, "
          "first_store_time timestamp, topic_made_time timestamp")
ENDS = "topic string, broker_name string, queue_id int, missing_behind bigint, missing_cause string, is_lost boolean"
PROGRESS = "consumer_group string, topic string, broker_name string, queue_id int, consumer_offset bigint"
_ALL_TOPICS = f"{RETRY_PREFIX}.*|.*"
"""A pattern takes retries, dead letters and system topics when it begins with one of their prefixes."""

_WHERE = ("storePath", "nameServer", "archivePath")
_OF_BROKERS = ("nameServer", "credentials", "expectedBrokers")


@dataclass(frozen=True, slots=True)
class LogSource:
    """`options`: those of `spark.read.format("rocketmq")` that say where: storePath, nameServer, archivePath and what
    goes with them. `known`: the topics, when they were listed before; None to ask each time. `brokers`: those that were
    there then, behind a name server."""

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
        """The same source with other options; those that the user gave win."""
        return replace(self, options={**options, **self.options})

    def listed(self, spark: SparkSession) -> "LogSource":
        """The same source with its topics and brokers as they are now: a job lists them once."""
        topics, brokers = self._found(spark)
        return replace(self, known=frozenset(topics), brokers=tuple(sorted(brokers)))

    def topics(self, spark: SparkSession) -> set[str]:
        """All topics, the special ones too."""
        return set(self.known) if self.known is not None else self._found(spark)[0]

    def _found(self, spark: SparkSession) -> tuple[set[str], set[str]]:
        """All topics, and the brokers of a name server, each of which has some of its own."""
        # By a task, for the program that asks may see other disks than Spark does.
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
        """Those of the topics that exist."""
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
        """Table `messages` of these topics, stored from `starting` up to but without `ending`; empty for no topics."""
        if not topics:
            return _empty(spark, ddl(columns))
        reader = spark.read.format("rocketmq").options(**self.options).schema(ddl(columns))
        for name, moment in (("startingTimestamp", starting), ("endingTimestamp", ending)):
            if moment is not None:
                # Not as a number, which is refused where it is small: a damaged record may be of 1970.
                reader = reader.option(name, moment.astimezone(UTC).isoformat())
        if "body" in columns:
            reader = reader.option("decompress", "true")
        return reader.option("subscribe", ",".join(topics)).load()

    def messages_in_parts(self, spark: SparkSession, parts: Mapping[Sequence[str], Sequence[str]],
                          starting: datetime | None = None, ending: datetime | None = None) -> DataFrame:
        """As `messages`, where some topics are read with fewer columns (topics -> columns); the others are null."""
        tables = [self.messages(spark, topics, columns, starting, ending).selectExpr(
            *[name if name in columns else f"CAST(NULL AS {kind}) AS {name}" for name, kind in COLUMNS.items()])
            for topics, columns in parts.items() if topics]
        if not tables:
            return _empty(spark, ddl(tuple(COLUMNS)))
        return reduce(DataFrame.unionByName, tables)

    def bounds(self, spark: SparkSession, topics: Sequence[str]) -> DataFrame | None:
        """What the brokers keep of the topics now, as BOUNDS; None for an archive, which keeps all that it has."""
        if self.is_archive:
            return None
        return self._snapshot(spark, "queues", topics, BOUNDS)

    def ends(self, spark: SparkSession, topics: Sequence[str]) -> DataFrame:
        """What is missing behind the end of each queue, as ENDS; a store's files tell, and others have no rows."""
        if "storePath" not in self.options:
            return _empty(spark, ENDS)
        return self._snapshot(spark, "queues", topics, ENDS)

    def made(self, spark: SparkSession, topics: Sequence[str]) -> dict[str, datetime]:
        """When the topics were made, where their brokers tell: see `topics_made`."""
        bounds = self.bounds(spark, topics)
        return {} if bounds is None else topics_made(bounds)

    def progress(self, spark: SparkSession, groups: Sequence[str]) -> DataFrame | None:
        """Where the groups read next in their retry topics, as PROGRESS; None for an archive, which has no groups."""
        if self.is_archive:
            return None
        return self._snapshot(spark, "offsets", self.there(spark, *map(retry_topic, groups)), PROGRESS)

    def retry_limits(self, spark: SparkSession) -> DataFrame | None:
        """How often the groups' messages are tried again, `consumer_group, retry_max_times`, the most that a broker
        allows; None for an archive."""
        if self.is_archive:
            return None
        groups = self._table(spark, "groups").load()
        limit = F.max("retry_max_times").alias("retry_max_times")
        return as_it_is_now(groups.groupBy("consumer_group").agg(limit))

    @property
    def is_archive(self) -> bool:
        """Whether it is one alone, which knows no groups, and no ends of queues."""
        return not {"storePath", "nameServer"} & set(self.options)

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
    return {file.topic for manifest in manifests for file in manifest.files}


def _empty(spark: SparkSession, schema: str) -> DataFrame:
    """No rows, in a plan that Spark sees to have none: what only they would join with it leaves out."""
    nulls = (f"CAST(NULL AS {kind}) AS {name}" for name, kind in map(str.split, schema.split(", ")))
    return spark.sql(f"SELECT {', '.join(nulls)} WHERE false")


def as_it_is_now(frame: DataFrame) -> DataFrame:
    """The rows of a small table as they are, not as they will be when the result is used. Each use of rows that came as
    Python objects would start Python anew; Arrow's are the plan's own."""
    return frame.sparkSession.createDataFrame(frame.toArrow())
