"""How a push consumer starts and ends: whole or not at all, whatever comes in between."""

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from copy import copy

import pytest

from regulus.client.config import (
    ConsumeFromWhere,
    MessageModel,
    MessageRequestMode,
    PushConsumerConfig,
    SimpleConsumerConfig,
)
from regulus.client.connecting import client_instance
from regulus.client.consuming import consumer_start, listener_workers, push_consumer, rebalancer
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.errors import ClientClosed, ClientError, NoNameServer
from regulus.wire.bodies import HeartbeatData
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_group import QUEUE, SUCCESS, Held, Shelf, consuming, pulls_of
from tests.unit.client.scripted_servers import ScriptedServer, refused, scripted_cluster
from tests.waiting import until

LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


async def listen(messages, context):
    return SUCCESS


@asynccontextmanager
async def consumer_of(shelf, listener=listen, queue_count=1, **settings):
    """Not started yet, with its broker; nothing is left of it at the end."""
    before = asyncio.all_tasks()
    settings = {"consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **settings}
    async with scripted_cluster(queue_count) as cluster:
        broker = await cluster.add_broker("a", others=shelf)
        consumer = PushConsumer(cluster.name_server.address, "CG", listener, PushConsumerConfig(
            client_ip="10.0.0.5", instance_name="me", **settings))
        consumer.subscribe("T")
        yield consumer, broker
        await consumer.shutdown()
        assert ours(before) == []


def ours(before):
    """What is left of clients: tasks, and instances that are in use."""
    names = ("listener", "refresh routes", "heartbeats", "consume timeout", "store offsets", "statistics", "rebalance",
             "pull", "start")
    tasks = [task.get_name() for task in asyncio.all_tasks() - before if task.get_name().startswith(names)]
    return tasks + [each.users for each in client_instance._instances.get(asyncio.get_running_loop(), [])]


@contextmanager
def left_behind(instance):
    """As in a forked child, where nothing of it runs."""
    instance.is_left_behind = True
    yield
    instance.is_left_behind = False


# --- starts that fail ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [UnicodeError("label too long"), KeyError("x"), ClientError("no")])
async def test_whatever_a_start_raises_nothing_is_left_and_the_next_start_begins_anew(monkeypatch, error):
    shelf = Shelf(count=1)
    listener = Held()
    before = asyncio.all_tasks()
    async with consumer_of(shelf, listener) as (consumer, broker):
        with monkeypatch.context() as patch:
            async def fails(*_):
                raise error
            patch.setattr(consumer_start, "check_expressions", fails)
            with pytest.raises(type(error)):
                await consumer.start()
        assert ours(before) == []
        await consumer.start()
        await until(lambda: listener.running)
        listener.end()
    assert broker.requests_of(RequestCode.UNREGISTER_CLIENT)


async def test_an_offset_file_that_cannot_be_read_is_told_and_leaves_nothing_behind(tmp_path):
    unreadable = tmp_path / "10.0.0.5@me" / "CG" / "offsets.json"
    unreadable.mkdir(parents=True)
    before = asyncio.all_tasks()
    async with consumer_of(Shelf(count=1), offset_store_path=str(tmp_path),
                           message_model=MessageModel.BROADCASTING) as (consumer, broker):
        with pytest.raises(ClientError, match=r"offsets\.json cannot be read; make it readable"):
            await consumer.start()
        assert ours(before) == []
        unreadable.rmdir()
        await consumer.start()
        await until(lambda: pulls_of(broker))


# --- where it begins -------------------------------------------------------------------------------------------------


class Untold(Shelf):
    """A queue with nothing stored of the group; where it ends is told when the test says so."""

    def __init__(self, count):
        super().__init__(count)
        self.asked, self.may_tell = asyncio.Event(), asyncio.Event()

    def __call__(self, command):
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return refused(command, ResponseCode.QUERY_NOT_FOUND)
        if command.code == RequestCode.GET_MAX_OFFSET:
            return self._tell(command)
        return super().__call__(command)

    async def _tell(self, command):
        self.asked.set()
        await self.may_tell.wait()
        return super().__call__(command)


KINDS = [{}, {"consume_orderly": True}, {"message_model": MessageModel.BROADCASTING},
         {"message_model": MessageModel.BROADCASTING, "consume_orderly": True}]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_start_returns_when_it_is_known_where_each_queue_begins(kind, tmp_path):
    shelf, listener = Untold(count=5), Held()
    async with consumer_of(shelf, listener, offset_store_path=str(tmp_path), consume_from_where=LAST,
                           **kind) as (consumer, _):
        starting = asyncio.create_task(consumer.start())
        await shelf.asked.wait()
        assert not starting.done()
        shelf.may_tell.set()
        await starting
        shelf.put()
        await until(lambda: listener.seen == [5])
        listener.end()


async def test_a_start_waits_for_every_queue_of_every_topic(tmp_path):
    """Also where the answers of one come before the others are asked."""
    shelf = Untold(count=0)
    shelf.may_tell.set()
    async with consumer_of(shelf, queue_count=7, offset_store_path=str(tmp_path), consume_from_where=LAST,
                           message_model=MessageModel.BROADCASTING) as (consumer, broker):
        await consumer.start()
        assert len(consumer.assigned_queues()) == 7
        assert len(broker.requests_of(RequestCode.GET_MAX_OFFSET)) == 7


@pytest.mark.parametrize("kind", KINDS)
async def test_a_start_goes_on_with_a_warning_where_a_broker_does_not_say_where_a_queue_begins(kind, tmp_path, caplog,
                                                                                               monkeypatch):
    monkeypatch.setattr(consumer_start, "ENDS_WAIT_MS", 50)
    shelf, listener = Untold(count=5), Held()
    async with consumer_of(shelf, listener, offset_store_path=str(tmp_path), consume_from_where=LAST,
                           **kind) as (consumer, _):
        async with asyncio.timeout(10):
            await consumer.start()
        assert "it is not known yet where it begins in" in caplog.text
        assert "queue 0 of T at a" in caplog.text
        shelf.may_tell.set()
        await until(lambda: QUEUE in consumer.assigned_queues())
        shelf.put()
        await until(lambda: listener.seen == [5])
        listener.end()


class Pops(Shelf):
    """Its broker lets no group begin where `says` is None, and refuses with it else."""

    def __init__(self, says):
        super().__init__()
        self.says = says

    def __call__(self, command):
        if command.code == RequestCode.POP_MESSAGE:
            return None
        if command.code == RequestCode.NOTIFICATION:
            return None if self.says is None else refused(command, self.says)
        return super().__call__(command)


@pytest.mark.parametrize("says", [None, ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED],
                         ids=["silence", "a refusal", "not supported"])
async def test_a_start_goes_on_where_a_broker_does_not_let_a_group_of_pops_begin(says, caplog, monkeypatch):
    """A broker that does not know the request does nothing of the kind, and there is nothing to wait for."""
    monkeypatch.setattr(consumer_start, "ENDS_WAIT_MS", 50)
    async with scripted_cluster(1) as cluster:
        silent = await cluster.add_broker("a", others=Pops(says))
        other = await cluster.add_broker("b", others=Pops(ResponseCode.SUCCESS))
        consumer = SimpleConsumer(cluster.name_server.address, "SG", {"T": "*"})
        async with asyncio.timeout(10):
            await consumer.start()
        for broker in (silent, other):
            [asked] = broker.requests_of(RequestCode.NOTIFICATION)
            assert (asked.ext["topic"], asked.ext["consumerGroup"], asked.ext["queueId"], asked.ext["pollTime"],
                    asked.ext["initMode"]) == ("T", "SG", "-1", "0", "1")
        is_known = says == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert ("where it begins in 1 places" in caplog.text) is not is_known
        assert (f"topic T at {silent.address}" in caplog.text) is not is_known
        assert f"topic T at {other.address}" not in caplog.text
        assert ("starts before all brokers answered" in caplog.text) is (says is None)
        await consumer.shutdown()


async def test_a_group_of_pops_that_begins_at_the_first_message_is_not_let_begin_at_the_end():
    async with scripted_cluster(1) as cluster:
        broker = await cluster.add_broker("a", others=Pops(ResponseCode.SUCCESS))
        config = SimpleConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        async with SimpleConsumer(cluster.name_server.address, "SG", {"T": "*"}, config):
            assert broker.requests_of(RequestCode.NOTIFICATION) == []


async def test_a_start_that_waits_for_ends_says_which_topics_nobody_tells_of(caplog, monkeypatch):
    monkeypatch.setattr(rebalancer, "MEMBERS_TIMEOUT_MS", 20)

    class Memberless(Shelf):
        def __call__(self, command):
            return None if command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP else super().__call__(command)

    async with consumer_of(Memberless()) as (consumer, _):
        await consumer.start()
    assert "where it begins in 2 places" in caplog.text
    assert "T: no broker names the members of group CG" in caplog.text


async def test_a_start_tells_nothing_of_a_topic_that_nobody_has_yet(caplog):
    async with scripted_cluster(queue_count=1) as cluster:
        await cluster.add_broker("a", others=Shelf())
        cluster.topics_unknown.add("later")
        consumer = PushConsumer(cluster.name_server.address, "CG", listen, PushConsumerConfig(
            client_ip="10.0.0.5", instance_name="me"))
        consumer.subscribe("later")
        async with consumer:
            pass
    assert "not known yet" not in caplog.text


async def test_who_shuts_down_a_start_that_waits_for_ends_ends_it():
    shelf, before = Untold(count=5), asyncio.all_tasks()
    async with consumer_of(shelf, consume_from_where=LAST) as (consumer, broker):
        starting = asyncio.create_task(consumer.start())
        await shelf.asked.wait()
        await consumer.shutdown()
        with pytest.raises(ClientClosed, match="was shut down while it started"):
            await starting
        assert ours(before) == []
        assert broker.requests_of(RequestCode.UNREGISTER_CLIENT)


# --- two at once -----------------------------------------------------------------------------------------------------


class Ungreeted(Shelf):
    """Answers no heartbeat."""

    def __init__(self):
        super().__init__()
        self.greeted = asyncio.Event()

    def __call__(self, command):
        if command.code == RequestCode.HEART_BEAT:
            self.greeted.set()
            return None
        return super().__call__(command)


async def test_a_start_that_is_cancelled_while_brokers_are_greeted_leaves_nothing_behind():
    shelf, before = Ungreeted(), asyncio.all_tasks()
    async with consumer_of(shelf) as (consumer, broker):
        starting = asyncio.create_task(consumer.start())
        await shelf.greeted.wait()
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        await until(lambda: broker.requests_of(RequestCode.UNREGISTER_CLIENT))
        assert ours(before) == []


async def test_a_shutdown_during_a_start_ends_it():
    shelf, before = Ungreeted(), asyncio.all_tasks()
    async with consumer_of(shelf) as (consumer, _):
        starting = asyncio.create_task(consumer.start())
        await shelf.greeted.wait()
        await consumer.shutdown()
        await asyncio.wait([starting])
        assert isinstance(starting.exception(), ClientClosed)
        assert ours(before) == []


async def test_two_starts_at_once_are_one():
    async with consumer_of(Shelf()) as (consumer, broker):
        await asyncio.gather(consumer.start(), consumer.start())
        (instance,) = client_instance._instances[asyncio.get_running_loop()]
        assert instance.users == 1
        await until(lambda: pulls_of(broker))


async def test_when_the_first_of_two_starts_fails_the_second_says_so_too():
    silent = ScriptedServer(lambda _: None)
    await silent.start()
    consumer = PushConsumer(silent.address, "CG", listen, PushConsumerConfig(mq_client_api_timeout=20))
    consumer.subscribe("T")
    said = await asyncio.gather(consumer.start(), consumer.start(), return_exceptions=True)
    assert [type(each) for each in said] == [NoNameServer, NoNameServer]
    await silent.stop()


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_shutdown_that_is_cut_off_leaves_nevertheless_and_the_next_start_begins_anew(orderly):
    listener, shelf = Held(), Shelf(count=2)
    before = asyncio.all_tasks()
    async with consumer_of(shelf, listener, consume_orderly=orderly, persist_consumer_offset_interval=60_000,
                           await_termination_millis_when_shutdown=60_000) as (consumer, broker):
        await consumer.start()
        await until(lambda: listener.running == (1 if orderly else 2))
        listener.end()
        await until(lambda: 0 in listener.ended)
        leaving = asyncio.create_task(consumer.shutdown())
        await until(lambda: consumer._consumption._is_closing)
        leaving.cancel()
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        assert ours(before) == []
        assert broker.requests_of(RequestCode.UNREGISTER_CLIENT)
        assert shelf.committed == 1
        await consumer.start()
        await until(lambda: listener.seen[-1] == 1 and listener.running)
        listener.end(2)


async def test_a_start_that_is_cancelled_in_the_turn_in_which_it_joined_leaves_nothing_behind(monkeypatch):
    before = asyncio.all_tasks()
    async with consumer_of(Shelf()) as (consumer, _):
        consume = PushConsumer._consume

        def cancelled(consumer, *parts):
            consume(consumer, *parts)
            starting.cancel()
        monkeypatch.setattr(PushConsumer, "_consume", cancelled)
        starting = asyncio.create_task(consumer.start())
        await asyncio.wait([starting])
        assert starting.cancelled()
        assert ours(before) == []


async def test_in_a_forked_child_a_shutdown_waits_for_nothing_of_the_parent():
    async with consumer_of(Shelf()) as (consumer, _):
        await consumer.start()
        (instance,) = client_instance._instances[asyncio.get_running_loop()]
        child = copy(consumer)
        with left_behind(instance):
            async with consumer._changing:      # somebody was at it at the fork
                await child.shutdown()
            with pytest.raises(ClientClosed):
                assert child.client_id
        assert consumer.client_id


async def test_two_shutdowns_at_once_are_one():
    async with consumer_of(Shelf()) as (consumer, broker):
        await consumer.start()
        (instance,) = client_instance._instances[asyncio.get_running_loop()]
        beside = client_instance.acquire(consumer._name_server, consumer.config)
        assert beside is instance
        await asyncio.gather(consumer.shutdown(), consumer.shutdown())
        assert instance.users == 1
        await client_instance.release(beside)
    assert len(broker.requests_of(RequestCode.UNREGISTER_CLIENT)) == 1


class Slow(Shelf):
    """Says nothing to members that leave until the test says so."""

    def __init__(self):
        super().__init__()
        self.left, self.may_answer = asyncio.Event(), asyncio.Event()

    def __call__(self, command):
        return self._leave(command) if command.code == RequestCode.UNREGISTER_CLIENT else super().__call__(command)

    async def _leave(self, command):
        self.left.set()
        await self.may_answer.wait()
        return super().__call__(command)


def pushes(address):
    made = PushConsumer(address, "CG", listen, PushConsumerConfig(client_ip="10.0.0.5", instance_name="me"))
    made.subscribe("T")
    return made


def pops(address):
    made = PushConsumer(address, "CG", listen, PushConsumerConfig(message_request_mode=MessageRequestMode.POP))
    made.subscribe("T")
    return made


def receives(address):
    return SimpleConsumer(address, "CG", {"T": "*"})


@pytest.mark.parametrize("then", ["shutdown", "start"])
@pytest.mark.parametrize("kind", [pushes, pops, receives])
async def test_a_shutdown_that_was_cut_off_is_waited_for_by_whatever_comes_then(kind, then):
    shelf, before = Slow(), asyncio.all_tasks()
    async with scripted_cluster(queue_count=1) as cluster:
        broker = await cluster.add_broker("a", others=shelf)
        consumer = kind(cluster.name_server.address)
        await consumer.start()
        first = asyncio.create_task(consumer.shutdown())
        await shelf.left.wait()
        first.cancel()
        await asyncio.wait([first])
        later = asyncio.create_task(getattr(consumer, then)())
        await asyncio.wait([later], timeout=0.05)
        assert not later.done()
        shelf.may_answer.set()
        await later
        await consumer.shutdown()
        assert len(broker.requests_of(RequestCode.UNREGISTER_CLIENT)) == (1 if then == "shutdown" else 2)
        assert ours(before) == []


# --- the time it takes -----------------------------------------------------------------------------------------------


async def test_a_listener_that_does_not_heed_its_cancellation_is_not_waited_for(monkeypatch, caplog):
    monkeypatch.setattr(listener_workers, "CANCELLED_WAIT_MS", 20)
    may_end = asyncio.Event()
    running = asyncio.Event()

    async def stubborn(messages, context):
        running.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    async with consumer_of(Shelf(count=1), stubborn, await_termination_millis_when_shutdown=20) as (consumer, _):
        await consumer.start()
        await running.wait()
        try:
            async with asyncio.timeout(5):
                await consumer.shutdown()
        finally:
            may_end.set()       # whatever fails here, the test ends
        assert "continue although they were cancelled" in caplog.text
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("listener")])


