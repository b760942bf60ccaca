"""The examples of Spark's guide to Kafka, with the word `rocketmq` and another address, and nothing else changed.

Source: Structured Streaming + Kafka Integration Guide, "Reading Data from Kafka".
"""

import pytest

from regulus.client.sync import Producer
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from tests.unit.spark.conftest import send_orders

pytestmark = [pytest.mark.spark, pytest.mark.once]


@pytest.fixture
def servers(regulus_server):
    """`host1:port1,host2:port2` of the guide: topic1 has 2 partitions of 60 messages each, topic2 one of 5."""
    send_orders(regulus_server, range(120), topic="topic1")
    send_orders(regulus_server, range(5), topic="topic2", queues=1)
    return f"{regulus_server.name_server_address},{regulus_server.name_server_address}"


def rows_of(spark, frame):
    query = frame.writeStream.format("memory").queryName("found").trigger(availableNow=True).start()
    query.awaitTermination()
    return spark.table("found").collect()


@pytest.mark.parametrize("choice", [("subscribe", "topic1"), ("subscribe", "topic1,topic2"),
                                    ("subscribePattern", "topic.*")])
def test_a_stream(spark, servers, choice):
    df = (spark
          .readStream
          .format("rocketmq")
          .option("kafka.bootstrap.servers", servers)
          .option(*choice)
          .option("startingOffsets", "earliest")
          .load())
    rows = rows_of(spark, df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)"))
    count = 120 if choice == ("subscribe", "topic1") else 125
    assert len(rows) == count
    assert {(row.key, row.value) for row in rows} == {(f"key-{number}", f"body {number}") for number in range(120)}


def test_a_stream_with_headers(spark, servers):
    df = (spark
          .readStream
          .format("rocketmq")
          .option("kafka.bootstrap.servers", servers)
          .option("subscribe", "topic2")
          .option("includeHeaders", "true")
          .option("startingOffsets", "earliest")
          .load())
    rows = rows_of(spark, df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "headers"))
    assert {(row.key, bytes(dict(row.headers)["TAGS"])) for row in rows} == {
        (f"key-{number}", b"Tag%d" % (number % 3)) for number in range(5)}


def test_batches(spark, servers):
    # Subscribe to 1 topic defaults to the earliest and latest offsets
    df = (spark
          .read
          .format("rocketmq")
          .option("kafka.bootstrap.servers", servers)
          .option("subscribe", "topic1")
          .load())
    assert df.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").distinct().count() == 120

    # Subscribe to multiple topics, specifying explicit Kafka offsets
    df = (spark
          .read
          .format("rocketmq")
          .option("kafka.bootstrap.servers", servers)
          .option("subscribe", "topic1,topic2")
          .option("startingOffsets", """{"topic1":{"0":23,"1":-2},"topic2":{"0":-2}}""")
          .option("endingOffsets", """{"topic1":{"0":50,"1":-1},"topic2":{"0":-1}}""")
          .load())
    counts = {(row.topic, row.partition): row["count"] for row in df.groupBy("topic", "partition").count().collect()}
    assert counts == {("topic1", 0): 27, ("topic1", 1): 60, ("topic2", 0): 5}

    # Subscribe to a pattern, at the earliest and latest offsets
    df = (spark
          .read
          .format("rocketmq")
          .option("kafka.bootstrap.servers", servers)
          .option("subscribePattern", "topic.*")
          .option("startingOffsets", "earliest")
          .option("endingOffsets", "latest")
          .load())
    assert df.count() == 125


def test_starts_and_ends_by_time_have_kafkas_precedence_and_defaults(spark, servers):
    def read(**options):
        frame = spark.read.format("rocketmq").options(**{"kafka.bootstrap.servers": servers, "subscribe": "topic2"},
                                                      **options)
        return sorted(row.offset for row in frame.load().select("offset").collect())

    with Producer(servers, "app") as producer:
        sent = producer.send(Message("topic2", b"later"), queue=MessageQueue("topic2", "broker-a", 0))
    frame = spark.read.format("rocketmq").options(**{"kafka.bootstrap.servers": servers, "subscribe": "topic2"}).load()
    times = {row.offset: int(row.timestamp.timestamp() * 1000) for row in frame.select("offset", "timestamp").collect()}
    last, first = sent.queue_offset, min(times)
    assert times[last] > times[first]
    each = f'{{"topic2":{{"0":{times[last]}}}}}'
    assert read(startingOffsetsByTimestamp=each, startingOffsets='{"topic2":{"0":2}}') == [last]
    assert read(startingTimestamp=str(times[first]), startingOffsetsByTimestamp=each) == list(range(last + 1))
    assert read(endingOffsetsByTimestamp=each, endingOffsets='{"topic2":{"0":2}}') == list(range(last))
    early = f'{{"topic2":{{"0":{times[first]}}}}}'
    assert read(endingTimestamp=str(times[last]), endingOffsetsByTimestamp=early) == list(range(last))
    assert read(endingTimestamp="4000000000000") == list(range(last + 1))
    with pytest.raises(Exception, match="has no message stored at or after its starting time"):
        read(startingTimestamp="4000000000000")
    assert read(startingTimestamp="4000000000000", startingOffsetsByTimestampStrategy="LATEST") == []
