"""Messages of a running broker, planned and read without Spark; of one that reads in bulk, and of one that does not."""

import os
import signal
import threading
from datetime import timedelta

import pyarrow as pa
import pytest

from regulus.broker import request_table
from regulus.broker.outcome import refuse
from regulus.client.sync import Admin, Producer
from regulus.errors import BrokerRefused, ClientError, DataLoss, NoNameServer, OptionError, WrongNameServer
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.spark.live import scan as live_scan
from regulus.spark.live.brokers import LiveBrokers
from regulus.spark.options import parse_options
from regulus.spark.read_bounds import batch_bounds
from regulus.spark.read_plan import ReadRange, UnitRange
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.spark.conftest import send_orders

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]


@pytest.fixture(params=["bulk", "pull"])
def server(request, regulus_server, monkeypatch):
    """As `pull` it knows no more requests than RocketMQ's."""
    if request.param == "pull":
        monkeypatch.delitem(request_table.HANDLERS, int(RequestCode.BULK_PULL))
    return regulus_server


def options_of(server, **options):
    return parse_options({"nameServer": server.name_server_address, "topic": "orders", **options})


def plan(options, cores=2):
    with LiveBrokers(options) as brokers:
        return brokers.partitions(*batch_bounds(options, brokers), cores=cores)


def rows_of(options, parts, columns=("queue_id", "queue_offset", "body")):
    return [row for part in parts for batch in live_scan.scan(options, columns, part) for row in batch.to_pylist()]


def table(server, *columns, **options):
    read = options_of(server, **options)
    return rows_of(read, plan(read), columns or ("queue_id", "queue_offset", "body"))


def test_all_messages_are_read_once_and_in_order(server):
    send_orders(server, range(3000))
    rows = table(server, maxRecordsPerPartition="700", batchRows="100")
    assert [(row["queue_id"], row["queue_offset"]) for row in rows] == [(q, n) for q in (0, 1) for n in range(1500)]
    assert {row["body"] for row in rows} == {b"body %d" % number for number in range(3000)}


def test_a_batch_has_no_more_rows_than_asked_for(server):
    send_orders(server, range(1000))
    read = options_of(server, batchRows="64")
    sizes = [batch.num_rows for part in plan(read) for batch in live_scan.scan(read, ("queue_offset",), part)]
    assert sum(sizes) == 1000
    assert max(sizes) == 64


def test_the_same_columns_as_of_the_files(server):
    send_orders(server, range(50))
    live = table(server, "physical_offset", "store_time", "message_id", "properties", "tags", "born_host",
                 "offset_message_id", "broker_name")
    files = parse_options({"storePath": str(server.store_path), "topic": "orders"})
    from regulus.spark.store.plan import plan as store_plan
    from regulus.spark.store.scan import scan as store_scan

    stored = [row for part in store_plan(files, 1) for batch in store_scan(files, tuple(live[0]), part)
              for row in batch.to_pylist()]
    assert sorted(live, key=lambda row: row["physical_offset"]) == stored


def test_a_delayed_message_tells_when_it_is_delivered(server):
    """As the broker reckons, by its own levels, which its consume queue says to whoever reads files."""
    from regulus.spark.store.plan import plan as store_plan
    from regulus.spark.store.scan import scan as store_scan

    with Producer(server.name_server_address, "shop") as producer:
        for level in ("17", "18"):
            producer.send(Message("orders", b"later", properties={"DELAY": level}))
    chosen, columns = {"topic": "SCHEDULE_TOPIC_XXXX"}, ("queue_id", "deliver_time", "store_time")
    live = table(server, *columns, **chosen)
    files = parse_options({"storePath": str(server.store_path), **chosen})
    stored = [row for part in store_plan(files, 1) for batch in store_scan(files, columns, part)
              for row in batch.to_pylist()]
    assert sorted(live, key=lambda row: row["queue_id"]) == sorted(stored, key=lambda row: row["queue_id"])
    assert [row["deliver_time"] - row["store_time"] for row in live] == [timedelta(hours=1), timedelta(hours=2)]


