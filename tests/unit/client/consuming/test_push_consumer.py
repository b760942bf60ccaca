"""The push consumer against a real server in this process, and against scripted brokers where a fault is needed."""

import asyncio
import itertools
import os
import threading
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from regulus.broker.config import BrokerConfig
from regulus.client.administration.admin import Admin
from regulus.client.config import ConsumeFromWhere, MessageModel, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.rebalancer import Rebalancer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.errors import BrokerRefused, ClientError, ConfigError, MessageIllegal
from regulus.model import sys_flag as flags
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig, dlq_topic, retry_topic
from regulus.nameserver.config import NamesrvConfig
from regulus.record import message_record
from regulus.server.assembly import Regulus
from regulus.testing.running_server import HOST, small_store
from regulus.transport.config import TransportConfig
from regulus.wire import compression
from regulus.wire.bodies import ConsumeMessageDirectlyResult
from regulus.wire.codes import RequestCode
from regulus.wire.headers import ConsumeMessageDirectlyRequest
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client import scripted_group
from tests.unit.client.ladder import server_with_ladder
from tests.unit.client.scripted_group import Held

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER
LADDER = "10ms 15ms 20ms 25ms 30ms 35ms 40ms 45ms 50ms"
TIME_LIMIT = 60


@pytest.fixture
def server(tmp_path):
    with server_with_ladder(tmp_path / "store", LADDER) as running:
        yield running


@pytest.fixture
async def admin(server):
    async with Admin(server.name_server_address) as client:
        yield client


@pytest.fixture
async def producer(server):
    async with Producer(server.name_server_address, "PG") as client:
        yield client


class Listener:
    """Answers by `script` (message -> status) and keeps what it saw."""

    def __init__(self, script=lambda message: SUCCESS):
        self.script = script
        self.seen = []
        self._changed = asyncio.Event()

    async def __call__(self, messages, context):
        self.seen.extend(messages)
        self._changed.set()
        return self.script(messages[0])

    async def until(self, count):
        """Returns when `count` messages were seen."""
        async with asyncio.timeout(TIME_LIMIT):
            while len(self.seen) < count:
                self._changed.clear()
                await self._changed.wait()

    @property
    def bodies(self):
        return [message.body for message in self.seen]


async def eventually(condition):
    """Returns when the coroutine function's result is true."""
    async with asyncio.timeout(TIME_LIMIT):
        while not await condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def consuming(server, listener, group="CG", topic="T", expression="*", **settings):
    settings.setdefault("consume_from_where", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer(server.name_server_address, group, listener, PushConsumerConfig(**settings))
    consumer.subscribe(topic, expression)
    async with consumer:
        yield consumer


async def create_topic(admin, queues=4, name="T"):
    await admin.create_topic(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues))


async def send_all(producer, count, topic="T", **options):
    return [await producer.send(Message(topic, b"%d" % number, **options)) for number in range(count)]


# --- consuming -------------------------------------------------------------------------------------------------------


async def test_everything_is_consumed_and_the_offsets_are_stored_at_the_end(server, admin, producer):
    await create_topic(admin)
    await send_all(producer, 50)
    listener = Listener()
    async with consuming(server, listener):
        await listener.until(50)
    assert Counter(listener.bodies) == Counter(b"%d" % number for number in range(50))
    assert (await admin.progress("CG")).lag == 0
    assert not (await admin.progress("CG")).online


async def test_leaving_in_the_middle_of_a_rebalance_loses_no_offset(server, admin, producer, monkeypatch):
    """The rebalance finds its queues pulled no more, and must not take that for a loss of them."""
    asked, answered = asyncio.Event(), asyncio.Event()
    running, may_end = asyncio.Event(), asyncio.Event()
    members = Rebalancer._member_ids

    async def held(rebalancer, route):
        if not running.is_set() or route.topic != "T":
            return await members(rebalancer, route)
        asked.set()
        await answered.wait()
        return [consumer.client_id]

    async def listen(messages, context):
        running.set()
        await may_end.wait()
        return SUCCESS

    monkeypatch.setattr(Rebalancer, "_member_ids", held)
    await create_topic(admin, queues=1)
    await send_all(producer, 1)
    async with asyncio.timeout(TIME_LIMIT), consuming(server, listen) as consumer:
        await running.wait()
        consumer.routes_changed()
        await asked.wait()
        leaving = asyncio.create_task(consumer.shutdown())
        await asyncio.sleep(0)
        answered.set()
        for _ in range(20):     # turns of the loop, of which the rebalance needs a few and no network
            await asyncio.sleep(0)
        may_end.set()
        await leaving
    assert [stored.consumer_offset for stored in (await admin.progress("CG")).offsets.values()] == [1]


