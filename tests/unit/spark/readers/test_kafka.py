"""A table under the names of Spark's Kafka source, beside the plain one."""

import shutil

import pytest

from tests.archives import archive_store
from tests.unit.spark.conftest import GOLDEN, order

pytestmark = pytest.mark.spark
STORE = str(GOLDEN / "store-4.9.8")


def test_the_same_messages_under_kafkas_names(spark):
    read = spark.read.format("rocketmq").options(storePath=STORE, topic="SKeys")
    kafka = read.option("kafkaSchema", "true").option("includeHeaders", "true").load()
    assert dict(kafka.dtypes) == {
        "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
        "timestamp": "timestamp", "timestampType": "int", "headers": "array<struct<key:string,value:binary>>"}
    plain = spark.read.format("rocketmq").options(storePath=STORE, topic="SKeys").load()
    expected = {(row.queue_id, row.queue_offset): (
        row["keys"].encode() if row["keys"] else None, bytes(row.body), row.topic, row.store_time, 1,
        {key: value.encode() for key, value in row.properties.items()}) for row in plain.collect()}
    found = {(row.partition, row.offset): (
        None if row.key is None else bytes(row.key), bytes(row.value), row.topic, row.timestamp, row.timestampType,
        {header.key: bytes(header.value) for header in row.headers}) for row in kafka.collect()}
    assert found == expected
    assert any(key is not None for key, *_ in found.values())


def test_only_the_type_of_the_time(spark):
    read = spark.read.format("rocketmq").options(storePath=STORE, topic="SKeys", kafkaSchema="true")
    rows = read.schema("timestampType int").load().collect()
    assert {row.timestampType for row in rows} == {1}
    assert len(rows) == spark.read.format("rocketmq").options(storePath=STORE,
                                                              topic="SKeys").load().count()


def test_a_partition_is_of_one_broker(spark, make_store, tmp_path):
    """And a start may name it as it is shown."""
    shutil.move(make_store([order(number) for number in range(4)]), tmp_path / "other")
    archive_store(make_store([order(number) for number in range(6)]), tmp_path / "archive")
    archive_store(tmp_path / "other", tmp_path / "archive", broker_name="broker-b")
    read = spark.read.format("rocketmq").options(archivePath=str(tmp_path / "archive"), topic="orders",
                                                 kafkaSchema="true")

    def places(rows):
        return sorted((row.partition, row.offset) for row in rows)

    first = 711_786_496
    everything = places(read.load().select("partition", "offset").collect())
    assert everything == [(partition, offset) for partition, count in ((0, 3), (1, 3), (first, 2), (first + 1, 2))
                          for offset in range(count)]
    starts = f'{{"orders":{{"0":2,"1":3,"{first}":1,"{first + 1}":-2}}}}'
    assert places(read.option("startingOffsets", starts).load().select("partition", "offset").collect()) == [
        (0, 2), (first, 1), (first + 1, 0), (first + 1, 1)]
    assigned = (spark.read.format("rocketmq").options(archivePath=str(tmp_path / "archive"), kafkaSchema="true",
                                                      assign=f'{{"orders":[0,{first + 1}]}}'))
    assert places(assigned.load().select("partition", "offset").collect()) == [
        (0, 0), (0, 1), (0, 2), (first + 1, 0), (first + 1, 1)]