async def test_a_listener_may_shut_its_consumer_down_and_no_worker_is_left():
    done = asyncio.Event()

    async def last(messages, context):
        await consumer.shutdown()
        done.set()
        return SUCCESS

    async with consumer_of(Shelf(count=1), last, await_termination_millis_when_shutdown=20) as (consumer, _):
        await consumer.start()
        await done.wait()
        await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("listener")])


async def test_a_call_in_order_is_waited_for_once(monkeypatch):
    """Its queue waits for it to settle, and then its worker: within one time for both."""
    may_end = threading.Event()

    def held(messages, context):
        may_end.wait(60)
        return SUCCESS

    waits = []
    close = listener_workers.ListenerWorkers.close

    async def measured(workers, wait_ms):
        waits.append(wait_ms)
        await close(workers, wait_ms)
    monkeypatch.setattr(listener_workers.ListenerWorkers, "close", measured)
    async with consumer_of(Shelf(count=1), held, consume_orderly=True,
                           await_termination_millis_when_shutdown=30) as (consumer, _):
        await consumer.start()
        await until(lambda: consumer._calls.workers.running)
        await consumer.shutdown()
        may_end.set()
    assert waits[0] <= 0


# --- subscriptions ---------------------------------------------------------------------------------------------------


async def test_a_new_expression_has_a_newer_version_also_after_the_clock_was_set_back(monkeypatch):
    """A broker keeps the subscription that it has when an older one comes."""
    def versions(broker):
        return [each.sub_version for beat in broker.requests_of(RequestCode.HEART_BEAT)
                for data in HeartbeatData.decode(beat.body).consumer_data_set
                for each in data.subscription_data_set if each.topic == "T" and each.sub_string == "B"]

    now = client_instance.now_ms()
    async with consuming(Shelf(), Held()) as (consumer, broker):
        before = consumer.subscription("T").sub_version
        monkeypatch.setattr(push_consumer, "now_ms", lambda: now - 3_600_000)
        consumer.subscribe("T", "B")
        await until(lambda: versions(broker))
        assert versions(broker)[-1] > before
        latest = consumer.subscription("T").sub_version
        consumer.unsubscribe("T")
        consumer.subscribe("T", "C")
        assert consumer.subscription("T").sub_version > latest