@pytest.mark.parametrize("code", [ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR])
def test_who_may_not_ask_for_a_brokers_levels_reads_all_the_same(regulus_server, monkeypatch, code):
    monkeypatch.setitem(request_table.HANDLERS, int(RequestCode.GET_BROKER_CONFIG),
                        lambda command, peer, broker, now_ms: refuse(command, code, "no"))
    with Producer(regulus_server.name_server_address, "shop") as producer:
        producer.send(Message("orders", b"later", properties={"DELAY": "18"}))
    if code != ResponseCode.NO_PERMISSION:
        with pytest.raises(BrokerRefused):
            table(regulus_server, "body", "deliver_time", topic="SCHEDULE_TOPIC_XXXX")
    else:
        [row] = table(regulus_server, "body", "deliver_time", topic="SCHEDULE_TOPIC_XXXX")
        assert row == {"body": b"later", "deliver_time": None}


def test_offsets_choose_a_range(server):
    send_orders(server, range(20))
    rows = table(server, startingOffsets='{"orders":{"0":3,"1":-2}}', endingOffsets='{"orders":{"0":5,"1":1}}')
    assert [(row["queue_id"], row["queue_offset"]) for row in rows] == [(0, 3), (0, 4), (1, 0)]


def test_times_choose_a_range(server):
    send_orders(server, range(20))
    times = {row["store_time"] for row in table(server, "store_time")}
    first = int(min(times).timestamp() * 1000)
    assert len(table(server, startingTimestamp=str(first))) == 20
    assert table(server, endingTimestamp=str(first)) == []
    with pytest.raises(OptionError, match="has no message stored at or after"):
        table(server, startingTimestamp="2100-01-01", startingOffsetsByTimestampStrategy="error")


def test_tags_are_filtered_by_the_broker_and_once_more(server):
    send_orders(server, range(300))
    rows = table(server, "tags", "queue_offset", tags="Tag1 || Tag2")
    assert {row["tags"] for row in rows} == {"Tag1", "Tag2"}
    assert len(rows) == 200


def test_a_filter_that_the_broker_refuses_is_named(server):
    send_orders(server, range(10))
    with pytest.raises(OptionError, match="option 'sql' is not applied by this broker"):
        table(server, sql="a > 1")


def test_a_read_starts_where_the_group_is(server):
    send_orders(server, range(20))
    with Admin(server.name_server_address) as admin:
        from regulus.model.topics import SubscriptionGroupConfig

        admin.create_group(SubscriptionGroupConfig(group_name="billing"))
        admin.set_offsets("billing", {QUEUES[0]: 8})
    rows = table(server, consumerGroup="billing")
    assert [(row["queue_id"], row["queue_offset"]) for row in rows] == [(0, 8), (0, 9), *((1, n) for n in range(10))]


def test_messages_beyond_the_end_are_data_loss(server):
    send_orders(server, range(10))
    part = [ReadRange((UnitRange("orders", 0, 3, 9, "broker-a"),))]
    with pytest.raises(DataLoss, match="orders/broker-a/0: messages 5 to 8 are gone, the queue ends at 5"):
        rows_of(options_of(server), part)
    assert len(rows_of(options_of(server, failOnDataLoss="false"), part)) == 2


def test_a_filter_hides_no_data_loss(server):
    """What a broker passes over may not match; what it no longer has, or never had, is gone for whoever filters too."""
    send_orders(server, range(10))
    part = [ReadRange((UnitRange("orders", 0, 3, 9, "broker-a"),))]
    with pytest.raises(DataLoss, match="orders/broker-a/0: messages 5 to 8 are gone, the queue ends at 5"):
        rows_of(options_of(server, tags="Tag1"), part)
    columns = ("queue_offset", "message_type")
    told = [tuple(row.values()) for row in rows_of(options_of(server, tags="Tag2", failOnDataLoss="report"), part,
                                                   columns)]
    assert told == [(4, "normal"), (5, "gap")]
    assert rows_of(options_of(server, tags="Tag9"), [ReadRange((UnitRange("orders", 0, 0, 5, "broker-a"),))]) == []


