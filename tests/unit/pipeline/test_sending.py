"""Rows are written down before they are sent; messages lose what belongs to their former life."""

import shutil
import time
from pathlib import Path
from types import SimpleNamespace

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


@pytest.mark.parametrize("rows", [3, 0])
def test_where_no_disk_is_known_to_be_shared_rows_are_a_table_until_they_are_sent(spark, monkeypatch, rows):
    from regulus.pipeline.sending import written_down

    monkeypatch.setattr("regulus.pipeline.sending.is_one_process", lambda spark: False)
    with written_down(spark.range(rows), None, 7) as (fixed, place):
        assert place == "regulus_run_7"
        assert spark.catalog.tableExists(place)
        assert fixed.count() == rows
    assert not spark.catalog.tableExists(place)
    place = f"{spark.conf.get('spark.sql.warehouse.dir').removeprefix('file:')}/{place}"
    assert not Path(place).exists()


@pytest.mark.parametrize(("master", "is_one"), [
    ("local", True), ("local[2]", True), ("local-cluster[2,1,1024]", False), ("spark://node:7077", False),
    ("k8s://https://node:6443", False), (None, False)])
def test_only_a_local_session_is_one_process(master, is_one):
    from pyspark.errors import PySparkAttributeError

    from regulus.pipeline.sending import is_one_process

    class Session:
        """As much of a session as is looked at; that of Spark Connect has no context."""

        @property
        def sparkContext(self):
            if master is None:
                raise PySparkAttributeError("no context")
            return SimpleNamespace(master=master)

    assert is_one_process(Session()) is is_one


@pytest.mark.parametrize("kept", [0, 2, 4])
def test_rows_that_are_not_all_there_are_refused(kept):
    from regulus.pipeline.sending import check_whole

    check_whole(3, 3, "file:/report/run=7")
    with pytest.raises(JobRefused, match=f"^3 rows were written down in file:/report/run=7, and {kept} are there: "):
        check_whole(kept, 3, "file:/report/run=7")


def test_rows_that_the_driver_does_not_see_are_missed(spark, tmp_path):
    from regulus.pipeline.sending import written_down

    def lose_the_other_task(batches):
        """As where a task wrote to a disk of its own: for the driver it wrote nothing."""
        import pyarrow as pa

        for batch in batches:
            if batch.column(0)[0].as_py() > 0:
                until = time.monotonic() + 60
                while not (written := list(tmp_path.glob("run=7/_temporary/0/task_*"))):
                    assert time.monotonic() < until
                    time.sleep(0.01)
                shutil.rmtree(written[0])
            yield pa.RecordBatch.from_arrays(batch.columns, names=["id"])

    rows = spark.range(0, 2, 1, 2).mapInArrow(lose_the_other_task, "id bigint")
    with pytest.raises(JobRefused, match=f"^2 rows were written down in {tmp_path}/run=7, and 1 are there: "), \
            written_down(rows, str(tmp_path), 7):
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
