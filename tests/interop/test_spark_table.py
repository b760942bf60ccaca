"""The table and the stream of a running broker, which the real one answers by ordinary pulls."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import Server

from regulus.client.sync import Admin, Producer
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.spark.live import scan as live_scan
from regulus.spark.live.brokers import LiveBrokers
from regulus.spark.options import ReadOptions, parse_options
from regulus.spark.read_bounds import batch_bounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUES = 4
COUNT = 2000


def send(server: Server, topic: str, numbers: range) -> None:
    with Producer(server.name_server_address, "SparkTest") as producer:
        for queue in (MessageQueue(topic, "broker-a", number) for number in range(QUEUES)):
            mine = [Message(topic, b"body %d" % number, f"Tag{number % 3}", f"key-{number}")
                    for number in numbers if number % QUEUES == queue.queue_id]
            for first in range(0, len(mine), 100):
                producer.send_batch(mine[first:first + 100], queue=queue)
    with Admin(server.name_server_address) as admin:
        until = time.monotonic() + 60
        while sum(admin.max_offset(MessageQueue(topic, "broker-a", number)) for number in range(QUEUES)) < numbers.stop:
            assert time.monotonic() < until


@pytest.fixture(scope="module")
def topic(server: Server) -> str:
    with Admin(server.name_server_address) as admin:
        admin.create_topic(TopicConfig(topic_name="SparkTable", read_queue_nums=QUEUES, write_queue_nums=QUEUES))
    send(server, "SparkTable", range(COUNT))
    return "SparkTable"


def rows_of(options: ReadOptions) -> list[dict[str, object]]:
    with LiveBrokers(options) as brokers:
        parts = brokers.partitions(*batch_bounds(options, brokers), cores=2)
    columns = ("queue_id", "queue_offset", "body", "tags", "store_time", "physical_offset")
    return [row for part in parts for batch in live_scan.scan(options, columns, part) for row in batch.to_pylist()]


def test_a_batch_has_all_messages_once(server: Server, topic: str) -> None:
    rows = rows_of(parse_options({"nameServer": server.name_server_address, "topic": topic, "verifyBodies": "true"}))
    assert [(row["queue_id"], row["queue_offset"]) for row in rows] == [
        (queue, offset) for queue in range(QUEUES) for offset in range(COUNT // QUEUES)]
    assert sorted(row["body"] for row in rows) == sorted(b"body %d" % number for number in range(COUNT))


def test_a_window_and_tags(server: Server, topic: str) -> None:
    given = {"nameServer": server.name_server_address, "topic": topic}
    rows = rows_of(parse_options({**given, "tags": "Tag1"}))
    assert len(rows) == sum(number % 3 == 1 for number in range(COUNT))
    middle = sorted(row["store_time"] for row in rows)[len(rows) // 2]
    milliseconds = round(middle.timestamp() * 1000)  # type: ignore[attr-defined]
    later = rows_of(parse_options({**given, "startingTimestamp": str(milliseconds)}))
    assert later
    assert min(row["store_time"] for row in later) >= middle  # type: ignore[type-var]


def test_a_stream_goes_on_after_a_restart_of_the_broker(spark: "SparkSession", server: Server, topic: str,
                                                        tmp_path: Path) -> None:
    def run() -> None:
        read = spark.readStream.format("rocketmq").options(
            nameServer=server.name_server_address, topic=topic, startingOffsets="earliest", maxOffsetsPerTrigger="900",
            columns="queue_id,queue_offset,body")
        (read.load().writeStream.format("parquet").option("path", str(tmp_path / "found"))
         .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
         .awaitTermination())

    run()
    server.restart()
    send(server, topic, range(COUNT, COUNT + 100))
    run()
    found = spark.read.parquet(str(tmp_path / "found")).collect()
    assert sorted(bytes(row.body) for row in found) == sorted(b"body %d" % number for number in range(COUNT + 100))
