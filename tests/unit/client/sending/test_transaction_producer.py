"""Transactions of a producer, against a server that asks soon, and against brokers whose answers a test writes."""

import asyncio
import re
import threading

import pytest

from regulus.broker.config import BrokerConfig
from regulus.client.administration.admin import Admin
from regulus.client.sending.producer import Producer
from regulus.client.sending.transaction_producer import (
    HalfMessage,
    TransactionProducer,
    TransactionProducerConfig,
    TransactionState,
)
from regulus.client.sync import TransactionProducer as SyncTransactionProducer
from regulus.errors import BrokerRefused, ClientClosed, ConfigError, MessageIllegal, SendFailed
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.message_queue import MessageQueue
from regulus.record import message_record
from regulus.testing.running_server import ServerThread
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import CheckTransactionStateRequest
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import refused, scripted_cluster, stored

COMMIT, ROLLBACK, UNKNOWN = TransactionState


@pytest.fixture
def server(tmp_path):
    # On a busy machine 15 questions, one each 100 ms, are over before the first one is answered.
    config = BrokerConfig(listen_port=0, transaction_check_interval=100, transaction_time_out=150,
                          transaction_check_max=1_000)
    with ServerThread(tmp_path / "store", config) as running:
        yield running


async def visible(server, topic="T"):
    async with Admin(server.name_server_address) as admin:
        found = []
        for queue in await admin.queues(topic):
            found += [message.body for message in (await admin.pull(queue, 0)).messages]
        return sorted(found)


def ask_for(broker, group, **ids):
    """A question of this broker for a half message, as RocketMQ 4.9 asks it."""
    address, _, port = broker.address.partition(":")
    message = MessageExt("T", b"x", {"PGROUP": group, "UNIQ_KEY": "U"}, 3, store_host=host_bytes(address, int(port)))
    header = CheckTransactionStateRequest(tran_state_table_offset=4, commit_log_offset=77, msg_id="U",
                                          transaction_id="U", **ids)
    broker.connections[0].send(RemotingCommand.request(
        RequestCode.CHECK_TRANSACTION_STATE, header.ext(), message_record.encode(message), oneway=True))


async def says_unknown(message):
    return UNKNOWN


class Checker:
    """Answers `state` and remembers what it was asked for."""

    def __init__(self, state: TransactionState | Exception | None) -> None:
        self.state = state
        self.asked: list[MessageExt] = []
        self.was_asked = asyncio.Event()

    async def __call__(self, message: MessageExt) -> TransactionState | None:
        self.asked.append(message)
        self.was_asked.set()
        if isinstance(self.state, Exception):
            raise self.state
        return self.state


async def everything(admin, queue):
    """All that is there: of a transaction that is asked for again and again, more than one pull brings."""
    found = []
    while came := (await admin.pull(queue, len(found))).messages:
        found += came
    return found


async def ended(server):
    """Until the broker has no open transaction."""
    async with asyncio.timeout(60), Admin(server.name_server_address) as admin:
        half, op = MessageQueue("RMQ_SYS_TRANS_HALF_TOPIC", "broker-a", 0), MessageQueue(
            "RMQ_SYS_TRANS_OP_HALF_TOPIC", "broker-a", 0)
        while True:
            named = set()
            for message in await everything(admin, op):
                named.update(int(text) for text in message.body.decode().split(",") if text)
            if await admin.max_offset(half) - 1 in named:
                return
            await asyncio.sleep(0.05)


# --- the local transaction -------------------------------------------------------------------------------------------


async def test_the_local_transaction_decides_what_is_seen(server):
    ran = []

    async def book(message):
        ran.append(message.body)
        return COMMIT if message.body == b"good" else ROLLBACK

    async with TransactionProducer(server.name_server_address, "PG") as producer:
        good = await producer.send_in_transaction(Message("T", b"good", keys="k"), book)
        bad = await producer.send_in_transaction(Message("T", b"bad"), book)
        await producer.send(Message("T", b"ordinary"))
    assert (good.state, good.is_ended, good.error) == (COMMIT, True, None)
    assert (bad.state, bad.is_ended) == (ROLLBACK, True)
    assert ran == [b"good", b"bad"]
    assert await visible(server) == [b"good", b"ordinary"]


async def test_any_other_function_runs_in_a_thread(server):
    threads = []

    def book(message):
        threads.append(threading.current_thread())
        return COMMIT

    async with TransactionProducer(server.name_server_address, "PG") as producer:
        assert (await producer.send_in_transaction(Message("T", b"x"), book)).state is COMMIT
    assert threads != [threading.current_thread()]


