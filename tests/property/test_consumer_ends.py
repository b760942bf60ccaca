"""The end of a consumer, cut off after any number of steps: nothing of it goes on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.client.both_protocols import BothProtocols, both_protocols

from regulus.client.config import (
    ConsumeFromWhere,
    MessageModel,
    MessageRequestMode,
    PushConsumerConfig,
    SimpleConsumerConfig,
)
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.model.message import Message

pytestmark = pytest.mark.once

STEPS = [*range(1, 12), 15, 20, 30]
"""After which the end is cut off."""
CLIENT = "regulus/client/"
WITHIN_S = 20

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
POP = MessageRequestMode.POP


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BothProtocols]:
    async with both_protocols(tmp_path / "store") as made:
        await made.create_topic("orders", queues=2)
        await made.create_group("lines", consume_message_orderly=True)
        async with Producer(made.name_server, "senders") as producer:
            await asyncio.gather(*(producer.send(Message("orders", b"%d" % number)) for number in range(40)))
        yield made


class Failing:
    """A listener whose messages never end: what it failed with comes again, here or from the broker."""

    def __init__(self) -> None:
        self.calls = 0
        self.running = 0

    async def __call__(self, *_: object) -> ConsumeStatus:
        self.calls += 1
        self.running += 1
        try:
            await asyncio.sleep(0.001)
        finally:
            self.running -= 1
        return ConsumeStatus.RECONSUME_LATER


def of_clients() -> set[asyncio.Task[object]]:
    """Tasks that run what clients are made of."""
    return {task for task in asyncio.all_tasks()
            if CLIENT in getattr(getattr(task.get_coro(), "cr_code", None), "co_filename", "")}


async def cut_off(end: Callable[[], Awaitable[None]], steps: int, again: int = 0) -> None:
    """Call it, and cancel that after so many steps of the loop; and once more, so many steps later."""
    ending = asyncio.ensure_future(end())
    for count in (steps, again):
        for _ in range(count):
            await asyncio.sleep(0)
        ending.cancel()
    await asyncio.wait([ending], timeout=WITHIN_S)
    assert ending.done()


KINDS = {
    "pulls": ("rocketmq", "kitchen", {}),
    "pulls in order": ("rocketmq", "kitchen", {"consume_orderly": True, "suspend_current_queue_time_millis": 10}),
    "broadcasting": ("rocketmq", "kitchen", {"message_model": MessageModel.BROADCASTING}),
    "pops": ("rocketmq", "kitchen", {"message_request_mode": POP}),
    "pops in order": ("rocketmq", "lines", {"message_request_mode": POP, "consume_orderly": True,
                                            "fifo_retry_interval": 10}),
    "pops over grpc": ("grpc", "kitchen", {}),
    "pops in order over grpc": ("grpc", "lines", {"consume_orderly": True, "fifo_retry_interval": 10}),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_end_that_is_cut_off_after_any_step_leaves_nothing(broker: BothProtocols, tmp_path: Path,
                                                                    kind: str) -> None:
    protocol, group, settings = KINDS[kind]
    for steps in STEPS:
        before, listener = of_clients(), Failing()
        consumer = PushConsumer(broker.address(protocol), group, listener, PushConsumerConfig(
            consume_from_where=FIRST, offset_store_path=str(tmp_path / str(steps)),
            await_termination_millis_when_shutdown=50, **settings))
        consumer.subscribe("orders")
        await consumer.start()
        async with asyncio.timeout(WITHIN_S):
            while listener.calls < 2 and not (group == "kitchen" and steps > STEPS[0]):
                await asyncio.sleep(0.005)
        await cut_off(consumer.shutdown, steps, again=steps % 4)
        await consumer.shutdown()
        calls = listener.calls
        assert of_clients() - before == set(), f"after {steps} steps"
        assert listener.running == 0
        await asyncio.sleep(0.02)       # twice as long as a failed message rests
        assert listener.calls == calls, f"after {steps} steps"


@pytest.mark.parametrize("protocol", ["rocketmq", "grpc"])
async def test_a_simple_consumer_s_end_that_is_cut_off_leaves_nothing(broker: BothProtocols, protocol: str) -> None:
    for steps in STEPS:
        before = of_clients()
        consumer = SimpleConsumer(broker.address(protocol), "late", {"orders": "*"}, SimpleConsumerConfig(
            consume_from_where=FIRST))
        await consumer.start()
        receiving = [asyncio.create_task(consumer.receive(1, 10_000)) for _ in range(3)]
        await asyncio.sleep(0.01)
        receiving[0].cancel()
        await cut_off(consumer.shutdown, steps, again=steps % 4)
        await consumer.shutdown()
        await asyncio.wait(receiving, timeout=WITHIN_S)
        assert all(each.done() for each in receiving)
        [each.exception() for each in receiving if not each.cancelled()]
        assert of_clients() - before == set(), f"after {steps} steps"
