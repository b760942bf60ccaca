"""The small tables, of stores of Apache RocketMQ and of a running broker."""

import json
from datetime import UTC, datetime

import pytest

from regulus.client.sync import Admin, Producer
from regulus.errors import ClientError, OptionError, StoreDamaged
from regulus.model.message import Message
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.spark.options import parse_options
from regulus.spark.small_tables import SMALL_TABLES, rows
from regulus.wire import fastjson
from tests import store_ends as broken
from tests.unit.spark.conftest import FIRST_STORE_TIME, GOLDEN, order, queue_ends
from tests.waiting import wait_until


def table(**options: str) -> list[dict]:
    return list(rows(parse_options(options), {}))


def config(store: str, name: str) -> dict:
    """A document of a store; a broker that was killed early has not written all of them."""
    path = GOLDEN / store / "config" / f"{name}.json"
    return fastjson.loads(path.read_text("utf-8")) if path.exists() else {"offsetTable": {}}


def test_queues_of_a_store_of_rocketmq(golden_store):
    lines = [json.loads(line) for line in (GOLDEN / f"{golden_store}.jsonl").read_text("utf-8").splitlines()]
    found = {(row["topic"], row["queue_id"]): row for row in table(storePath=str(GOLDEN / golden_store),
                                                                   table="queues")}
    assert {queue: row["max_offset"] for queue, row in found.items()} == queue_ends(golden_store)
    for (topic, queue_id), row in found.items():
        messages = [line for line in lines
                    if line["kind"] == "message" and (line["topic"], line["queueId"]) == (topic, queue_id)]
        if row["message_count"] != len(messages):     # a store that was killed holds records no queue knows of yet
            assert golden_store.endswith("killed")
            continue
        assert row["bytes"] == sum(line["storeSize"] for line in messages)
        if messages:
            assert row["first_store_time"] == datetime.fromtimestamp(messages[0]["storeTimestamp"] / 1000, UTC)
            assert row["last_store_time"] == datetime.fromtimestamp(messages[-1]["storeTimestamp"] / 1000, UTC)


def test_topics_groups_and_offsets_of_a_store_of_rocketmq(golden_store):
    store = str(GOLDEN / golden_store)
    topics = config(golden_store, "topics")["topicConfigTable"]
    assert {row["topic"]: (row["read_queue_nums"], row["write_queue_nums"], row["perm"], row["is_order"])
            for row in table(storePath=store, table="topics")} == {
        name: (topic["readQueueNums"], topic["writeQueueNums"], topic["perm"], topic["order"])
        for name, topic in topics.items()}
    groups = config(golden_store, "subscriptionGroup")["subscriptionGroupTable"]
    assert {row["consumer_group"]: row["retry_max_times"] for row in table(storePath=store, table="groups")} == {
        name: group["retryMaxTimes"] for name, group in groups.items()}
    ends = queue_ends(golden_store)
    offsets = config(golden_store, "consumerOffset")["offsetTable"]
    expected = {(*key.split("@"), int(queue)): offset for key, queues in offsets.items()
                for queue, offset in queues.items()}
    found = table(storePath=store, table="offsets")
    assert {(row["topic"], row["consumer_group"], row["queue_id"]): row["consumer_offset"] for row in found} == expected
    assert all(row["lag"] == ends.get((row["topic"], row["queue_id"]), 0) - row["consumer_offset"] for row in found)


def test_a_store_tells_when_its_topics_were_made(make_store):
    store = make_store([order(0)])
    assert {row["topic_made_time"] for row in table(storePath=str(store), table="queues")} == {None}
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "regulusTopicEpochs.json").write_text('{"topicEpochs": {"orders": 1700000000123}}')
    assert {row["topic_made_time"] for row in table(storePath=str(store), table="queues")} == {
        datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)}