@pytest.mark.parametrize("fault", [RuntimeError("no money"), "nonsense", None])
async def test_what_says_nothing_clear_is_asked_for(server, fault):
    async def book(message):
        if isinstance(fault, Exception):
            raise fault
        return fault

    checker = Checker(COMMIT)
    async with TransactionProducer(server.name_server_address, "PG", checker) as producer:
        result = await producer.send_in_transaction(Message("T", b"x"), book)
        assert (result.state, result.is_ended) == (UNKNOWN, False)
        assert (type(result.error) if fault is not None else result.error) == (
            {str: TypeError}.get(type(fault), type(fault)) if fault is not None else None)
        await ended(server)
    assert await visible(server) == [b"x"]


async def test_the_caller_keeps_its_message_as_it_was_but_for_its_key(server):
    message = Message("T", b"x", properties={"DELAY": "3"})
    async with TransactionProducer(server.name_server_address, "PG") as producer:
        result = await producer.send_in_transaction(message, says_unknown)
    assert message.properties == {"DELAY": "3", "UNIQ_KEY": result.half.message_id}


# --- checks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "seen"), [(COMMIT, [b"x"]), (ROLLBACK, [])])
async def test_a_check_ends_what_was_left_open(server, state, seen):
    checker = Checker(state)
    async with TransactionProducer(server.name_server_address, "PG", checker) as producer:
        result = await producer.send_in_transaction(Message("T", b"x" * 5000, tags="a"), says_unknown)
        await ended(server)
    message = checker.asked[0]
    assert (message.topic, message.body, message.tags, message.message_id) == (
        "T", b"x" * 5000, "a", result.half.message_id)
    async with Admin(server.name_server_address) as admin:
        found = await admin.messages_by_unique_key("T", result.half.message_id)
    assert [each.body for each in found] == [b"x" * 5000 for _ in seen]


@pytest.mark.parametrize("state", [UNKNOWN, None, RuntimeError("the database is down")])
async def test_a_check_that_does_not_know_is_asked_again(server, state):
    checker = Checker(state)
    async with TransactionProducer(server.name_server_address, "PG", checker) as producer:
        await producer.send_in_transaction(Message("T", b"x"), says_unknown)
        await asyncio.wait_for(checker.was_asked.wait(), 60)
        checker.was_asked.clear()
        await asyncio.wait_for(checker.was_asked.wait(), 60)
        checker.state = COMMIT
        await ended(server)
    assert await visible(server) == [b"x"]


async def test_another_member_of_the_group_answers_for_one_that_is_gone(server):
    async with TransactionProducer(server.name_server_address, "PG", config=TransactionProducerConfig(
            instance_name="gone")) as producer:
        await producer.send_in_transaction(Message("T", b"x"), says_unknown)
    checker = Checker(COMMIT)
    async with TransactionProducer(server.name_server_address, "PG", checker, TransactionProducerConfig(
            instance_name="other"), topics=["T"]):
        await ended(server)
    assert await visible(server) == [b"x"]


async def test_of_two_members_in_one_process_one_answers(server):
    first, second = Checker(UNKNOWN), Checker(UNKNOWN)
    async with TransactionProducer(server.name_server_address, "PG", first) as producer, \
            TransactionProducer(server.name_server_address, "PG", second):
        await producer.send_in_transaction(Message("T", b"x"), says_unknown)
        await asyncio.wait_for(first.was_asked.wait(), 60)
    assert second.asked == []


# --- by ids ----------------------------------------------------------------------------------------------------------


async def test_a_half_is_ended_by_its_ids_from_elsewhere(server):
    async with TransactionProducer(server.name_server_address, "PG") as producer:
        halves = [await producer.send_half(Message("T", b"%d" % number), immunity_s=60) for number in range(3)]
    text = [list(half) for half in halves]      # as it travels, in whatever form
    async with TransactionProducer(server.name_server_address, "Another") as other:
        for ids, state in zip(text, (COMMIT, ROLLBACK, COMMIT), strict=True):
            await other.end_transaction(HalfMessage(*ids), state)
            await other.end_transaction(HalfMessage(*ids), state)   # a broker of ours takes it twice
        with pytest.raises(BrokerRefused, match="committed before"):
            await other.end_transaction(halves[0], ROLLBACK)
        with pytest.raises(BrokerRefused, match="Find prepared transaction message failed"):
            await other.end_transaction(halves[0]._replace(physical_offset=7), COMMIT)
    assert await visible(server) == [b"0", b"2"]


