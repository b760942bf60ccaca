"""A topic that is deleted and made again between the plan of a read and its tasks, which were to read the old one."""

import shutil

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.topic_epochs import TopicEpochs
from regulus.client.sync import Admin
from regulus.errors import DataLoss
from regulus.spark.live import scan as live_scan
from regulus.spark.live.brokers import LiveBrokers
from regulus.spark.open_place import open_place, scan_part
from regulus.spark.options import parse_options
from regulus.spark.read_bounds import batch_bounds
from regulus.spark.readers.stream_planner import StreamPlanner
from regulus.testing.running_server import ServerThread
from regulus.wire import encoded_table
from tests.stores import fill, open_store
from tests.unit.spark.conftest import send_orders

COLUMNS = ("queue_id", "queue_offset", "message_type", "properties", "body")
OLD, NEW = 30, 40


def save_epoch(root, epoch):
    epochs = TopicEpochs()
    epochs.note_created("TopicA", epoch)
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "regulusTopicEpochs.json").write_text(encoded_table.text(epochs.document()), encoding="utf-8")


@pytest.fixture(params=["Regulus", "RocketMQ"])
def store(request, tmp_path):
    """The directory of a closed store whose topic has two queues, and what makes the topic again, with other messages.

    RocketMQ keeps no epochs.
    """
    root = tmp_path / "store"
    opened = open_store(root)
    fill(opened, OLD, queues=2)
    opened.close()
    if request.param == "Regulus":
        save_epoch(root, 17)

    def make_again():
        again = open_store(root)
        again.delete_topic("TopicA")
        fill(again, NEW, queues=2, first=500)
        again.close()
        if request.param == "Regulus":
            save_epoch(root, 18)

    return root, make_again


def numbers(rows):
    return sorted(int(row["body"][:8]) for row in rows if row["message_type"] != "gap")


def gaps(rows):
    return sorted((row["queue_id"], row["queue_offset"], int(dict(row["properties"])["GAP_END"])) for row in rows
                  if row["message_type"] == "gap")


def rows_of(options, parts):
    return [row for part in parts for batch in scan_part(options, COLUMNS, part) for row in batch.to_pylist()]


@pytest.mark.parametrize("cuts", [1, 5])
def test_the_tasks_of_a_store_refuse_the_new_topic(store, cuts):
    root, make_again = store
    for policy in ("true", "false", "report"):
        read = parse_options({"storePath": str(root), "topic": "TopicA", "failOnDataLoss": policy,
                              "minPartitions": str(cuts)})
        place = open_place(read)
        parts = place.partitions(*batch_bounds(read, place), cores=1)
        if policy == "true":
            assert numbers(rows_of(read, parts)) == list(range(OLD))
            kept = parts
            make_again()
            with pytest.raises(DataLoss, match=r"TopicA/broker-a/[01]: messages 0 to \d+ are gone, because the topic "
                                               "was deleted and created again"):
                rows_of(read, kept)
            continue
        assert rows_of(read, kept) == [] or policy == "report"
        assert numbers(rows_of(read, kept)) == []
        assert numbers(rows_of(read, parts)) == list(range(500, 500 + NEW))
    lost = gaps(rows_of(read, kept))
    assert sum(end - start for _, start, end in lost) == OLD


def test_a_batch_of_a_stream_refuses_the_new_topic(store):
    root, make_again = store
    read = parse_options({"storePath": str(root), "topic": "TopicA", "startingOffsets": "earliest",
                          "failOnDataLoss": "report"}, streaming=True)
    planner = StreamPlanner(read, open_place(read), lambda: 0.0, lambda: 0, lambda seconds: None)
    start = planner.initial()
    parts = planner.partitions(start, planner.latest(start, is_limited=False))
    make_again()
    rows = rows_of(read, parts)
    assert (numbers(rows), gaps(rows)) == ([], [(0, 0, OLD // 2), (1, 0, OLD // 2)])


@pytest.mark.parametrize("store", ["Regulus"], indirect=True)
def test_a_repeated_batch_of_a_stream_refuses_the_new_topic(store):
    """After a restart it is planned again, from the checkpoint alone."""
    root, make_again = store
    read = parse_options({"storePath": str(root), "topic": "TopicA", "startingOffsets": "earliest",
                          "failOnDataLoss": "report"}, streaming=True)
    planners = [StreamPlanner(read, open_place(read), lambda: 0.0, lambda: 0, lambda seconds: None) for _ in range(2)]
    start = planners[0].initial()
    end = planners[0].latest(start, is_limited=False)
    make_again()
    rows = rows_of(read, planners[1].partitions(start, end))
    assert (numbers(rows), gaps(rows)) == ([], [(0, 0, OLD // 2), (1, 0, OLD // 2)])


def test_what_else_is_gone_is_told_beside_a_topic_made_again(store):
    root, make_again = store
    opened = open_store(root)
    fill(opened, 10, topic="TopicB")
    opened.close()
    read = parse_options({"storePath": str(root), "subscribe": "TopicA,TopicB", "failOnDataLoss": "report"})
    place = open_place(read)
    parts = place.partitions(*batch_bounds(read, place), cores=1)
    shutil.rmtree(root / "consumequeue" / "TopicB")
    assert gaps(rows_of(read, parts)) == [(0, 0, 10)]
    (root / "consumequeue" / "TopicB" / "0").mkdir(parents=True)
    make_again()
    shutil.rmtree(root / "consumequeue" / "TopicB")
    rows = rows_of(read, parts)
    assert (numbers(rows), gaps(rows)) == ([], [(0, 0, 10), (0, 0, OLD // 2), (1, 0, OLD // 2)])


def test_spark_refuses_the_new_topic(spark, store):
    root, make_again = store
    frame = spark.read.format("rocketmq").options(storePath=str(root), topic="TopicA").load().select("body")
    frame._jdf.queryExecution().toRdd().getNumPartitions()      # plans the read
    make_again()
    with pytest.raises(Exception, match="the topic was deleted and created again"):
        frame.collect()


@pytest.fixture
def server(tmp_path):
    with ServerThread(tmp_path / "store", BrokerConfig(listen_port=0, enable_property_filter=True)) as running:
        yield running


@pytest.mark.parametrize("choice", [{}, {"tags": "Tag0 || Tag1 || Tag2"}, {"sql": "TAGS IS NOT NULL"}])
def test_the_tasks_of_a_live_read_refuse_the_new_topic(server, choice):
    send_orders(server, range(200))
    reads = {policy: parse_options({"nameServer": server.name_server_address, "topic": "orders",
                                    "failOnDataLoss": policy, **choice}) for policy in ("true", "false", "report")}
    with LiveBrokers(reads["true"]) as brokers:
        parts = brokers.partitions(*batch_bounds(reads["true"], brokers), cores=1)
    with Admin(server.name_server_address) as admin:
        admin.delete_topic("orders")
    send_orders(server, range(1000, 1300))

    def rows(policy):
        return [row for part in parts for batch in live_scan.scan(reads[policy], COLUMNS, part)
                for row in batch.to_pylist()]

    with pytest.raises(DataLoss, match=r"orders/broker-a/0: messages 0 to \d+ are gone, because the topic was deleted "
                                       "and created again"):
        rows("true")
    assert rows("false") == []
    assert gaps(rows("report")) == [(0, 0, 100), (1, 0, 100)]
