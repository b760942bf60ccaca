"""What the message ledger pipeline is told: parameters, from the session's settings to the source's options.

They come as settings named `regulus.<name>`, so that they are values for Spark and never text of a query, and are read
by the definition files in `message_ledger/`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regulus.errors import PipelineError
from regulus.model.topics import SCHEDULE_TOPIC, TRACE_TOPIC, dlq_topic, retry_topic
from regulus.spark.option_values import flag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX = "regulus."
SOURCE_OPTIONS = ("storePath", "nameServer", "brokerName", "credentials", "failOnDataLoss", "maxOffsetsPerTrigger")
PARAMETERS = (*SOURCE_OPTIONS, "topics", "group", "effects", "effectsKey", "effectsTime", "effectsDeliveries", "bucket",
              "trace", "alertsTopic", "alertsNameServer", "alertsCredentials")
_BUCKET = re.compile(r"([1-9]\d{0,5}) (second|minute|hour|day)s?")
_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerParameters:
    """`source`: options of the data source that say where. `effects` names an outside table, empty for none."""

    source: dict[str, str]
    topics: tuple[str, ...]
    group: str = ""
    effects: str = ""
    effects_key: str = "key"
    effects_time: str = ""
    effects_deliveries: str = ""
    bucket: str = "1 minute"
    trace: bool = False
    alerts_topic: str = ""
    alerts_name_server: str = ""
    alerts_credentials: str = ""

    @property
    def selection(self) -> str:
        """The pattern of all topics to read. A pattern, because a retry topic is made when the first message fails."""
        names = [*self.topics]
        if self.group:
            # A special topic goes first: it shows that such topics are meant.
            names = [retry_topic(self.group), dlq_topic(self.group), SCHEDULE_TOPIC, *names]
        return "|".join(map(re.escape, names))

    @property
    def bucket_seconds(self) -> int:
        match = _BUCKET.fullmatch(self.bucket)
        assert match is not None
        return int(match[1]) * _UNITS_S[match[2]]

    def messages(self, spark: "SparkSession") -> "DataFrame":
        """The stream of all messages, from the first on."""
        return (spark.readStream.format("rocketmq").options(**self.source)
                .option("subscribePattern", self.selection).option("startingOffsets", "earliest")
                # A body that does not fit its checksum is a row of `rejected`, and does not stop the run.
                .option("verifyBodies", "false").load())

    def trace_messages(self, spark: "SparkSession") -> "DataFrame":
        """The stream of the trace topic's messages."""
        return (spark.readStream.format("rocketmq").options(**self.source).option("subscribe", TRACE_TOPIC)
                .option("startingOffsets", "earliest").option("decompress", "true").load())

    def progress(self, spark: "SparkSession") -> "DataFrame":
        """Where the group reads next, as table `offsets`."""
        from pyspark.sql import functions as F

        where = {name: value for name, value in self.source.items()
                 if name not in ("failOnDataLoss", "maxOffsetsPerTrigger")}
        return (spark.read.format("rocketmq").options(**where).option("table", "offsets")
                .option("subscribePattern", self.selection).load()
                .where(F.col("consumer_group") == self.group))

    def read_effects(self, spark: "SparkSession") -> "DataFrame | None":
        """`key string, applied_time timestamp, deliveries bigint`; None when no table of effects was named.

        Looks at the table's columns, which Spark forbids within the function of a pipeline's table: call it outside.
        """
        from pyspark.sql import functions as F

        from regulus.pipeline.tables.outside import as_time, parse_outside_table

        if not self.effects:
            return None
        columns = {"key": self.effects_key, "time": self.effects_time, "deliveries": self.effects_deliveries}
        given = {new: old for new, old in columns.items() if old}
        table = parse_outside_table(self.effects).read(spark, given)
        time = as_time(table, "time") if "time" in given else F.lit(None).cast("timestamp")
        count = F.col("deliveries").cast("bigint") if "deliveries" in given else F.lit(1).cast("bigint")
        # A table that keeps an effect a row has as many deliveries of a key as rows.
        return table.select(F.col("key").cast("string").alias("key"), time.alias("applied_time"),
                            count.alias("deliveries")).where("key IS NOT NULL").groupBy("key").agg(
            F.min("applied_time").alias("applied_time"), F.sum("deliveries").alias("deliveries"))


def read_parameters(get: Callable[[str], str | None]) -> LedgerParameters:
    """From a function that gives a setting or None. Raises PipelineError for what is missing or contradicts itself."""
    values = {name: (get(PREFIX + name) or "").strip() for name in PARAMETERS}
    source = {name: values[name] for name in SOURCE_OPTIONS if values[name]}
    if ("storePath" in source) == ("nameServer" in source):
        how = "two places say" if "storePath" in source else "nothing says"
        raise PipelineError(f"{how} where the messages are: give --store or --namesrv")
    topics = tuple(dict.fromkeys(part for part in (piece.strip() for piece in values["topics"].split(",")) if part))
    if not topics:
        raise PipelineError("no topic is named: give --topic")
    bucket = values["bucket"] or "1 minute"
    if not _BUCKET.fullmatch(bucket):
        raise PipelineError(f"bucket {bucket!r} is no length of time: write, for example, '10 seconds' or '1 hour'")
    alerts_topic, alerts_name_server = values["alertsTopic"], values["alertsNameServer"] or source.get("nameServer", "")
    if alerts_topic and not alerts_name_server:
        raise PipelineError(f"alerts are to go to topic {alerts_topic!r} and no broker is known: give "
                            "--alerts-namesrv")
    if alerts_topic in topics:
        raise PipelineError(f"alerts about topic {alerts_topic!r} cannot go to that topic: each would be a new message "
                            "of it")
    return LedgerParameters(
        source=source, topics=topics, group=values["group"], effects=values["effects"],
        effects_key=values["effectsKey"] or "key", effects_time=values["effectsTime"],
        effects_deliveries=values["effectsDeliveries"], bucket=bucket, trace=flag(values, "trace", False)
        if values["trace"] else False, alerts_topic=alerts_topic, alerts_name_server=alerts_name_server,
        # A store is read without keys, and another cluster may have others than the one that is read.
        alerts_credentials=values["alertsCredentials"] or source.get("credentials", ""))


def parameters_of(spark: "SparkSession") -> LedgerParameters:
    """The parameters of a pipeline's session."""
    return read_parameters(lambda name: spark.conf.get(name, None))
