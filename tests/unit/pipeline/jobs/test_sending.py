"""Rows are written down before they are sent; messages lose what belongs to their former life."""

import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from regulus.client.sync import Admin, Producer
from regulus.errors import JobRefused
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from tests.frames import small_table
from tests.unit.pipeline.clusters import BOTH, two_brokers
from tests.unit.pipeline.shop import GROUP, TOPIC

pytestmark = pytest.mark.spark


def test_properties_of_a_former_life_stay_behind(spark):
    from pyspark.sql import functions as F

    from regulus.pipeline.jobs.sending import anew

    former = {"DELAY": "3", "RETRY_TOPIC": "t", "REDRIVE_OF": "old", "TIMER_DELAY_SEC": "9", "TIMER_OUT_MS": "17",
              "TIMER_DELAY_MS": "9", "TIMER_DELIVER_MS": "9", "TIMER_ENQUEUE_MS": "9", "TIMER_DEQUEUE_MS": "9",
              "TIMER_ROLL_TIMES": "1", "TIMER_DEL_UNIQKEY": "t+K"}
    rows = small_table(spark, [({"a": "1", **former},)], "properties map<string,string>")
    kept = rows.select(anew(F.col("properties"), REDRIVE_OF=F.lit("new")).alias("properties")).first()["properties"]
    assert kept == {"a": "1", "REDRIVE_OF": "new"}


def test_rows_are_kept_where_a_report_is_wanted_and_else_are_gone(spark, tmp_path):
    from regulus.pipeline.jobs.sending import written_down

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
    from regulus.pipeline.jobs.sending import written_down

    monkeypatch.setattr("regulus.pipeline.jobs.sending.is_one_process", lambda spark: False)
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

    from regulus.pipeline.jobs.sending import is_one_process

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
    from regulus.pipeline.jobs.sending import check_whole

    check_whole(3, 3, "file:/report/run=7")
    with pytest.raises(JobRefused, match=f"^3 rows were written down in file:/report/run=7, and {kept} are there: "):
        check_whole(kept, 3, "file:/report/run=7")