async def test_any_other_function_runs_in_threads_of_which_there_are_at_most_so_many(server, admin, producer):
    await create_topic(admin)
    await send_all(producer, 30)
    names, bodies, done = set(), [], asyncio.Event()
    loop = asyncio.get_running_loop()

    def listen(messages, context):
        names.add(threading.current_thread().name)
        bodies.extend(message.body for message in messages)
        if len(bodies) == 30:
            loop.call_soon_threadsafe(done.set)
        return SUCCESS

    async with consuming(server, listen, consume_thread_max=3):
        async with asyncio.timeout(TIME_LIMIT):
            await done.wait()
    assert threading.current_thread().name not in names
    assert 1 <= len(names) <= 3
    assert (await admin.progress("CG")).lag == 0


async def test_messages_that_come_later_are_consumed_at_once(tmp_path):
    """Each is sent while a pull waits for it at the broker, which would keep that longer than this test waits."""
    server = Regulus(BrokerConfig(listen_port=0), small_store(tmp_path / "store"), NamesrvConfig(
        listen_port=0, bind_address=HOST), transport_config=TransportConfig(bind_address=HOST))
    await server.start()
    address = f"{HOST}:{server.name_server.port}"
    listener = Listener()
    consumer = PushConsumer(address, "CG", listener, PushConsumerConfig(
        broker_suspend_max_time=10 * TIME_LIMIT * 1000, consumer_timeout_when_suspend=20 * TIME_LIMIT * 1000))
    consumer.subscribe("T")

    async def both_pulls_wait():
        return len(server.broker_server.broker.held_requests) == 2     # for T and for the group's retry topic

    async with Admin(address) as admin, Producer(address, "PG") as producer:
        await create_topic(admin, queues=1)
        async with consumer:
            for number in range(5):
                await eventually(both_pulls_wait)
                await producer.send(Message("T", b"%d" % number))
                await listener.until(number + 1)
    await server.stop()
    assert listener.bodies == [b"0", b"1", b"2", b"3", b"4"]


async def test_all_queues_together_cache_no_more_than_their_limit(server, admin, producer):
    """Whose listener stands still, by one answer a queue at most; and all is consumed when it goes on."""
    size, queues = 1 << 20, 8
    await create_topic(admin, queues=queues)
    await asyncio.gather(*(producer.send(Message("T", os.urandom(size))) for _ in range(40)))
    held = Held()
    async with consuming(server, held, pull_threshold_size_for_all_queues=9, consume_thread_max=1,
                         consume_orderly=False) as consumer:
        def cached():
            return [owned.cache.size for queue, owned in consumer._consumption.owned.items() if queue.topic == "T"]

        await eventually(lambda: asyncio.sleep(0, len(cached()) == queues and all(cached())))
        await eventually(lambda: asyncio.sleep(0, all(owned.is_full for owned in consumer._consumption.owned.values()
                                                      if owned.queue.topic == "T")))
        assert max(cached()) <= 2 * size        # a share is 1 MiB: %RETRY% has its queue, too
        held.end(40)
        await eventually(lambda: asyncio.sleep(0, len(held.ended) == 40))


