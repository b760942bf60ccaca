"""Concurrent sends that leave together, seen from their callers and from the broker."""

import asyncio
from collections import Counter

import pytest

from regulus.client.config import ProducerConfig
from regulus.client.send_result import SendResult, SendStatus
from regulus.client.sending.gathered_sends import GatheredSends
from regulus.client.sending.outgoing import Outgoing
from regulus.client.sending.producer import Producer
from regulus.client.tasks import TaskGroup
from regulus.errors import BrokerRefused, MessageIllegal
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.wire import message_batch
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_servers import refused, scripted_cluster, stored
from tests.virtual_time import in_virtual_time, now_ms


class Broker:
    """Sends wait here until the test lets them go on. `batches` are the bodies of each request."""

    def __init__(self):
        self.batches = []
        self.answers = []

    async def send(self, messages, queue):
        self.batches.append([message.body for message in messages])
        answer = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        await answer
        place = queue or MessageQueue("T", "a", 0)
        return [SendResult(SendStatus.SEND_OK, "", place, number) for number, _ in enumerate(messages)]

    async def answer(self, number):
        self.answers[number].set_result(None)
        await settle()


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def gathered(broker, **settings):
    return GatheredSends(ProducerConfig(**settings), broker.send, TaskGroup())


async def test_where_nothing_is_under_way_what_is_sent_in_one_moment_leaves_at_its_end():
    broker = Broker()
    sends = gathered(broker)
    sends.add(Message("T", b"a"), None)
    sends.add(Message("T", b"b"), None)
    assert sends.held_size == 2
    await settle()
    assert broker.batches == [[b"a", b"b"]]
    assert sends.held_size == 0


@in_virtual_time
async def test_a_send_alone_waits_for_nobody():
    broker = Broker()
    sends = gathered(broker)
    begun = now_ms()
    future = sends.add(Message("T", b"a"), None)
    await settle()
    await broker.answer(0)
    assert (await future).send_status is SendStatus.SEND_OK
    assert now_ms() == begun


@in_virtual_time
async def test_while_something_is_under_way_sends_gather_until_it_is_answered():
    broker = Broker()
    sends = gathered(broker)
    sends.add(Message("T", b"a"), None)
    await settle()
    for body in (b"b", b"c"):
        sends.add(Message("T", body), None)
        await settle()
    assert broker.batches == [[b"a"]]
    await broker.answer(0)
    assert broker.batches == [[b"a"], [b"b", b"c"]]


@in_virtual_time
async def test_they_gather_no_longer_than_the_first_of_them_may_wait():
    broker = Broker()
    sends = gathered(broker, batch_max_delay_ms=10)
    sends.add(Message("T", b"a"), None)
    await settle()
    begun = now_ms()
    sends.add(Message("T", b"b"), None)
    await asyncio.sleep(0.009)
    sends.add(Message("T", b"c"), None)
    assert len(broker.batches) == 1
    await asyncio.sleep(0.001)
    await settle()
    assert now_ms() - begun == 10
    assert broker.batches == [[b"a"], [b"b", b"c"]]


@in_virtual_time
async def test_without_a_delay_only_those_of_one_moment_gather():
    broker = Broker()
    sends = gathered(broker, batch_max_delay_ms=0)
    for body in (b"a", b"b"):
        sends.add(Message("T", body), None)
        await settle()
    assert broker.batches == [[b"a"], [b"b"]]


async def test_a_full_batch_leaves_at_once_and_none_is_larger_than_it_may_be():
    broker = Broker()
    sends = gathered(broker, batch_max_bytes=100)
    for body in (b"a" * 60, b"b" * 60, b"c" * 40, b"d"):
        sends.add(Message("T", body), None)
    await settle()
    assert [sum(map(len, batch)) for batch in broker.batches] == [60, 100]
    await broker.answer(1)
    assert broker.batches[2:] == [[b"d"]]


async def test_properties_count_as_bodies_do():
    broker = Broker()
    sends = gathered(broker, batch_max_bytes=100, total_batch_max_bytes=250)
    for value in ("a" * 50, "b" * 45, "c" * 97, "\N{EURO SIGN}" * 20):
        sends.add(Message("T", b"1", properties={"n": value}), None)
    assert sends.held_size == 1 + 3 + 60
    await settle()
    assert [len(batch) for batch in broker.batches] == [1, 1, 1]
    assert sends.add(Message("T", b"1", properties={"n": "a" * 250}), None) is None
    await broker.answer(0)


