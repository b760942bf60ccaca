"""The options of the Spark table's reads: typed, checked, and refused with the nearest known name where unknown.

Names follow Spark's Kafka source where it has the thing, RocketMQ otherwise. Spark hands all of them over as texts and
forgets their case. What can be judged without looking at the data is judged here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from regulus.errors import ConfigError, OptionError
from regulus.model.local_path import address_fault
from regulus.model.topics import TRACE_TOPIC
from regulus.spark import option_values
from regulus.spark.kafka_partitions import DEFAULT_BROKER_NAME as DEFAULT_BROKER_NAME
from regulus.spark.offsets import EARLIEST, GROUP_OFFSET, LATEST, QueueOffsets, parse_offsets, parse_times
from regulus.spark.option_values import Values
from regulus.spark.selection import EVERYTHING, SELECTIONS, TopicSelection, parse_selection
from regulus.spark.table_schema import TABLES

KNOWN_OPTIONS = (
    "nameServer", "kafka.bootstrap.servers", "storePath", "path", "archivePath", "table", "topic", "subscribe",
    "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "consumerGroup",
    "failOnDataLoss", "badRecords", "badRecordsPath", "maxOffsetsPerTrigger", "maxBytesPerTrigger",
    "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition",
    "tags", "sql", "columns", "pushFilters", "batchRows", "kafkaSchema", "includeHeaders", "accessKey", "secretKey",
    "credentials", "retryTimeout", "brokerName", "expectedBrokers", "decompress", "verifyBodies",
)
_OWNED_OPTIONS: Mapping[str, str] = {
    "endpoints": "the gRPC protocol is not served yet; give option 'nameServer', which reads by the remoting protocol",
    "kafka.group.id": "give option 'consumerGroup'",
    "groupIdPrefix": "give option 'consumerGroup'",
    "fetchOffset.numRetries": "give option 'retryTimeout', which bounds the time of all attempts together",
    "fetchOffset.retryIntervalMs": "the pause between attempts grows by itself; option 'retryTimeout' bounds them all",
    "kafkaConsumer.pollTimeoutMs": "give option 'retryTimeout': how long a broker may not answer",
    "kafka.key.deserializer": "keys and values come as bytes: cast them in the query, as CAST(value AS STRING)",
    "kafka.value.deserializer": "keys and values come as bytes: cast them in the query, as CAST(value AS STRING)",
    "key.deserializer": "keys and values come as bytes: cast them in the query, as CAST(value AS STRING)",
    "value.deserializer": "keys and values come as bytes: cast them in the query, as CAST(value AS STRING)",
    "kafka.interceptor.classes": "there are no interceptors: change the rows in the query",
    "interceptor.classes": "there are no interceptors: change the rows in the query",
    "kafka.auto.offset.reset": "give option 'startingOffsets'; a place that is gone is never replaced in silence",
    "kafka.enable.auto.commit": "progress belongs to the stream's checkpoint; see option 'consumerGroup'",
    "kafka.isolation.level": "only committed messages have a place in a queue, so no other level is there to choose",
    "kafka.max.poll.records": "give option 'maxOffsetsPerTrigger' for a batch, 'batchRows' for an Arrow batch",
    "kafka.security.protocol": "give option 'credentials', whose file may have the keys of TLS too",
    "kafka.sasl.": "give option 'credentials', which says where access and secret key are",
    "kafka.ssl.": "give option 'credentials', whose file may have the keys of TLS too",
    "kafka.partition.assignment.strategy": "no group is joined: each task is told its queues and offsets",
    "kafka.": "there is no Kafka client here",
    "fetchOffset.": "give option 'retryTimeout', which bounds the time of all attempts together",
    "kafkaConsumer.": "give option 'retryTimeout': how long a broker may not answer",
    "group.id": "give option 'consumerGroup'",
    "auto.offset.reset": "give option 'startingOffsets'; a place that is gone is never replaced in silence",
    "enable.auto.commit": "progress belongs to the stream's checkpoint; see option 'consumerGroup'",
    "consumeFromWhere": "give option 'startingOffsets'",
    "producerGroup": "it is an option of writes",
    "deliveryGuarantee": "it is an option of writes",
    "sinkId": "it is an option of writes",
    "sendTimeoutMs": "it is an option of writes",
    "inFlightMax": "it is an option of writes",
    "rateLimit": "it is an option of writes",
    "dedupKey": "it is an option of writes",
}
"""What users of Kafka or RocketMQ may bring along, and what to do instead; a name that ends with a dot is a prefix."""

_TABLES_OF_MESSAGES = ("messages", "trace")
ALL_TAGS = "*"
_KAFKA_ADDRESS = "kafka.bootstrap.servers"
_STARTS = {"earliest": EARLIEST, "latest": LATEST, "group": GROUP_OFFSET}
_ENDS = {"latest": LATEST}


class Origin(StrEnum):
    """Where the bytes come from."""

    STORE = "storePath"
    """The files of a broker's store."""
    LIVE = "nameServer"
    """Running brokers, over the network."""
    ARCHIVE = "archivePath"
    """Parquet files."""
    HISTORY = "nameServer and archivePath"
    """The archive, and the brokers from its end on."""


