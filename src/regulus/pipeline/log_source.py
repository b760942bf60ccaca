"""Where a job reads messages: the options of the data source, and what the jobs ask of it beside the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from regulus.client import sync
from regulus.errors import BrokerRefused, HeaderError, JobRefused, StoreDamaged
from regulus.spark import archive_manifest
from regulus.spark.options import DEFAULT_BROKER_NAME
from regulus.spark.selection import is_special
from regulus.spark.store_files import StoreFiles
from regulus.spark.table_schema import COLUMNS, ddl
from regulus.wire import fastjson

BOUNDS = "topic string, broker_name string, queue_id int, min_offset bigint, max_offset bigint"
PROGRESS = "consumer_group string, topic string, broker_name string, queue_id int, consumer_offset bigint"
_WHERE = ("storePath", "nameServer", "archivePath")


@dataclass(frozen=True, slots=True)
class LogSource:
    """`options`: those of `spark.read.format("rocketmq")` that say where: storePath, nameServer, archivePath and what
    goes with them."""

    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(self.options.get(name) for name in _WHERE):
            raise JobRefused("it is not said where the messages are: a store's directory, a name server or an archive")

    @property
    def name(self) -> str:
        return " and ".join(self.options[name] for name in _WHERE if self.options.get(name))

    def with_options(self, **options: str) -> "LogSource":
        """The same source with other options; those that the user gave win."""
        return LogSource({**options, **self.options})

    def topics(self) -> set[str]:
        """All topics that have a queue, the special ones too."""
        if "storePath" in self.options:
            return StoreFiles(self.options["storePath"]).topics()
        if "nameServer" in self.options:
            with sync.Admin(self.options["nameServer"]) as admin:
                return set(admin.list_topics())
        return {file.topic for manifest in archive_manifest.load(Path(self.options["archivePath"]))
                for file in manifest.files}

    def there(self, *topics: str) -> list[str]:
        """Those of the topics that exist."""
        known = self.topics()
        return [topic for topic in topics if topic in known]

    def check(self, *topics: str) -> None:
        """Raises JobRefused for the first topic that does not exist."""
        known = self.topics()
        for topic in topics:
            if topic not in known:
                near = get_close_matches(topic, known, n=1)
                listed = ", ".join(sorted(name for name in known if not is_special(name))) or "no topics"
                hint = f"did you mean {near[0]!r}?" if near else f"it has {listed}"
                raise JobRefused(f"{self.name} has no topic {topic!r}: {hint}")

    def messages(self, spark: SparkSession, topics: Sequence[str], columns: Sequence[str] = tuple(COLUMNS),
                 starting: datetime | None = None, ending: datetime | None = None) -> DataFrame:
        """Table `messages` of these topics, stored from `starting` up to but without `ending`; empty for no topics."""
        if not topics:
            return spark.createDataFrame([], ddl(columns))
        reader = spark.read.format("rocketmq").options(**self.options).schema(ddl(columns))
        for name, moment in (("startingTimestamp", starting), ("endingTimestamp", ending)):
            if moment is not None:
                reader = reader.option(name, str(round(moment.timestamp() * 1000)))
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
            return spark.createDataFrame([], ddl(tuple(COLUMNS)))
        return reduce(DataFrame.unionByName, tables)

    def bounds(self, spark: SparkSession, topics: Sequence[str]) -> DataFrame | None:
        """What the brokers keep of the topics now, as BOUNDS; None for an archive, which keeps all that it has."""
        if "storePath" in self.options:
            rows = self._store_bounds(topics)
        elif "nameServer" in self.options:
            rows = self._live_bounds(topics)
        else:
            return None
        return spark.createDataFrame(rows, BOUNDS)

    def progress(self, spark: SparkSession, groups: Sequence[str]) -> DataFrame | None:
        """Where the groups read next, as PROGRESS; None for an archive, which has no groups."""
        if "storePath" in self.options:
            rows = self._store_progress(set(groups))
        elif "nameServer" in self.options:
            rows = self._live_progress(groups)
        else:
            return None
        return spark.createDataFrame(rows, PROGRESS)

    def _store_bounds(self, topics: Sequence[str]) -> list[tuple[str, str, int, int, int]]:
        store = StoreFiles(self.options["storePath"])
        broker_name = self.options.get("brokerName", DEFAULT_BROKER_NAME)
        return [(topic, broker_name, queue.queue_id, *queue.bounds(store.log))
                for topic in topics for queue in store.queues(topic)]

    def _live_bounds(self, topics: Sequence[str]) -> list[tuple[str, str, int, int, int]]:
        with sync.Admin(self.options["nameServer"]) as admin:
            return [(topic, queue.broker_name, queue.queue_id, offsets.min_offset, offsets.max_offset)
                    for topic in topics for queue, offsets in admin.topic_stats(topic).items()]

    def _store_progress(self, groups: set[str]) -> list[tuple[str, str, str, int, int]]:
        path = Path(self.options["storePath"]) / "config" / "consumerOffset.json"
        broker_name = self.options.get("brokerName", DEFAULT_BROKER_NAME)
        try:
            table = fastjson.loads(path.read_text(encoding="utf-8")).get("offsetTable") or {}
        except FileNotFoundError:
            return []
        except (ValueError, HeaderError, AttributeError) as error:
            raise StoreDamaged(f"{path} is no JSON: {error}; its .bak has the state before") from error
        rows = []
        for key, queues in table.items():
            topic, _, group = key.rpartition("@")
            if group in groups:
                rows += [(group, topic, broker_name, int(queue_id), int(offset)) for queue_id, offset in queues.items()]
        return rows

    def _live_progress(self, groups: Sequence[str]) -> list[tuple[str, str, str, int, int]]:
        rows = []
        with sync.Admin(self.options["nameServer"]) as admin:
            for group in groups:
                try:
                    stats = admin.consume_stats(group)
                except BrokerRefused:
                    continue        # a group that never consumed has no progress
                rows += [(group, queue.topic, queue.broker_name, queue.queue_id, offset.consumer_offset)
                         for queue, offset in stats.offset_table.items()]
        return rows