async def test_many_small_messages_stay_within_what_a_broker_takes_at_once():
    broker = Broker()
    sends = gathered(broker, batch_max_bytes=10_000, max_message_size=1000)
    for _ in range(50):
        sends.add(Message("T", b"1"), None)
    await settle()
    await broker.answer(0)
    assert [len(batch) for batch in broker.batches] == [15, 15, 15, 5]


async def test_what_would_be_compressed_goes_alone_and_in_its_order():
    broker = Broker()
    sends = gathered(broker, compress_msg_body_over_howmuch=50)
    for body in (b"a", b"b" * 50, b"c"):
        sends.add(Message("T", body), None)
    await settle()
    await broker.answer(0)
    assert broker.batches == [[b"a"], [b"b" * 50], [b"c"]]


async def test_messages_that_differ_do_not_travel_together():
    broker = Broker()
    sends = gathered(broker)
    for message, queue in ((Message("T", b"a"), None), (Message("U", b"b"), None), (Message("T", b"c", "tag"), None),
                           (Message("T", b"d"), MessageQueue("T", "a", 1)),
                           (Message("T", b"e", properties={"WAIT": "false"}), None)):
        sends.add(message, queue)
    await settle()
    assert sorted(broker.batches) == [[b"a"], [b"b"], [b"c"], [b"d"], [b"e"]]


async def test_what_cannot_wait_or_finds_no_room_goes_directly():
    sends = gathered(Broker(), total_batch_max_bytes=4)
    assert sends.add(Message("T", b"x", properties={"DELAY": "1"}), None) is None
    assert sends.add(Message("T", b"12345"), None) is None
    assert sends.add(Message("T", b"1234"), None) is not None
    assert sends.add(Message("T", b"1"), None) is None
    assert sends.held_size == 4


async def test_one_that_gave_up_while_it_gathered_is_not_sent():
    broker = Broker()
    sends = gathered(broker)
    first, second = sends.add(Message("T", b"a"), None), sends.add(Message("T", b"b"), None)
    first.cancel()
    await settle()
    assert broker.batches == [[b"b"]]
    second.cancel()
    await broker.answer(0)
    sends.add(Message("T", b"c"), None).cancel()
    await settle()
    assert sends.held_size == 0
    assert not sends._lanes


async def test_nothing_is_left_of_a_lane_that_is_done():
    broker = Broker()
    sends = gathered(broker)
    for number in range(3):
        sends.add(Message("T", b"a"), None)
        await settle()
        await broker.answer(number)
    assert not sends._lanes


# --- through a producer ----------------------------------------------------------------------------------------------


def producer_of(cluster, **settings):
    return Producer(cluster.name_server.address, "PG", ProducerConfig(auto_batch=True, **settings))


async def test_each_of_a_batch_gets_its_own_place():
    def store(command):
        answer = stored(command, offset=10)
        answer.ext = {**answer.ext, "msgId": ",".join(f"ID{number}" for number in range(5))}
        return answer
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", store)
        messages = [Message("T", b"x") for _ in range(5)]
        async with producer_of(cluster) as producer:
            results = await asyncio.gather(*(producer.send(message) for message in messages))
        assert len(broker.sends()) == 1
    assert [result.queue_offset for result in results] == [10, 11, 12, 13, 14]
    assert [result.message_id for result in results] == [message.message_id for message in messages]
    assert [result.offset_message_id for result in results] == [f"ID{number}" for number in range(5)]


async def test_when_a_batch_fails_every_caller_gets_the_same_error():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", lambda command: refused(command, ResponseCode.VERSION_NOT_SUPPORTED))
        async with producer_of(cluster) as producer:
            outcomes = await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(5)),
                                            return_exceptions=True)
    assert len({id(outcome) for outcome in outcomes}) == 1
    assert isinstance(outcomes[0], BrokerRefused)