class OnDataLoss(StrEnum):
    """What a read does about messages that are gone or damaged."""

    FAIL = "true"
    GO_ON = "false"
    REPORT = "report"
    """Go on, and leave a note of what was missing."""


class OnBadRecord(StrEnum):
    """What a read does about a message that is damaged."""

    FAIL = "fail"
    DROP = "drop"
    REJECT = "reject"
    """Keep what lies there in a directory, with its place and the reason."""


class NoMatch(StrEnum):
    """What a start by time means for a queue that has no message of that time or later."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a read was asked for. Times in ms; one for all queues beats those for each, and they beat offsets."""

    store_path: str = ""
    name_server: str = ""
    archive_path: str = ""
    table: str = "messages"
    selection: TopicSelection
    starting_offsets: QueueOffsets | int = EARLIEST
    ending_offsets: QueueOffsets | int = LATEST
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    starting_times: QueueOffsets | None = None
    ending_times: QueueOffsets | None = None
    no_match: NoMatch = NoMatch.LATEST
    consumer_group: str = ""
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    on_bad_record: OnBadRecord | None = None
    """None: like one that is gone."""
    bad_records_path: str = ""
    trigger_records_max: int = 1_000_000
    trigger_bytes_max: int = 1 << 30
    trigger_records_min: int = 0
    trigger_delay_max_ms: int = 15 * 60_000
    partitions_min: int | None = None
    partition_records_max: int = 1_000_000      # what a task keeps in memory of each is some 100 bytes
    partition_bytes_max: int = 256 << 20
    tags: frozenset[str] | None = None
    sql: str = ""
    columns: tuple[str, ...] | None = None
    push_filters: bool = False
    batch_rows: int = 4096
    kafka_schema: bool = False
    include_headers: bool = False
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    credentials: str = ""
    retry_timeout_ms: int = 60_000
    broker_name: str = DEFAULT_BROKER_NAME
    expected_brokers: tuple[str, ...] | None = None
    """All that the name server must know, and no others; None does not look."""
    decompress: bool = False
    verify_bodies: bool = False

    @property
    def origin(self) -> Origin:
        if self.store_path:
            return Origin.STORE
        if self.name_server:
            return Origin.HISTORY if self.archive_path else Origin.LIVE
        return Origin.ARCHIVE

    @property
    def is_of_messages(self) -> bool:
        """Whether the table's rows are messages, so that it can be read from anywhere, and as a stream."""
        return self.table in _TABLES_OF_MESSAGES

    @property
    def fail_on_data_loss(self) -> bool:
        return self.on_data_loss is OnDataLoss.FAIL


