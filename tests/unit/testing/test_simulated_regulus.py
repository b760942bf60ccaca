"""The real broker with a time that jumps: what takes hours elsewhere, and what a test must be told."""

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from regulus.client import sync
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.errors import RegulusError
from regulus.model.message import Message
from regulus.model.message_properties import DELAY_TIME_LEVEL

LADDER_S = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
POLL_S = 0.2    # the broker looks for what is due ten times a second, and the network takes its time
FROM_THE_FIRST = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@asynccontextmanager
async def consumer(server, topic, listener):
    receiver = PushConsumer(server.name_server_address, "kitchen", listener, FROM_THE_FIRST)
    receiver.subscribe(topic)
    async with receiver:
        yield


async def sent(server, message):
    async with Producer(server.name_server_address, "shop") as producer:
        return await producer.send(message)


def test_a_delay_of_two_hours_is_over_at_once(simulated_regulus):
    async def delayed():
        came = asyncio.get_running_loop().create_future()

        async def listen(messages, context):
            came.set_result(time.time())
            return ConsumeStatus.CONSUME_SUCCESS

        async with consumer(simulated_regulus, "orders", listen):
            begin = time.time()
            await sent(simulated_regulus, Message("orders", b"tea", properties={DELAY_TIME_LEVEL: "18"}))
            return await came - begin

    assert simulated_regulus.run(delayed()) == pytest.approx(7200, abs=POLL_S)


@pytest.mark.once
def test_a_plain_listener_that_always_fails_sees_the_whole_ladder_and_then_the_dead_letter(simulated_regulus, caplog):
    caplog.set_level(logging.CRITICAL, "regulus.client")
    calls, dead = [], []

    def fail(messages, context):
        calls.append((time.time(), messages[0].reconsume_times))
        raise SystemExit("not today")

    def bury(messages, context):
        dead.append(messages[0].body)
        return ConsumeStatus.CONSUME_SUCCESS

    async def story():
        await sent(simulated_regulus, Message("orders", b"tea"))
        async with consumer(simulated_regulus, "orders", fail):
            await asyncio.sleep(sum(LADDER_S) + 60)
        undertaker = PushConsumer(simulated_regulus.name_server_address, "undertaker", bury, FROM_THE_FIRST)
        undertaker.subscribe("%DLQ%kitchen")
        async with undertaker:
            await asyncio.sleep(60)

    simulated_regulus.run(story())
    assert [times for _, times in calls] == list(range(17))
    pauses = [later - earlier for (earlier, _), (later, _) in pairwise(calls)]
    assert pauses == pytest.approx(LADDER_S, abs=POLL_S)
    assert dead == [b"tea"]


def test_what_one_run_stored_is_there_for_the_next_one(simulated_regulus):
    first = simulated_regulus.run(sent(simulated_regulus, Message("orders", b"one")))
    second = simulated_regulus.run(sent(simulated_regulus, Message("orders", b"two")))
    assert first.message_id != second.message_id


def test_what_never_ends_is_told_with_the_place_where_it_waits(simulated_regulus):
    with pytest.raises(RegulusError, match="after 3600 s of the simulated time it still waits in Event\\.wait"):
        simulated_regulus.run(asyncio.Event().wait(), within_s=3600)


def test_an_error_of_the_test_is_its_own(simulated_regulus):
    async def fail():
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        simulated_regulus.run(fail())


def test_clients_that_a_test_leaves_running_do_not_keep_it(simulated_regulus):
    async def leave():
        await Producer(simulated_regulus.name_server_address, "shop").start()

    simulated_regulus.run(leave())


async def test_a_test_with_a_loop_of_its_own_is_told_what_to_write(simulated_regulus):
    with pytest.raises(RegulusError, match=r"write the test as a plain function, and hand what it awaits to run"):
        simulated_regulus.run(asyncio.sleep(1))


def test_a_blocking_client_is_refused(simulated_regulus):
    with (pytest.raises(RegulusError, match="use the asyncio clients here"),
          sync.Producer(simulated_regulus.name_server_address, "shop")):
        pass


def test_the_time_is_the_real_one_again_afterwards():
    assert abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME)) < 60