async def test_a_half_is_ended_without_a_route_where_it_was_stored(server):
    async with TransactionProducer(server.name_server_address, "PG") as producer:
        half = await producer.send_half(Message("T", b"x"))
        await producer.end_transaction(half._replace(broker_name=""), COMMIT)
        other = await producer.send_half(Message("T", b"y"))
        await producer.end_transaction(other._replace(broker_name="renamed"), COMMIT)
    assert await visible(server) == [b"x", b"y"]


async def test_what_cannot_be_sent_raises_before_anything_is_sent(server):
    producer = TransactionProducer(server.name_server_address, "PG")
    with pytest.raises(ClientClosed):
        await producer.send_half(Message("T", b"x"))
    async with producer:
        with pytest.raises(MessageIllegal):
            await producer.send_half(Message("T", b""))
        with pytest.raises(MessageIllegal, match="immunity_s"):
            await producer.send_half(Message("T", b"x"), immunity_s=-1)
    with pytest.raises(ConfigError, match="check_thread_max"):
        TransactionProducerConfig(check_thread_max=0)
    with pytest.raises(MessageIllegal):
        TransactionProducer(server.name_server_address, "PG", topics=["no topic"])


# --- answers that a test writes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("retries", "requests"), [(False, 1), (True, 3)])
async def test_a_half_without_an_answer_is_sent_again_only_on_request(retries, requests):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", lambda send: broker.connections[-1].abort())
        config = TransactionProducerConfig(retry_half_without_answer=retries)
        async with TransactionProducer(cluster.name_server.address, "PG", config=config) as producer:
            with pytest.raises(SendFailed):
                await producer.send_half(Message("T", b"x"))
            with pytest.raises(SendFailed):
                await producer.send(Message("T", b"x"))
        sends = broker.requests_of(RequestCode.SEND_MESSAGE_V2)
    assert sum("TRAN_MSG" in send.ext["i"] for send in sends) == requests
    assert sum("TRAN_MSG" not in send.ext["i"] for send in sends) == 3


async def test_a_half_waits_for_its_end_and_for_no_delay_level():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with TransactionProducer(cluster.name_server.address, "PG") as producer:
            message = Message("T", b"x", properties={"DELAY": "3", "own": "v"})
            await producer.send_half(message)
        (send,) = broker.sends()
    assert "DELAY" not in send.properties
    assert (send.properties["TRAN_MSG"], send.properties["own"], message.properties["DELAY"]) == ("true", "v", "3")


async def test_a_half_that_is_not_sent_again_may_wait_all_the_time():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", lambda send: None)
        config = TransactionProducerConfig(send_msg_timeout=600)
        async with TransactionProducer(cluster.name_server.address, "PG", config=config) as producer:
            with pytest.raises(SendFailed) as caught:
                await producer.send_half(Message("T", b"x"))
    waited = re.search(r"no answer of \S+ within (\d+) ms", str(caught.value))
    assert waited is not None
    assert int(waited[1]) > 600 // (1 + config.retry_times_when_send_failed)


async def test_a_half_that_may_be_lost_is_rolled_back_and_its_transaction_does_not_run():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", lambda send: stored(send, ResponseCode.FLUSH_DISK_TIMEOUT, 5))
        async with TransactionProducer(cluster.name_server.address, "PG") as producer:
            result = await producer.send_in_transaction(Message("T", b"x"), lambda message: pytest.fail("it ran"))
        (end,) = broker.requests_of(RequestCode.END_TRANSACTION)
    assert (result.state, result.is_ended, end.ext["commitOrRollback"]) == (ROLLBACK, True, "12")
    assert (end.ext["commitLogOffset"], end.ext["tranStateTableOffset"]) == ("5", "5")
    assert (end.ext["producerGroup"], end.ext["topic"], end.ext["bname"]) == ("PG", "T", "a")


def stopping(message):
    return next(iter(()))


def exiting(message):
    raise SystemExit(1)


async def exiting_coroutine(message):
    raise SystemExit(1)


@pytest.mark.parametrize("execute", [stopping, exiting, exiting_coroutine])
async def test_a_transaction_that_stops_or_exits_is_left_to_the_check(execute):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with TransactionProducer(cluster.name_server.address, "PG") as producer, asyncio.timeout(20):
            result = await producer.send_in_transaction(Message("T", b"x"), execute)
        assert not broker.requests_of(RequestCode.END_TRANSACTION)
    assert (result.state, result.is_ended) == (UNKNOWN, False)
    assert isinstance(result.error, Exception)


