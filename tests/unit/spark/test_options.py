import pytest

from regulus.errors import OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.offsets import EARLIEST, GROUP_OFFSET, LATEST
from regulus.spark.options import KNOWN_OPTIONS, NoMatch, OnDataLoss, Origin, parse_options
from regulus.spark.selection import TopicSelection

STORE = {"storePath": "/store", "topic": "orders"}
LIVE = {"nameServer": "127.0.0.1:9876", "topic": "orders"}


def test_defaults():
    options = parse_options(STORE)
    assert (options.store_path, options.origin, options.table) == ("/store", Origin.STORE, "messages")
    assert options.selection == TopicSelection(topics=("orders",))
    assert (options.starting_offsets, options.ending_offsets) == (EARLIEST, LATEST)
    assert (options.tags, options.columns, options.starting_timestamp, options.starting_times) == (None,) * 4
    assert (options.fail_on_data_loss, options.broker_name, options.batch_rows) == (True, "broker-a", 4096)
    assert options.partition_bytes_max == 256 << 20
    assert (options.trigger_records_max, options.trigger_bytes_max) == (1_000_000, 1 << 30)
    assert (options.trigger_records_min, options.trigger_delay_max_ms) == (0, 900_000)


@pytest.mark.parametrize(("options", "origin"), [
    (LIVE, Origin.LIVE), ({"archivePath": "/a", "topic": "t"}, Origin.ARCHIVE),
    ({**LIVE, "archivePath": "/a"}, Origin.HISTORY),
])
def test_where_the_bytes_come_from(options, origin):
    assert parse_options(options).origin is origin


@pytest.mark.parametrize(("options", "streaming", "start"), [
    ({}, True, LATEST), ({}, False, EARLIEST), ({"startingOffsets": "earliest"}, True, EARLIEST),
    ({"consumerGroup": "billing"}, True, GROUP_OFFSET), ({"consumerGroup": "billing"}, False, GROUP_OFFSET),
    ({"consumerGroup": "billing", "startingOffsets": "earliest"}, True, EARLIEST),
    ({"startingOffsets": '{"orders":{"b":{"0":5}}}'}, True, {MessageQueue("orders", "b", 0): 5}),
])
def test_where_a_read_starts(options, streaming, start):
    assert parse_options({**LIVE, **options}, streaming=streaming).starting_offsets == start


@pytest.mark.parametrize(("text", "policy"), [
    ("true", OnDataLoss.FAIL), ("False", OnDataLoss.GO_ON), ("report", OnDataLoss.REPORT)])
def test_three_answers_to_data_loss(text, policy):
    options = parse_options({**STORE, "failOnDataLoss": text})
    assert (options.on_data_loss, options.fail_on_data_loss) == (policy, policy is OnDataLoss.FAIL)


def test_times_for_single_queues():
    options = parse_options({**LIVE, "startingOffsetsByTimestamp": '{"orders":{"0":1700000000000}}',
                             "startingOffsetsByTimestampStrategy": "error"})
    assert options.starting_times == {MessageQueue("orders", "", 0): 1_700_000_000_000}
    assert options.no_match is NoMatch.ERROR


def test_a_job_of_kafka_changes_format_and_address():
    """And has Kafka's columns and defaults then."""
    options = parse_options({"kafka.bootstrap.servers": "host1:9876,host2:9876", "subscribe": "orders",
                             "startingOffsets": "EARLIEST", "includeHeaders": "True"}, streaming=True)
    assert (options.name_server, options.origin) == ("host1:9876,host2:9876", Origin.LIVE)
    assert (options.kafka_schema, options.include_headers, options.no_match) == (True, True, NoMatch.ERROR)
    assert options.starting_offsets == EARLIEST
    plain = parse_options({"kafka.bootstrap.servers": "host1:9876", "kafkaSchema": "false", "topic": "orders"})
    assert (plain.kafka_schema, plain.no_match) == (False, NoMatch.LATEST)


@pytest.mark.parametrize(("option", "text", "value"), [
    ("startingOffsets", "Earliest", EARLIEST), ("startingOffsets", "LATEST", LATEST),
    ("startingOffsetsByTimestampStrategy", "LATEST", NoMatch.LATEST)])
