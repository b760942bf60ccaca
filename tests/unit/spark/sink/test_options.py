import pytest

from regulus.errors import OptionError
from regulus.spark.sink.options import (
    KNOWN_SINK_OPTIONS,
    DeliveryGuarantee,
    SinkOptions,
    check_columns,
    for_this_run,
    parse_sink_options,
)

STREAM = {"nameServer": "127.0.0.1:9876", "topic": "orders"}
TRANSACTIONAL = {**STREAM, "deliveryGuarantee": "transactional", "producerGroup": "orders-sink"}
BODY = {"body": "binary"}


def stream(**options: str) -> SinkOptions:
    return parse_sink_options({**STREAM, **options}, is_stream=True)


def test_defaults():
    options = stream()
    assert (options.name_server, options.topic) == ("127.0.0.1:9876", "orders")
    assert options.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert (options.sink_id, options.dedup_key, options.rate_limit, options.credentials) == (None, (), None, None)
    assert (options.send_timeout_ms, options.retry_budget_ms, options.in_flight_max) == (3000, 30000, 1024)


def test_keys_come_in_any_case_and_sparks_own_are_passed_over():
    options = parse_sink_options({"nameserver": "a:1", "TOPIC": "t", "sendtimeoutms": "5", "checkpointlocation": "/c",
                                  "queryName": "q", "deliveryguarantee": "ATLEASTONCE"}, is_stream=True)
    assert (options.send_timeout_ms, options.delivery_guarantee) == (5, DeliveryGuarantee.AT_LEAST_ONCE)


@pytest.mark.parametrize(("key", "hint"), [
    ("namesServer", "did you mean 'nameServer'"), ("deliverGuarantee", "did you mean 'deliveryGuarantee'"),
    ("inflight", "did you mean 'inFlightMax'"), ("nonsense-42", "known are nameServer"),
    ("kafka.bootstrap.servers", "give option 'nameServer'"), ("kafka.client.id", "there is no Kafka client here"),
    ("kafka.acks", "give option 'deliveryGuarantee'"), ("kafka.value.serializer", "cast them in the query"),
    ("kafka.max.request.size", "maxMessageSize bounds a body"), ("kafka.sasl.mechanism", "option 'credentials'"),
])
def test_an_unknown_option_is_refused_with_the_nearest(key, hint):
    with pytest.raises(OptionError, match=hint):
        stream(**{key: "x"})


@pytest.mark.parametrize(("options", "text"), [
    ({"topic": "t"}, "'nameServer' is missing"),
    ({**STREAM, "deliveryGuarantee": "twice"}, "atLeastOnce, exactlyOnce, transactional"),
    ({**STREAM, "topic": "a b"}, "'topic' is 'a b'"),
    ({**STREAM, "producerGroup": "a b"}, "'producerGroup' is 'a b'"),
    ({**STREAM, "sinkId": "a/b"}, "letters, digits"),
    ({**STREAM, "dedupKey": " , "}, "'dedupKey' is empty"),
    ({**STREAM, "sendTimeoutMs": "0"}, "from 1 to"),
    ({**STREAM, "inFlightMax": "many"}, "from 1 to"),
    ({**STREAM, "rateLimit": "0"}, "from 1 to"),
    ({**STREAM, "jobId": "1"}, "a stream numbers its batches itself"),
    ({**STREAM, "commitTopic": "c"}, "of deliveryGuarantee=transactional"),
    ({**STREAM, "deliveryGuarantee": "transactional"}, "needs option 'producerGroup'"),
])
def test_a_wrong_value_is_refused_with_what_is_allowed(options, text):
    with pytest.raises(OptionError, match=text):
        parse_sink_options(options, is_stream=True)