@pytest.mark.parametrize("stops", [stopping, exiting, exiting_coroutine])
async def test_a_check_that_stops_or_exits_ends_no_check_but_its_own(stops, caplog):
    asked = []

    def check(message):
        asked.append(message.queue_offset)
        return stops(message) if len(asked) == 1 else COMMIT

    async def check_in_loop(message):
        asked.append(message.queue_offset)
        return await stops(message) if len(asked) == 1 else COMMIT

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with TransactionProducer(cluster.name_server.address, "PG",
                                       check_in_loop if stops is exiting_coroutine else check) as producer:
            await producer.send(Message("T", b"x"))
            for _ in range(2):
                ask_for(broker, "PG")
            async with asyncio.timeout(20):
                while not broker.requests_of(RequestCode.END_TRANSACTION):
                    await asyncio.sleep(0.001)
    assert len(asked) == 2
    assert "the check of" in caplog.text


async def test_a_check_of_an_id_that_names_no_place_is_not_asked():
    checker = Checker(COMMIT)
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with TransactionProducer(cluster.name_server.address, "PG", checker) as producer:
            await producer.send(Message("T", b"x"))
            ask_for(broker, "PG", offset_msg_id="nowhere")
            ask_for(broker, "PG")
            await asyncio.wait_for(checker.was_asked.wait(), 20)
    assert len(checker.asked) == 1


async def test_an_end_that_is_refused_raises_nothing_after_the_half_is_stored():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", others=lambda command: refused(command, ResponseCode.SYSTEM_ERROR))
        async with TransactionProducer(cluster.name_server.address, "PG") as producer:
            result = await producer.send_in_transaction(Message("T", b"x"), lambda message: COMMIT)
    assert (result.state, result.is_ended) == (COMMIT, False)


async def test_the_question_of_an_older_broker_is_answered_where_the_half_is():
    """RocketMQ 4.9 names neither itself nor the topic."""
    answered = asyncio.Event()

    def others(command):
        if command.code == RequestCode.END_TRANSACTION:
            answered.set()
        return command.response(ResponseCode.SUCCESS)

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", others=others)
        checker = Checker(COMMIT)
        async with TransactionProducer(cluster.name_server.address, "PG", checker) as producer:
            await producer.send(Message("T", b"x"))
            for group in ("other", "PG"):
                ask_for(broker, group)
            await asyncio.wait_for(answered.wait(), 20)
        (end,) = broker.requests_of(RequestCode.END_TRANSACTION)
    assert len(checker.asked) == 1
    assert end.ext == {"producerGroup": "PG", "topic": "T", "tranStateTableOffset": "4", "commitLogOffset": "77",
                       "commitOrRollback": "8", "fromTransactionCheck": "true", "msgId": "U", "transactionId": "U"}


async def test_more_questions_than_may_wait_are_left_to_the_next_check(server, caplog):
    going_on = asyncio.Event()
    asked = []

    async def check(message):
        asked.append(message.body)
        await going_on.wait()
        return COMMIT

    config = TransactionProducerConfig(check_request_hold_max=2)
    async with TransactionProducer(server.name_server_address, "PG", check, config) as producer:
        for number in range(4):
            await producer.send_half(Message("T", b"%d" % number))
        async with asyncio.timeout(60):
            while not asked or "left to the next" not in caplog.text:
                await asyncio.sleep(0.02)
        assert len(asked) == 1
        going_on.set()
        async with asyncio.timeout(60):
            while await visible(server) != [b"0", b"1", b"2", b"3"]:
                await asyncio.sleep(0.05)


async def test_an_ordinary_producer_is_asked_and_does_not_answer(server):
    async with Producer(server.name_server_address, "PG") as producer:
        await producer.send(Message("T", b"x", properties={"TRAN_MSG": "true", "PGROUP": "PG"}))
    checker = Checker(COMMIT)
    async with TransactionProducer(server.name_server_address, "PG", checker, topics=["T"]):
        await ended(server)
    assert await visible(server) == [b"x"]


def test_the_blocking_form(server):
    asked = threading.Event()

    def check(message):
        asked.set()
        return COMMIT

    with SyncTransactionProducer(server.name_server_address, "PG", check, topics=["T"]) as producer:
        assert producer.send_in_transaction(Message("T", b"a"), lambda message: COMMIT).is_ended
        producer.end_transaction(producer.send_half(Message("T", b"b")), ROLLBACK)
        producer.send(Message("T", b"c"))
        producer.send_half(Message("T", b"d"))
        assert asked.wait(60)
        asyncio.run(ended(server))
    assert asyncio.run(visible(server)) == [b"a", b"c", b"d"]


async def test_a_transaction_with_a_priority_is_refused_before_anything_is_sent(server):
    async with TransactionProducer(server.name_server_address, "P", says_unknown) as producer:
        with pytest.raises(MessageIllegal, match="a priority and TRAN_MSG"):
            await producer.send_half(Message("T", b"x", priority=3))
