import asyncio
from collections import Counter
from copy import copy
from unittest import mock

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.config import CompressType, IsolationStrategy, ProducerConfig
from regulus.client.connecting import client_instance
from regulus.client.core.queue_selector import RoundRobin
from regulus.client.core.resend import RETRY_CODES_4_9
from regulus.client.send_result import SendResult, SendStatus
from regulus.client.sending import accepted_sends
from regulus.client.sending.kept_sends import KeptSends
from regulus.client.sending.producer import Producer
from regulus.errors import (
    BrokerRefused,
    ClientClosed,
    ConnectFailed,
    MessageIllegal,
    NoBroker,
    NoNameServer,
    NoRoute,
    PartlySent,
    SendCutOff,
    SendFailed,
    SendKept,
    Throttled,
    TooManyRequests,
    WrongNameServer,
)
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.wire import compression, message_batch
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_servers import ScriptedServer, closed_address, refused, scripted_cluster, stored
from tests.virtual_time import in_virtual_time, now_ms
from tests.waiting import until

DEADLINE_STEP_MS = 20
"""Requests whose time is up within 10 ms share a timer; so much later than asked for, at most."""


def never(command):
    return None


def refuses(code):
    return lambda command: refused(command, code)


def each_in_turn(*scripts):
    """The first request is answered by the first script, and so on; the last one serves the rest."""
    left = list(scripts)
    return lambda command: (left.pop(0) if len(left) > 1 else left[0])(command)


async def connect(producer, broker):
    """Open the connection, so that it takes none of a short time limit; the broker gets one message."""
    await producer.send_oneway(Message("T", b"x"))
    while not broker.sends():
        await asyncio.sleep(0)


def producer_of(cluster, **settings):
    return Producer(cluster.name_server.address, "PG", ProducerConfig(**settings))


async def test_a_result_tells_where_the_message_is():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", lambda command: stored(command, offset=7))
        async with producer_of(cluster) as producer:
            message = Message("T", b"x")
            result = await producer.send(message)
    assert result.send_status is SendStatus.SEND_OK
    assert result.message_id == message.message_id
    assert len(result.message_id) == 32
    assert (result.queue_offset, result.offset_message_id) == (7, f"{7:032X}")


async def test_sends_go_to_queues_in_turn():
    async with scripted_cluster(queue_count=8) as cluster:
        await cluster.add_broker("a")
        async with producer_of(cluster) as producer:
            results = [await producer.send(Message("T", b"x")) for _ in range(16)]
    assert set(Counter(result.message_queue.queue_id for result in results).values()) == {2}


async def test_after_a_connect_error_the_other_broker_is_tried():
    async with scripted_cluster() as cluster:
        cluster.add_unreachable_broker("a", closed_address())
        await cluster.add_broker("b")
        async with producer_of(cluster) as producer:
            results = [await producer.send(Message("T", b"x")) for _ in range(8)]
    assert {result.message_queue.broker_name for result in results} == {"b"}


async def test_with_one_broker_a_retry_takes_another_queue():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", each_in_turn(refuses(ResponseCode.SYSTEM_ERROR), stored))
        async with producer_of(cluster) as producer:
            await producer.send(Message("T", b"x"))
        first, second = [send.queue_id for send in broker.sends()]
    assert first != second


async def test_when_all_attempts_fail_the_error_says_what_was_tried():
    async with scripted_cluster() as cluster:
        a = await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        b = await cluster.add_broker("b", refuses(ResponseCode.SERVICE_NOT_AVAILABLE))
        async with producer_of(cluster) as producer:
            with pytest.raises(SendFailed, match=r"send to T failed after 3 attempts in \d+ ms") as caught:
                await producer.send(Message("T", b"x"))
    assert len(a.sends()) + len(b.sends()) == 3
    assert caught.value.attempts == 3
    assert set(caught.value.brokers) == {"a", "b"}
    assert caught.value.brokers[0] != caught.value.brokers[1]
    assert caught.value.topic == "T"
    assert caught.value.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE)


@in_virtual_time
async def test_a_broker_that_never_answers_leaves_time_for_retries():
    async with scripted_cluster() as cluster:
        brokers = [await cluster.add_broker(name, never) for name in ("a", "b")]
        async with producer_of(cluster, send_msg_timeout=1500) as producer:
            while not all(broker.sends() for broker in brokers):
                await producer.send_oneway(Message("T", b"x"))
                await asyncio.sleep(0.01)
            before = sum(len(broker.sends()) for broker in brokers)
            begun = now_ms()
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message("T", b"x"))
            assert 1500 <= now_ms() - begun <= 1500 + 3 * DEADLINE_STEP_MS
    assert sum(len(broker.sends()) for broker in brokers) == before + 3
    assert caught.value.code == 10002


@in_virtual_time
async def test_a_broker_that_is_alone_and_stands_still_is_sent_nothing_twice():
    """It would store each copy when it goes on."""
    async def late(command):
        await asyncio.sleep(2.5)
        return stored(command)

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", each_in_turn(stored, late))
        async with producer_of(cluster, send_msg_timeout=3000) as producer:
            await producer.send(Message("T", b"first"))
            result = await producer.send(Message("T", b"x"))
    assert result.send_status is SendStatus.SEND_OK
    assert len(broker.sends()) == 2


@in_virtual_time
async def test_with_java_budget_it_eats_the_whole_time():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        async with producer_of(cluster, send_msg_timeout=200, java_budget=True) as producer:
            await connect(producer, broker)
            begun = now_ms()
            with pytest.raises(TooManyRequests, match="1 of 3 attempts"):
                await producer.send(Message("T", b"x"))
            assert 200 <= now_ms() - begun <= 200 + DEADLINE_STEP_MS
    assert len(broker.sends()) == 1 + 1


@in_virtual_time
async def test_an_attempt_stays_below_its_own_limit():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", each_in_turn(never, never, never, stored))
        async with producer_of(cluster, send_msg_timeout=3000, send_msg_max_timeout_per_request=300) as producer:
            await connect(producer, broker)
            begun = now_ms()
            await producer.send(Message("T", b"x"))
            assert 600 <= now_ms() - begun <= 600 + 2 * DEADLINE_STEP_MS
    assert len(broker.sends()) == 1 + 3


@pytest.mark.parametrize("code", [ResponseCode.MESSAGE_ILLEGAL, ResponseCode.VERSION_NOT_SUPPORTED])
async def test_other_refusals_end_the_send_at_once(code):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", refuses(code))
        async with producer_of(cluster) as producer:
            with pytest.raises(BrokerRefused) as caught:
                await producer.send(Message("T", b"x"))
    assert caught.value.code == code
    assert len(broker.sends()) == 1