def test_what_all_queues_may_cache_is_divided_by_how_many_there_are_now():
    consumer = PushConsumer("127.0.0.1:1", "CG", Listener(), PushConsumerConfig(
        pull_threshold_size_for_all_queues=8, pull_threshold_size_for_topic=6))
    consumer.set_queue_count("T", 3)
    assert (consumer.limits("T").share, consumer.limits("T").size_max_mib) == ((8 << 20) // 3, 2)
    consumer.set_queue_count("U", 1)
    assert (consumer.limits("T").share, consumer.limits("U").share) == (2 << 20, 2 << 20)
    consumer.set_queue_count("T", 0)
    assert consumer.limits("U").share == 8 << 20


async def test_queues_of_a_topic_that_is_left_count_for_no_share(server, admin):
    await create_topic(admin, queues=4)
    await create_topic(admin, queues=4, name="U")
    async with consuming(server, Listener(), pull_threshold_size_for_all_queues=9) as consumer:
        consumer.subscribe("U")
        await eventually(lambda: asyncio.sleep(0, consumer.limits("T").share == 1 << 20))
        consumer.unsubscribe("U")
        await eventually(lambda: asyncio.sleep(0, consumer.limits("T").share == (9 << 20) // 5))


async def test_only_wanted_tags_reach_the_listener_and_the_offset_passes_the_others(server, admin, producer):
    await create_topic(admin, queues=1)
    for tag in ("A", "B", "C", "", "A"):
        await producer.send(Message("T", tag.encode() or b"none", tag))
    listener = Listener()
    async with consuming(server, listener, expression="A || C"):
        await listener.until(3)
        assert listener.bodies == [b"A", b"C", b"A"]
        await producer.send(Message("T", b"B", "B"))
        await producer.send(Message("T", b"A", "A"))
        await listener.until(4)
    assert (await admin.progress("CG", "T")).lag == 0


async def test_a_call_gets_up_to_the_set_number_of_messages_of_one_queue(server, admin, producer):
    await create_topic(admin, queues=1)
    await producer.send_batch([Message("T", b"%d" % number) for number in range(10)])
    sizes, done = [], asyncio.Event()

    async def listen(messages, context):
        sizes.append(len(messages))
        if sum(sizes) == 10:
            done.set()
        return SUCCESS

    async with consuming(server, listen, consume_message_batch_max_size=4):
        async with asyncio.timeout(TIME_LIMIT):
            await done.wait()
    assert max(sizes) <= 4
    assert sizes[0] == 4


async def test_compressed_bodies_arrive_as_they_were_sent(server, admin, producer):
    await create_topic(admin)
    await producer.send(Message("T", b"abc" * 5000))
    listener = Listener()
    async with consuming(server, listener):
        await listener.until(1)
    assert listener.bodies == [b"abc" * 5000]


async def test_a_slow_message_holds_the_stored_offset_back(server, admin, producer):
    await create_topic(admin, queues=1)
    await send_all(producer, 5)
    release, others = asyncio.Event(), []

    async def listen(messages, context):
        if messages[0].queue_offset == 1:
            await release.wait()
        others.append(messages[0].queue_offset)
        return SUCCESS

    queue = MessageQueue("T", "broker-a", 0)

    async def stored_offset():
        return (await admin.consume_stats("CG", "T")).offset_table[queue].consumer_offset

    async with consuming(server, listen, persist_consumer_offset_interval=10):
        async def one_is_left():
            return len(others) == 4 and await stored_offset() == 1
        await eventually(one_is_left)
        release.set()

        async def all_done():
            return await stored_offset() == 5
        await eventually(all_done)


async def test_suspended_it_pulls_nothing_and_resumed_it_goes_on(server, admin, producer):
    await create_topic(admin, queues=1)
    listener = Listener()
    consumer = PushConsumer(server.name_server_address, "CG", listener, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
    consumer.subscribe("T")
    consumer.suspend()
    await send_all(producer, 1)
    async with consumer:
        await asyncio.sleep(0.05)
        assert listener.seen == []
        consumer.resume()
        await listener.until(1)


# --- where a group starts --------------------------------------------------------------------------------------------


async def test_a_new_group_on_a_young_topic_starts_at_its_first_message_even_with_last_offset(server, admin, producer):
    await create_topic(admin, queues=1)
    await send_all(producer, 3)
    listener = Listener()
    async with consuming(server, listener, consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET):
        await listener.until(3)


async def test_a_group_goes_on_where_it_was_whatever_the_policy_says(server, admin, producer):
    await create_topic(admin, queues=1)
    await send_all(producer, 3)
    first = Listener()
    async with consuming(server, first):
        await first.until(3)
    await producer.send(Message("T", b"new"))
    second = Listener()
    async with consuming(server, second, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET):
        await second.until(1)
    assert second.bodies == [b"new"]


# --- retry -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [LATER, None, RuntimeError("no")], ids=["later", "none", "exception"])
async def test_a_failed_message_comes_again_under_its_own_topic(server, admin, producer, failure):
    await create_topic(admin, queues=1)
    sent = await producer.send(Message("T", b"x", "A", "k1"))
    listener = Listener()

    def fail_first(message):
        if message.reconsume_times == 0:
            if isinstance(failure, Exception):
                raise failure
            return failure
        return SUCCESS

    listener.script = fail_first
    async with consuming(server, listener, expression="A"):
        await listener.until(2)
    again = listener.seen[1]
    assert (again.topic, again.reconsume_times, again.message_id) == ("T", 1, sent.message_id)
    assert again.keys == "k1"
    assert again.properties["ORIGIN_MESSAGE_ID"] == sent.offset_message_id
    assert offset_message_id(again.store_host, again.physical_offset) != sent.offset_message_id


async def test_a_message_that_always_fails_becomes_a_dead_letter_after_its_retries(server, admin, producer):
    await create_topic(admin, queues=1)
    sent = await producer.send(Message("T", b"poison", "A", "k1"))
    listener = Listener(lambda message: LATER)
    async with consuming(server, listener, max_reconsume_times=3):
        await listener.until(4)

        async def is_dead():
            return dlq_topic("CG") in await admin.list_topics()
        await eventually(is_dead)
        (queue,) = await admin.queues(dlq_topic("CG"))

        async def is_stored():
            return await admin.max_offset(queue) == 1
        await eventually(is_stored)
    assert [message.reconsume_times for message in listener.seen] == [0, 1, 2, 3]
    # The third, fourth and fifth step of this ladder, and what the way takes beside.
    stored = [message.store_timestamp for message in listener.seen]
    waits = [later - before for before, later in itertools.pairwise(stored)]
    assert all(wait >= step for wait, step in zip(waits, (20, 25, 30), strict=True)), waits
    dead = await admin.message_at(queue, 0)
    assert (dead.body, dead.message_id, dead.tags, dead.keys) == (b"poison", sent.message_id, "A", "k1")
    assert dead.properties["RETRY_TOPIC"] == "T"
    assert (await admin.progress("CG")).lag == 0


async def test_the_limit_of_the_member_that_set_it_last_holds_for_the_group(server, admin, producer):
    await create_topic(admin, queues=1)
    async with consuming(server, Listener(), max_reconsume_times=5):
        assert (await admin.group_config("CG", server.address)).retry_max_times == 5
        async with consuming(server, Listener(), max_reconsume_times=7):
            assert (await admin.group_config("CG", server.address)).retry_max_times == 7


async def test_delay_level_minus_one_is_a_dead_letter_at_once(server, admin, producer):
    await create_topic(admin, queues=1)
    await producer.send(Message("T", b"x"))
    seen = []

    async def listen(messages, context):
        seen.extend(messages)
        context.delay_level_when_next_consume = -1
        return LATER

    async with consuming(server, listen):
        async def is_dead():
            return dlq_topic("CG") in await admin.list_topics()
        await eventually(is_dead)
    assert len(seen) == 1


async def test_with_ack_index_only_the_messages_behind_it_come_again(server, admin, producer):
    await create_topic(admin, queues=1)
    await producer.send_batch([Message("T", b"%d" % number) for number in range(5)])
    first, again, done = [], [], asyncio.Event()

    async def listen(messages, context):
        if messages[0].reconsume_times:
            again.extend(message.body for message in messages)
            if len(again) == 3:
                done.set()
            return SUCCESS
        first.append([message.body for message in messages])
        context.ack_index = 1
        return SUCCESS

    async with consuming(server, listen, consume_message_batch_max_size=5):
        async with asyncio.timeout(TIME_LIMIT):
            await done.wait()
    assert first == [[b"0", b"1", b"2", b"3", b"4"]]
    assert sorted(again) == [b"2", b"3", b"4"]


async def test_two_topics_of_a_group_come_back_through_one_retry_topic(server, admin, producer):
    await create_topic(admin, 1, "T")
    await create_topic(admin, 1, "U")
    await producer.send(Message("T", b"t"))
    await producer.send(Message("U", b"u"))
    listener = Listener(lambda message: SUCCESS if message.reconsume_times else LATER)
    consumer = PushConsumer(server.name_server_address, "CG", listener, PushConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET))
    consumer.subscribe("T")
    consumer.subscribe("U")
    async with consumer:
        await listener.until(4)
    again = [(message.topic, message.body) for message in listener.seen if message.reconsume_times]
    assert sorted(again) == [("T", b"t"), ("U", b"u")]


async def test_what_takes_too_long_is_sent_back_and_its_late_result_is_ignored(server, admin, producer):
    await create_topic(admin, queues=1)
    await send_all(producer, 2)
    release, seen, done = asyncio.Event(), [], asyncio.Event()

    async def listen(messages, context):
        seen.append((messages[0].body, messages[0].reconsume_times))
        if messages[0].reconsume_times:
            done.set()
            return SUCCESS
        if messages[0].body == b"1":
            await release.wait()
            return LATER
        return SUCCESS

    async with consuming(server, listen, consume_timeout=40) as consumer:
        async with asyncio.timeout(TIME_LIMIT):
            await done.wait()
        release.set()

        async def the_late_call_ended():
            return not consumer._calls.workers.running
        await eventually(the_late_call_ended)
    assert await admin.max_offset(MessageQueue(retry_topic("CG"), "broker-a", 0)) == 1
    assert Counter(seen) == {(b"0", 0): 1, (b"1", 0): 1, (b"1", 1): 1}


# --- sharing ---------------------------------------------------------------------------------------------------------


async def test_members_share_the_queues_and_take_over_from_one_that_leaves(server, admin, producer):
    await create_topic(admin, queues=8)
    one, two = Listener(), Listener()

    def owned(consumer):
        return sum(queue.topic == "T" for queue in consumer.assigned_queues())

    async with consuming(server, one) as first:
        async def has_all():
            return owned(first) == 8
        await eventually(has_all)
        async with consuming(server, two) as second:
            async def is_shared():
                return owned(first) == owned(second) == 4
            await eventually(is_shared)
            assert not set(first.assigned_queues()).intersection(second.assigned_queues())
            assert first.client_id != second.client_id
            await send_all(producer, 80)
            async with asyncio.timeout(TIME_LIMIT):
                while len(one.seen) + len(two.seen) < 80:
                    await asyncio.sleep(0.005)
            assert one.seen
            assert two.seen
        await eventually(has_all)
    assert sorted(map(int, one.bodies + two.bodies)) == list(range(80))


async def test_a_queue_that_was_lost_during_processing_counts_for_its_new_owner_only(server, admin, producer):
    await create_topic(admin, queues=1)
    await send_all(producer, 3)
    release, begun, seen = asyncio.Event(), asyncio.Event(), []

    async def stuck(messages, context):
        seen.append(messages[0].body)
        begun.set()
        await release.wait()
        return LATER if messages[0].body == b"0" else SUCCESS

    async def the_next_owner_is_done():
        return seen == [b"0", b"2"]

    async with consuming(server, stuck, consume_thread_max=1) as first:
        async with asyncio.timeout(TIME_LIMIT):
            await begun.wait()
        await first.reset_offsets({MessageQueue("T", "broker-a", 0): 2})
        assert [each.consumer_offset for each in (await admin.progress("CG", "T")).offsets.values()] == [2]
        release.set()
        await eventually(the_next_owner_is_done)
    assert await admin.max_offset(MessageQueue(retry_topic("CG"), "broker-a", 0)) == 0
    assert (await admin.progress("CG", "T")).lag == 0


async def test_a_broadcasting_member_gets_everything_keeps_its_offsets_and_retries_nothing(server, admin, producer,
                                                                                           tmp_path):
    await create_topic(admin, queues=2)
    await send_all(producer, 6)
    settings = {"message_model": MessageModel.BROADCASTING, "offset_store_path": str(tmp_path / "offsets")}
    one, two = Listener(lambda message: LATER), Listener()
    async with (consuming(server, one, instance_name="one", **settings),
                consuming(server, two, instance_name="two", **settings)):
        await asyncio.gather(one.until(6), two.until(6))
    (path,) = (tmp_path / "offsets").glob("*@one/CG/offsets.json")
    assert '"topic":"T"' in path.read_text()
    again = Listener()
    async with consuming(server, again, instance_name="one", **settings):
        await producer.send(Message("T", b"new"))
        await again.until(1)
    assert again.bodies == [b"new"]
    assert len(one.seen) == 6


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_broadcasting_member_gets_what_is_sent_right_behind_its_start(server, admin, producer, tmp_path,
                                                                              orderly):
    await create_topic(admin, queues=8)
    await send_all(producer, 20)
    listener = Listener()
    async with consuming(server, listener, instance_name="one", message_model=MessageModel.BROADCASTING,
                         consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, consume_orderly=orderly,
                         offset_store_path=str(tmp_path / "offsets")):
        await asyncio.gather(*(producer.send(Message("T", b"%d" % number)) for number in range(100, 132)))
        await listener.until(32)
    assert sorted(listener.bodies) == [b"%d" % number for number in range(100, 132)]


async def test_two_broadcasting_members_need_names_of_their_own(server, admin):
    await create_topic(admin)
    settings = {"message_model": MessageModel.BROADCASTING, "offset_store_path": "/nonexistent"}
    async with consuming(server, Listener(), **settings):
        with pytest.raises(ClientError, match="give each its own instance_name"):
            async with consuming(server, Listener(), **settings):
                pass


# --- administration of a running member ------------------------------------------------------------------------------


async def test_reset_of_a_running_group_brings_messages_again(server, admin, producer):
    await create_topic(admin, queues=2)
    await send_all(producer, 10)
    listener = Listener()
    async with consuming(server, listener):
        await listener.until(10)
        offsets = await admin.reset_offset_by_timestamp("T", "CG", 0)
        assert set(offsets.values()) == {0}
        await listener.until(20)
    assert Counter(listener.bodies) == Counter([b"%d" % number for number in range(10)] * 2)


async def test_a_member_tells_its_state(server, admin, producer):
    await create_topic(admin, queues=2)
    await send_all(producer, 4)
    listener = Listener()
    async with consuming(server, listener) as consumer:
        await listener.until(4)
        info = await admin.consumer_running_info("CG", consumer.client_id)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert {queue.queue_id for queue in info.mq_table if queue.topic == "T"} == {0, 1}
        assert {each.topic for each in info.subscription_set} == {"T", retry_topic("CG")}
        status = await admin.consumer_status("CG", "T")
        assert sum(status[consumer.client_id].values()) == 4
        connection = await admin.consumer_connection("CG")
        assert [each.client_id for each in connection.connection_set] == [consumer.client_id]


async def test_a_message_is_consumed_directly_without_touching_offsets(server, admin, producer):
    await create_topic(admin, queues=1)
    sent = await producer.send(Message("T", b"x"))
    listener = Listener()
    async with consuming(server, listener) as consumer:
        await listener.until(1)
        result = await admin.consume_message_directly("CG", consumer.client_id, sent.offset_message_id, server.address)
        assert result.consume_result == "CR_SUCCESS"
        assert len(listener.seen) == 2
        listener.script = lambda message: 1 / 0
        result = await admin.consume_message_directly("CG", consumer.client_id, sent.offset_message_id, server.address)
        assert (result.consume_result, result.remark) == ("CR_THROW_EXCEPTION", "ZeroDivisionError: division by zero")
    assert [each.consumer_offset for each in (await admin.progress("CG", "T")).offsets.values()] == [1]


async def test_a_message_that_is_consumed_directly_is_unpacked_and_under_its_own_topic():
    seen, held = [], Held()

    async def listen(messages, context):
        seen.append((messages[0].topic, messages[0].body))
        return await held(messages, context)

    body = compression.compress(b"A" * 10_000, flags.COMPRESSION_ZLIB, 5)
    message = MessageExt(retry_topic("CG"), body, {"RETRY_TOPIC": "T"},
                         sys_flag=flags.COMPRESSED | flags.COMPRESSION_ZLIB)
    held.end()
    async with scripted_group.consuming(scripted_group.Shelf(), listen) as (consumer, _):
        answer = await consumer._answer_consume_directly(directly(message))
        assert ConsumeMessageDirectlyResult.decode(answer.body).consume_result == "CR_SUCCESS"
        message.body = b"no stream"
        with pytest.raises(MessageIllegal, match="cannot be read"):
            await consumer._answer_consume_directly(directly(message))
    assert seen == [("T", b"A" * 10_000)]


def directly(message):
    header = ConsumeMessageDirectlyRequest(consumer_group="CG", client_id="", msg_id="", broker_name="a")
    return RemotingCommand.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header.ext(), message_record.encode(message))


async def test_no_more_messages_are_consumed_directly_at_once_than_listener_calls_may_run():
    listener = Held()
    async with scripted_group.consuming(scripted_group.Shelf(), listener, consume_thread_max=2) as (consumer, _):
        calls = [asyncio.create_task(consumer.consume_directly(MessageExt("T", b"x", {}), scripted_group.QUEUE))
                 for _ in range(3)]
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=TIME_LIMIT)
        assert done == {calls[2]}
        assert "2 messages are consumed directly already" in str(calls[2].exception())
        listener.end(3)
        await asyncio.gather(*calls[:2])
        assert (await consumer.consume_directly(MessageExt("T", b"x", {}), scripted_group.QUEUE)
                ).consume_result == "CR_SUCCESS"


# --- faults ----------------------------------------------------------------------------------------------------------


async def test_an_offset_out_of_range_is_corrected_by_the_broker(server, admin, producer):
    await create_topic(admin, queues=1)
    await send_all(producer, 3)
    queue = MessageQueue("T", "broker-a", 0)
    await admin.create_group(SubscriptionGroupConfig(group_name="CG"))
    await admin.set_offsets("CG", {queue: 100})
    listener = Listener()
    async with consuming(server, listener):
        async def is_corrected():
            stats = (await admin.consume_stats("CG", "T")).offset_table
            return queue in stats and stats[queue].consumer_offset == 3
        await eventually(is_corrected)
        await producer.send(Message("T", b"new"))
        await listener.until(1)
    assert listener.bodies == [b"new"]


async def test_a_bad_sql_expression_or_a_broker_without_sql_fails_at_start(server, admin):
    await create_topic(admin)
    consumer = PushConsumer(server.name_server_address, "CG", Listener())
    consumer.subscribe("T", "a >", "SQL92")
    with pytest.raises(BrokerRefused):
        await consumer.start()


@pytest.mark.parametrize("listener", [None, "listen"])
def test_a_listener_that_cannot_be_called_is_refused(listener):
    with pytest.raises(ConfigError, match=f"the listener of group CG is {listener!r}"):
        PushConsumer("127.0.0.1:9876", "CG", listener)


async def test_a_consumer_needs_a_subscription(server):
    with pytest.raises(ConfigError, match="subscribe"):
        await PushConsumer(server.name_server_address, "CG", Listener()).start()


async def test_a_broker_that_dies_and_comes_back_loses_nothing_that_was_acknowledged(broker_process):
    address = broker_process.name_server_address
    listener = Listener()
    async with Producer(address, "PG") as producer, Admin(address) as admin:
        await create_topic(admin, queues=2)
        acknowledged = {result.message_id for result in await send_all(producer, 20)}
        async with consuming(broker_process, listener, pull_time_delay_when_exception=50):
            await listener.until(20)
            await asyncio.to_thread(broker_process.kill)
            await asyncio.to_thread(broker_process.start)
            for number in range(20, 40):
                async def send(number=number):
                    try:
                        result = await producer.send(Message("T", b"%d" % number))
                    except ClientError:
                        return False
                    acknowledged.add(result.message_id)
                    return True
                await eventually(send)

            async def all_seen():
                return acknowledged <= {message.message_id for message in listener.seen}
            await eventually(all_seen)


async def test_a_delayed_message_comes_after_its_level_and_under_its_own_topic(server, admin, producer):
    await create_topic(admin, queues=1)
    listener = Listener()
    async with consuming(server, listener):
        await producer.send(Message("T", b"later", properties={"DELAY": "9"}))
        await listener.until(1)
    (later,) = listener.seen
    assert (later.topic, later.body) == ("T", b"later")
    assert later.store_timestamp - later.born_timestamp >= 50
