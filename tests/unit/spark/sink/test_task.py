"""Tasks without Spark, against a real broker."""

import asyncio
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from regulus.broker.config import BrokerConfig
from regulus.client.sync import Admin
from regulus.errors import BrokerRefused, ConnectFailed, NoRoute, OptionError, RowRefused, SendFailed, SinkRefused
from regulus.model.topics import TopicConfig
from regulus.spark.sink.lanes import ROWS_PER_TURN
from regulus.spark.sink.options import SinkOptions, for_this_run, parse_sink_options
from regulus.spark.sink.task import REQUEST_SIZE_MAX, TaskPlace, TaskReport, abort, commit, run_task
from regulus.testing.running_server import ServerThread
from regulus.wire import message_batch
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_servers import closed_address, scripted_cluster, stored

from .support import messages_of

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
    report = run_task([batch], options(regulus_server), PLACE, {})
    assert (report.stored, report.duplicates) == (3, 0)
    first, second = sorted(messages_of(regulus_server, "orders"), key=lambda message: message.body)
    assert (first.body, first.keys, first.tags, first.flag, first.queue_id) == (b"a", "k1", "A", 1, 1)
    assert first.properties["x"] == "1"
    assert (second.body, second.keys, second.tags, second.queue_id) == (b"b", "k2", "", 2)
    bill, = messages_of(regulus_server, "bills")
    assert bill.properties["__SHARDINGKEY"] == "s"
    assert len({first.message_id, second.message_id, bill.message_id}) == 3


def test_many_batches_of_rows_fill_all_queues_in_their_order(regulus_server):
    report = run_task([bodies(3000), bodies(2500, 3000)], options(regulus_server, topic="orders"), PLACE, {})
    assert report.stored == 5500
    stored = messages_of(regulus_server, "orders")
    assert sorted(int(message.body) for message in stored) == list(range(5500))
    assert {message.queue_id for message in stored} == {0, 1, 2, 3}
    for queue_id in range(4):
        numbers = [int(message.body) for message in stored if message.queue_id == queue_id]
        assert numbers == sorted(numbers)


def test_delayed_rows_wait_among_others(regulus_server):
    batch = pa.RecordBatch.from_pydict({"body": [b"now", b"later", b"now too"], "delay_level": [0, 1, None]})
    assert run_task([batch], options(regulus_server, topic="orders"), PLACE, {}).stored == 3
    messages = messages_of(regulus_server, "orders", wait_for=3)
    assert [message.body for message in messages] == [b"now", b"now too", b"later"]     # they share a queue
    assert messages[2].properties["REAL_TOPIC"] == "orders"
    assert messages[2].store_timestamp - messages[0].store_timestamp >= 1000


async def test_large_rows_travel_alone():
    """A row that is larger than a request may be leaves no room beside it; those before and behind it go together."""
    large = b"x" * REQUEST_SIZE_MAX
    requests = []

    def sends(command):
        if len(command.body) == REQUEST_SIZE_MAX:       # not in a batch, of which the broker counts more than the body
            requests.append([command.body[:1]])
        else:
            requests.append([message.body[:1] for message in message_batch.decode(command.body)])
        return stored(command)

    async with scripted_cluster(queue_count=1) as cluster:
        await cluster.add_broker("a", sends)
        choices = parse_sink_options({"nameServer": cluster.name_server.address, "topic": "orders",
                                      "deliveryGuarantee": "atLeastOnce", "inFlightMax": "2"}, is_stream=False)
        batch = pa.RecordBatch.from_pydict({"body": [b"1", b"2", large, large, b"3", b"4", large]})
        report = await asyncio.to_thread(run_task, [batch], choices, PLACE, {})
    assert report.stored == 7
    assert requests == [[b"1", b"2"], [b"x"], [b"x"], [b"3", b"4"], [b"x"]]


def test_a_rate_limit_holds_the_task_back(regulus_server):
    run_task([bodies(1)], options(regulus_server, topic="orders"), PLACE, {})
    began = time.monotonic()
    run_task([bodies(100)], options(regulus_server, topic="orders", rateLimit="200"), PLACE, {})
    assert time.monotonic() - began >= 0.4


def test_a_bad_row_fails_the_task(regulus_server):
    batch = pa.RecordBatch.from_pydict({"body": [b"a", None]})
    with pytest.raises(RowRefused, match="row 1 of batch 0, task 0 has no body"):
        run_task([batch], options(regulus_server, topic="orders"), PLACE, {})