async def test_system_busy_is_retried_under_5_3_rules_and_raised_under_4_9_rules():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_BUSY))
        async with producer_of(cluster, throttle_back_off=False) as producer:
            with pytest.raises(SendFailed):
                await producer.send(Message("T", b"x"))
        assert len(broker.sends()) == 3
        async with producer_of(cluster, retry_response_codes=RETRY_CODES_4_9) as producer:
            with pytest.raises(BrokerRefused):
                await producer.send(Message("T", b"x"))
        assert len(broker.sends()) == 4


@in_virtual_time
async def test_throttling_longer_than_the_budget_fails_at_once():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_BUSY))
        async with producer_of(cluster, send_msg_timeout=900) as producer:
            await connect(producer, broker)
            begun = now_ms()
            with pytest.raises(Throttled) as caught:
                await producer.send(Message("T", b"x"))
            assert now_ms() == begun
    assert caught.value.code == ResponseCode.SYSTEM_BUSY


async def test_a_throttled_broker_rests_while_another_serves():
    async with scripted_cluster() as cluster:
        a = await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_BUSY))
        await cluster.add_broker("b")
        async with producer_of(cluster) as producer:
            for _ in range(12):
                await producer.send(Message("T", b"x"))
    assert len(a.sends()) == 1


@pytest.mark.parametrize(("code", "status"), [
    (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
    (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
    (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
])
async def test_a_stored_message_is_a_result_whatever_its_status(code, status):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", lambda command: stored(command, code, offset=3))
        async with producer_of(cluster) as producer:
            result = await producer.send(Message("T", b"x"))
    assert (result.send_status, result.queue_offset) == (status, 3)
    assert len(broker.sends()) == 1


async def test_not_fully_stored_is_retried_when_asked_for_and_kept_when_that_fails():
    async with scripted_cluster() as cluster:
        half = lambda command: stored(command, ResponseCode.FLUSH_DISK_TIMEOUT)  # noqa: E731
        a = await cluster.add_broker("a", half)
        b = await cluster.add_broker("b", refuses(ResponseCode.MESSAGE_ILLEGAL))
        async with producer_of(cluster, retry_another_broker_when_not_store_ok=True) as producer:
            queue = MessageQueue("T", "a", 0)
            producer._queues.turns["T"] = RoundRobin(-1)       # it is the turn of that queue
            result = await producer.send(Message("T", b"x"))
            assert result.send_status is SendStatus.FLUSH_DISK_TIMEOUT
            assert (len(a.sends()), len(b.sends())) == (1, 1)
            result = await producer.send(Message("T", b"x"), queue=queue)
            assert result.send_status is SendStatus.FLUSH_DISK_TIMEOUT


@pytest.mark.parametrize("options", [
    {"queue": MessageQueue("T", "a", 1)},
    {"selector": lambda queues, message, argument: queues[argument], "argument": 1},
])
async def test_an_ordered_send_has_one_attempt(options):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", refuses(ResponseCode.SERVICE_NOT_AVAILABLE))
        async with producer_of(cluster) as producer:
            with pytest.raises(SendFailed):
                await producer.send(Message("T", b"x"), **options)
    assert [send.queue_id for send in broker.sends()] == [1]


async def test_oneway_raises_what_is_known_here_and_nothing_else():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        async with producer_of(cluster) as producer:
            await producer.send_oneway(Message("T", b"x"))
            await producer.send_oneway(Message("T", b"y"), queue=MessageQueue("T", "a", 2))
            while len(broker.sends()) < 2:
                await asyncio.sleep(0)
        assert all(request.is_oneway for request in broker.requests_of(RequestCode.SEND_MESSAGE_V2))
    async with scripted_cluster() as cluster:
        cluster.add_unreachable_broker("a", closed_address())
        async with producer_of(cluster) as producer:
            with pytest.raises(ConnectFailed):
                await producer.send_oneway(Message("T", b"x"))


async def test_bodies_of_4096_bytes_are_compressed_and_the_message_is_left_as_it_was():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        small, large = Message("T", b"x" * 4095), Message("T", b"x" * 4096)
        async with producer_of(cluster) as producer:
            await producer.send(small)
            await producer.send(large)
        first, second = broker.requests_of(RequestCode.SEND_MESSAGE_V2)
        flags = [send.sys_flag for send in broker.sends()]
    assert first.body == small.body
    assert flags == [0, 0x301]
    assert len(second.body) < 4096
    assert compression.decompress(second.body, flags[1]) == large.body
    assert (large.body, large.topic) == (b"x" * 4096, "T")


@pytest.mark.parametrize("body", [b"", b"x" * ((4 << 20) + 1)], ids=["empty", "too large"])
async def test_a_faulty_body_fails_before_anything_is_sent(body):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with producer_of(cluster) as producer:
            with pytest.raises(MessageIllegal):
                await producer.send(Message("T", body))
    assert broker.sends() == []


async def test_a_batch_has_ids_in_order_and_is_never_compressed():
    def store(command):
        answer = stored(command, offset=5)
        answer.ext = {**answer.ext, "msgId": "X,Y,Z"}
        return answer
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", store)
        messages = [Message("T", b"x" * 5000, keys=f"k{number}") for number in range(3)]
        async with producer_of(cluster) as producer:
            result = await producer.send_batch(messages)
        (request,) = broker.requests_of(RequestCode.SEND_BATCH_MESSAGE)
        (send,) = broker.sends()
    assert result.message_id.split(",") == [message.message_id for message in messages]
    assert result.offset_message_id == "X,Y,Z"
    assert result.queue_offset == 5
    assert send.batch
    assert send.sys_flag == 0
    assert [body for _, body, _, _ in message_batch.decode(request.body)] == [message.body for message in messages]


@pytest.mark.parametrize("bad", [Message("Other", b"x" * 300), Message("T", b"x" * ((4 << 20) + 1)),
                                 Message("T", b"x", properties={"DELAY": "3"})], ids=["topic", "size", "delay"])
async def test_a_list_of_messages_is_checked_before_any_is_sent_however_it_is_cut(bad):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with producer_of(cluster) as producer:
            with pytest.raises(MessageIllegal):
                await producer.send_in_batches([Message("T", b"x" * 300), Message("T", b"x" * 300), bad], size_max=500)
            assert await producer.send_in_batches([]) == []
    assert broker.sends() == []


async def test_when_a_later_batch_fails_the_error_says_what_is_stored():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", each_in_turn(stored, stored, refuses(ResponseCode.MESSAGE_ILLEGAL)))
        messages = [Message("T", b"x" * 100) for _ in range(10)]
        async with producer_of(cluster) as producer:
            with pytest.raises(PartlySent, match="the first 6 of 10 messages are stored") as caught:
                await producer.send_in_batches(messages, size_max=500)
    assert caught.value.stored == 6
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert [message_id for result in caught.value.results for message_id in result.message_id.split(",")] == [
        message.message_id for message in messages[:6]]
    assert isinstance(caught.value.__cause__, BrokerRefused)


async def test_a_first_batch_that_fails_is_the_failure_itself():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", refuses(ResponseCode.MESSAGE_ILLEGAL))
        async with producer_of(cluster) as producer:
            with pytest.raises(BrokerRefused):
                await producer.send_in_batches([Message("T", b"x" * 300)] * 2, size_max=500)


async def test_a_message_keeps_its_unique_key_over_retries_and_sends():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", each_in_turn(refuses(ResponseCode.SYSTEM_ERROR), stored))
        message = Message("T", b"x")
        async with producer_of(cluster) as producer:
            await producer.send(message)
            await producer.send(message)
        keys = {send.properties["UNIQ_KEY"] for send in broker.sends()}
    assert keys == {message.message_id}
    assert len(broker.sends()) == 3


async def test_an_unknown_topic_goes_by_the_route_of_the_default_topic():
    async with scripted_cluster(queue_count=8) as cluster:
        broker = await cluster.add_broker("a")
        cluster.topics_unknown = {"New"}
        async with producer_of(cluster) as producer:
            assert len(await producer.fetch_publish_message_queues("New")) == 4
            await producer.send(Message("New", b"x"))
        (send,) = broker.sends()
    assert (send.default_topic, send.default_topic_queue_nums) == ("TBW102", 4)


async def test_without_any_route_the_send_fails():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        cluster.topics_unknown = {"New", "TBW102"}
        async with producer_of(cluster) as producer:
            with pytest.raises(NoRoute, match="regulus topic create New") as caught:
                await producer.send(Message("New", b"x"))
    assert caught.value.code == 10005


async def test_without_name_server_the_send_fails():
    async with Producer(closed_address(), "PG") as producer:
        with pytest.raises(NoNameServer) as caught:
            await producer.send(Message("T", b"x"))
    assert caught.value.code == 10004


@in_virtual_time
async def test_a_silent_name_server_does_not_hold_a_send_longer_than_it_may_take():
    async with scripted_cluster() as cluster:
        cluster.name_server.script = never
        async with producer_of(cluster, send_msg_timeout=100) as producer:
            begun = now_ms()
            with pytest.raises(TooManyRequests, match="no name server answered with the route of T"):
                await producer.send(Message("T", b"x"))
            assert now_ms() - begun == 100


async def test_a_second_name_server_serves_when_the_first_does_not():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        addresses = f"{closed_address()};{cluster.name_server.address}"
        async with Producer(addresses, "PG") as producer:
            await producer.send(Message("T", b"x"))


async def test_sending_before_start_or_after_shutdown_is_refused():
    producer = Producer("127.0.0.1:9876", "PG")
    with pytest.raises(ClientClosed, match="not running"):
        await producer.send(Message("T", b"x"))
    async with producer:
        pass
    with pytest.raises(ClientClosed, match="was shut down"):
        await producer.send(Message("T", b"x"))


async def test_a_broker_that_goes_away_is_asked_again_over_a_new_connection():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", each_in_turn(refuses(ResponseCode.GO_AWAY), stored))
        async with producer_of(cluster) as producer:
            await producer.send(Message("T", b"x"), queue=MessageQueue("T", "a", 0))
        assert len(broker.connections) == 2


@pytest.mark.parametrize("strategy", IsolationStrategy)
async def test_a_send_is_attempted_even_when_every_broker_failed(strategy):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", each_in_turn(*[refuses(ResponseCode.SYSTEM_ERROR)] * 3, stored))
        async with producer_of(cluster, isolation_strategy=strategy) as producer:
            with pytest.raises(SendFailed):
                await producer.send(Message("T", b"x"))
            await producer.send(Message("T", b"x"))
        assert len(broker.sends()) == 4


async def test_isolation_keeps_away_from_a_broker_that_failed():
    async with scripted_cluster() as cluster:
        a = await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        await cluster.add_broker("b")
        async with producer_of(cluster, send_latency_fault_enable=True) as producer:
            for _ in range(16):
                await producer.send(Message("T", b"x"))
    assert len(a.sends()) == 1


async def test_heartbeat_names_the_group_and_shutdown_takes_it_back():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with producer_of(cluster) as producer:
            await producer.send(Message("T", b"x"))
            while not broker.requests_of(RequestCode.HEART_BEAT):
                await asyncio.sleep(0.001)
            client_id = producer.client_id
        (goodbye,) = broker.requests_of(RequestCode.UNREGISTER_CLIENT)
    assert b'"groupName":"PG"' in broker.requests_of(RequestCode.HEART_BEAT)[0].body
    assert goodbye.ext == {"clientID": client_id, "producerGroup": "PG"}


async def test_producers_of_one_process_share_connections():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with producer_of(cluster) as one, Producer(cluster.name_server.address, "OTHER") as two:
            await one.send(Message("T", b"x"))
            await two.send(Message("T", b"x"))
            assert one.client_id == two.client_id
        assert len(broker.connections) == 1


# --- whose turn it is ------------------------------------------------------------------------------------------------


class SlowBroker:
    """Stores one send after the other, each in `each_ms`; `most` is how many were with it at the same time."""

    def __init__(self, each_ms):
        self.each_ms = each_ms
        self.free_ms = 0
        self.under_way = self.most = 0
        self.bodies = []

    async def __call__(self, command):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.bodies.append(bytes(command.body))
        self.free_ms = max(self.free_ms, now_ms()) + self.each_ms
        await asyncio.sleep((self.free_ms - now_ms()) / 1000)
        self.under_way -= 1
        return stored(command)


@in_virtual_time
async def test_thousands_of_sends_at_once_are_all_stored_once_however_long_it_takes():
    slow = SlowBroker(each_ms=5)
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", slow)
        async with producer_of(cluster, send_msg_timeout=4500) as producer:
            begun = now_ms()
            results = await asyncio.gather(*(producer.send(Message("T", b"%d" % number)) for number in range(1000)))
            assert now_ms() - begun >= 5000
    assert {result.send_status for result in results} == {SendStatus.SEND_OK}
    assert slow.bodies == [b"%d" % number for number in range(1000)]
    assert slow.most == ProducerConfig().back_pressure_for_async_send_num


@in_virtual_time
async def test_producers_that_share_a_connection_share_its_places():
    slow = SlowBroker(each_ms=1)
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", slow)
        config = ProducerConfig(back_pressure_for_async_send_num=10)
        address = cluster.name_server.address
        async with Producer(address, "ONE", config) as one, Producer(address, "TWO", config) as two:
            await asyncio.gather(*(producer.send(Message("T", b"x")) for producer in (one, two) for _ in range(50)))
    assert len(slow.bodies) == 100
    assert slow.most == 10


@in_virtual_time
async def test_the_bytes_under_way_are_bounded_and_one_larger_than_that_goes_alone():
    slow = SlowBroker(each_ms=1)
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", slow)
        async with producer_of(cluster, back_pressure_for_async_send_size=1000) as producer:
            await asyncio.gather(*(producer.send(Message("T", b"x" * 300)) for _ in range(20)))
            assert slow.most == 3
            await producer.send(Message("T", b"x" * 2000))
            await asyncio.gather(producer.send(Message("T", b"x" * 2000)), producer.send(Message("T", b"x")))
    assert slow.most == 3
    assert len(slow.bodies) == 23


async def test_a_send_that_need_not_wait_makes_one_future_and_no_task():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        async with producer_of(cluster) as producer:
            await producer.send(Message("T", b"x"))
            loop = asyncio.get_running_loop()
            made = []
            with mock.patch.multiple(
                    loop, create_future=lambda: made.append("future") or asyncio.Future(loop=loop),
                    create_task=lambda *args, **options: made.append("task"),
                    call_at=lambda *args, **options: made.append("timer")):
                send = producer.send(Message("T", b"x"))
                send.send(None)
                assert made == ["future"]
                send.close()
            (places,) = producer._running().connections._places.values()
            assert (places.size, producer._turns.under_way.size) == (0, 0)


@in_virtual_time
async def test_an_overall_deadline_covers_the_wait_for_a_turn():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        async with producer_of(cluster, back_pressure_for_async_send_num=10) as producer:
            first = [asyncio.ensure_future(producer.send(Message("T", b"x"), timeout_ms=500)) for _ in range(10)]
            while len(broker.sends()) < 10:
                await asyncio.sleep(0)
            begun = now_ms()
            with pytest.raises(TooManyRequests, match=r"within 50 ms it was not the turn of this send to T"):
                await producer.send(Message("T", b"x"), timeout_ms=50)
            assert now_ms() - begun == 50
            outcomes = await asyncio.gather(*first, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {SendFailed}
    assert len(broker.sends()) == 10


@in_virtual_time
async def test_with_java_budget_the_wait_for_a_turn_counts():
    slow = SlowBroker(each_ms=100)
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", slow)
        async with producer_of(cluster, back_pressure_for_async_send_num=1, send_msg_timeout=550,
                               java_budget=True) as producer:
            outcomes = await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(10)),
                                            return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [SendResult] * 5 + [TooManyRequests] * 5
    assert len(slow.bodies) == 6


@in_virtual_time
async def test_a_cancelled_send_gives_its_turn_to_the_next():
    slow = SlowBroker(each_ms=100)
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", slow)
        async with producer_of(cluster, back_pressure_for_async_send_num=1) as producer:
            sends = [asyncio.ensure_future(producer.send(Message("T", b"%d" % number))) for number in range(6)]
            while not slow.bodies:
                await asyncio.sleep(0)
            for number in (0, 2, 3):        # one is under way, two wait
                sends[number].cancel()
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
            await producer.send(Message("T", b"6"))
    assert [isinstance(outcome, SendResult) for outcome in outcomes] == [False, True, False, False, True, True]
    assert slow.bodies == [b"0", b"1", b"4", b"5", b"6"]


async def test_a_send_that_is_cancelled_while_it_waits_for_bytes_gives_its_place_back():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        async with producer_of(cluster, back_pressure_for_async_send_size=10) as producer:
            first, second = [asyncio.ensure_future(producer.send(Message("T", b"x" * 10))) for _ in range(2)]
            while not broker.sends():
                await asyncio.sleep(0)
            places = producer._running().connections.places(broker.address)
            assert places.size == 2
            second.cancel()
            await asyncio.wait([second])
            assert places.size == 1
            first.cancel()
            await asyncio.wait([first])
            assert (places.size, producer._turns.under_way.size) == (0, 0)


@in_virtual_time
async def test_sends_that_move_to_another_broker_hold_nothing_that_its_sends_wait_for():
    async with scripted_cluster() as cluster:
        dying = await cluster.add_broker("a", never)
        other = await cluster.add_broker("b")
        async with producer_of(cluster, back_pressure_for_async_send_num=2,
                               back_pressure_for_async_send_size=100) as producer:
            await producer.send(Message("T", b"x"), queue=MessageQueue("T", "b", 0))
            have_the_bytes = []
            while len(have_the_bytes) < 2:
                send = asyncio.ensure_future(producer.send(Message("T", b"a" * 50)))
                before = len(other.sends())
                while len(dying.sends()) + len(other.sends()) == len(have_the_bytes) + before:
                    await asyncio.sleep(0)
                if len(dying.sends()) > len(have_the_bytes):
                    have_the_bytes.append(send)
                else:
                    await send
            have_the_places = [asyncio.ensure_future(producer.send(Message("T", b"b" * 50),
                                                                   queue=MessageQueue("T", "b", 0))) for _ in range(2)]
            await asyncio.sleep(0)
            await dying.stop()
            begun = now_ms()
            results = await asyncio.gather(*have_the_bytes, *have_the_places)
            assert now_ms() - begun <= 100
    assert {result.message_queue.broker_name for result in results} == {"b"}


async def test_shutdown_stores_all_that_was_accepted():
    slow = SlowBroker(each_ms=0)
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", slow)
        async with producer_of(cluster, back_pressure_for_async_send_num=10) as producer:
            sends = [asyncio.ensure_future(producer.send(Message("T", b"%d" % number))) for number in range(2000)]
        assert all(send.done() for send in sends)
        assert {send.result().send_status for send in sends} == {SendStatus.SEND_OK}
    assert len(broker.sends()) == 2000


async def test_shutdown_cuts_off_the_thousands_that_are_left_and_tells_their_number(caplog):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        producer = producer_of(cluster, back_pressure_for_async_send_num=10, await_termination_millis_when_shutdown=20)
        await producer.start()
        sends = [asyncio.ensure_future(producer.send(Message("T", b"x"))) for _ in range(5000)]
        while len(broker.sends()) < 10:
            await asyncio.sleep(0)
        await producer.shutdown()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {SendCutOff}
    assert sum("before it was the turn of this send" in str(outcome) for outcome in outcomes) == 4990
    assert sum("it may be stored" in str(outcome) for outcome in outcomes) == 10
    assert len(broker.sends()) == 10
    [warning] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "5000 of its sends have not ended within 20 ms" in warning.getMessage()


@pytest.mark.parametrize("batched", [False, True])
async def test_what_shutdown_cuts_off_goes_to_whoever_keeps_failed_sends(batched):
    handed = []

    async def keep(failed):
        await asyncio.sleep(0)
        handed.extend(failed.messages)
        return True

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        producer = Producer(cluster.name_server.address, "PG", ProducerConfig(
            back_pressure_for_async_send_num=2, await_termination_millis_when_shutdown=0, auto_batch=batched),
            on_send_failed=keep)
        await producer.start()
        sends = [asyncio.ensure_future(producer.send(Message("T", b"%d" % number))) for number in range(5)]
        await until(broker.sends)
        await producer.shutdown()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {SendKept}
    assert {type(outcome.__cause__) for outcome in outcomes} == {SendCutOff}
    assert sorted(message.body for message in handed) == [b"%d" % number for number in range(5)]


async def test_a_send_that_is_cut_off_says_why_it_had_not_ended():
    async with scripted_cluster() as cluster:
        cluster.add_unreachable_broker("a", closed_address())
        producer = producer_of(cluster, send_msg_timeout=60_000, await_termination_millis_when_shutdown=0)
        await producer.start()
        sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
        await until(lambda: not producer._queues.back_off.is_idle)
        await producer.shutdown()
        with pytest.raises(SendCutOff, match="it may be stored: no connection to") as raised:
            await sending
    assert isinstance(raised.value.__cause__, ConnectFailed)
    assert raised.value.code == raised.value.__cause__.code


async def test_a_send_that_the_program_cancels_while_it_is_cut_off_is_cancelled():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        producer = producer_of(cluster, await_termination_millis_when_shutdown=0)
        await producer.start()
        sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
        await until(broker.sends)
        leaving = asyncio.ensure_future(producer.shutdown())
        await until(lambda: producer._accepted._cut_off, every_s=0)
        sending.cancel()
        await asyncio.wait([sending, leaving])
    assert sending.cancelled()


async def test_while_it_is_shut_down_a_producer_takes_no_more():
    gate = asyncio.Event()

    async def store(command):
        await gate.wait()
        return stored(command)

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", store)
        producer = producer_of(cluster)
        await producer.start()
        sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
        await until(broker.sends)
        leaving = asyncio.ensure_future(producer.shutdown())
        await until(lambda: producer._accepted._is_closing)
        for call in (producer.send(Message("T", b"y")), producer.send_batch([Message("T", b"y")]),
                     producer.send_in_batches([Message("T", b"y")]), producer.send_oneway(Message("T", b"y"))):
            with pytest.raises(ClientClosed, match="was shut down"):
                await call
        gate.set()
        await leaving
        assert (await sending).send_status is SendStatus.SEND_OK
        await producer.start()
        await producer.send(Message("T", b"z"))
        await producer.shutdown()
        assert [bytes(request.body) for request in broker.requests_of(RequestCode.SEND_MESSAGE_V2)] == [b"x", b"z"]


async def test_a_message_that_fits_no_frame_fails_alone_and_is_not_sent():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with producer_of(cluster) as producer:
            large = Message("T", b"x", properties={"n": "a" * (1 << 20)})
            outcomes = await asyncio.gather(*(producer.send(each) for each in (
                Message("T", b"1"), large, Message("T", b"2"))), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [SendResult, MessageIllegal, SendResult]
            with pytest.raises(MessageIllegal, match="does not fit"):
                await producer.send_oneway(large)
        assert len(broker.connections) == 1


@pytest.mark.parametrize("ext", [{}, {"msgId": "x", "queueId": "a", "queueOffset": "0"}])
async def test_a_success_that_cannot_be_read_is_a_failed_send_and_not_repeated(ext):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", lambda command: command.response(ResponseCode.SUCCESS, ext=ext))
        async with producer_of(cluster) as producer:
            with pytest.raises(SendFailed, match=r"stored the message and its answer cannot be read: SendMessageResp"):
                await producer.send(Message("T", b"x"))
        assert len(broker.sends()) == 1


async def test_a_route_that_cannot_be_used_is_none():
    async with scripted_cluster(queue_count=1_000_000_000) as cluster:
        await cluster.add_broker("a")
        async with producer_of(cluster) as producer:
            with pytest.raises(NoRoute, match="name server"):
                await producer.send(Message("T", b"x"))


async def test_no_time_is_not_the_usual_time():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with producer_of(cluster) as producer:
            await producer.fetch_publish_message_queues("T")
            with pytest.raises(TooManyRequests):
                await producer.send(Message("T", b"x"), timeout_ms=0)
        assert broker.sends() == []


async def test_bytes_under_way_count_properties():
    async with scripted_cluster() as cluster:
        gate = asyncio.Event()

        async def store(command):
            await gate.wait()
            return stored(command)

        broker = await cluster.add_broker("a", store)
        async with producer_of(cluster, back_pressure_for_async_send_size=1000) as producer:
            sends = [asyncio.ensure_future(producer.send(Message("T", b"x", properties={"n": "a" * 400})))
                     for _ in range(4)]
            await until(lambda: len(broker.sends()) == 2)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(broker.sends()) == 2
            gate.set()
            await asyncio.gather(*sends)


async def test_a_producer_to_ever_new_topics_keeps_the_latest(monkeypatch):
    monkeypatch.setattr("regulus.client.sending.send_queues._TOPICS_MAX", 3)
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        async with producer_of(cluster) as producer:
            for number in (0, 1, 2, 3, 4, 3, 1):
                await producer.send(Message(f"T{number}", b"x"))
            assert list(producer.topics()) == ["T3", "T4", "T1"]


async def test_shutdown_twice_at_once_leaves_others_their_instance():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        async with producer_of(cluster) as other:
            producer = Producer(cluster.name_server.address, "leaving", ProducerConfig(auto_batch=True))
            await producer.start()
            sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
            await asyncio.sleep(0)
            await asyncio.gather(producer.shutdown(), producer.shutdown())
            assert (await sending).send_status is SendStatus.SEND_OK
            assert (await other.send(Message("T", b"y"))).send_status is SendStatus.SEND_OK
        assert len(broker.sends()) == 2


async def test_in_a_forked_child_a_shutdown_waits_for_no_send_of_the_parent():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        producer = producer_of(cluster, auto_batch=True)
        await producer.start()
        sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
        await until(broker.sends)
        child, instance = copy(producer), producer._instance
        instance.is_left_behind = True
        async with asyncio.timeout(5):
            await child.shutdown()
        instance.is_left_behind = False
        leaving = asyncio.ensure_future(producer.shutdown())
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        sending.cancel()


async def test_a_shutdown_that_is_cancelled_gives_the_instance_back():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        producer = producer_of(cluster, auto_batch=True)
        await producer.start()
        instance = producer._running()
        sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
        await until(broker.sends)
        leaving = asyncio.ensure_future(producer.shutdown())
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        assert instance.users == 0
        sending.cancel()


async def test_a_shutdown_that_is_cancelled_keeps_what_it_cuts_off_and_ends_the_keeper(tmp_path):
    """Its sends raised ClientClosed, unkept, and the keeper worked on with its file, so that no start could follow."""
    kept = KeptSends(tmp_path / "kept.db")
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        producer = Producer(cluster.name_server.address, "PG", ProducerConfig(send_msg_timeout=60_000),
                            on_send_failed=kept)
        await producer.start()
        sends = [asyncio.ensure_future(producer.send(Message("T", b"%d" % number))) for number in range(3)]
        await until(broker.sends)
        leaving = asyncio.ensure_future(producer.shutdown())
        for _ in range(3):
            await asyncio.sleep(0)
        assert not leaving.done()
        leaving.cancel()
        await producer.shutdown()
        assert {type(outcome) for outcome in await asyncio.gather(*sends, return_exceptions=True)} == {SendKept}
        assert (await asyncio.gather(leaving, return_exceptions=True))[0].__class__ is asyncio.CancelledError
        async with producer:
            assert kept.status.waiting == 3


async def test_a_shutdown_waits_once_for_what_is_done_with_sends_that_it_cut_off(monkeypatch):
    waits = []

    async def ended(accepted, wait_ms):
        waits.append(wait_ms)
        return await ends_within(accepted, wait_ms)

    ends_within = accepted_sends.AcceptedSends._ends_within
    monkeypatch.setattr(accepted_sends, "HAND_OVER_MAX_MS", 20)
    monkeypatch.setattr(accepted_sends.AcceptedSends, "_ends_within", ended)
    may_end = asyncio.Event()

    async def slow(failed):
        await may_end.wait()

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", never)
        producer = Producer(cluster.name_server.address, "PG", ProducerConfig(
            await_termination_millis_when_shutdown=10), on_send_failed=slow)
        await producer.start()
        sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
        await until(broker.sends)
        await producer.shutdown()
        assert waits == [10, 20]
        may_end.set()
        await asyncio.gather(sending, return_exceptions=True)


async def test_a_second_shutdown_waits_for_one_that_was_cancelled(monkeypatch):
    may_release, release = asyncio.Event(), client_instance.release

    async def slow(instance, user):
        await may_release.wait()
        await release(instance, user)

    async with scripted_cluster() as cluster:
        producer = producer_of(cluster)
        await producer.start()
        instance = producer._running()
        monkeypatch.setattr(client_instance, "release", slow)
        leaving = asyncio.ensure_future(producer.shutdown())
        while producer._instance is not None:
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        again = asyncio.ensure_future(producer.shutdown())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not again.done()
        may_release.set()
        await again
        assert instance.users == 0


@pytest.mark.parametrize("is_connecting", [True, False], ids=["connecting", "asking for the route"])
async def test_a_send_that_shutdown_interrupts_is_not_cancelled(is_connecting, monkeypatch):
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        producer = producer_of(cluster, await_termination_millis_when_shutdown=0)
        await producer.start()
        instance = producer._running()
        begun = asyncio.Event()

        async def hang(address):
            begun.set()
            await asyncio.Event().wait()

        if is_connecting:
            await producer.fetch_publish_message_queues("T")
            await instance.heartbeat()
            instance.connections._open.pop(broker.address).abort()
        monkeypatch.setattr(instance.connections, "_connect", hang)
        sending = asyncio.ensure_future(producer.send(Message("T", b"x")))
        await asyncio.wait_for(begun.wait(), 10)
        await producer.shutdown()
        with pytest.raises(ClientClosed):
            await sending
        for connection in broker.connections:
            connection.abort()


async def test_shutdown_cuts_off_those_that_wait_for_a_route():
    async with scripted_cluster() as cluster:
        cluster.name_server.script = never
        producer = producer_of(cluster, back_pressure_for_async_send_num=1, await_termination_millis_when_shutdown=0)
        await producer.start()
        sends = [asyncio.ensure_future(producer.send(Message("T", b"x"))) for _ in range(3)]
        while not cluster.name_server.requests:
            await asyncio.sleep(0)
        await producer.shutdown()
        assert [send.done() for send in sends] == [True, True, True]
        for send in sends:
            with pytest.raises(SendCutOff, match="before it was the turn of this send"):
                await send


@in_virtual_time
async def test_a_broker_that_hangs_does_not_keep_sends_from_another():
    slow = SlowBroker(each_ms=1)
    async with scripted_cluster() as cluster:
        hung = await cluster.add_broker("a", never)
        await cluster.add_broker("b", slow)
        async with producer_of(cluster, back_pressure_for_async_send_num=10) as producer:
            stuck = [asyncio.ensure_future(producer.send(Message("T", b"x"), queue=MessageQueue("T", "a", 0)))
                     for _ in range(50)]
            while len(hung.sends()) < 10:
                await asyncio.sleep(0)
            begun = now_ms()
            await asyncio.gather(*(producer.send(Message("T", b"x"), queue=MessageQueue("T", "b", 0))
                                   for _ in range(100)))
            assert now_ms() - begun <= 150
            for send in stuck:
                send.cancel()


# --- brokers that go and come ----------------------------------------------------------------------------------------


class ConnectionCount:
    """When the running loop tried to connect to an address."""

    def __init__(self, address):
        self.times_ms = []
        self._port = int(address.rpartition(":")[2])

    def __enter__(self):
        loop = asyncio.get_running_loop()
        connect_for_real = loop.create_connection

        async def create_connection(factory, host, port, **options):
            if port == self._port:
                self.times_ms.append(now_ms())
            return await connect_for_real(factory, host, port, **options)

        self._patch = mock.patch.object(loop, "create_connection", create_connection)
        self._patch.start()
        return self

    def __exit__(self, *error):
        self._patch.stop()


@in_virtual_time
async def test_a_refused_connection_is_tried_again_after_growing_pauses():
    async with scripted_cluster() as cluster:
        address = closed_address()
        cluster.add_unreachable_broker("a", address)
        async with producer_of(cluster) as producer:
            await producer.fetch_publish_message_queues("T")
            begun = now_ms()
            with ConnectionCount(address) as tries:
                send = asyncio.ensure_future(producer.send(Message("T", b"x")))
                await asyncio.sleep(1.6)
                assert [time - begun for time in tries.times_ms] == [0, 50, 150, 350, 750, 1550]
                broker = ScriptedServer(stored)
                await broker.start(address)
                assert (await send).send_status is SendStatus.SEND_OK
            assert now_ms() - begun == 2550
            await producer.send(Message("T", b"x"))
            await broker.stop()


@in_virtual_time
async def test_when_the_broker_does_not_come_back_the_send_fails_within_its_time():
    async with scripted_cluster() as cluster:
        cluster.add_unreachable_broker("a", closed_address())
        async with producer_of(cluster) as producer:
            begun = now_ms()
            with pytest.raises(SendFailed, match="after 8 attempts in 2800 ms") as caught:
                await producer.send(Message("T", b"x"))
            assert now_ms() - begun == 2800     # the next pause would end too late: once more, as late as can be
            assert caught.value.code == ConnectFailed.code
            begun = now_ms()
            with pytest.raises(SendFailed, match="after 1 attempts"):
                await producer.send(Message("T", b"x"), timeout_ms=100)
            assert now_ms() == begun


@in_virtual_time
async def test_where_no_broker_is_known_a_first_send_waits_for_one():
    async with scripted_cluster() as cluster:
        cluster.topics_unknown = {"T", "TBW102"}
        async with producer_of(cluster) as producer:
            begun = now_ms()
            send = asyncio.ensure_future(producer.send(Message("T", b"x")))
            await asyncio.sleep(1)
            await cluster.add_broker("a")
            cluster.topics_unknown.clear()
            assert (await send).send_status is SendStatus.SEND_OK
            assert now_ms() - begun == 1550     # after pauses of 50, 100, 200, 400 and 800 ms


@in_virtual_time
async def test_where_no_broker_comes_a_first_send_says_so_at_the_end_of_its_time():
    async with scripted_cluster() as cluster:
        cluster.topics_unknown = {"T", "TBW102"}
        async with producer_of(cluster) as producer:
            begun = now_ms()
            with pytest.raises(NoBroker, match="the name servers know no broker; start one, or give it these name"):
                await producer.send(Message("T", b"x"))
            assert now_ms() - begun == 3000
        async with producer_of(cluster, retry_refused_connection=False) as producer:
            begun = now_ms()
            with pytest.raises(NoBroker):
                await producer.send(Message("T", b"x"))
            assert now_ms() == begun


async def test_a_refused_connection_is_a_failure_like_others_where_that_is_asked_for():
    async with scripted_cluster() as cluster:
        address = closed_address()
        cluster.add_unreachable_broker("a", address)
        async with producer_of(cluster, retry_refused_connection=False) as producer:
            with ConnectionCount(address) as tries, pytest.raises(SendFailed, match="after 3 attempts"):
                await producer.send(Message("T", b"x"))
    assert len(tries.times_ms) in (3, 4)    # the heartbeat may try, too


@in_virtual_time
async def test_another_broker_is_asked_at_once_and_the_refused_one_is_left_alone():
    async with scripted_cluster() as cluster:
        address = closed_address()
        cluster.add_unreachable_broker("a", address)
        await cluster.add_broker("b")
        async with producer_of(cluster) as producer:
            begun = now_ms()
            with ConnectionCount(address) as tries:
                for _ in range(20):
                    await producer.send(Message("T", b"x"))
            assert now_ms() == begun
    assert len(tries.times_ms) in (1, 2)    # the heartbeat may try, too


@in_virtual_time
async def test_refused_connections_of_all_brokers_take_turns():
    async with scripted_cluster() as cluster:
        for name in "ab":
            cluster.add_unreachable_broker(name, closed_address())
        async with producer_of(cluster, send_msg_timeout=500) as producer:
            with pytest.raises(SendFailed) as caught:
                await producer.send(Message("T", b"x"))
    assert len(caught.value.brokers) > 4
    assert set(caught.value.brokers[:2]) == {"a", "b"}


@in_virtual_time
async def test_an_ordered_send_waits_for_its_broker_and_is_sent_once():
    async with scripted_cluster() as cluster:
        address = closed_address()
        cluster.add_unreachable_broker("a", address)
        await cluster.add_broker("b")
        async with producer_of(cluster) as producer:
            send = asyncio.ensure_future(producer.send(Message("T", b"x"), queue=MessageQueue("T", "a", 1)))
            await asyncio.sleep(0.2)
            broker = ScriptedServer(refuses(ResponseCode.SYSTEM_ERROR))
            await broker.start(address)
            with pytest.raises(SendFailed):
                await send
            assert len(broker.sends()) == 1
            await broker.stop()


@in_virtual_time
async def test_when_a_broker_dies_those_that_wait_have_all_their_time_and_there_is_no_storm():
    slow = SlowBroker(each_ms=1)
    async with scripted_cluster() as cluster:
        first = await cluster.add_broker("a", never)
        address = first.address
        async with producer_of(cluster, back_pressure_for_async_send_num=50, send_msg_timeout=3000) as producer:
            sends = [asyncio.ensure_future(producer.send(Message("T", b"%d" % number))) for number in range(500)]
            while len(first.sends()) < 50:
                await asyncio.sleep(0)
            with ConnectionCount(address) as tries:
                await first.stop()
                await asyncio.sleep(2)
                second = ScriptedServer(slow)
                await second.start(address)
                results = await asyncio.gather(*sends)
            await second.stop()
    assert {result.send_status for result in results} == {SendStatus.SEND_OK}
    assert sorted(slow.bodies, key=int) == [b"%d" % number for number in range(500)]
    assert slow.most == 50
    assert len(tries.times_ms) <= 8


@in_virtual_time
async def test_what_waits_at_a_dead_broker_goes_to_another():
    slow = SlowBroker(each_ms=1)
    async with scripted_cluster() as cluster:
        dying = await cluster.add_broker("a", never)
        await cluster.add_broker("b", slow)
        async with producer_of(cluster, back_pressure_for_async_send_num=50) as producer:
            sends = [asyncio.ensure_future(producer.send(Message("T", b"%d" % number))) for number in range(1000)]
            while len(dying.sends()) < 50:
                await asyncio.sleep(0)
            begun = now_ms()
            with ConnectionCount(dying.address) as tries:
                await dying.stop()
                await asyncio.gather(*sends)
            assert now_ms() - begun <= 1100
    assert sorted(slow.bodies, key=int) == [b"%d" % number for number in range(1000)]
    assert slow.most == 50
    assert len(tries.times_ms) <= 4


# --- RocketMQ's rule for asynchronous sends --------------------------------------------------------------------------


async def test_as_async_sends_retries_stay_with_the_broker_and_have_a_count_of_their_own():
    async with scripted_cluster() as cluster:
        def drops(server):
            return lambda command: server[0].connections[-1].abort()
        servers = {name: [] for name in "ab"}
        for name, server in servers.items():
            server.append(await cluster.add_broker(name, drops(server)))
        async with producer_of(cluster, retry_as_async_send=True, retry_times_when_send_async_failed=4) as producer:
            for _ in range(3):
                with pytest.raises(SendFailed) as caught:
                    await producer.send(Message("T", b"x"))
                assert len(caught.value.brokers) == 5
                assert len(set(caught.value.brokers)) == 1


async def test_as_async_sends_refusals_are_not_retried():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", refuses(ResponseCode.SYSTEM_ERROR))
        async with producer_of(cluster, retry_as_async_send=True) as producer:
            with pytest.raises(BrokerRefused):
                await producer.send(Message("T", b"x"))
    assert len(broker.sends()) == 1


# --- against a real server -------------------------------------------------------------------------------------------


@pytest.fixture
async def admin(regulus_server):
    async with Admin(regulus_server.name_server_address) as client:
        yield client


def real_producer(server, **settings):
    return Producer(server.name_server_address, "PG", ProducerConfig(**settings))


async def bodies_of(admin, topic, count):
    """The bodies of all messages of a topic, once there are so many."""
    async with asyncio.timeout(20):
        while True:
            found = {queue: (await admin.pull(queue, 0, 32)).messages for queue in await admin.queues(topic)}
            if sum(map(len, found.values())) >= count:
                return {queue: [message.body for message in messages] for queue, messages in found.items()}


async def test_the_first_send_creates_its_topic_with_four_queues(regulus_server, admin):
    async with real_producer(regulus_server) as producer:
        results = [await producer.send(Message("New", b"x")) for _ in range(8)]
    assert {result.message_queue.queue_id for result in results} == {0, 1, 2, 3}
    assert [row.write_queue_nums for row in (await admin.topic_route("New")).queue_datas] == [4]


async def test_results_name_the_place_where_each_message_is_found(regulus_server, admin):
    for settings in ({}, {"auto_batch": True, "batch_max_delay_ms": 0}):
        async with real_producer(regulus_server, **settings) as producer:
            sent = [Message("New", b"%d" % number) for number in range(20)]
            results = await asyncio.gather(*(producer.send(message) for message in sent))
        for message, result in zip(sent, results, strict=True):
            found = [await admin.message_at(result.message_queue, result.queue_offset),
                     await admin.message_by_offset_id(result.offset_message_id)]
            assert [(each.body, each.message_id) for each in found] == [(message.body, result.message_id)] * 2


async def test_a_batch_lies_together_in_one_queue_in_order(regulus_server, admin):
    async with real_producer(regulus_server) as producer:
        result = await producer.send_batch([Message("New", b"%d" % number, f"T{number}") for number in range(5)])
        stored_bodies = await bodies_of(admin, "New", 5)
        await producer.send_in_batches([Message("New", b"x" * 100) for _ in range(20)], size_max=500)
    assert stored_bodies[result.message_queue] == [b"%d" % number for number in range(5)]
    assert (await admin.message_at(result.message_queue, result.queue_offset + 3)).tags == "T3"
    assert sum(each.max_offset for each in (await admin.topic_stats("New")).values()) == 25


async def test_oneway_messages_arrive(regulus_server, admin):
    await admin.create_topic(TopicConfig(topic_name="New"))
    async with real_producer(regulus_server) as producer:
        for number in range(10):
            await producer.send_oneway(Message("New", b"%d" % number))
        found = await bodies_of(admin, "New", 10)
    assert sorted(body for bodies in found.values() for body in bodies) == [b"%d" % number for number in range(10)]


async def test_every_compression_comes_back_unpacked(regulus_server, admin):
    for compress_type in CompressType:
        async with real_producer(regulus_server, compress_type=compress_type) as producer:
            result = await producer.send(Message("New", b"abc" * 200_000))
        found = await admin.message_by_offset_id(result.offset_message_id)
        assert found.body == b"abc" * 200_000
        assert found.store_size < 10_000


def has_queues(count, code=ResponseCode.INVALID_PARAMETER):
    """A broker's script: sends to queues beyond `count()` are refused as RocketMQ does."""
    def script(command):
        if int(command.ext["e"]) < count():
            return stored(command)
        return command.response(code, f"request queueId[{command.ext['e']}] is illegal, topic [T] has {count()} queues")
    return script


@pytest.mark.parametrize("code", [ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_ERROR], ids=["5", "4.9"])
@pytest.mark.parametrize("batched", [False, True])
async def test_when_a_topic_has_fewer_queues_the_route_is_asked_for_and_no_send_fails(code, batched):
    async with scripted_cluster(queue_count=16) as cluster:
        broker = await cluster.add_broker("a", has_queues(lambda: cluster.queue_count, code))
        async with producer_of(cluster, auto_batch=batched, batch_max_bytes=10) as producer:
            await producer.send(Message("T", b"x"))
            cluster.queue_count = 2
            asked = len(cluster.name_server.requests)
            results = await asyncio.gather(*(producer.send(Message("T", b"%d" % number)) for number in range(100)))
            assert len(cluster.name_server.requests) - asked < 20
            results.append(await producer.send_batch([Message("T", b"x"), Message("T", b"y")]))
        assert {result.message_queue.queue_id for result in results} == {0, 1}
        assert any(send.queue_id > 1 for send in broker.sends()[1:])


@in_virtual_time
async def test_a_name_server_may_hear_late_that_queues_are_gone():
    async with scripted_cluster(queue_count=16) as cluster:
        count = 16
        await cluster.add_broker("a", has_queues(lambda: count))
        async with producer_of(cluster) as producer:
            await producer.send(Message("T", b"x"))
            count = 0
            begun = now_ms()
            sending = asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(20)))
            await asyncio.sleep(1)
            count = cluster.queue_count = 1
            await sending
            assert now_ms() - begun < 2_100


async def test_a_broker_that_refuses_all_queues_of_its_route_fails_the_send_within_its_time():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", has_queues(lambda: 0))
        async with producer_of(cluster, send_msg_timeout=500) as producer:
            with pytest.raises(SendFailed, match="answered 29: request queueId"):
                await producer.send(Message("T", b"x"))
        assert 2 < len(broker.sends()) < 8


async def test_a_chosen_queue_that_is_gone_fails_at_once_and_the_route_is_asked_for():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", has_queues(lambda: cluster.queue_count))
        async with producer_of(cluster) as producer:
            queues = await producer.fetch_publish_message_queues("T")
            cluster.queue_count = 1
            with pytest.raises(BrokerRefused, match="answered 29"):
                await producer.send(Message("T", b"x"), queue=queues[3])
            assert len(broker.sends()) == 1
            await until(lambda: len(producer._running().known_route("T").publish_queues) == 1)


async def test_a_name_server_that_is_not_up_yet_is_waited_for():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        address = cluster.name_server.address
        await cluster.name_server.stop()
        async with Producer(address, "PG", ProducerConfig(send_msg_timeout=30_000)) as producer:
            sending = [asyncio.ensure_future(producer.send(Message("T", b"x"))) for _ in range(3)]
            await until(lambda: not producer._turns.route_seekers.is_empty)
            await asyncio.sleep(0.1)        # so that it was asked for in vain
            await cluster.name_server.start(address)
            results = await asyncio.gather(*sending)
    assert {result.send_status for result in results} == {SendStatus.SEND_OK}


@in_virtual_time
async def test_a_name_server_that_does_not_come_is_one_error_when_the_time_is_over():
    async with Producer(closed_address(), "PG") as producer:
        begun = now_ms()
        with pytest.raises(NoNameServer, match="no name server answers"):
            await producer.send(Message("T", b"x"))
        assert 2_000 < now_ms() - begun < 3_100
        with pytest.raises(WrongNameServer):
            async with Producer("no-such-host.invalid:9876", "PG") as other:
                await other.send(Message("T", b"x"))