def test_a_secret_in_the_place_of_its_whereabouts_is_not_shown():
    with pytest.raises(OptionError, match="env:NAME or file:/path") as caught:
        stream(credentials="hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("guarantee", ["exactlyOnce", "transactional"])
def test_a_batch_write_without_an_id_is_another_sink_in_each_run(guarantee):
    options = {**TRANSACTIONAL, "deliveryGuarantee": guarantee}
    unnamed = parse_sink_options(options, is_stream=False)
    runs = [for_this_run(unnamed) for _ in range(2)]
    assert all(run.is_for_once and run.sink_id.startswith("run-") for run in runs)
    assert runs[0].sink_id != runs[1].sink_id
    for run in runs:
        assert parse_sink_options({**options, "sinkId": run.sink_id}, is_stream=False).sink_id == run.sink_id
    named = parse_sink_options({**options, "sinkId": "nightly", "jobId": "7"}, is_stream=False)
    assert (named.sink_id, named.job_id) == ("nightly", 7)
    assert for_this_run(named) == named
    loose = parse_sink_options({**STREAM, "deliveryGuarantee": "atLeastOnce"}, is_stream=False)
    assert for_this_run(loose) == loose


def test_a_job_is_numbered_under_a_sink():
    with pytest.raises(OptionError, match="give option 'sinkId' too"):
        parse_sink_options({**STREAM, "jobId": "7"}, is_stream=False)


def test_all_columns_are_taken():
    check_columns({"body": "binary", "keys": "string", "tags": "string", "properties": "map<string,string>",
                   "delay_level": "int", "sharding_key": "string", "queue_id": "bigint", "flag": "int"}, stream())
    check_columns({"value": "string", "key": "binary", "order_id": "bigint"}, stream(dedupKey="key, order_id"))


@pytest.mark.parametrize(("columns", "options", "text"), [
    ({"keys": "string"}, {}, "no column 'body'"),
    ({"body": "int"}, {}, "column 'body' is int; the sink takes binary or string"),
    ({**BODY, "value": "string"}, {}, "'body' and 'value' mean the same"),
    ({**BODY, "key": "string", "keys": "string"}, {}, "'keys' and 'key' mean the same"),
    ({**BODY, "tag": "string"}, {}, "did you mean 'tags'"),
    ({**BODY, "partition": "int"}, {}, "did you mean 'queue_id'"),
    ({**BODY, "price": "double"}, {}, "it has topic, body"),
    ({**BODY, "topic": "string"}, {}, "both given"),
    ({**BODY, "properties": "map<string,int>"}, {}, "map<string,string>"),
    ({**BODY, "id": "double"}, {"dedupKey": "id"}, "column 'id' is double"),
    (BODY, {"dedupKey": "id"}, "names column 'id'"),
])
def test_wrong_columns_are_refused_when_the_query_is_planned(columns, options, text):
    with pytest.raises(OptionError, match=text):
        check_columns(columns, stream(**options))


def test_without_a_topic_nothing_is_sent():
    options = parse_sink_options({"nameServer": "a:1"}, is_stream=True)
    with pytest.raises(OptionError, match="give option 'topic', or a column"):
        check_columns(BODY, options)
    check_columns({**BODY, "topic": "string"}, options)


def test_a_transactional_message_is_not_delayed():
    options = parse_sink_options(TRANSACTIONAL, is_stream=True)
    with pytest.raises(OptionError, match="cannot be delayed"):
        check_columns({**BODY, "delay_level": "int"}, options)


def test_each_option_can_be_given():
    values = {"nameServer": "a:1", "topic": "t", "producerGroup": "g", "deliveryGuarantee": "transactional",
              "sinkId": "s", "jobId": "1", "dedupKey": "k", "sendTimeoutMs": "1", "retryBudgetMs": "2",
              "inFlightMax": "3", "rateLimit": "4", "commitTopic": "c", "credentials": "env:X"}
    assert set(values) == set(KNOWN_SINK_OPTIONS)
    parsed = parse_sink_options(values, is_stream=False)
    assert parsed == SinkOptions(
        name_server="a:1", topic="t", producer_group="g", delivery_guarantee=DeliveryGuarantee.TRANSACTIONAL,
        sink_id="s", job_id=1, dedup_key=("k",), send_timeout_ms=1, retry_budget_ms=2, in_flight_max=3, rate_limit=4,
        commit_topic="c", credentials="env:X")