def test_words_come_in_any_case(option, text, value):
    options = parse_options({**LIVE, option: text}, streaming=True)
    assert value == (options.no_match if option.endswith("Strategy") else options.starting_offsets)
    assert parse_options({**LIVE, "endingOffsets": "LATEST"}).ending_offsets == LATEST


def test_secrets_are_not_shown():
    text = repr(parse_options({**LIVE, "accessKey": "AK-visible", "secretKey": "SK-visible"}))
    assert "visible" not in text


def test_a_small_table_needs_no_topic():
    options = parse_options({"nameServer": "a:1", "table": "topics"})
    assert options.selection.topics_of({"b", "a"}) == ["a", "b"]


@pytest.mark.parametrize(("options", "text"), [
    ({"endpoints": "h:8081"}, "gRPC protocol is not served yet"), ({"group.id": "g"}, "give option 'consumerGroup'"),
    ({"kafka.client.id": "x"}, "no Kafka client"),
    ({"kafka.security.protocol": "x"}, "option 'credentials'"),
    ({"kafka.sasl.jaas.config": "x"}, "option 'credentials'"),
    ({"fetchOffset.numRetries": "3"}, "option 'fetchOffset.numRetries' cannot be set: give option 'retryTimeout'"),
    ({"fetchOffset.retryIntervalMs": "10"}, "option 'retryTimeout' bounds them all"),
    ({"kafkaConsumer.pollTimeoutMs": "512"}, "give option 'retryTimeout': how long a broker may not answer"),
    ({"kafka.key.deserializer": "x"}, "cast them in the query"),
    ({"kafka.value.deserializer": "x"}, "cast them in the query"),
    ({"kafka.interceptor.classes": "x"}, "there are no interceptors"),
    ({"kafka.auto.offset.reset": "x"}, "give option 'startingOffsets'"),
    ({"auto.offset.reset": "latest"}, "'startingOffsets'"), ({"sinkId": "s"}, "option of writes"),
])
def test_an_option_of_others_is_refused_with_advice(options, text):
    with pytest.raises(OptionError, match=text):
        parse_options({**LIVE, **options})