def test_what_the_broker_refuses_fails_the_task(regulus_server):
    with Admin(regulus_server.name_server_address) as admin:
        admin.create_topic(TopicConfig(topic_name="sealed", perm=4))
    with pytest.raises(NoRoute, match="no queue that takes sends"):
        run_task([bodies(1)], options(regulus_server, topic="sealed"), PLACE, {})
    too_large = pa.RecordBatch.from_pydict({"body": [b"x" * ((4 << 20) + 1)]})
    with pytest.raises(BrokerRefused, match="maxMessageSize"):
        run_task([too_large], options(regulus_server, topic="orders"), PLACE, {})


def test_a_broker_that_is_gone_fails_the_task_when_the_budget_is_spent(broker_process):
    run_task([bodies(1)], options(broker_process, topic="orders"), PLACE, {})
    choices = options(broker_process, topic="orders", retryBudgetMs="2000", sendTimeoutMs="1000")

    def batches():
        yield bodies(1)
        broker_process.kill()
        yield bodies(1000)

    with pytest.raises(SendFailed, match="send to orders failed after"):
        run_task(batches(), choices, PLACE, {})


def test_a_broker_that_comes_back_is_waited_for(broker_process):
    choices = options(broker_process, topic="orders")

    def batches():
        yield bodies(1000)
        broker_process.kill()
        broker_process.start()
        yield bodies(1000, 1000)

    assert run_task(batches(), choices, PLACE, {}).stored == 2000
    assert {int(message.body) for message in messages_of(broker_process, "orders")} == set(range(2000))


# --- exactly once ----------------------------------------------------------------------------------------------------


def once(server, **more: str) -> SinkOptions:
    return options(server, **{"deliveryGuarantee": "exactlyOnce", "sinkId": "sink", "topic": "orders", **more})


def numbers(server) -> list[int]:
    return sorted(int(message.body) for message in messages_of(server, "orders"))


def test_a_task_that_comes_again_stores_nothing_twice(regulus_server):
    choices = once(regulus_server)
    assert run_task([bodies(3000)], choices, PLACE, {}).duplicates == 0
    again = run_task([bodies(1000), bodies(2000, 1000)], choices, PLACE, {})
    assert (again.stored, again.duplicates) == (3000, 3000)
    assert numbers(regulus_server) == list(range(3000))


def test_what_an_attempt_left_undone_is_done_by_the_next(regulus_server):
    choices = once(regulus_server)

    def batches():
        yield bodies(1500)
        raise ConnectionError("the worker is gone")

    with pytest.raises(ConnectionError):
        run_task(batches(), choices, PLACE, {})
    report = run_task([bodies(4000)], choices, PLACE, {})
    assert report.stored == 4000
    assert numbers(regulus_server) == list(range(4000))


def test_other_tasks_and_batches_are_told_apart(regulus_server):
    choices = once(regulus_server)
    for batch, partition in ((0, 0), (0, 1), (1, 0), (1, 1)):
        place = TaskPlace(sink_id="sink", batch=batch, partition=partition)
        assert run_task([bodies(10)], choices, place, {}).duplicates == 0
    assert len(numbers(regulus_server)) == 40
    last = TaskPlace(sink_id="sink", batch=1, partition=1)
    assert run_task([bodies(10)], once(regulus_server), last, {}).duplicates == 10


def test_a_new_checkpoint_under_an_old_sink_is_refused(regulus_server):
    """Its rows have the numbers of other rows, and would be taken for them."""
    run_task([bodies(10)], once(regulus_server), TaskPlace(sink_id="sink", batch=4, partition=7), {})
    for first in (100, 0):
        with pytest.raises(SinkRefused, match=r"sink sink has come to batch 4 at broker-a, with 10 rows in "
                                              r"sink/orders\.\d/7, and this is batch 0"):
            run_task([bodies(10, first)], once(regulus_server), PLACE, {})
    assert numbers(regulus_server) == list(range(10))


@pytest.mark.parametrize("others", [bodies(3000, 5000), bodies(1500, 5000), bodies(1500), bodies(1), bodies(6000, 1)])
def test_other_data_under_the_id_of_stored_data_are_refused_and_not_taken_for_them(regulus_server, others):
    run_task([bodies(3000)], once(regulus_server), PLACE, {})
    with pytest.raises((SinkRefused, BrokerRefused), match=r"broker-a.* rows of batch 0"):
        run_task([others], once(regulus_server), PLACE, {})
    assert numbers(regulus_server) == list(range(3000))


