"""A message is found by what is known of it, with all its copies."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from regulus.errors import JobRefused
from tests.unit.pipeline.shop import GROUP, TOPIC

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
GOLDEN = Path(__file__).parents[3] / "golden"


def found(spark, source, **wanted):
    from regulus.pipeline.jobs.search import SearchRequest, search

    return search(spark, SearchRequest(source=source, **wanted), datetime.now(UTC))


def test_a_key_finds_the_message_and_what_became_of_it(spark, shop):
    assert [row["topic"] for row in found(spark, shop.source, key="o1").collect()] == [
        TOPIC, "SCHEDULE_TOPIC_XXXX", f"%RETRY%{GROUP}", "SCHEDULE_TOPIC_XXXX", f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"]


def test_a_key_is_compared_whole(spark, shop):
    assert found(spark, shop.source, key="o", topics=(TOPIC,)).count() == 0


def test_a_unique_key_is_looked_for_where_its_time_says(spark, shop):
    from regulus.pipeline.jobs.search import SearchRequest, search

    row = found(spark, shop.live_source, key="o5", topics=(TOPIC,)).first()
    said: list[str] = []
    request = SearchRequest(source=shop.live_source, message_id=row["message_id"], topics=(TOPIC,))
    again = search(spark, request, datetime.now(UTC), said.append).collect()
    assert [row["keys"] for row in again] == ["o5"]
    assert len(said) == 1


def test_an_old_message_of_the_real_rocketmq_is_found_by_either_id(spark):
    from regulus.pipeline.jobs.log_source import LogSource

    source = LogSource({"storePath": str(GOLDEN / "store-4.9.8")})
    row = found(spark, source, topics=("SNormal",), where="queue_offset = 7 AND queue_id = 0").first()
    for text in (row["message_id"], row["offset_message_id"], row["offset_message_id"].lower()):
        again = found(spark, source, topics=("SNormal",), message_id=text).collect()
        assert [(match["queue_id"], match["queue_offset"]) for match in again] == [(0, 7)]


def test_no_more_than_the_limit_and_the_oldest_first(spark, shop):
    rows = found(spark, shop.source, topics=(TOPIC,), tag="A", limit=3).collect()
    assert [row["keys"] for row in rows] == ["o0", "o1", "o2"]


def test_nothing_to_look_for_is_refused(spark, shop):
    with pytest.raises(JobRefused, match="it is not said what to look for"):
        found(spark, shop.source)
