"""The door for applications of others: deterministic, told what went wrong with its seed, and able to do harm."""

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time

import pytest

from regulus import ConsumeFromWhere, ConsumeStatus, Message, Producer, PushConsumer, PushConsumerConfig
from regulus.errors import ClientError, RegulusError
from regulus.testing import simulate
from regulus.testing.simulation.world import SimulationFailed

FROM_THE_FIRST = PushConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


async def send(world, *bodies):
    async with Producer(world.name_server_address, "shop") as producer:
        for body in bodies:
            await producer.send(Message("orders", body))


async def send_in_trouble(world, body):
    """As often as it takes: the broker may not say in time that it has the message."""
    while True:
        try:
            await send(world, body)
        except ClientError:
            continue
        return


async def troubled(world):
    got = []

    async def listen(messages, context):
        got.extend(message.body for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(world.name_server_address, "kitchen", listen, FROM_THE_FIRST)
    consumer.subscribe("orders")
    async with consumer:
        await send(world, b"one", b"two")
        await world.trouble(during_s=5)
        await send_in_trouble(world, b"three")
        await asyncio.sleep(60)
    return sorted(set(got)), sorted(set(world.stored("orders")))


def lines_of(seed):
    lines = []
    assert simulate(troubled, seed=seed, sync_flush=True, say=lines.append) == (
        [b"one", b"three", b"two"], [b"one", b"three", b"two"])
    return lines


def test_a_seed_is_the_same_run_each_time_and_another_seed_another_one():
    first = lines_of(3)
    assert any("is killed" in line or "is stopped" in line or "loses its power" in line for line in first)
    assert lines_of(3) == first
    assert lines_of(4) != first


_IN_ANOTHER_PROCESS = """
from tests.unit.testing.simulation.test_world import lines_of
print("\\n".join(lines_of(3)))
"""


def test_a_seed_is_the_same_run_in_each_process_that_has_the_same_order_of_hashes(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    runs = [subprocess.run([sys.executable, "-c", _IN_ANOTHER_PROCESS], capture_output=True, text=True, timeout=120,
                           check=True).stdout for _ in range(2)]
    assert len(runs[0].splitlines()) > 10
    assert runs[0] == runs[1]


def test_what_another_thread_of_the_process_logs_is_none_of_the_run():
    async def app(world):
        told = threading.Thread(target=logging.getLogger("regulus.client").error, args=("elsewhere",))
        told.start()
        told.join()

    lines = []
    simulate(app, seed=3, say=lines.append)
    assert not [line for line in lines if "elsewhere" in line]


def test_what_the_application_raises_is_told_with_the_seed():
    async def app(world):
        await send(world, b"one")
        raise LookupError("no tea")

    with pytest.raises(SimulationFailed, match=r"seed 7: LookupError: no tea\nagain: simulate\(\.\.\., seed=7") as told:
        simulate(app, seed=7)
    assert isinstance(told.value.__cause__, LookupError)
    assert told.value.seed == 7


def test_an_error_that_nobody_took_is_a_finding():
    async def forgotten():
        raise LookupError("no tea")

    async def app(world):
        world.start("cook", forgotten())
        await asyncio.sleep(1)

    with pytest.raises(SimulationFailed, match=r"cook: the task .* failed, and nobody took its error: LookupError"):
        simulate(app, seed=1)


def test_an_error_that_is_logged_is_a_finding():
    async def app(world):
        logging.getLogger("regulus.client").error("a worker died")

    with pytest.raises(SimulationFailed, match="a worker died"):
        simulate(app, seed=1)


def test_what_never_ends_is_told_with_the_place_where_it_waits():
    async def app(world):
        await asyncio.Event().wait()

    with pytest.raises(SimulationFailed, match=r"after 600 s of the simulated time it still waits in .*Event\.wait"):
        simulate(app, seed=1, within_s=600)


def test_a_power_cut_takes_what_was_not_synced_and_only_that():
    async def app(world):
        await send(world, b"one")
        await asyncio.sleep(30)
        await send(world, b"two")
        world.broker.cut_power(0)       # leaves what is sure and nothing else
        await world.broker.start()
        return world.stored("orders")

    assert simulate(app, seed=1) == [b"one"]
    assert sorted(simulate(app, seed=1, sync_flush=True)) == [b"one", b"two"]


def test_a_killed_broker_is_missed_and_comes_back_with_all_it_had():
    async def app(world):
        await send(world, b"one")
        world.broker.kill()
        with pytest.raises(ClientError):
            await send(world, b"two")
        await world.broker.start()
        return world.stored("orders")

    assert simulate(app, seed=1) == [b"one"]


def test_a_process_is_killed_in_the_midst_of_what_it_does():
    async def worker(done):
        try:
            await asyncio.sleep(10)
        finally:
            done.append("cleaned up")

    async def app(world):
        done = []
        process = world.start("worker", worker(done))
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(60)
        with pytest.raises(RegulusError, match="worker was killed"):
            await process.ended()
        return list(done)

    assert simulate(app, seed=1) == []


def test_a_process_that_died_within_what_it_would_clean_up_leaves_no_warning(recwarn):
    async def say_goodbye():
        await asyncio.sleep(1)

    async def worker():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.gather(say_goodbye(), say_goodbye())

    async def app(world):
        process = world.start("worker", worker())
        await asyncio.sleep(1)
        process.kill()

    asyncio.run(asyncio.sleep(0))       # whoever had a loop has none behind it
    simulate(app, seed=1)
    gc.collect()
    assert [str(each.message) for each in recwarn if each.category is RuntimeWarning] == []


def test_what_a_process_returns_is_handed_on():
    async def worker():
        await asyncio.sleep(3_000)
        return 42

    async def app(world):
        return await world.start("worker", worker()).ended(), round(world.now_s)

    begin = time.monotonic()
    assert simulate(app, seed=1) == (42, 3_001)     # the servers have a head start of one
    assert time.monotonic() - begin < 600


@pytest.mark.parametrize("is_answer_lost", [False, True])
def test_a_parting_can_be_in_one_direction(is_answer_lost):
    """The broker has the message when only its answer is lost."""
    async def app(world):
        async with Producer(world.name_server_address, "shop") as producer:
            await producer.send(Message("orders", b"one"))
            parted = (world.broker, world) if is_answer_lost else (world, world.broker)
            world.part(*parted, one_way=True)
            with pytest.raises(ClientError):
                await producer.send(Message("orders", b"two"), timeout_ms=2_000)
            stored = world.stored("orders")
            world.join()
            await asyncio.sleep(30)
            await producer.send(Message("orders", b"three"))
            return stored

    assert (b"two" in simulate(app, seed=1)) is is_answer_lost


def test_several_brokers_and_their_settings():
    async def app(world):
        assert len(world.brokers) == 2
        with pytest.raises(ClientError):
            await send(world, b"one")

    simulate(app, seed=1, brokers=2, name_servers=2, auto_create_topic_enable=False)


async def test_a_test_with_a_loop_of_its_own_is_told_what_to_write():
    with pytest.raises(RegulusError, match="call it from a plain function"):
        simulate(troubled, seed=1)


def test_a_trouble_that_there_is_not_is_told():
    async def app(world):
        await world.trouble(1, kinds=["flood"])

    with pytest.raises(SimulationFailed, match="there is no trouble flood: take some of kill_broker, "):
        simulate(app, seed=1)


def test_a_clock_that_was_set_wrong_is_wrong_on_its_own_machine_only():
    async def app(world):
        begin = time.time()
        world.broker.set_clock(3_600.0)
        await send(world, b"one")
        store = world.broker.store
        return [time.time() - begin < 60, store.earliest_store_timestamp() - begin * 1000 > 3_500_000]

    assert simulate(app, seed=1) == [True, True]
