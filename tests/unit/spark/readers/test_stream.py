"""Streams as Spark runs them, to their end each time; what they decide is tested with the planner."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regulus.client.sync import Admin
from regulus.errors import RegulusError
from regulus.model.message_queue import MessageQueue
from regulus.spark.progress import ProgressPublisher, lag
from tests.archives import archive_store
from tests.unit.spark.conftest import order, send_orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from regulus.testing.running_server import ServerThread

pytestmark = [pytest.mark.spark, pytest.mark.once]

Run = Callable[..., "StreamingQuery"]


@pytest.fixture
def run(spark: "SparkSession", tmp_path: Path) -> Run:
    """Appends what a stream finds to Parquet files and returns the query, ended, after its last batch."""

    def run_to_end(columns: str = "topic,queue_id,queue_offset,body", **options: str) -> "StreamingQuery":
        read = spark.readStream.format("rocketmq").options(**options)
        frame = (read.option("columns", columns) if columns else read).load()
        query = (frame.writeStream.format("parquet").queryName("orders").trigger(availableNow=True)
                 .option("path", str(tmp_path / "found")).option("checkpointLocation", str(tmp_path / "checkpoint"))
                 .start())
        query.awaitTermination()
        return query

    return run_to_end


def found(spark: "SparkSession", tmp_path: Path) -> list[tuple[int, int, str]]:
    rows = spark.read.parquet(str(tmp_path / "found")).collect()
    return sorted((row.queue_id, row.queue_offset, row.body.decode()) for row in rows)


def expected(*numbers: range) -> list[tuple[int, int, str]]:
    return sorted((number % 2, number // 2, f"body {number}") for part in numbers for number in part)


def live(server: "ServerThread", **options: str) -> dict[str, str]:
    return {"nameServer": server.name_server_address, "topic": "orders", **options}


def test_a_live_topic_is_read_in_bounded_batches_and_once_over_restarts(spark, run, regulus_server, tmp_path):
    send_orders(regulus_server, range(1000))
    options = live(regulus_server, startingOffsets="earliest", maxOffsetsPerTrigger="300")
    query = run(**options)
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [300, 300, 300, 100]
    assert found(spark, tmp_path) == expected(range(1000))
    end = json.loads(query.lastProgress.sources[0].endOffset)
    assert end["topics"]["orders"]["queues"] == {"broker-a": {"0": 500, "1": 500}}
    assert end["topics"]["orders"]["epoch"]["broker-a"] > 0
    send_orders(regulus_server, range(1000, 1100))
    run(**options)
    assert found(spark, tmp_path) == expected(range(1100))


def test_an_archive_is_a_stream_of_what_is_archived(spark, run, make_store, tmp_path):
    archive = tmp_path / "archive"
    shutil.move(make_store([order(number) for number in range(20)]), tmp_path / "earlier")
    archive_store(tmp_path / "earlier", archive, range_size=1024)
    options = {"archivePath": str(archive), "topic": "orders", "startingOffsets": "earliest"}
    run(**options)
    assert found(spark, tmp_path) == expected(range(20))
    archive_store(make_store([order(number) for number in range(40)]), archive, range_size=1024)
    query = run(**options)
    assert found(spark, tmp_path) == expected(range(40))
    assert sum(progress.numInputRows for progress in query.recentProgress) == 20


def test_lag_and_group_follow_the_batches(spark, run, regulus_server):
    send_orders(regulus_server, range(200))
    query = run(**live(regulus_server, startingOffsets="earliest", maxOffsetsPerTrigger="150", consumerGroup="billing"))
    first, *_, last = [progress for progress in query.recentProgress if progress.numInputRows]
    assert [(each.queue.queue_id, each.messages) for each in lag(first)] == [(0, 25), (1, 25)]
    assert all(each.seconds is not None and 0 <= each.seconds < 600 for each in lag(first))
    assert sum(each.messages for each in lag(last)) == 0
    ProgressPublisher().finish(query)
    with Admin(regulus_server.name_server_address) as admin:
        assert [admin.group_offset("billing", MessageQueue("orders", "broker-a", number)) for number in (0, 1)] == [
            100, 100]
    send_orders(regulus_server, range(200, 210))
    assert run(**live(regulus_server, consumerGroup="billing")).lastProgress.numInputRows == 10


def test_the_files_of_a_store_are_a_stream_too(spark, run, make_store, tmp_path):
    first = make_store([order(number) for number in range(40)])
    second = shutil.move(first, tmp_path / "first")
    options = {"storePath": str(tmp_path / "growing"), "topic": "orders", "startingOffsets": "earliest",
               "maxOffsetsPerTrigger": "30"}
    shutil.copytree(second, tmp_path / "growing")
    run(**options)
    assert found(spark, tmp_path) == expected(range(40))
    longer = make_store([order(number) for number in range(60)])
    shutil.rmtree(tmp_path / "growing")
    shutil.copytree(longer, tmp_path / "growing")
    run(**options)
    assert found(spark, tmp_path) == expected(range(60))


def test_a_topic_made_anew_stops_the_query_with_its_own_sentence(spark, run, regulus_server, tmp_path):
    send_orders(regulus_server, range(10))
    run(**live(regulus_server, startingOffsets="earliest"))
    with Admin(regulus_server.name_server_address) as admin:
        admin.delete_topic("orders")
    send_orders(regulus_server, range(100, 120))
    with pytest.raises(Exception, match="was deleted and made anew"):
        run(**live(regulus_server))
    run(**live(regulus_server, failOnDataLoss="false"))
    bodies = sorted(body for _, _, body in found(spark, tmp_path))
    assert bodies == sorted(f"body {number}" for number in (*range(10), *range(100, 120)))


def test_the_checkpoint_of_another_topic_is_refused(run, regulus_server):
    send_orders(regulus_server, range(10))
    send_orders(regulus_server, range(10), topic="payments")
    assert run(**live(regulus_server, startingOffsets="latest")).lastProgress.numInputRows == 0
    with pytest.raises(Exception, match="is of topic 'orders', which this query does not read"):
        run(**{**live(regulus_server), "topic": "payments"})


def test_kafkas_columns_as_a_stream(spark, run, regulus_server, tmp_path):
    send_orders(regulus_server, range(10))
    run(columns="", **live(regulus_server, startingOffsets="earliest", kafkaSchema="true"))
    rows = spark.read.parquet(str(tmp_path / "found")).collect()
    assert {(row.partition, row.offset, bytes(row.value).decode()) for row in rows} == set(expected(range(10)))


def test_a_query_waits_for_a_broker_that_restarts(spark, run, make_broker_process, tmp_path):
    process = make_broker_process()
    send_orders(process, range(50))
    options = live(process, startingOffsets="earliest")
    run(**options)
    process.kill()
    with pytest.raises(Exception, match="could not be read for 100 ms"):
        run(**{**options, "retryTimeout": "100ms"})
    restart = threading.Timer(0.5, process.start)
    restart.start()
    run(**options)
    restart.join()
    send_orders(process, range(50, 60))
    run(**options)
    assert found(spark, tmp_path) == expected(range(60))


@pytest.mark.parametrize(("options", "text"), [
    ({"endingOffsets": "latest"}, "a stream has no end"), ({"table": "queues"}, "which is no stream"),
    ({"pushFilters": "true"}, "'pushFilters' is one of batch reads"),
])
def test_what_is_no_stream_is_refused(run, regulus_server, options, text):
    send_orders(regulus_server, range(2))
    with pytest.raises(Exception, match=text):
        run(columns="", **live(regulus_server, **options))


def test_progress_that_cannot_be_published_is_an_error_of_finish(run, regulus_server):
    send_orders(regulus_server, range(2))
    query = run(**live(regulus_server, startingOffsets="earliest", consumerGroup="billing"))

    def refuse(place, group, offsets):
        raise RegulusError("no broker")

    with pytest.raises(RegulusError, match="no broker"):
        ProgressPublisher(refuse).finish(query)
