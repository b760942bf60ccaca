"""The table as Spark sees it. What is read is tested without Spark; here are the schema, the options and the joints."""

import base64
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regulus.spark.source import RocketMQSource
from regulus.spark.table_schema import COLUMNS, ddl
from tests.unit.spark.conftest import GOLDEN, send_orders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
STORE = GOLDEN / "store-4.9.8"


def table(spark: "SparkSession", **options: str) -> "DataFrame":
    return spark.read.format("rocketmq").options(**{"storePath": str(STORE), **options}).load()


def test_each_message_of_rocketmq_with_all_columns(spark):
    topics = {path.name for path in (STORE / "consumequeue").iterdir()}
    messages = [line for line in map(json.loads, (GOLDEN / "store-4.9.8.jsonl").read_text("utf-8").splitlines())
                if line["kind"] == "message" and line["topic"] in topics]
    rows = table(spark, subscribe=",".join(sorted(topics)), minPartitions="3").orderBy("physical_offset").collect()
    assert len(rows) == len(messages) == 733
    assert list(rows[0].asDict()) == list(COLUMNS)
    for row, line in zip(rows, messages, strict=True):
        assert (row.physical_offset, row.topic, row.queue_id, row.queue_offset, row.properties, row.message_id,
                base64.b64encode(row.body).decode(), row.body_crc, row.born_host, row.offset_message_id) == (
            line["physicalOffset"], line["topic"], line["queueId"], line["queueOffset"], line["properties"],
            line["uniqKey"], line["bodyBase64"], line["bodyCRC"], line["bornHost"], line["offsetMsgId"])


def test_sql_over_the_table(spark):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW normal USING rocketmq "
              f"OPTIONS (storePath '{STORE}', topic 'SNormal', columns 'tags,body,store_time')")
    counts = spark.sql("SELECT count(*), count(tags), sum(length(body)), min(store_time) FROM normal").first()
    assert counts[0] > counts[1] > 0
    assert counts[2] > 2 * 61440
    assert counts[3] == datetime(2026, 11, 20, 23, 57, 11, 903000)


def test_a_schema_chooses_columns(spark):
    read = spark.read.format("rocketmq").option("storePath", str(STORE)).option("topic", "SKeys")
    frame = read.schema("queue_offset bigint, keys string").load()
    assert frame.columns == ["queue_offset", "keys"]
    assert frame.count() == 420
    assert frame.orderBy("queue_offset").first().asDict() == {
        "queue_offset": 0, "keys": table(spark, topic="SKeys").orderBy("queue_offset").first().keys}


def test_the_full_schema(spark):
    assert ", ".join(f"{name} {kind}" for name, kind in table(spark, topic="SKeys").dtypes) == ddl(tuple(COLUMNS))


def test_nothing_to_read_is_an_empty_table(spark):
    assert table(spark, topic="RMQ_SYS_TRACE_TOPIC").count() == 0


@pytest.mark.parametrize(("options", "text"), [
    ({"topic": "SNormal", "startOffsets": "x"}, "did you mean 'startingOffsets'"),
    ({}, "exactly one of topic, subscribe"),
    ({"topic": "SNormals"}, "did you mean 'SNormal'"),
    ({"topic": "SNormal", "columns": "topic,bodies"}, "no column 'bodies'"),
])
def test_errors_reach_the_user(spark, options, text):
    with pytest.raises(Exception, match=text):
        table(spark, **options).count()


def test_a_schema_of_other_types_is_refused(spark):
    frame = spark.read.format("rocketmq").options(storePath=str(STORE), topic="SKeys").schema("queue_offset int")
    with pytest.raises(Exception, match="the schema has queue_offset int, not queue_offset bigint"):
        frame.load().count()


def test_a_damaged_store_fails_the_query(spark, tmp_path: Path):
    root = tmp_path / "store"
    shutil.copytree(STORE, root)
    log = sorted((root / "commitlog").iterdir())[0]
    log.write_bytes(log.read_bytes().replace(b"one tag", b"one tug"))
    read = spark.read.format("rocketmq").options(storePath=str(root), topic="SNormal", verifyBodies="true")
    with pytest.raises(Exception, match="body and its checksum differ"):
        read.load().count()
    whole = table(spark, topic="SNormal").count()
    assert read.option("failOnDataLoss", "false").load().count() == whole - 1


def test_a_running_broker(spark, regulus_server):
    send_orders(regulus_server, range(200))
    read = spark.read.format("rocketmq").option("nameServer", regulus_server.name_server_address)
    frame = read.option("topic", "orders").option("minPartitions", "3").load()
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.selectExpr("queue_id", "queue_offset", "cast(body as string) body", "tags").collect()
    assert {(row.queue_id, row.queue_offset, row.body) for row in rows} == {
        (number % 2, number // 2, f"body {number}") for number in range(200)}
    assert read.option("topic", "orders").schema("body binary").load().count() == 200


def test_the_schema_is_the_same_for_a_batch_and_for_a_stream():
    options = {"nameServer": "a:1", "topic": "orders", "startingOffsets": "latest", "columns": "topic,body"}
    assert RocketMQSource(options).schema() == "topic string, body binary"
