"""The sink as Spark calls it, against a real broker."""

import shutil
import time
from pathlib import Path

import pytest

from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig
from regulus.pipeline.archive.compact import DAY_MS, CompactConfig, compact
from regulus.pipeline.range_tasks import LocalTasks
from tests.archives import archive_store, nothing
from tests.unit.spark.conftest import send_orders

from .support import messages_of

pytestmark = [pytest.mark.spark, pytest.mark.once]


def written(frame, server, **options: str):
    return frame.write.format("rocketmq").options(
        **{"nameServer": server.name_server_address, "deliveryGuarantee": "atLeastOnce", **options}).mode("append")


def lines(directory: Path, files: int, lines_each: int) -> str:
    for number in range(files):
        text = "".join(f"{number * lines_each + line}\n" for line in range(lines_each))
        (directory / f"{number}.txt").write_text(text)
    return str(directory)


def test_a_frame_is_written_to_a_topic(spark, regulus_server):
    frame = spark.range(5000).selectExpr(
        "encode(concat('order-', id), 'utf-8') AS body", "concat('k', id) AS keys", "'A' AS tags",
        "map('price', cast(id AS string)) AS properties", "cast(id % 4 AS tinyint) AS queue_id")
    written(frame, regulus_server, topic="orders").save()
    messages = messages_of(regulus_server, "orders")
    assert sorted((message.body.decode(), message.keys, message.properties["price"], message.queue_id)
                  for message in messages) == sorted((f"order-{number}", f"k{number}", str(number), number % 4)
                                                     for number in range(5000))


def test_nothing_to_write_is_written(spark, regulus_server):
    written(spark.range(0).selectExpr("'x' AS body"), regulus_server, topic="orders").save()


def test_a_stream_is_written_to_topics_of_a_column(spark, regulus_server, tmp_path):
    (tmp_path / "in").mkdir()
    frame = spark.readStream.option("maxFilesPerTrigger", 1).text(lines(tmp_path / "in", 3, 100)).selectExpr(
        "value", "concat('topic-', cast(value AS int) % 2) AS topic")
    query = (frame.writeStream.format("rocketmq").queryName("two-topics")
             .options(nameServer=regulus_server.name_server_address, deliveryGuarantee="atLeastOnce",
                      checkpointLocation=str(tmp_path / "checkpoint")).trigger(availableNow=True).start())
    query.awaitTermination()
    for topic in range(2):
        assert sorted(int(message.body) for message in messages_of(regulus_server, f"topic-{topic}")) == [
            number for number in range(300) if number % 2 == topic]


@pytest.mark.parametrize(("columns", "options", "text"), [
    (["'x' AS body"], {"topc": "orders"}, "unknown option 'topc': did you mean 'topic'"),
    (["'x' AS body"], {}, "give option 'topic', or a column"),
    (["id AS body"], {"topic": "orders"}, "column 'body' is bigint; the sink takes binary or string"),
    (["'x' AS body"], {"topic": "orders", "jobId": "1"}, "give option 'sinkId' too"),
])
def test_what_cannot_be_written_is_refused_when_planned(spark, columns, options, text):
    frame = spark.range(1).selectExpr(*columns)
    with pytest.raises(Exception, match=text):
        frame.write.format("rocketmq").options(
            **{"nameServer": "127.0.0.1:1", "deliveryGuarantee": "atLeastOnce", **options}).mode("append").save()


def test_a_topic_is_not_overwritten(spark):
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        spark.range(1).selectExpr("'x' AS body").write.format("rocketmq").options(
            nameServer="127.0.0.1:1", topic="orders", deliveryGuarantee="atLeastOnce").mode("overwrite").save()


def test_a_row_that_cannot_be_sent_fails_the_job_with_its_place(spark, regulus_server):
    frame = spark.range(10, numPartitions=1).selectExpr("if(id = 7, null, 'x') AS body")
    with pytest.raises(Exception, match="row 7 of batch 0, task 0 has no body"):
        written(frame, regulus_server, topic="orders").save()


