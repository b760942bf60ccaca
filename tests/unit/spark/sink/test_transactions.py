"""Transactional tasks and commits without Spark, against a real broker."""

import asyncio
from dataclasses import replace

import pyarrow as pa
import pytest

from regulus.client import shared_loop
from regulus.client.administration.admin import Admin
from regulus.client.sending.transaction_producer import TransactionProducer, TransactionState
from regulus.errors import ClientError, RequestTimeout, SinkRefused
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from regulus.spark.sink import commits, transactions
from regulus.spark.sink.commits import CommitTopic
from regulus.spark.sink.options import SinkOptions, parse_sink_options
from regulus.spark.sink.task import TaskPlace, TaskReport, abort, commit, run_task
from regulus.spark.sink.transactions import Transactions
from tests.unit.client.scripted_servers import scripted_cluster

from .support import messages_of

HALVES, ENDS = (MessageQueue(topic, "broker-a", 0) for topic in (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC))


def options(server) -> SinkOptions:
    return parse_sink_options({
        "nameServer": server.name_server_address, "topic": "orders", "producerGroup": "orders-sink",
        "deliveryGuarantee": "transactional", "sinkId": "sink"}, is_stream=False)


def write(server, batch: int, partition: int = 0, count: int = 20) -> TaskReport:
    first = 1000 * batch + 100 * partition
    rows = pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(first, first + count)],
                                       "keys": [f"k{number}" for number in range(first, first + count)]})
    return run_task([rows], options(server), TaskPlace(sink_id="sink", batch=batch, partition=partition), {})


def open_halves(server) -> list[int]:
    """Half messages that wait for a word, by their bodies."""
    halves, ops = (messages_of(server, queue.topic, queues=(queue,)) for queue in (HALVES, ENDS))
    ended = {int(op.body) for op in ops}
    return sorted(int(half.body) for half in halves if half.queue_offset not in ended)


def visible(server) -> list[int]:
    return sorted(int(message.body) for message in messages_of(server, "orders"))


def is_done(server, batch: int) -> bool:
    async def ask() -> bool:
        async with Admin(server.name_server_address) as admin:
            return (await CommitTopic(admin, "orders-sink-commits", "sink").decision(batch)).is_done
    return shared_loop.run(ask())


def test_nothing_is_visible_before_the_commit_and_all_after_it(regulus_server):
    reports = [write(regulus_server, 0, partition) for partition in range(2)]
    assert [len(report.halves) for report in reports] == [20, 20]
    assert visible(regulus_server) == []
    assert open_halves(regulus_server) == [*range(20), *range(100, 120)]
    commit(reports, options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == [*range(20), *range(100, 120)]
    assert open_halves(regulus_server) == []
    message = messages_of(regulus_server, "orders")[0]
    assert message.keys == f"k{int(message.body)}"
    assert is_done(regulus_server, 0)


def test_a_commit_that_comes_again_changes_nothing(regulus_server):
    reports = [write(regulus_server, 0)]
    for _ in range(2):
        commit(reports, options(regulus_server), "sink", 0, {})
    # The batch comes again after a restart: its rows wait anew, and are given up.
    again = [write(regulus_server, 0)]
    assert open_halves(regulus_server) == list(range(20))
    commit(again, options(regulus_server), "sink", 0, {})
    assert open_halves(regulus_server) == []
    assert visible(regulus_server) == list(range(20))
    commit([write(regulus_server, 1)], options(regulus_server), "sink", 1, {})
    assert visible(regulus_server) == [*range(20), *range(1000, 1020)]


def test_a_commit_that_died_in_the_middle_is_completed(regulus_server, monkeypatch):
    ended = 0
    end = Transactions._end

    async def dies(self, half, state):
        nonlocal ended
        ended += 1
        if ended > 7:
            raise ClientError("the driver is gone")
        await end(self, half, state)

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "_end", dies)
        patch.setattr(transactions, "ENDS_AT_ONCE", 1)
        with pytest.raises(ClientError, match="the driver is gone"):
            commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    assert len(visible(regulus_server)) == 7
    assert len(open_halves(regulus_server)) == 13
    commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == list(range(20))
    assert open_halves(regulus_server) == []
    assert is_done(regulus_server, 0)


