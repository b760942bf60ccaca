"""What jobs ask of a source beside its rows."""

from pathlib import Path

import pytest

from regulus.errors import JobRefused

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
GOLDEN = Path(__file__).parents[3] / "golden" / "store-4.9.8"


def source(**options: str):
    from regulus.pipeline.jobs.log_source import LogSource

    return LogSource({"storePath": str(GOLDEN), **options})


def test_topics_of_a_store_with_the_special_ones(spark):
    listed = source().listed(spark)
    assert {"SNormal", "%RETRY%CG_retry", "%DLQ%CG_retry", "SCHEDULE_TOPIC_XXXX"} <= listed.topics(spark)
    assert listed.there(spark, "SNormal", "nothing", "SRetry") == ["SNormal", "SRetry"]
    with pytest.raises(JobRefused, match="has no topic 'SNorma': did you mean 'SNormal'"):
        listed.check(spark, "SRetry", "SNorma")


def test_bounds_and_progress_are_those_of_the_moment(spark):
    bounds = source(brokerName="b1").bounds(spark, ["SOrder"])
    found = sorted(tuple(row) for row in bounds.drop("first_store_time").collect())
    assert found == [
        ("SOrder", "b1", 0, 0, 9, None), ("SOrder", "b1", 1, 0, 5, None), ("SOrder", "b1", 2, 0, 3, None)]
    assert bounds.where("first_store_time IS NULL").count() == 0
    assert source().made(spark, ["SOrder"]) == {}
    progress = source().progress(spark, ["CG_retry", "nobody"])
    assert [tuple(row) for row in progress.collect()] == [("CG_retry", "%RETRY%CG_retry", "broker-a", 0, 3)]
    archive = source().__class__({"archivePath": "/nowhere"})
    assert archive.bounds(spark, ["t"]) is None
    assert archive.made(spark, ["t"]) == {}
    assert archive.progress(spark, ["g"]) is None


def test_parts_with_fewer_columns_are_one_table(spark):
    rows = source().messages_in_parts(spark, {("SOrder",): ("topic", "queue_id"), ("SRetry",): ("topic", "body"),
                                              (): ("topic",)})
    counts = {row["topic"]: (row["queues"], row["bodies"]) for row in rows.groupBy("topic").agg(
        {"queue_id": "count", "body": "count"}).withColumnsRenamed(
            {"count(queue_id)": "queues", "count(body)": "bodies"}).collect()}
    assert counts == {"SOrder": (17, 0), "SRetry": (0, 6)}
    assert source().messages_in_parts(spark, {}).count() == 0


def test_options_of_the_user_win(spark):
    assert source(failOnDataLoss="true").with_options(failOnDataLoss="false").options["failOnDataLoss"] == "true"
