"""Rows are written down before they are sent; messages lose what belongs to their former life."""

from pathlib import Path
from typing import ClassVar

import pytest

from regulus.errors import JobRefused
from tests.frames import small_table

pytestmark = pytest.mark.spark


def test_properties_of_a_former_life_stay_behind(spark):
    from pyspark.sql import functions as F

    from regulus.pipeline.sending import anew

    rows = small_table(spark, [({"a": "1", "DELAY": "3", "RETRY_TOPIC": "t", "REDRIVE_OF": "old"},)],
                       "properties map<string,string>")
    kept = rows.select(anew(F.col("properties"), REDRIVE_OF=F.lit("new")).alias("properties")).first()["properties"]
    assert kept == {"a": "1", "REDRIVE_OF": "new"}


def test_rows_are_kept_where_a_report_is_wanted_and_else_are_gone(spark, tmp_path):
    from regulus.pipeline.sending import written_down

    rows = spark.range(3)
    with written_down(rows, str(tmp_path / "report"), 7) as (fixed, place):
        assert fixed.count() == 3
    assert place == f"{tmp_path}/report/run=7"
    assert spark.read.parquet(place).count() == 3
    with written_down(rows, None, 7) as (fixed, place):
        assert fixed.count() == 3
    assert not Path(place).exists()


def test_on_a_cluster_rows_are_written_only_where_all_executors_see_them():
    from regulus.pipeline.sending import written_down

    class OnACluster:
        """As much of a table as is looked at."""

        class sparkSession:
            conf: ClassVar = {"spark.master": "spark://node:7077"}

    with (pytest.raises(JobRefused, match="name such a directory as the run's report"),
          written_down(OnACluster, None, 7)):
        pass


def test_a_target_says_to_the_sink_what_its_guarantee_needs():
    from regulus.pipeline.sending import Target
    from regulus.spark.sink.options import DeliveryGuarantee, parse_sink_options

    once = Target(name_server="n:1", sink_id="job", run=9, dedup_key="keys", rate_limit=5, credentials="env:KEYS")
    assert once.options() == {"nameServer": "n:1", "deliveryGuarantee": "exactlyOnce", "sinkId": "job", "jobId": "9",
                              "dedupKey": "keys", "rateLimit": "5", "credentials": "env:KEYS"}
    parse_sink_options(once.options(), is_stream=False)
    least = Target(name_server="n:1", sink_id="job", run=9, guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
    assert least.options() == {"nameServer": "n:1", "deliveryGuarantee": "atLeastOnce"}


def test_a_target_can_be_looked_into_unless_its_brokers_are_read_anyway():
    from regulus.pipeline.log_source import LogSource
    from regulus.pipeline.sending import Target

    target = Target(name_server="n:1", sink_id="job", run=9, credentials="env:KEYS")
    assert target.brokers.options == {"nameServer": "n:1", "credentials": "env:KEYS"}
    for options in ({"storePath": "/store"}, {"archivePath": "/archive"}, {"nameServer": "other:1"}):
        assert target.brokers_beside(LogSource(options)) == target.brokers
    assert target.brokers_beside(LogSource({"nameServer": "n:1", "archivePath": "/archive"})) is None