async def test_a_message_that_breaks_a_rule_does_not_fail_those_that_travel_with_it():
    def store(command):
        bodies = [body for _, body, _, _ in message_batch.decode(command.body)] if command.code == (
            RequestCode.SEND_BATCH_MESSAGE) else [command.body]
        return refused(command, ResponseCode.MESSAGE_ILLEGAL) if b"bad" in bodies else stored(command)
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", store)
        async with producer_of(cluster) as producer:
            outcomes = await asyncio.gather(*(producer.send(Message("T", body)) for body in (b"1", b"bad", b"2")),
                                            return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [SendResult, BrokerRefused, SendResult]
        assert [request.body for request in broker.requests_of(RequestCode.SEND_MESSAGE_V2)] == [b"1", b"bad", b"2"]


async def test_a_batch_is_repeated_whole():
    batches = []

    def store(command):
        batches.append([body for _, body, _, _ in message_batch.decode(command.body)])
        return stored(command) if len(batches) > 1 else refused(command, ResponseCode.SYSTEM_ERROR)

    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", store)
        async with producer_of(cluster) as producer:
            await asyncio.gather(*(producer.send(Message("T", b"%d" % number)) for number in range(5)))
    assert batches == [[b"0", b"1", b"2", b"3", b"4"]] * 2


@in_virtual_time
async def test_shutdown_sends_what_gathers():
    async with scripted_cluster() as cluster:
        gate = asyncio.Event()

        async def store(command):
            await gate.wait()
            return stored(command)

        broker = await cluster.add_broker("a", store)
        producer = producer_of(cluster, batch_max_delay_ms=30_000)
        await producer.start()
        first = asyncio.ensure_future(producer.send(Message("T", b"x")))
        while not broker.sends():
            await asyncio.sleep(0)
        second = asyncio.ensure_future(producer.send(Message("T", b"y")))
        await asyncio.sleep(0)
        ended = asyncio.ensure_future(producer.shutdown())
        while len(broker.sends()) < 2:
            await asyncio.sleep(0)
        gate.set()
        await ended
        assert {(await each).send_status for each in (first, second)} == {SendStatus.SEND_OK}


@in_virtual_time
async def test_thousands_at_once_become_few_requests_and_each_is_stored_once():
    bodies = Counter()

    def store(command):
        if command.code == RequestCode.SEND_BATCH_MESSAGE:
            bodies.update(body for _, body, _, _ in message_batch.decode(command.body))
        else:
            bodies[bytes(command.body)] += 1
        return stored(command)

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", store)
        async with producer_of(cluster, batch_max_bytes=1000) as producer:
            results = await asyncio.gather(*(producer.send(Message("T", b"%010d" % number)) for number in range(5000)))
        assert len(broker.sends()) == 50
    assert len(results) == 5000
    assert bodies == Counter(b"%010d" % number for number in range(5000))


@in_virtual_time
async def test_a_batch_takes_places_by_its_messages():
    under_way = most = free_ms = 0

    async def store(command):
        nonlocal under_way, most, free_ms
        count = sum(1 for _ in message_batch.decode(command.body))
        under_way += count
        most = max(most, under_way)
        free_ms = max(free_ms, now_ms()) + count
        await asyncio.sleep((free_ms - now_ms()) / 1000)
        under_way -= count
        return stored(command)

    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", store)
        async with producer_of(cluster, batch_max_bytes=1000, back_pressure_for_async_send_num=128,
                               send_msg_timeout=900) as producer:
            await asyncio.gather(*(producer.send(Message("T", b"%010d" % number)) for number in range(2000)))
            assert most == 200      # 100 messages take 51 places
            most = 0
            await asyncio.gather(*(producer.send_batch([Message("T", b"x") for _ in range(250)], timeout_ms=10_000)
                                   for _ in range(4)))
            assert most == 250      # 126 places of 128
        assert len(broker.sends()) == 24


@pytest.mark.parametrize("fault", [MessageIllegal("too long"), KeyError("a fault of ours")])
async def test_what_one_message_of_a_refused_batch_fails_with_is_its_own(monkeypatch, fault):
    def make(message, *rest):
        if message.body == b"bad":
            raise fault
        return single(message, *rest)

    single = Outgoing.single
    monkeypatch.setattr(Outgoing, "single", make)
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", lambda command: (
            refused(command, ResponseCode.MESSAGE_ILLEGAL) if command.code == RequestCode.SEND_BATCH_MESSAGE
            else stored(command)))
        async with producer_of(cluster) as producer:
            outcomes = await asyncio.gather(*(producer.send(Message("T", body)) for body in (b"1", b"bad", b"3")),
                                            return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [SendResult, type(fault), SendResult]
        assert len(broker.sends()) == 3


async def test_one_message_whose_properties_no_batch_can_carry_fails_alone():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a", lambda command: (
            refused(command, ResponseCode.MESSAGE_ILLEGAL) if "large" in command.ext["i"] else stored(command)))
        async with producer_of(cluster, batch_max_bytes=1 << 20) as producer:
            outcomes = await asyncio.gather(*(producer.send(Message("T", b"x", properties={"n": value}))
                                              for value in ("a", "large" * 10_000, "b")), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [SendResult, BrokerRefused, SendResult]


async def test_an_illegal_message_is_refused_before_it_gathers():
    async with scripted_cluster() as cluster, producer_of(cluster) as producer:
        with pytest.raises(MessageIllegal):
            await producer.send(Message("T", b""))