@pytest.mark.parametrize(("options", "text"), [
    ({"kafka.bootstrap.servers": "a:1"}, "the address twice"),
    ({"includeHeaders": "true"}, "of the columns of option 'kafkaSchema'"),
    ({"startingOffsets": "Group"}, "must name the group"),
    ({"storePath": "/a"}, "two places"), ({"accessKey": "a"}, "belong together"),
    ({"credentials": "AK:SK"}, "env:NAME"), ({"credentials": "env:"}, "env:NAME"),
    ({"credentials": "env:KEYS", "accessKey": "a", "secretKey": "b"}, "keys twice"),
    ({"tags": "a", "sql": "b = 1"}, "two filters"), ({"kafkaSchema": "true", "columns": "topic"}, "two sets"),
    ({"table": "message"}, "write messages, queues"), ({"maxTriggerDelay": "soon"}, "like 15m"),
    ({"maxOffsetsPerTrigger": "0"}, "from 1 to"), ({"startingOffsets": "group"}, "must name the group"),
    ({"endingOffsets": "latest"}, "a stream has no end"), ({"endingTimestamp": "0"}, "a stream has no end"),
    ({"startingOffsetsByTimestampStrategy": "newest"}, "error or latest"),
    ({"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'}, "'0': -1"),
])
def test_a_wrong_option_of_a_stream_is_refused(options, text):
    with pytest.raises(OptionError, match=text):
        parse_options({**LIVE, **options}, streaming=True)


@pytest.mark.parametrize("option", ["consumerGroup", "sql", "credentials"])
def test_what_needs_a_broker_is_refused_of_files(option):
    with pytest.raises(OptionError, match=f"'{option}' needs a running broker"):
        parse_options({**STORE, option: "env:NAME"})


@pytest.mark.parametrize(("text", "milliseconds"), [("250", 250), ("250ms", 250), ("30 s", 30_000), ("2m", 120_000)])
def test_durations(text, milliseconds):
    assert parse_options({**LIVE, "maxTriggerDelay": text}).trigger_delay_max_ms == milliseconds


def test_keys_come_in_any_case():
    options = parse_options({key.lower(): value for key, value in {**STORE, "batchRows": "10"}.items()})
    assert options.batch_rows == 10


@pytest.mark.parametrize(("key", "hint"), [
    ("startOffsets", "did you mean 'startingOffsets'"), ("storepaht", "did you mean 'storePath'"),
    ("tag", "did you mean 'tags'"), ("nonsense-42", "known are nameServer"),
])
def test_an_unknown_option_is_refused_with_the_nearest(key, hint):
    with pytest.raises(OptionError, match=hint):
        parse_options({**STORE, key: "x"})


@pytest.mark.parametrize(("options", "text"), [
    ({"topic": "a"}, "nothing says where to read"),
    ({"storePath": "/a", "path": "/b", "topic": "t"}, "not both"),
    ({"storePath": "/a"}, "there is none"),
    ({**STORE, "subscribe": "b"}, "topic and subscribe"),
    ({"storePath": "/a", "topic": " "}, "is empty"),
    ({"storePath": "/a", "subscribePattern": "("}, "not a regular expression"),
    ({"storePath": "/a", "assign": "x"}, "not JSON"),
    ({"storePath": "/a", "assign": "{}"}, "names no queue"),
    ({"storePath": "/a", "assign": '{"t":{"broker-a":["0"]}}'}, "for topic 't'"),
    ({**STORE, "failOnDataLoss": "maybe"}, "true, false or report"),
    ({**STORE, "batchRows": "0"}, "from 1 to"),
    ({**STORE, "minPartitions": "many"}, "from 0 to"),
    ({**STORE, "maxBytesPerPartition": "1t"}, "like 256m"),
    ({**STORE, "maxBytesPerPartition": "0"}, "like 256m"),
    ({**STORE, "columns": ","}, "is empty"),
    ({**STORE, "startingTimestamp": "yesterday"}, "ISO 8601"),
    ({**STORE, "startingOffsets": "latest"}, "cannot be 'latest'"),
    ({**STORE, "startingOffsets": "LATEST"}, "cannot be 'latest'"),
    ({**STORE, "endingOffsets": "Earliest"}, "cannot be 'Earliest'"),
    ({**STORE, "endingOffsets": "earliest"}, "cannot be 'earliest'"),
    ({**STORE, "startingOffsets": "soon"}, "not JSON"),
])
def test_a_wrong_value_is_refused_with_what_is_allowed(options, text):
    with pytest.raises(OptionError, match=text):
        parse_options(options)


@pytest.mark.parametrize(("text", "milliseconds"), [
    ("1700000000123", 1700000000123), ("2023-11-14T22:13:20Z", 1700000000000), ("2023-11-14T22:13:20", 1700000000000),
    ("2023-11-15T06:13:20.250+08:00", 1700000000250), ("2023-11-14", 1699920000000),
])
def test_times(text, milliseconds):
    assert parse_options({**STORE, "startingTimestamp": text}).starting_timestamp == milliseconds


@pytest.mark.parametrize(("text", "tags"), [
    ("*", None), ("", None), ("TagA", {"TagA"}), ("TagA || TagB||TagC", {"TagA", "TagB", "TagC"}), ("TagA || *", None),
])
def test_tags(text, tags):
    assert parse_options({**STORE, "tags": text}).tags == tags


@pytest.mark.parametrize(("text", "size"), [("1000", 1000), ("2k", 2048), ("64 MB", 64 << 20), ("1g", 1 << 30)])
def test_sizes(text, size):
    assert parse_options({**STORE, "maxBytesPerPartition": text}).partition_bytes_max == size


def test_the_argument_of_load_is_the_store():
    assert parse_options({"path": "/store", "topic": "orders"}).store_path == "/store"


def test_all_options_are_spelt_once():
    assert len({name.lower() for name in KNOWN_OPTIONS}) == len(KNOWN_OPTIONS)
