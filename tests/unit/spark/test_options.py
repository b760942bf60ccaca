import pytest

from regulus.errors import OptionError
from regulus.spark.options import KNOWN_OPTIONS, TopicSelection, parse_options

STORE = {"storePath": "/store", "topic": "orders"}


def test_defaults():
    options = parse_options(STORE)
    assert options.store_path == "/store"
    assert options.selection == TopicSelection(topics=("orders",))
    assert (options.tags, options.columns, options.starting_offsets, options.ending_offsets) == (None,) * 4
    assert (options.fail_on_data_loss, options.broker_name, options.batch_rows) == (True, "broker-a", 4096)
    assert options.partition_bytes_max == 256 << 20


def test_keys_come_in_any_case():
    options = parse_options({key.lower(): value for key, value in {**STORE, "batchRows": "10"}.items()})
    assert options.batch_rows == 10


@pytest.mark.parametrize(("key", "hint"), [
    ("startOffsets", "did you mean 'startingOffsets'"), ("storepaht", "did you mean 'storePath'"),
    ("tag", "did you mean 'tags'"), ("nonsense-42", "known are storePath"),
])
def test_an_unknown_option_is_refused_with_the_nearest(key, hint):
    with pytest.raises(OptionError, match=hint):
        parse_options({**STORE, key: "x"})


@pytest.mark.parametrize(("options", "text"), [
    ({"topic": "a"}, "'storePath' is missing"),
    ({"storePath": "/a", "path": "/b", "topic": "t"}, "not both"),
    ({"storePath": "/a"}, "there is none"),
    ({**STORE, "subscribe": "b"}, "topic and subscribe"),
    ({"storePath": "/a", "topic": " "}, "is empty"),
    ({"storePath": "/a", "subscribePattern": "("}, "no regular expression"),
    ({"storePath": "/a", "assign": "x"}, "no JSON"),
    ({"storePath": "/a", "assign": "{}"}, "names no queue"),
    ({"storePath": "/a", "assign": '{"t":{"broker-b":[0]}}'}, "broker 'broker-b'"),
    ({"storePath": "/a", "assign": '{"t":{"broker-a":["0"]}}'}, "for topic 't'"),
    ({**STORE, "failOnDataLoss": "maybe"}, "true or false"),
    ({**STORE, "batchRows": "0"}, "from 1 to"),
    ({**STORE, "minPartitions": "many"}, "from 0 to"),
    ({**STORE, "maxBytesPerPartition": "1t"}, "like 256m"),
    ({**STORE, "maxBytesPerPartition": "0"}, "like 256m"),
    ({**STORE, "columns": ","}, "is empty"),
    ({**STORE, "startingTimestamp": "yesterday"}, "ISO 8601"),
    ({**STORE, "startingOffsets": "latest"}, "cannot be 'latest'"),
    ({**STORE, "endingOffsets": "earliest"}, "cannot be 'earliest'"),
    ({**STORE, "startingOffsets": "soon"}, "no JSON"),
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


def test_assign_names_queues():
    selection = parse_options({"storePath": "/a", "assign": '{"t":{"broker-a":[0,2]},"u":[1]}'}).selection
    assert selection.queues == (("t", 0), ("t", 2), ("u", 1))
    assert selection.topics_of({"t", "u", "v"}) == ["t", "u"]
    assert selection.takes_queue("t", 2)
    assert not selection.takes_queue("t", 1)


def test_subscribe_takes_a_list():
    selection = parse_options({"storePath": "/a", "subscribe": "b, a,"}).selection
    assert selection.topics_of({"a", "b", "c"}) == ["a", "b"]


KNOWN_TOPICS = {"orders", "orders-eu", "%RETRY%orders", "%DLQ%orders", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"}


@pytest.mark.parametrize(("pattern", "topics"), [
    (".*", ["orders", "orders-eu"]), ("orders", ["orders"]), ("%DLQ%.*", ["%DLQ%orders"]),
    ("%RETRY%.*", ["%RETRY%orders"]), ("nothing", []), (".*_XXXX", []),
])
def test_a_pattern_takes_special_topics_only_by_their_prefix(pattern, topics):
    selection = parse_options({"storePath": "/a", "subscribePattern": pattern}).selection
    assert selection.topics_of(KNOWN_TOPICS) == topics


def test_a_special_topic_may_be_named():
    assert TopicSelection(topics=("SCHEDULE_TOPIC_XXXX",)).topics_of(KNOWN_TOPICS) == ["SCHEDULE_TOPIC_XXXX"]


def test_a_missing_topic_is_refused_with_the_nearest():
    with pytest.raises(OptionError, match="no topic 'order'; did you mean 'orders'"):
        TopicSelection(topics=("order",)).topics_of(KNOWN_TOPICS)
    with pytest.raises(OptionError, match="it has orders, orders-eu"):
        TopicSelection(topics=("zzz",)).topics_of(KNOWN_TOPICS)


def test_all_options_are_spelt_once():
    assert len({name.lower() for name in KNOWN_OPTIONS}) == len(KNOWN_OPTIONS)