def test_other_rows_under_the_number_of_a_decided_batch_are_refused(regulus_server):
    commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    for count in (7, 0, 21):
        with pytest.raises(SinkRefused, match=rf"batch 0 with 20 rows with the sum \w+ for topic orders, and now has "
                                              rf"{count} rows with the sum "):
            commit([write(regulus_server, 0, count=count)], options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == list(range(20))
    assert open_halves(regulus_server) == []
    assert is_done(regulus_server, 0)


def given(server, rows: pa.RecordBatch, partition: int = 0) -> TaskReport:
    return run_task([rows], options(server), TaskPlace(sink_id="sink", batch=0, partition=partition), {})


def test_as_many_other_rows_under_the_number_of_a_decided_batch_are_refused(regulus_server):
    """Other bodies, or the same with other keys."""
    commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    others = [pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(first, first + 20)],
                                          "keys": [f"{key}{number}" for number in range(first, first + 20)]})
              for first, key in ((500, "k"), (0, "other"))]
    for rows in others:
        with pytest.raises(SinkRefused, match=r"with 20 rows with the sum (\w+) .* has 20 rows with the sum (?!\1)"):
            commit([given(regulus_server, rows)], options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == list(range(20))


def test_the_rows_of_a_decided_batch_may_come_in_another_order_and_division(regulus_server):
    """None of those that come again is sent, so that only their whole counts."""
    commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    rows = pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(19, -1, -1)],
                                       "keys": [f"k{number}" for number in range(19, -1, -1)]})
    reports = [given(regulus_server, rows.slice(0, 5), 0), given(regulus_server, rows.slice(5), 1)]
    commit(reports, options(regulus_server), "sink", 0, {})
    assert (visible(regulus_server), open_halves(regulus_server)) == (list(range(20)), [])


async def forgotten(self, decision, group):
    raise SinkRefused("the commit topic has no record any more")


def test_other_topics_under_the_number_of_a_decided_batch_are_refused(regulus_server):
    def write_to(*topics: str) -> TaskReport:
        rows = pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(len(topics))],
                                           "topic": list(topics)})
        read = replace(options(regulus_server), topic=None)
        return run_task([rows], read, TaskPlace(sink_id="sink", batch=0, partition=0), {})

    commit([write_to("orders", "orders", "bills")], options(regulus_server), "sink", 0, {})
    with pytest.raises(SinkRefused, match=r"with 1 rows .* for topic bills, and now has 2 rows"):
        commit([write_to("orders", "bills", "bills")], options(regulus_server), "sink", 0, {})


def test_what_was_decided_is_completed_before_other_rows_are_refused(regulus_server, monkeypatch):
    async def dies(self, half, state):
        raise ClientError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "_end", dies)
        with pytest.raises(ClientError, match="the driver is gone"):
            commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    with pytest.raises(SinkRefused, match="and now has 7 rows"):
        commit([write(regulus_server, 0, count=7)], options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == list(range(20))
    assert is_done(regulus_server, 0)


def test_a_query_that_is_its_own_sink_may_make_other_rows_of_the_same_input(regulus_server):
    """By the clock or by chance; its checkpoint is the sink's, so it is the same batch. As many they must be."""
    own = replace(options(regulus_server), sink_id=None)
    commit([write(regulus_server, 0)], own, "sink", 0, {})
    rows = pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(50, 70)]})
    commit([given(regulus_server, rows)], own, "sink", 0, {})
    assert (visible(regulus_server), open_halves(regulus_server)) == (list(range(20)), [])
    with pytest.raises(SinkRefused, match=r"with 20 rows .* and now has 7 rows"):
        commit([write(regulus_server, 0, count=7)], own, "sink", 0, {})


def test_what_a_done_batch_consisted_of_need_not_be_kept(regulus_server, monkeypatch):
    commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    monkeypatch.setattr(CommitTopic, "halves", forgotten)
    commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == list(range(20))


def test_brokers_that_ask_are_answered_from_the_commit_topic(make_broker_process, tmp_path, monkeypatch):
    """A driver decides and dies; what it decided becomes visible, and what it did not decide does not."""
    settings = tmp_path / "broker.conf"
    settings.write_text("transactionTimeOut=100\ntransactionCheckInterval=200\n")
    server = make_broker_process("-c", str(settings))
    write(server, 0, 0)

    async def dies(self, half, state):
        raise ClientError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "_end", dies)
        with pytest.raises(ClientError, match="the driver is gone"):
            commit([write(server, 0, 1)], options(server), "sink", 0, {})
    assert visible(server) == []
    monkeypatch.setattr(commits, "STUCK_MS", 0)
    assert sorted(int(message.body) for message in messages_of(server, "orders", wait_for=20)) == list(range(100, 120))