def test_fewer_rows_than_an_attempt_before_are_refused_with_both_numbers(regulus_server):
    run_task([bodies(300)], once(regulus_server), PLACE, {})
    with pytest.raises(SinkRefused, match=r"broker-a has 300 rows of batch 0, task 0 of sink sink in queue \d of "
                                          "orders, and this time there are 200"):
        run_task([bodies(200)], once(regulus_server), PLACE, {})


def rows_with_keys(count: int, prefix: str, delay_level: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"body": [b"tick"] * count, "delay_level": [delay_level] * count,
                                       "keys": [f"{prefix}{number}" for number in range(count)]})


@pytest.mark.parametrize("delay_level", [0, 1])
def test_rows_that_differ_in_their_keys_alone_are_other_rows(regulus_server, delay_level):
    run_task([rows_with_keys(20, "a", delay_level)], once(regulus_server), PLACE, {})
    for count, prefix in ((20, "b"), (7, "a")):
        with pytest.raises((SinkRefused, BrokerRefused), match=r"has 20 rows of batch 0"):
            run_task([rows_with_keys(count, prefix, delay_level)], once(regulus_server), PLACE, {})
    messages = messages_of(regulus_server, "orders", wait_for=20)
    assert [message.keys for message in messages] == [f"a{number}" for number in range(20)]


def write(server, *tasks: pa.RecordBatch | None) -> list[TaskReport]:
    return [run_task([] if rows is None else [rows], once(server),
                     TaskPlace(sink_id="sink", batch=0, partition=number), {}) for number, rows in enumerate(tasks)]


def test_a_batch_that_comes_again_in_another_division_is_refused(regulus_server):
    """The rows of the tasks that are no more came in those before, behind what these had."""
    commit(write(regulus_server, bodies(100), bodies(100, 100)), once(regulus_server), "sink", 0, {})
    commit(write(regulus_server, bodies(100), bodies(100, 100)), once(regulus_server), "sink", 0, {})
    for tasks in ([bodies(100)], [bodies(100), None]):
        with pytest.raises(SinkRefused, match=r"broker-a has 100 rows of batch 0 of sink sink in sink/orders\.\d/1, "
                                              rf"and this time batch 0 came with {len(tasks)} tasks and none of it"):
            commit(write(regulus_server, *tasks), once(regulus_server), "sink", 0, {})


def test_a_batch_that_comes_again_without_rows_is_refused(regulus_server):
    commit(write(regulus_server, None), once(regulus_server), "sink", 0, {})
    write(regulus_server, bodies(100))
    with pytest.raises(SinkRefused, match=r"broker-a has 100 rows of batch 0 .* came with 2 tasks and none of it"):
        commit(write(regulus_server, None, None), once(regulus_server), "sink", 0, {})


def test_a_batch_during_which_another_writer_goes_on_is_refused(regulus_server):
    reports = write(regulus_server, bodies(100))
    run_task([bodies(1)], once(regulus_server), TaskPlace(sink_id="sink", batch=1, partition=0), {})
    with pytest.raises(SinkRefused, match="rows of batch 1 of sink sink"):
        commit(reports, once(regulus_server), "sink", 0, {})


@pytest.mark.parametrize("end", [commit, abort])
def test_a_sink_for_once_leaves_nothing_at_the_name_servers(regulus_server, end):
    run = for_this_run(options(regulus_server, deliveryGuarantee="exactlyOnce", topic="orders"))
    report = run_task([bodies(10)], run, TaskPlace(sink_id=run.sink_id, batch=0, partition=0), {})
    with Admin(regulus_server.name_server_address) as admin:
        assert [key.partition("@")[0] for key in admin.kv_namespace("REGULUS_SINK_ROUTE")] == [run.sink_id]
        if end is commit:
            commit([report], run, run.sink_id, 0, {})
        else:
            abort([report, None], run, run.sink_id, {})
        assert admin.kv_namespace("REGULUS_SINK_ROUTE") == {}


def test_sinks_for_once_that_are_done_push_out_no_other(tmp_path):
    with ServerThread(tmp_path / "store", BrokerConfig(listen_port=0, sink_marks_max=2)) as server:
        first = run_task([bodies(10)], once(server), PLACE, {})
        for _ in range(3):
            run = for_this_run(options(server, deliveryGuarantee="exactlyOnce", topic="orders"))
            commit([run_task([bodies(5)], run, TaskPlace(sink_id=run.sink_id, batch=0, partition=0), {})], run,
                   run.sink_id, 0, {})
        again = run_task([bodies(10)], once(server), PLACE, {})
        assert (first.duplicates, again.duplicates) == (0, 10)
        assert len(messages_of(server, "orders")) == 25


