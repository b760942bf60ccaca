"""A table under the names of Spark's Kafka source, beside the plain one."""

import pytest

from tests.unit.spark.conftest import GOLDEN

pytestmark = pytest.mark.spark
STORE = str(GOLDEN / "store-4.9.8")


def test_the_same_messages_under_kafkas_names(spark):
    read = spark.read.format("rocketmq").options(storePath=STORE, topic="SKeys")
    kafka = read.option("kafkaSchema", "true").load()
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