def test_a_gap_can_be_a_row(server):
    send_orders(server, range(10))
    part = [ReadRange((UnitRange("orders", 0, 3, 9, "broker-a"),))]
    columns = ("queue_id", "queue_offset", "message_type", "properties", "body")
    *_, gap = rows_of(options_of(server, failOnDataLoss="report"), part, columns)
    assert (gap["queue_id"], gap["queue_offset"], gap["message_type"], gap["body"]) == (0, 5, "gap", None)
    properties = dict(gap["properties"])
    assert properties["GAP_END"] == "9"
    assert "the queue ends at 5" in properties["GAP_CAUSE"]


def test_an_unknown_topic_is_refused_with_the_nearest(server):
    send_orders(server, range(2))
    with pytest.raises(OptionError, match="the cluster has no topic 'order'; did you mean 'orders'"):
        table(server, topic="order")


def test_an_empty_topic_is_an_empty_plan(server):
    send_orders(server, [])
    assert plan(options_of(server)) == []


def test_batches_have_the_schema_that_spark_wants(server):
    send_orders(server, range(3))
    read = options_of(server)
    for batch in live_scan.scan(read, ("topic", "store_time", "properties"), plan(read)[0]):
        assert batch.schema == pa.schema([("topic", pa.string()), ("store_time", pa.timestamp("us", tz="UTC")),
                                          ("properties", pa.map_(pa.string(), pa.string()))])


def test_a_name_server_that_is_away_is_told_in_a_sentence(unused_tcp_port):
    read = parse_options({"nameServer": f"127.0.0.1:{unused_tcp_port}", "topic": "orders", "retryTimeout": "100ms"})
    with LiveBrokers(read) as brokers, pytest.raises(NoNameServer, match="queues could not be read for 100 ms"):
        brokers.queues()


def test_that_a_name_server_is_waited_for_is_told_at_once(unused_tcp_port, caplog):
    read = parse_options({"nameServer": f"127.0.0.1:{unused_tcp_port}", "topic": "orders", "retryTimeout": "300ms"})
    with LiveBrokers(read) as brokers, pytest.raises(NoNameServer):
        brokers.queues()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "regulus.spark.live.brokers"]
    assert line.startswith("cannot read the brokers' queues yet; trying for 0 s (option 'retryTimeout'), 0 s so far: ")
    assert line.endswith("Connection refused")


def test_an_address_that_leads_to_no_name_server_is_refused_at_once(server):
    """But one that led there before may do so again."""
    read = parse_options({"nameServer": server.address, "topic": "orders", "retryTimeout": "1h"})
    with LiveBrokers(read) as brokers, pytest.raises(WrongNameServer, match=f"{server.address} is no name server"):
        brokers.queues()
    read = parse_options({"nameServer": server.address, "topic": "orders", "retryTimeout": "100ms"})
    with LiveBrokers(read, was_reached=True) as brokers, pytest.raises(WrongNameServer, match="for 100 ms"):
        brokers.queues()


def test_a_broker_that_restarts_in_between_is_waited_for(make_broker_process):
    process = make_broker_process()
    send_orders(process, range(4000))
    read = options_of(process, batchRows="50")
    parts = plan(read, cores=1)
    batches = live_scan.scan(read, ("queue_id", "queue_offset"), parts[0])
    rows = next(batches).num_rows
    process.kill()
    restart = threading.Timer(0.3, process.start)
    restart.start()
    rows += sum(batch.num_rows for batch in batches)
    restart.join()
    assert rows == 4000


def test_a_broker_that_stays_away_fails_the_task_in_a_sentence(make_broker_process):
    process = make_broker_process()
    send_orders(process, range(20_000))
    read = options_of(process, batchRows="50", retryTimeout="200ms")
    batches = live_scan.scan(read, ("queue_id",), plan(read, cores=1)[0])
    next(batches)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(ClientError, match=r"orders/broker-a/. could not be read for 200 ms"):
        list(batches)