def test_delayed_rows_and_rows_with_keys_come_once_too(regulus_server):
    batch = pa.RecordBatch.from_pydict({
        "body": [b"%d" % number for number in range(50)], "sharding_key": [f"s{number % 3}" for number in range(50)],
        "delay_level": [int(number % 10 == 0) for number in range(50)]})
    for _ in range(2):
        run_task([batch], once(regulus_server), PLACE, {})
    messages = messages_of(regulus_server, "orders", wait_for=50)
    assert sorted(int(message.body) for message in messages) == list(range(50))


def test_every_message_says_who_sent_it(regulus_server):
    run_task([bodies(3)], once(regulus_server), TaskPlace(sink_id="sink", batch=7, partition=4), {})
    messages = messages_of(regulus_server, "orders")
    assert {message.properties["SINK"] for message in messages} == {f"sink/orders.{messages[0].queue_id}/4"}
    assert [message.properties["SEQ"] for message in messages] == ["7/0", "7/1", "7/2"]


def test_rows_in_another_order_are_refused_and_a_key_puts_them_in_order(regulus_server):
    rows = [b"%d" % number for number in range(10)]
    run_task([pa.RecordBatch.from_pydict({"body": rows})], once(regulus_server), PLACE, {})
    turned = pa.RecordBatch.from_pydict({"body": rows[::-1]})
    with pytest.raises(BrokerRefused, match="option dedupKey"):
        run_task([turned], once(regulus_server), PLACE, {})
    keyed = once(regulus_server, sinkId="keyed", dedupKey="id")
    for order in (1, -1):
        batch = pa.RecordBatch.from_pydict({"body": rows[::order], "id": list(range(10))[::order]})
        run_task([batch.slice(0, 4), batch.slice(4)], keyed, TaskPlace(sink_id="keyed", batch=0, partition=0), {})
    stored = [message for message in messages_of(regulus_server, "orders") if "DEDUP_KEY" in message.properties]
    assert [(message.body, message.properties["DEDUP_KEY"]) for message in stored] == [
        (row, row.decode()) for row in rows]


def test_a_queue_that_comes_in_is_used_from_the_next_batch_on(regulus_server):
    with Admin(regulus_server.name_server_address) as admin:
        admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        run_task([bodies(10)], once(regulus_server), PLACE, {})
        admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2))
    choices = once(regulus_server)
    # The rows of the batch that may come again stay where they were.
    report = run_task([bodies(2000)], choices, PLACE, {})
    assert report.grown_topics == ("orders",)
    assert {message.queue_id for message in messages_of(regulus_server, "orders")} == {0}
    commit([report], choices, "sink", 0, {})
    assert run_task([bodies(2000)], choices, PLACE, {}).duplicates == 2000
    later = run_task([bodies(1, 2000)], choices, TaskPlace(sink_id="sink", batch=1, partition=0), {})
    assert later.grown_topics == ()
    assert {message.queue_id for message in messages_of(regulus_server, "orders")} == {0, 1}
    assert numbers(regulus_server) == list(range(2001))


@pytest.mark.parametrize("code", [ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.SYSTEM_ERROR])
async def test_a_broker_that_remembers_nothing_is_refused(code):
    def others(command):
        return command.response(code, "no") if command.code == RequestCode.GET_SINK_MARKS else command.response(0)

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("foreign", others=others)
        kept = '[{"from":0,"queues":{"foreign":[0]}}]'
        route = cluster.name_server.script
        cluster.name_server.script = lambda command: (
            command.response(0, ext={"value": kept}) if command.code == RequestCode.GET_KV_CONFIG else route(command))
        choices = parse_sink_options({"nameServer": cluster.name_server.address, "topic": "orders", "sinkId": "sink"},
                                     is_stream=False)
        with pytest.raises((SinkRefused, BrokerRefused)) as caught:
            await asyncio.to_thread(run_task, [bodies(1)], choices, PLACE, {})
    assert broker.sends() == []
    assert ("use transactional, or atLeastOnce" in str(caught.value)) == (code == 3)


def no_marks(command):
    return command.response(0, body=b"{}")