def test_a_job_that_is_run_again_completes_what_is_missing(spark, regulus_server):
    frame = spark.range(3000, numPartitions=2).selectExpr("cast(id AS string) AS body")
    choices = {"topic": "orders", "deliveryGuarantee": "exactlyOnce", "sinkId": "nightly"}
    for _ in range(2):
        written(frame, regulus_server, **choices).save()
    assert len(messages_of(regulus_server, "orders")) == 3000
    written(frame, regulus_server, **choices, jobId="1").save()
    assert sorted(int(message.body) for message in messages_of(regulus_server, "orders")) == sorted([*range(3000)] * 2)


def test_other_data_under_the_id_of_a_job_that_is_done_are_refused(spark, regulus_server):
    choices = {"topic": "orders", "deliveryGuarantee": "exactlyOnce", "sinkId": "constant"}
    frame = spark.range(5000, numPartitions=2).selectExpr("cast(id AS string) AS body")
    written(frame, regulus_server, **choices).save()
    others = {"fewer": frame.limit(4000).coalesce(1), "other": frame.selectExpr("concat('other-', body) AS body"),
              "divided otherwise": frame.coalesce(1), "none": frame.where("body < 0")}
    for kind, other in others.items():
        with pytest.raises(Exception, match=r"broker-a.* rows of batch 0"):
            written(other, regulus_server, **choices).save()
        assert kind
    stored = [int(message.body) for message in messages_of(regulus_server, "orders")]
    assert set(stored) == set(range(5000))


@pytest.mark.parametrize("guarantee", ["exactlyOnce", "transactional"])
def test_a_job_that_names_no_sink_is_another_one_in_each_run(spark, regulus_server, guarantee):
    for _ in range(2):
        written(spark.range(3000, numPartitions=2).selectExpr("cast(id AS string) AS body"), regulus_server,
                topic="orders", producerGroup="orders-sink", deliveryGuarantee=guarantee).save()
    messages = messages_of(regulus_server, "orders")
    assert sorted(int(message.body) for message in messages) == sorted([*range(3000)] * 2)
    name = "SINK" if guarantee == "exactlyOnce" else "SINK_TRANSACTION"
    assert len({message.properties[name].partition("/")[0] for message in messages}) == 2
    with Admin(regulus_server.name_server_address) as admin:
        kept = admin.kv_namespace("REGULUS_SINK_ROUTE") if guarantee == "exactlyOnce" else {}
    assert kept == {}


def test_a_job_that_fails_before_a_row_is_stored_leaves_no_sink_behind(spark, regulus_server):
    with pytest.raises(Exception, match="names queue 9; topic orders has 0 to 3"):
        written(spark.range(1).selectExpr("'x' AS body", "9 AS queue_id"), regulus_server, topic="orders",
                deliveryGuarantee="exactlyOnce").save()
    with Admin(regulus_server.name_server_address) as admin:
        assert admin.kv_namespace("REGULUS_SINK_ROUTE") == {}


def test_after_a_shuffle_rows_are_put_in_order_by_their_key(spark, regulus_server):
    counts = spark.range(2000, numPartitions=2).selectExpr("id % 500 AS customer").groupBy("customer").count()
    frame = counts.selectExpr("cast(customer AS string) AS body", "customer")
    for _ in range(2):
        written(frame, regulus_server, topic="orders", deliveryGuarantee="exactlyOnce", sinkId="nightly",
                dedupKey="customer").save()
    assert sorted(int(message.body) for message in messages_of(regulus_server, "orders")) == list(range(500))