@pytest.mark.parametrize("damage", ["first record", "queue file", "log file"])
def test_a_store_with_damage_tells_of_its_queues_what_can_be_read(make_store, damage):
    """An audit asks for them, and counts what is missing."""
    root = make_store([order(number) for number in range(60)])
    if damage == "first record":
        broken.write(root, broken.places(root)[0][0] + 4, b"\xff\xff\xff\xff")
    else:
        folder = root / ("consumequeue/orders/0" if damage == "queue file" else "commitlog")
        sorted(folder.iterdir())[1].unlink()
    row, _ = table(storePath=str(root), table="queues", topic="orders")
    assert (row["min_offset"], row["max_offset"], row["message_count"]) == (0, 30, 30)
    assert row["last_store_time"] == datetime.fromtimestamp(FIRST_STORE_TIME / 1000 + 58, UTC)
    first = None if damage == "first record" else datetime.fromtimestamp(FIRST_STORE_TIME / 1000, UTC)
    assert row["first_store_time"] == first
    assert row["bytes"] > 0


def test_a_topic_is_chosen_and_an_unknown_one_refused():
    store = str(GOLDEN / "store-4.9.8")
    assert {row["topic"] for row in table(storePath=store, table="queues", topic="SKeys")} == {"SKeys"}
    with pytest.raises(OptionError, match="did you mean 'SKeys'"):
        table(storePath=store, table="queues", topic="Skeys")


def test_a_damaged_document_is_named(make_store):
    store = make_store([order(0)])
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "subscriptionGroup.json").write_text('{"subscriptionGroupTable": 3')
    with pytest.raises(StoreDamaged, match=r"subscriptionGroup.json is damaged: .*subscriptionGroup.json.bak"):
        table(storePath=str(store), table="groups")


def test_the_same_of_a_running_broker(regulus_server):
    address = regulus_server.name_server_address
    with Admin(address) as admin:
        admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2))
        admin.create_group(SubscriptionGroupConfig(group_name="billing", retry_max_times=3))
        with Producer(address, "shop") as producer:
            queues = producer.fetch_publish_message_queues("orders")
            for number in range(5):
                producer.send(Message("orders", b"%d" % number), queue=queues[0])
        admin.create_topic(TopicConfig(topic_name="%RETRY%billing", read_queue_nums=1, write_queue_nums=1))
        admin.set_offsets("billing", {queues[0]: 2})
    found = table(nameServer=address, table="queues", topic="orders")
    assert [(row["queue_id"], row["min_offset"], row["max_offset"], row["message_count"]) for row in found] == [
        (0, 0, 5, 5), (1, 0, 0, 0)]
    assert found[0]["first_store_time"] <= found[0]["last_store_time"]
    assert found[1]["first_store_time"] is None
    with Admin(address) as admin:
        made_ms = admin.queue_states([queues[0]])[queues[0]].topic_epoch
    assert {row["topic_made_time"] for row in found} == {datetime.fromtimestamp(made_ms / 1000, UTC)}
    for name in SMALL_TABLES:
        with pytest.raises(ClientError, match="expected brokers are away: broker-b"):
            table(nameServer=address, table=name, expectedBrokers="broker-a,broker-b")
    assert table(nameServer=address, table="topics", topic="orders", expectedBrokers="broker-a")
    assert [row["write_queue_nums"] for row in table(nameServer=address, table="topics", topic="orders")] == [2]
    assert [row["retry_max_times"] for row in table(nameServer=address, table="groups")
            if row["consumer_group"] == "billing"] == [3]
    progress = table(nameServer=address, table="offsets", topic="orders", consumerGroup="billing")
    assert [(row["queue_id"], row["consumer_offset"], row["lag"]) for row in progress if row["queue_id"] == 0] == [
        (0, 2, 3)]
    assert progress == [row for row in table(nameServer=address, table="offsets")
                        if (row["consumer_group"], row["topic"]) == ("billing", "orders")]


@pytest.mark.parametrize(("reads", "perm"), [(1, 6), (2, 2)], ids=["fewer to read", "only written"])
def test_queues_that_cannot_be_read_are_in_the_table(regulus_server, reads, perm):
    address = regulus_server.name_server_address
    with Admin(address) as admin:
        admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=reads, write_queue_nums=2, perm=perm))
        wait_until(lambda: len(admin.queues("orders")) == (reads if perm == 6 else 0), "the route")
    found = table(nameServer=address, table="queues", topic="orders")
    assert [row["queue_id"] for row in found] == [0, 1]
    assert {row["topic_made_time"] is None for row in found} == {perm == 2}