async def test_rows_wait_for_their_broker_and_go_nowhere_else():
    """The name server has forgotten broker b, which the sink wrote to before."""
    async with scripted_cluster(queue_count=1) as cluster:
        broker = await cluster.add_broker("a", others=no_marks)
        kept = '[{"from":0,"queues":{"a":[0],"b":[0]}}]'
        route = cluster.name_server.script
        cluster.name_server.script = lambda command: (
            command.response(0, ext={"value": kept}) if command.code == RequestCode.GET_KV_CONFIG else route(command))
        choices = parse_sink_options({"nameServer": cluster.name_server.address, "topic": "orders", "sinkId": "sink",
                                      "retryBudgetMs": "200"}, is_stream=False)
        with pytest.raises(NoRoute, match="broker b, which topic orders is written to, has no master now"):
            await asyncio.to_thread(run_task, [bodies(2 * ROWS_PER_TURN)], choices, PLACE, {})
        assert broker.sends() == []
        cluster.add_unreachable_broker("b", closed_address())
        with pytest.raises(ConnectFailed):
            await asyncio.to_thread(run_task, [bodies(2 * ROWS_PER_TURN)], choices, PLACE, {})
        assert broker.sends() == []
        other = await cluster.add_broker("b", others=no_marks)
        patient = replace(choices, retry_budget_ms=30_000)
        report = await asyncio.to_thread(run_task, [bodies(2 * ROWS_PER_TURN)], patient, PLACE, {})
        assert report.stored == 2 * ROWS_PER_TURN
        assert [send.properties["SEQ"] for each in (broker, other) for send in each.sends()] == ["0/0", "0/0"]


def test_credentials_are_looked_for_where_the_task_runs(regulus_server):
    with pytest.raises(OptionError, match="has no NOWHERE"):
        run_task([bodies(1)], once(regulus_server, credentials="env:NOWHERE"), PLACE, {})
    keys = {"KEYS": "accessKey: reader; secretKey: 12345678"}
    assert run_task([bodies(1)], once(regulus_server, credentials="env:KEYS"), PLACE, keys).stored == 1


@pytest.mark.parametrize("guarantee", ["atLeastOnce", "exactlyOnce"])
def test_a_body_may_be_as_large_as_the_broker_says_and_an_error_names_its_own_size(regulus_server, guarantee):
    """Of a batch the broker counts more than the body; one message of this size is none."""
    limit = BrokerConfig().max_message_size
    sizes = [limit - 64, limit - 63, limit, 10]
    batch = pa.RecordBatch.from_pydict({"body": [bytes([65 + number]) * size for number, size in enumerate(sizes)],
                                        "keys": ["a", "b", "c", "d"]})
    sink = options(regulus_server, topic="large", deliveryGuarantee=guarantee)
    assert run_task([batch], sink, PLACE, {}).stored == len(sizes)
    assert sorted(len(message.body) for message in messages_of(regulus_server, "large")) == sorted(sizes)
    again = run_task([batch], sink, PLACE, {})
    assert again.duplicates == (len(sizes) if guarantee == "exactlyOnce" else 0)
    larger = pa.RecordBatch.from_pydict({"body": [b"x" * (limit + 1)]})
    with pytest.raises(BrokerRefused, match=f"its body has {limit + 1} bytes"):
        run_task([larger], sink, replace(PLACE, batch=1), {})


def test_a_delay_level_that_the_broker_does_not_have_is_refused_with_those_that_it_has(regulus_server):
    def delayed(level: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"body": [b"x"], "delay_level": [level]})

    sink = options(regulus_server, topic="orders")
    assert run_task([delayed(18)], sink, PLACE, {}).stored == 1
    with pytest.raises(RowRefused, match="has delay_level 19, and broker broker-a has levels 1 to 18: see its setting "
                                         "messageDelayLevel"):
        run_task([delayed(19)], sink, PLACE, {})


def test_a_longer_ladder_of_a_broker_is_followed(tmp_path):
    config = BrokerConfig(listen_port=0, message_delay_level=" ".join(f"{number}s" for number in range(1, 21)))

    def delayed(level: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"body": [b"x"], "delay_level": [level]})

    with ServerThread(tmp_path / "store", config) as server:
        assert run_task([delayed(20)], options(server, topic="orders"), PLACE, {}).stored == 1
        with pytest.raises(RowRefused, match="has levels 1 to 20"):
            run_task([delayed(21)], options(server, topic="orders"), PLACE, {})
