"""Tasks without Spark, against a real broker."""

import time

import pyarrow as pa
import pytest

from regulus.client.sync import Admin
from regulus.errors import BrokerRefused, NoRoute, RowRefused, SendFailed
from regulus.model.topics import TopicConfig
from regulus.spark.sink_options import SinkOptions, parse_sink_options
from regulus.spark.sink_task import TaskPlace, run_task

from .sink_support import messages_of

PLACE = TaskPlace(sink_id="sink", batch=0, partition=0)


def options(server, **more: str) -> SinkOptions:
    return parse_sink_options({"nameServer": server.name_server_address, "deliveryGuarantee": "atLeastOnce", **more},
                              is_stream=False)


def bodies(count: int, first: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(first, first + count)]})


def test_all_rows_are_stored_with_all_that_they_ask_for(regulus_server):
    batch = pa.RecordBatch.from_pydict({
        "topic": ["orders", "orders", "bills"], "body": [b"a", b"b", b"c"], "keys": ["k1", "k2", None],
        "tags": ["A", None, "C"], "flag": [1, 2, 3], "queue_id": [1, 2, None], "sharding_key": [None, None, "s"],
        "properties": pa.array([[("x", "1")], None, []], pa.map_(pa.string(), pa.string()))})
    report = run_task([batch], options(regulus_server), PLACE)
    assert (report.stored, report.duplicates) == (3, 0)
    first, second = sorted(messages_of(regulus_server, "orders"), key=lambda message: message.body)
    assert (first.body, first.keys, first.tags, first.flag, first.queue_id) == (b"a", "k1", "A", 1, 1)
    assert first.properties["x"] == "1"
    assert (second.body, second.keys, second.tags, second.queue_id) == (b"b", "k2", "", 2)
    bill, = messages_of(regulus_server, "bills")
    assert bill.properties["__SHARDINGKEY"] == "s"
    assert len({first.message_id, second.message_id, bill.message_id}) == 3


def test_many_batches_of_rows_fill_all_queues_in_their_order(regulus_server):
    report = run_task([bodies(3000), bodies(2500, 3000)], options(regulus_server, topic="orders"), PLACE)
    assert report.stored == 5500
    stored = messages_of(regulus_server, "orders")
    assert sorted(int(message.body) for message in stored) == list(range(5500))
    assert {message.queue_id for message in stored} == {0, 1, 2, 3}
    for queue_id in range(4):
        numbers = [int(message.body) for message in stored if message.queue_id == queue_id]
        assert numbers == sorted(numbers)


def test_delayed_rows_wait_among_others(regulus_server):
    batch = pa.RecordBatch.from_pydict({"body": [b"now", b"later", b"now too"], "delay_level": [0, 1, None]})
    assert run_task([batch], options(regulus_server, topic="orders"), PLACE).stored == 3
    messages = messages_of(regulus_server, "orders", wait_for=3)
    assert [message.body for message in messages] == [b"now", b"now too", b"later"]
    assert messages[2].properties["REAL_TOPIC"] == "orders"
    assert messages[2].store_timestamp - messages[0].store_timestamp >= 1000


def test_large_rows_travel_alone(regulus_server):
    batch = pa.RecordBatch.from_pydict({"body": [b"x" * (1 << 20)] * 3})
    assert run_task([batch], options(regulus_server, topic="orders", inFlightMax="2"), PLACE).stored == 3


def test_a_rate_limit_holds_the_task_back(regulus_server):
    run_task([bodies(1)], options(regulus_server, topic="orders"), PLACE)
    began = time.monotonic()
    run_task([bodies(100)], options(regulus_server, topic="orders", rateLimit="200"), PLACE)
    assert time.monotonic() - began >= 0.4


def test_a_bad_row_fails_the_task(regulus_server):
    batch = pa.RecordBatch.from_pydict({"body": [b"a", None]})
    with pytest.raises(RowRefused, match="row 1 of batch 0, task 0 has no body"):
        run_task([batch], options(regulus_server, topic="orders"), PLACE)


def test_what_the_broker_refuses_fails_the_task(regulus_server):
    with Admin(regulus_server.name_server_address) as admin:
        admin.create_topic(TopicConfig(topic_name="sealed", perm=4))
    with pytest.raises(NoRoute, match="no queue that takes sends"):
        run_task([bodies(1)], options(regulus_server, topic="sealed"), PLACE)
    too_large = pa.RecordBatch.from_pydict({"body": [b"x" * ((4 << 20) + 1)]})
    with pytest.raises(BrokerRefused, match="maxMessageSize"):
        run_task([too_large], options(regulus_server, topic="orders"), PLACE)


def test_a_broker_that_is_gone_fails_the_task_when_the_budget_is_spent(broker_process):
    choices = options(broker_process, topic="orders", retryBudgetMs="300", sendTimeoutMs="200")
    run_task([bodies(1)], choices, PLACE)

    def batches():
        yield bodies(1)
        broker_process.kill()
        yield bodies(1000)

    with pytest.raises(SendFailed, match="send to orders failed after"):
        run_task(batches(), choices, PLACE)


def test_a_broker_that_comes_back_is_waited_for(broker_process):
    choices = options(broker_process, topic="orders")

    def batches():
        yield bodies(1000)
        broker_process.kill()
        broker_process.start()
        yield bodies(1000, 1000)

    assert run_task(batches(), choices, PLACE).stored == 2000
    assert {int(message.body) for message in messages_of(broker_process, "orders")} == set(range(2000))
