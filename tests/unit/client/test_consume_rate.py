"""A listener is given no more than its rate: what exceeds it stays in the queue and is no failure."""

import asyncio
import time

import pytest

from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.errors import ConfigError
from regulus.model.message import Message


def consumed(server, count, listen, **options):
    """`count` messages, sent first, through a listener; how many seconds that took."""
    async def story():
        async with Producer(server.name_server_address, "shop") as producer:
            for number in range(count):
                await producer.send(Message("orders", b"%d" % number))
        config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **options)
        consumer = PushConsumer(server.name_server_address, "billing", listen.call, config)
        consumer.subscribe("orders")
        async with consumer:
            begun = time.monotonic()
            await listen.all_came(count)
            return time.monotonic() - begun
    return server.run(story())


class Listening:
    def __init__(self):
        self.came = []

    async def call(self, messages, context):
        self.came.extend((each.body, each.reconsume_times) for each in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    async def all_came(self, count):
        while len(self.came) < count:
            await asyncio.sleep(0.1)


class InThreads(Listening):
    def __init__(self):
        super().__init__()

        def call(messages, context):
            self.came.extend((each.body, each.reconsume_times) for each in messages)
            return ConsumeStatus.CONSUME_SUCCESS
        self.call = call


@pytest.mark.parametrize("kind", [Listening, InThreads])
@pytest.mark.parametrize("is_orderly", [False, True])
def test_what_exceeds_the_rate_waits_in_the_queue_and_is_never_retried(simulated_regulus, kind, is_orderly):
    """120 messages at 1 a second, 20 at once: far longer than the consume timeout, which counts calls alone."""
    listen = kind()
    seconds = consumed(simulated_regulus, 120, listen, consume_rate_max=1, consume_burst_max=20, consume_timeout=30_000,
                       consume_orderly=is_orderly)
    assert 98 <= seconds <= 112
    assert sorted(listen.came, key=lambda each: int(each[0])) == [(b"%d" % number, 0) for number in range(120)]


def test_without_a_rate_nothing_waits(simulated_regulus):
    assert consumed(simulated_regulus, 120, Listening()) < 15


def test_the_burst_is_that_of_a_second_unless_it_is_given(simulated_regulus):
    assert 9 <= consumed(simulated_regulus, 100, Listening(), consume_rate_max=10) <= 20


@pytest.mark.parametrize("is_orderly", [False, True])
def test_an_end_does_not_wait_for_tokens(simulated_regulus, caplog, is_orderly):
    listen = Listening()

    async def story():
        async with Producer(simulated_regulus.name_server_address, "shop") as producer:
            for number in range(50):
                await producer.send(Message("orders", b"%d" % number))
        config = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                                    consume_rate_max=0.001, consume_burst_max=5,
                                    consume_orderly=is_orderly)
        consumer = PushConsumer(simulated_regulus.name_server_address, "billing", listen.call, config)
        consumer.subscribe("orders")
        async with consumer:
            await listen.all_came(5)
            begun = time.monotonic()
        return time.monotonic() - begun

    assert simulated_regulus.run(story()) < 5
    assert len(listen.came) == 5
    assert "listener calls still run" not in caplog.text


def test_a_hand_over_in_order_does_not_wait_for_tokens(simulated_regulus, caplog):
    """The second member gets half of the queues, whose locks are given back at once, and has all its tokens."""
    first, second = Listening(), Listening()

    def member(listen):
        consumer = PushConsumer(simulated_regulus.name_server_address, "billing", listen.call, PushConsumerConfig(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, consume_rate_max=0.001, consume_burst_max=5,
            consume_orderly=True))
        consumer.subscribe("orders")
        return consumer

    async def story():
        async with Producer(simulated_regulus.name_server_address, "shop") as producer:
            for number in range(50):
                await producer.send(Message("orders", b"%d" % number))
        async with member(first):
            await first.all_came(5)
            begun = time.monotonic()
            async with member(second):
                await second.all_came(5)
                return time.monotonic() - begun

    assert simulated_regulus.run(story()) < 5
    assert not set(first.came) & set(second.came)
    assert "listener calls still run" not in caplog.text


@pytest.mark.parametrize("options", [{"consume_rate_max": -1}, {"consume_rate_max": float("nan")},
                                     {"consume_rate_max": 1e9}, {"consume_rate_max": 5e-324},
                                     {"consume_burst_max": -1}])
def test_odd_rates_are_refused_by_name(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        PushConsumerConfig(**options)