def test_a_decision_outlives_its_failed_commit(regulus_server):
    """Spark calls abort after a commit that failed; what was decided must not be given up."""
    reports = [write(regulus_server, 0)]
    abort(reports, options(regulus_server), "sink", {})
    assert open_halves(regulus_server) == list(range(20))
    commit(reports, options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == list(range(20))


def test_a_batch_of_which_a_task_failed_is_given_up(regulus_server):
    done = write(regulus_server, 0)
    assert open_halves(regulus_server) == list(range(20))
    abort([done, None], options(regulus_server), "sink", {})
    assert (open_halves(regulus_server), visible(regulus_server)) == ([], [])
    again = [write(regulus_server, 0, partition) for partition in range(2)]
    commit(again, options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == [*range(20), *range(100, 120)]


def test_a_task_that_fails_gives_up_what_it_sent(regulus_server):
    """All that it had an answer for: of what is still under way it knows no place, and the broker asks for it later."""
    def batches():
        yield pa.RecordBatch.from_pydict({"body": [b"%d" % number for number in range(5)]})
        raise ConnectionError("the worker is gone")

    one_by_one = replace(options(regulus_server), in_flight_max=1)
    with pytest.raises(ConnectionError):
        run_task(batches(), one_by_one, TaskPlace(sink_id="sink", batch=0, partition=0), {})
    assert (set(open_halves(regulus_server)) - {4}, visible(regulus_server)) == (set(), [])
    commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == list(range(20))


def test_a_new_checkpoint_under_an_old_sink_is_refused(regulus_server):
    for batch in range(2):
        commit([write(regulus_server, batch)], options(regulus_server), "sink", batch, {})
    with pytest.raises(SinkRefused, match="has committed batch 1, and this is batch 0"):
        commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})


def test_without_rows_there_is_nothing_to_decide(regulus_server):
    commit([TaskReport(stored=0, duplicates=0)], options(regulus_server), "sink", 0, {})
    assert not is_done(regulus_server, 0)


def test_who_completes_a_commit_ends_no_half_whose_message_is_there(regulus_server, monkeypatch):
    """Where a broker has forgotten that a half was ended, a second end would store its message once more."""
    ended: list[int] = []
    end = Transactions._end

    async def noted(self, half, state):
        if len(ended) == 7:
            raise ClientError("the driver is gone")
        await end(self, half, state)
        ended.append(half.queue_offset)

    async def noted_again(self, half, state):
        if state is TransactionState.COMMIT:
            ended.append(half.queue_offset)
        await end(self, half, state)

    monkeypatch.setattr(transactions, "ENDS_AT_ONCE", 1)
    monkeypatch.setattr(Transactions, "_end", noted)
    with pytest.raises(ClientError, match="the driver is gone"):
        commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    monkeypatch.setattr(Transactions, "_end", noted_again)
    commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == list(range(20))
    assert len(ended) == len(set(ended)) == 20


def test_a_commit_whose_answer_is_lost_is_not_said_again_when_the_message_is_there(regulus_server, monkeypatch):
    """RocketMQ would store the message once more."""
    ended: list[int] = []
    end = TransactionProducer.end_transaction

    async def unheard(self, half, state):
        await end(self, half, state)
        ended.append(half.queue_offset)
        if ended.count(half.queue_offset) == 1:
            raise RequestTimeout("the answer is lost")

    monkeypatch.setattr(TransactionProducer, "end_transaction", unheard)
    commit([write(regulus_server, 0)], options(regulus_server), "sink", 0, {})
    assert visible(regulus_server) == list(range(20))
    assert is_done(regulus_server, 0)
    assert sorted(ended) == list(range(20))


async def test_a_half_whose_answer_is_lost_is_not_sent_again():
    """There might be two, of which the commit names one, and brokers that ask for the other would be told the same."""
    async with scripted_cluster(queue_count=1) as cluster:
        broker = await cluster.add_broker("broker-a", lambda command: None)
        read = parse_sink_options({
            "nameServer": cluster.name_server.address, "topic": "orders", "deliveryGuarantee": "transactional",
            "producerGroup": "orders-sink", "sinkId": "sink", "sendTimeoutMs": "300"}, is_stream=False)
        rows = pa.RecordBatch.from_pydict({"body": [b"1"]})
        with pytest.raises(RequestTimeout):
            await asyncio.to_thread(run_task, [rows], read, TaskPlace(sink_id="sink", batch=0, partition=0), {})
    assert len(broker.sends()) == 1
