from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from regulus.spark.options import parse_options
from regulus.spark.read_plan import ReadRange, UnitRange
from regulus.spark.readers.push_down import Narrowing, narrowed_options, narrowed_range, narrowing

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000

FIVE = "1970-01-01T00:00:00.005Z"


def options(**given: str):
    return parse_options({"storePath": "/store", "subscribe": "a,b,c", **given})


def test_what_filters_say_together():
    filters = [IsNotNull(("topic",)), In(("topic",), ("a", "b")), In(("topic",), ("b", "c")), EqualTo(("queue_id",), 3),
               GreaterThan(("queue_offset",), 10), LessThanOrEqual(("queue_offset",), 20),
               GreaterThanOrEqual(("store_time",), NOON), LessThan(("store_time",), NOON.replace(microsecond=1500)),
               EqualTo(("tags",), "x"), Not(EqualTo(("topic",), "b")), EqualTo(("keys",), "k")]
    assert narrowing(filters) == Narrowing(
        topics=frozenset("b"), queue_ids=frozenset([3]), tags=frozenset("x"), offset_low=11, offset_high=21,
        time_low=NOON_MS, time_high=NOON_MS + 2)
    assert narrowing([EqualTo(("queue_offset",), 7)]) == Narrowing(offset_low=7, offset_high=8)
    assert narrowing([]) == Narrowing()


def test_options_take_what_may_match():
    narrowed = narrowed_options(options(startingTimestamp=FIVE, tags="x || y"), Narrowing(
        topics=frozenset("bz"), tags=frozenset("yz"), time_low=9, time_high=12))
    assert narrowed.selection.topics == ("b",)
    assert (narrowed.starting_timestamp, narrowed.ending_timestamp) == (9, 12)
    assert narrowed.tags == frozenset("y")


def test_offsets_that_the_user_gave_stand():
    given = options(startingOffsets='{"a":{"broker-a":{"0":5}}}')
    assert narrowed_options(given, Narrowing(time_low=9)).starting_timestamp is None


def test_a_query_begins_where_its_group_is():
    given = {"nameServer": "n:1", "subscribe": "a", "consumerGroup": "billing"}
    limits = Narrowing(time_low=9, time_high=12)
    narrowed = narrowed_options(parse_options(given), limits)
    assert (narrowed.starting_timestamp, narrowed.ending_timestamp) == (None, 12)
    assert narrowed_options(parse_options({**given, "startingOffsets": "earliest"}), limits).starting_timestamp == 9
    assert narrowed_options(parse_options({**given, "startingTimestamp": FIVE}), limits).starting_timestamp == 9


def test_only_a_start_that_the_user_gave_may_find_no_message():
    given = options(startingTimestamp=FIVE, startingOffsetsByTimestampStrategy="error")
    assert narrowed_options(given, Narrowing(time_low=9)).starting_timestamp == 5


def test_a_partition_keeps_what_may_match():
    part = ReadRange((UnitRange("a", 0, 0, 10), UnitRange("a", 1, 0, 10), UnitRange("b", 0, 8, 20)))
    assert narrowed_range(part, Narrowing(queue_ids=frozenset([0]), offset_low=5, offset_high=8)).units == (
        UnitRange("a", 0, 5, 8),)
    assert narrowed_range(part, Narrowing(topics=frozenset("b"))).units == (UnitRange("b", 0, 8, 20),)


@pytest.mark.spark
def test_a_query_reads_less_and_finds_the_same(spark, golden_store):
    from tests.unit.spark.conftest import GOLDEN

    def table(**given: str):
        return spark.read.format("rocketmq").options(storePath=str(GOLDEN / golden_store), columns="topic,queue_id,"
                                                     "queue_offset,store_time,tags", subscribePattern=".*", **given)

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        plain, pushed = table().load(), table(pushFilters="true").load()
        middle = plain.selectExpr("percentile_approx(store_time, 0.5) AS t").first().t
        for where in ("topic = 'SKeys'",
                      "topic IN ('SKeys', 'SNormal') AND queue_id = 0", "queue_offset BETWEEN 3 AND 9",
                      f"store_time >= timestamp '{middle}'", f"store_time < timestamp '{middle}' AND queue_offset > 0",
                      "tags = 'TagA'", "topic = 'nowhere'"):
            assert sorted(pushed.where(where).collect()) == sorted(plain.where(where).collect()), where
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