def test_rows_that_the_driver_does_not_see_are_missed(spark, tmp_path):
    from regulus.pipeline.jobs.sending import written_down

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
    from regulus.pipeline.jobs.sending import Target
    from regulus.spark.sink.options import DeliveryGuarantee, parse_sink_options

    once = Target(name_server="n:1", dedup_key="keys", rate_limit=5, credentials="env:KEYS")
    common = {"nameServer": "n:1", "deliveryGuarantee": "exactlyOnce", "dedupKey": "keys", "rateLimit": "5",
              "credentials": "env:KEYS"}
    assert once.options() == common
    assert replace(once, sink_id="job", run=9).options() == {**common, "sinkId": "job", "jobId": "9"}
    parse_sink_options(once.options(), is_stream=False)
    least = Target(name_server="n:1", sink_id="job", run=9, guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
    assert least.options() == {"nameServer": "n:1", "deliveryGuarantee": "atLeastOnce"}


def test_all_that_reads_the_brokers_which_are_sent_to_expects_them():
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.sending import Target

    target = Target(name_server="n:1", credentials="env:KEYS")
    brokers = LogSource({"nameServer": "n:1", "credentials": "env:KEYS"})
    expected = {"expectedBrokers": "broker-a,broker-b"}
    expecting = replace(target, expected_brokers=("broker-a", "broker-b"))
    for options in ({"storePath": "/store"}, {"archivePath": "/archive"}, {"nameServer": "other:1"}):
        source = LogSource(options)
        assert target.beside(source) == (source, brokers)
        assert expecting.beside(source) == (source, brokers.with_options(**expected))
    for options in ({"nameServer": "n:1"}, {"nameServer": "n:1", "archivePath": "/archive"}):
        assert target.beside(LogSource(options)) == (LogSource(options), None)
        assert expecting.beside(LogSource(options)) == (LogSource({**options, **expected}), None)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Each of two brokers has what was sent for one of two stubs, and of two dead letters; then one is away."""
    from regulus.pipeline.jobs.log_source import LogSource

    root = tmp_path_factory.mktemp("cluster")
    with closing(sqlite3.connect(root / "stubs.sqlite")) as connection:
        connection.execute("CREATE TABLE stubs(id TEXT, made_ms INTEGER, content TEXT)")
        connection.executemany("INSERT INTO stubs VALUES (?, 1700000000000, 'x')", [("k1",), ("k2",)])
        connection.commit()
    with two_brokers(root, TOPIC, "again", f"%DLQ%{GROUP}") as (first, second):
        with Producer(first.name_server_address, "shop") as producer:
            for name, broker in zip(("k1", "k2"), BOTH, strict=True):
                producer.send(Message(TOPIC, b"x", "", name), queue=MessageQueue(TOPIC, broker, 0))
                producer.send(Message(f"%DLQ%{GROUP}", b"x", "", name, {"RETRY_TOPIC": "again"}),
                              queue=MessageQueue(f"%DLQ%{GROUP}", "broker-a", 0))
                producer.send(Message("again", b"x", "", name, {"REPLAY_ID": "rehearsal", "REPLAY_OF": name}),
                              queue=MessageQueue("again", broker, 0))
        yield first, second, LogSource({"nameServer": first.name_server_address}), root / "stubs.sqlite"


def run_job(job: str, spark, cluster, expected: tuple[str, ...], *, is_real: bool = True):
    from regulus.pipeline.jobs.reconcile import ReconcileRequest, ResendLimits, StubColumns, reconcile
    from regulus.pipeline.jobs.redrive import RedriveRequest, redrive
    from regulus.pipeline.jobs.replay import ReplayRequest, replay
    from regulus.pipeline.jobs.sending import Target
    from regulus.pipeline.tables.outside import parse_outside_table

    server, _, source, stubs = cluster
    now = datetime.now(UTC)
    common = {"source": source, "is_dry_run": not is_real,
              "target": Target(name_server=server.name_server_address, expected_brokers=expected)}
    match job:
        case "redrive":
            return redrive(spark, RedriveRequest(group=GROUP, **common), 1)
        case "replay":
            request = ReplayRequest(name="rehearsal", goes_on=True, topics=(TOPIC,), starting=now - timedelta(days=1),
                                    ending=now + timedelta(days=1), into="again", **common)
            return replay(spark, request, time.monotonic, time.sleep)
        case _:
            columns = StubColumns(key="id", created="made_ms", body="content", due="true")
            report = reconcile(spark, ReconcileRequest(
                topic=TOPIC, stubs=parse_outside_table(f"sqlite:{stubs}#stubs"), columns=columns,
                limits=ResendLimits(min_age_ms=0, cap=9), **common), now, 1)
            report.close()
            return report


JOBS = ("redrive", "replay", "reconcile")


@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_sends_is_told_which_brokers_there_are(spark, cluster, job):
    """Those that were there are what the one that sends names."""
    assert run_job(job, spark, cluster, (), is_real=False).sentence().endswith("; brokers: broker-a, broker-b")
    with pytest.raises(JobRefused, match=r"say which brokers exist, .*, write --brokers broker-a,broker-b"):
        run_job(job, spark, cluster, ())
    with pytest.raises(PySparkException, match="brokers are there that are not expected: broker-b: add them"):
        run_job(job, spark, cluster, ("broker-a",))


def test_what_lies_at_a_broker_that_is_away_is_not_sent_again(spark, cluster):
    server, away, *_ = cluster
    for job in JOBS:
        run_job(job, spark, cluster, BOTH)
    with Admin(server.name_server_address) as admin:
        ends = {queue: admin.max_offset(queue) for topic in (TOPIC, "again") for queue in admin.queues(topic)}
    assert sum(ends.values()) == 2 + 2 + 2 + 2      # a redrive sent two, and a replay of which nobody knew two
    away.stop()
    for job in JOBS:
        for is_real in (False, True):
            with pytest.raises(PySparkException, match="expected brokers are away: broker-b, and it is not known"):
                run_job(job, spark, cluster, BOTH, is_real=is_real)
    with Admin(server.name_server_address) as admin:
        assert all(admin.max_offset(queue) == end for queue, end in ends.items() if queue.broker_name == "broker-a")
    # Who says that it is gone for good goes on without it, though the runs before have sent to it.
    with Producer(server.name_server_address, "shop") as producer:
        producer.send(Message(f"%DLQ%{GROUP}", b"x", "", "k3", {"RETRY_TOPIC": "again"}))
    assert run_job("redrive", spark, cluster, ("broker-a",)).count("sent") >= 1
