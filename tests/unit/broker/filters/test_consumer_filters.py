"""What is kept of the conditions by which groups subscribe."""

import json
from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.filters import consumer_filters
from regulus.broker.filters.consumer_filters import NOT_KEPT, ConsumerFilters
from regulus.errors import HeaderError
from regulus.wire import encoded_table
from regulus.wire.bodies import SubscriptionData

GOLDEN = Path(__file__).parents[3] / "golden" / "filters"
DAY_MS = 86_400_000
START_MS = 1_000_000


@pytest.fixture
def filters() -> ConsumerFilters:
    return ConsumerFilters(BrokerConfig(), START_MS)


def condition(text: str, version: int = 1, topic: str = "T") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=text, sub_version=version, expression_type="SQL92")


def hear(filters: ConsumerFilters, now_ms: int, *subscriptions: SubscriptionData, group: str = "G") -> int:
    """In how many steps."""
    return 1 + len(list(filters.hear(group, subscriptions, now_ms)))


def text_of(filters: ConsumerFilters) -> str:
    return encoded_table.text(filters.document())


def times(filters: ConsumerFilters, topic: str = "T") -> tuple[int, int]:
    data = filters.find(topic, "G")
    assert data is not None
    return data.born_time, data.dead_time


def test_a_condition_is_kept_as_rocketmq_keeps_it(filters):
    golden = (GOLDEN / "consumerFilter-5.3.3.json").read_text()
    saved = json.loads(golden)["filterDataByTopic"]["Filtered"]["groupFilterData"]["FilterGroup"]
    subscription = condition("index > 2 AND index < 5", saved["clientVersion"], "Filtered")
    hear(filters, saved["bornTime"], subscription, group="FilterGroup")
    filters.group_left("FilterGroup", saved["deadTime"])
    assert text_of(filters) == golden


def test_what_operators_see_is_what_rocketmq_shows(filters):
    said = json.loads((GOLDEN / "filter_data-5.3.3.json").read_text())["filterData"]
    shown = json.loads(said)
    hear(filters, shown["bornTime"], condition("index > 2 AND index < 5", shown["clientVersion"], "Filtered"),
         group="FilterGroup")
    assert filters.find("Filtered", "FilterGroup").text() == said


def test_rocketmqs_document_is_taken_over_and_given_back(filters):
    golden = (GOLDEN / "consumerFilter-5.3.3.json").read_text()
    filters.load(golden)
    assert text_of(filters) == golden


def test_many_groups_and_topics_stand_in_their_order(filters):
    for group in ("B", "A"):
        hear(filters, 5, condition("a = 1", topic="U"), condition("a = 2", topic="T"), group=group)
    document = json.loads(text_of(filters))["filterDataByTopic"]
    assert {topic: {group: data["expression"] for group, data in each["groupFilterData"].items()}
            for topic, each in document.items()} == {
        "T": {"A": "a = 2", "B": "a = 2"}, "U": {"A": "a = 1", "B": "a = 1"}}
    reread = ConsumerFilters(BrokerConfig(), START_MS)
    reread.load(text_of(filters))
    assert reread.find("U", "A").expression == "a = 1"


def test_subscriptions_by_tags_are_not_kept(filters):
    hear(filters, 5, SubscriptionData(topic="T", sub_string="A || B"), SubscriptionData(topic="U"))
    assert filters.find("T", "G") is None
    assert filters.changes == 0


def test_a_condition_is_as_old_as_its_text(filters):
    hear(filters, 5, condition("a = 1", 1))
    hear(filters, 6, condition("a = 1", 2))
    assert times(filters) == (5, 0)
    assert filters.find("T", "G").client_version == 2
    hear(filters, 7, condition("a = 2", 3))
    assert times(filters) == (7, 0)


def test_an_older_version_changes_nothing(filters):
    hear(filters, 5, condition("a = 1", 2))
    changes = filters.changes
    hear(filters, 6, condition("a = 2", 1))
    hear(filters, 7, condition("a = 2", 2))
    assert filters.find("T", "G").expression == "a = 1"
    assert filters.changes == changes


def test_a_wrong_condition_is_kept_by_nobody(filters):
    hear(filters, 5, condition("a >"))
    hear(filters, 5, condition(""))
    assert filters.find("T", "G") is None
    hear(filters, 6, condition("a = 1", 2))
    hear(filters, 7, condition("a >", 3))
    assert filters.find("T", "G") is None
    assert text_of(filters) == '{\n\t"filterDataByTopic":{}\n}'


def test_a_topic_that_can_be_none_is_not_kept(filters):
    hear(filters, 5, condition("a = 1", topic="../x"))
    assert filters.find("../x", "G") is None


def test_a_group_without_consumers_is_dead_until_one_comes_back(filters):
    hear(filters, 5, condition("a = 1"))
    filters.group_left("G", 9)
    filters.group_left("G", 10)
    assert times(filters) == (5, 9)
    hear(filters, 11, condition("a = 1"))
    assert times(filters) == (5, 0)
    assert filters.tick(11 + DAY_MS) is None


def test_an_older_version_brings_nothing_back(filters):
    hear(filters, 5, condition("a = 1", 2))
    filters.group_left("G", 9)
    hear(filters, 11, condition("a = 1", 1))
    assert times(filters) == (5, 9)