@pytest.mark.parametrize("guarantee", ["exactlyOnce", "transactional"])
def test_a_batch_of_a_stream_that_comes_again_is_not_stored_again(spark, regulus_server, tmp_path, guarantee):
    """The checkpoint forgets that the last batch was done, as when the driver dies before it says so."""
    (tmp_path / "in").mkdir()
    frame = spark.readStream.option("maxFilesPerTrigger", 1).text(lines(tmp_path / "in", 2, 500))

    def run() -> None:
        (frame.writeStream.format("rocketmq").queryName("again")
         .options(nameServer=regulus_server.name_server_address, topic="orders", producerGroup="again-sink",
                  deliveryGuarantee=guarantee, checkpointLocation=str(tmp_path / "checkpoint"))
         .trigger(availableNow=True).start().awaitTermination())

    run()
    done = tmp_path / "checkpoint" / "commits" / "1"
    done.unlink()
    done.with_name(".1.crc").unlink()
    run()
    messages = messages_of(regulus_server, "orders")
    assert sorted(int(message.body) for message in messages) == list(range(1000))
    name = "SEQ" if guarantee == "exactlyOnce" else "SINK_TRANSACTION"
    place = 0 if guarantee == "exactlyOnce" else 1
    assert {message.properties[name].split("/")[place] for message in messages} == {"0", "1"}


def test_a_batch_out_of_an_archive_comes_again_after_that_grew(spark, regulus_server, tmp_path):
    """And what it had before was put together in other files."""
    name_server, checkpoint, archive = regulus_server.name_server_address, tmp_path / "checkpoint", tmp_path / "archive"
    source = {"nameServer": name_server, "archivePath": str(archive), "topic": "orders", "startingOffsets": "earliest"}
    frame = spark.readStream.format("rocketmq").options(**source).load().select("body", "keys")

    def run() -> None:
        (frame.writeStream.format("rocketmq")
         .options(nameServer=name_server, topic="copies", checkpointLocation=str(checkpoint))
         .trigger(availableNow=True).start().awaitTermination())

    def archive_as_it_is(name: str) -> None:
        shutil.copytree(regulus_server.store_path, tmp_path / name)
        archive_store(tmp_path / name, archive, range_size=4096)

    with Admin(name_server) as admin:
        admin.create_topic(TopicConfig(topic_name="copies", read_queue_nums=2, write_queue_nums=2))
    send_orders(regulus_server, range(30))
    archive_as_it_is("first")
    send_orders(regulus_server, range(30, 80))
    run()
    for done in (checkpoint / "commits").iterdir():
        done.unlink()
    archive_as_it_is("second")
    in_a_week = time.time_ns() // 1_000_000 + 7 * DAY_MS
    assert compact(LocalTasks(), CompactConfig(archive_path=str(archive)), "run", in_a_week, None, nothing).compacted
    run()
    copied = [(message.keys, message.body) for message in messages_of(regulus_server, "copies")]
    assert sorted(copied) == sorted((f"key-{number}", b"body %d" % number) for number in range(80))


@pytest.mark.parametrize("choices", [
    {"deliveryGuarantee": "exactlyOnce"},
    {"deliveryGuarantee": "exactlyOnce", "sinkId": "mine", "jobId": "of the batch"},
    {"deliveryGuarantee": "transactional", "producerGroup": "g"},
    {"deliveryGuarantee": "transactional", "producerGroup": "g", "sinkId": "mine", "jobId": "of the batch"},
], ids=str)
def test_each_batch_of_a_stream_is_written_by_a_program_too(spark, regulus_server, tmp_path, choices):
    """Within foreachBatch Spark tells tasks the stream's batch, which is not that of the write."""
    (tmp_path / "in").mkdir()
    frame = spark.readStream.option("maxFilesPerTrigger", 1).text(lines(tmp_path / "in", 3, 20))

    def send(rows, batch):
        options = choices | ({"jobId": str(batch)} if "jobId" in choices else {})
        written(rows, regulus_server, topic="orders", **options).save()

    frame.writeStream.foreachBatch(send).option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True).start().awaitTermination()
    assert sorted(int(message.body) for message in messages_of(regulus_server, "orders")) == list(range(60))