def parse_options(options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
    """Raises OptionError that names the option, its value and what is allowed."""
    values = option_values.known_values(options, KNOWN_OPTIONS, _OWNED_OPTIONS)
    table = option_values.word(values, "table", "messages", tuple(TABLES))
    kafka_schema = option_values.flag(values, "kafkaSchema", _KAFKA_ADDRESS in values)
    read = ReadOptions(
        store_path=_store_path(values),
        name_server=_name_server(values),
        archive_path=values.get("archivePath", "").strip(),
        table=table,
        selection=_selection(values, table, kafka_schema),
        starting_offsets=_starting_offsets(values, streaming),
        ending_offsets=_ending_offsets(values, streaming),
        starting_timestamp=option_values.timestamp(values, "startingTimestamp"),
        ending_timestamp=option_values.timestamp(values, "endingTimestamp"),
        starting_times=_times(values, "startingOffsetsByTimestamp"),
        ending_times=_times(values, "endingOffsetsByTimestamp"),
        no_match=NoMatch(option_values.word(values, "startingOffsetsByTimestampStrategy",
                                            NoMatch.ERROR if kafka_schema else NoMatch.LATEST, tuple(NoMatch))),
        consumer_group=values.get("consumerGroup", "").strip(),
        on_data_loss=OnDataLoss(option_values.word(values, "failOnDataLoss", OnDataLoss.FAIL, tuple(OnDataLoss))),
        on_bad_record=_on_bad_record(values),
        bad_records_path=values.get("badRecordsPath", "").strip(),
        trigger_records_max=option_values.number(values, "maxOffsetsPerTrigger", 1_000_000, 1, 1 << 40),
        trigger_bytes_max=option_values.size(values, "maxBytesPerTrigger", 1 << 30),
        trigger_records_min=option_values.number(values, "minOffsetsPerTrigger", 0, 0, 1 << 40),
        trigger_delay_max_ms=option_values.duration(values, "maxTriggerDelay", 15 * 60_000),
        partitions_min=option_values.number(values, "minPartitions", 0, 0, 100_000) or None,
        partition_records_max=option_values.number(values, "maxRecordsPerPartition", 1_000_000, 1, 1 << 30),
        partition_bytes_max=option_values.size(values, "maxBytesPerPartition", 256 << 20),
        tags=_tags(values.get("tags", ALL_TAGS)),
        sql=values.get("sql", "").strip(),
        columns=option_values.names(values, "columns"),
        push_filters=option_values.flag(values, "pushFilters", False),
        batch_rows=option_values.number(values, "batchRows", 4096, 1, 1 << 20),
        kafka_schema=kafka_schema,
        include_headers=option_values.flag(values, "includeHeaders", False),
        access_key=values.get("accessKey", ""),
        secret_key=values.get("secretKey", ""),
        credentials=_credentials(values),
        retry_timeout_ms=option_values.duration(values, "retryTimeout", 60_000),
        broker_name=values.get("brokerName", DEFAULT_BROKER_NAME),
        expected_brokers=option_values.names(values, "expectedBrokers"),
        decompress=option_values.flag(values, "decompress", False),
        verify_bodies=option_values.flag(values, "verifyBodies", streaming),
    )
    _check_together(read, values)
    return read


def _store_path(values: Values) -> str:
    if "storePath" in values and "path" in values:
        raise OptionError("give the store's directory either as option 'storePath' or as argument of load(), not both")
    return values.get("storePath") or values.get("path") or ""


def _name_server(values: Values) -> str:
    if "nameServer" in values and _KAFKA_ADDRESS in values:
        raise OptionError(f"options 'nameServer' and {_KAFKA_ADDRESS!r} give the address twice: leave one out")
    text = (values.get("nameServer") or values.get(_KAFKA_ADDRESS) or "").strip()
    if text:
        # Here alone: a read of files needs no client.
        from regulus.client.connecting.name_servers import parse_addresses

        try:
            parse_addresses(text)
        except ConfigError as error:
            raise OptionError(str(error)) from error
    return text


def _selection(values: Values, table: str, by_partition: bool) -> TopicSelection:
    """The tables about topics and groups list all of them when nothing is chosen, the trace table its topic."""
    if any(name in values for name in SELECTIONS):
        if table == "trace" and "topic" not in values:
            raise OptionError("table 'trace' is one topic: give option 'topic' where it has another name than "
                              f"{TRACE_TOPIC}")
        return replace(parse_selection(values), by_partition=by_partition)
    if table == "trace":
        return TopicSelection(topics=(TRACE_TOPIC,))
    if table != "messages":
        return EVERYTHING
    return parse_selection(values)


def _starting_offsets(values: Values, streaming: bool) -> QueueOffsets | int:
    default = "group" if values.get("consumerGroup") else "latest" if streaming else "earliest"
    text = values.get("startingOffsets", default).strip()
    word = text.lower()
    if word == "latest" and not streaming:
        raise OptionError("option 'startingOffsets' of a batch read cannot be 'latest': leave it out or give offsets "
                          "as JSON")
    if word not in _STARTS:
        return parse_offsets(text, "startingOffsets")
    if word == "group" and not values.get("consumerGroup"):
        raise OptionError("option 'startingOffsets' is 'group', so option 'consumerGroup' must name the group")
    return _STARTS[word]


def _ending_offsets(values: Values, streaming: bool) -> QueueOffsets | int:
    ends = [name for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp") if name in values]
    if streaming and ends:
        raise OptionError(f"option {ends[0]!r} is one of batch reads: a stream has no end; stop the query, or give it "
                          "the trigger availableNow")
    text = values.get("endingOffsets", "latest").strip()
    word = text.lower()
    if word in ("earliest", "group"):
        raise OptionError(f"option 'endingOffsets' cannot be {text!r}: leave it out or give offsets as JSON")
    return _ENDS[word] if word in _ENDS else parse_offsets(text, "endingOffsets")


def _times(values: Values, name: str) -> QueueOffsets | None:
    text = values.get(name)
    return None if text is None else parse_times(text, name)


def _tags(text: str) -> frozenset[str] | None:
    """None takes all messages. RocketMQ's form: `TagA || TagB`, `*` for all."""
    tags = frozenset(part for part in (piece.strip() for piece in text.split("||")) if part)
    return None if not tags or ALL_TAGS in tags else tags


def _on_bad_record(values: Values) -> OnBadRecord | None:
    if "badRecords" not in values:
        return None
    return OnBadRecord(option_values.word(values, "badRecords", "", tuple(OnBadRecord)))


def _credentials(values: Values) -> str:
    text = values.get("credentials", "").strip()
    kind, colon, name = text.partition(":")
    if text and not (kind in ("env", "file") and colon and name):
        # The value itself is not repeated: it may be the secret.
        raise OptionError("option 'credentials' says where the keys are, not what they are: write env:NAME or "
                          "file:/path")
    return text


def _check_together(read: ReadOptions, values: Values) -> None:
    """Raises OptionError for options that contradict each other."""
    if read.store_path and (read.name_server or read.archive_path):
        other = "nameServer" if read.name_server else "archivePath"
        raise OptionError(f"options 'storePath' and {other!r} name two places to read from: leave one out")
    if not (read.store_path or read.name_server or read.archive_path):
        raise OptionError("nothing says where to read: give option 'nameServer' (running brokers), 'storePath' (the "
                          "directory of a broker's store, which holds 'commitlog') or 'archivePath'")
    for name, path in (("storePath", read.store_path), ("archivePath", read.archive_path)):
        if fault := address_fault(path):
            raise OptionError(f"option {name!r}: {fault}")
    if bool(read.access_key) != bool(read.secret_key):
        raise OptionError("options 'accessKey' and 'secretKey' belong together: give both, or option 'credentials'")
    if read.credentials and read.access_key:
        raise OptionError("options 'credentials' and 'accessKey' give the keys twice: leave one out")
    if read.tags is not None and read.sql:
        raise OptionError("options 'tags' and 'sql' are two filters, and a broker applies one: write TAGS IN (...) in "
                          "'sql'")
    if read.on_data_loss is OnDataLoss.REPORT and (
            read.kafka_schema or (read.columns is not None and "message_type" not in read.columns)):
        raise OptionError("option 'failOnDataLoss' is 'report', which makes rows of message_type 'gap' for what is "
                          "missing: let 'message_type' be one of the columns, to tell them from messages")
    if (read.on_bad_record is OnBadRecord.REJECT) != bool(read.bad_records_path):
        raise OptionError("options 'badRecords'='reject' and 'badRecordsPath' belong together: the second names the "
                          "directory that keeps what is damaged, which all tasks can write")
    if read.bad_records_path and not (read.bad_records_path.startswith("/") or "://" in read.bad_records_path):
        raise OptionError(f"option 'badRecordsPath' is {read.bad_records_path!r}: write an absolute path, or a URI "
                          "like s3://bucket/bad or hdfs://host/bad")
    if read.include_headers and not read.kafka_schema:
        raise OptionError("option 'includeHeaders' is of the columns of option 'kafkaSchema': leave it out, as the "
                          "table's own column 'properties' is always there")
    if read.kafka_schema and read.columns is not None:
        raise OptionError("options 'kafkaSchema' and 'columns' ask for two sets of columns: leave one out")
    if (read.kafka_schema or read.push_filters) and not read.is_of_messages:
        raise OptionError(f"option {'kafkaSchema' if read.kafka_schema else 'pushFilters'!r} is of the tables of "
                          f"messages: leave it out for table {read.table!r}")
    if read.kafka_schema and read.push_filters:
        raise OptionError("option 'pushFilters' knows the table's own columns: leave out 'kafkaSchema'")
    if read.origin in (Origin.STORE, Origin.ARCHIVE):
        _check_without_broker(read, values)


def _check_without_broker(read: ReadOptions, values: Values) -> None:
    for name in ("consumerGroup", "sql", "accessKey", "credentials", "expectedBrokers"):
        if values.get(name):
            mend = "filter with where(...)" if name == "sql" else "give option 'nameServer' or leave it out"
            raise OptionError(f"option {name!r} needs a running broker, and {read.origin.value!r} reads files: {mend}")