def test_nothing_dies_before_it_was_born(filters):
    """By a clock that was put back. RocketMQ takes 0 for alive, and what is dead for what was born before."""
    hear(filters, 5, condition("a = 1"))
    filters.group_left("G", 3)
    assert times(filters) == (5, 5)


def test_a_topic_that_the_group_wants_no_more_is_dead(filters):
    hear(filters, 5, condition("a = 1"), condition("a = 1", topic="U"))
    hear(filters, 6, condition("a = 1"))
    assert (times(filters), times(filters, "U")) == ((5, 0), (5, 6))
    hear(filters, 7, SubscriptionData(topic="V"))
    assert times(filters) == (5, 7)


def test_the_dead_are_forgotten_after_a_day(filters):
    hear(filters, 5, condition("a = 1"), condition("a = 1", topic="U"))
    hear(filters, 6, condition("a = 1"))
    filters.group_left("G", 8)
    assert filters.tick(8) == DAY_MS - 2
    assert filters.tick(6 + DAY_MS - 1) == 1
    assert filters.tick(6 + DAY_MS) == 2
    assert filters.find("U", "G") is None
    assert times(filters) == (5, 8)
    assert filters.tick(8 + DAY_MS) is None
    assert filters.find("T", "G") is None
    assert text_of(filters) == '{\n\t"filterDataByTopic":{}\n}'


def test_how_long_the_dead_are_kept_may_be_set():
    filters = ConsumerFilters(BrokerConfig(filter_data_clean_time_span=10), START_MS)
    hear(filters, 5, condition("a = 1"))
    filters.group_left("G", 6)
    assert filters.tick(15) == 1
    assert filters.tick(16) is None


def test_one_step_forgets_a_part_of_the_dead(filters, monkeypatch):
    monkeypatch.setattr(consumer_filters, "FORGOTTEN_MAX", 2)
    hear(filters, 5, *[condition("a = 1", topic=f"T{number}") for number in range(3)])
    filters.group_left("G", 6)
    assert filters.tick(6 + DAY_MS) == 0
    assert filters.tick(6 + DAY_MS) is None


def test_who_was_alive_when_the_document_was_saved_has_left_since(filters):
    hear(filters, 5, condition("a = 1"))
    hear(filters, START_MS - 10, condition("a = 1", topic="U"), group="H")
    started = ConsumerFilters(BrokerConfig(), START_MS)
    started.load(text_of(filters))
    assert times(started) == (5, START_MS - 30_000)
    assert started.find("U", "H").dead_time == START_MS - 10
    assert started.tick(START_MS) == DAY_MS - 30_000
    hear(started, START_MS + 1, condition("a = 1"))
    assert times(started) == (5, 0)


def test_who_died_first_is_forgotten_first_wherever_it_stands_in_the_document(filters):
    hear(filters, 5, condition("a = 1", topic="A"), condition("a = 1", topic="B"))
    hear(filters, 6, condition("a = 1", topic="A"))
    filters.group_left("G", 8)
    started = ConsumerFilters(BrokerConfig(), START_MS)
    started.load(text_of(filters))
    assert started.tick(6 + DAY_MS) == 2
    assert (started.find("A", "G").dead_time, started.find("B", "G")) == (8, None)


def test_a_group_gets_its_places_anew_where_the_maps_are_others(filters):
    hear(filters, 5, condition("a = 1"))
    config = BrokerConfig(expect_consumer_num_use_filter=64, max_error_rate_of_bloom_filter=1)
    started = ConsumerFilters(config, START_MS)
    started.load(text_of(filters))
    bloom = started.find("T", "G").bloom_filter_data
    assert (bloom.bit_num, len(bloom.bit_pos)) == (616, 7)


@pytest.mark.parametrize("text", [
    '{"filterDataByTopic":{"T":{"groupFilterData":{"G":{"topic":"T"}},"topic":"T"}}}', '{"filterDataByTopic":[]}', "{"])
def test_a_damaged_document_is_refused(filters, text):
    with pytest.raises(HeaderError):
        filters.load(text)


def test_what_has_no_room_is_told_and_not_kept(filters, monkeypatch):
    monkeypatch.setattr(consumer_filters, "FILTERS_SIZE_MAX", 14)
    hear(filters, 5, condition("a = 1"))
    hear(filters, 5, condition("a = 1"), group="H")
    hear(filters, 5, condition("a = 1"), group="I")
    assert filters.find("T", "H") is not None
    assert filters.find("T", "I") is None
    assert str(filters.faults.take()[NOT_KEPT]) == "I of T"
    filters.group_left("G", 6)
    filters.tick(6 + DAY_MS)
    hear(filters, 7, condition("a = 1", 2), group="I")
    assert filters.find("T", "I") is not None


def test_a_topic_has_room_for_so_many_groups(filters, monkeypatch):
    monkeypatch.setattr(consumer_filters, "TOPIC_FILTERS_MAX", 2)
    for group in ("A", "B", "C"):
        hear(filters, 5, condition("a = 1"), group=group)
    assert filters.find("T", "C") is None
    hear(filters, 6, condition("a = 2", 2), group="A")
    assert filters.find("T", "A").expression == "a = 2"


def test_each_condition_is_read_in_a_step_of_its_own(filters):
    subscriptions = [condition("a = 1", topic=f"T{number}") for number in range(3)]
    assert hear(filters, 5, *subscriptions) == 4
    assert hear(filters, 6, *subscriptions) == 1
