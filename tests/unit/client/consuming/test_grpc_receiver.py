"""What a receiver makes of the answers of servers of RocketMQ 5, also of those that are broken or mean ill."""

import asyncio
from typing import Any

import pytest

from regulus import PushConsumer, PushConsumerConfig, SimpleConsumer
from regulus.client.consuming.grpc_receiver import DELIVERIES_MAX, GrpcReceiver
from regulus.client.consuming.receiver import INVISIBLE_MS_MAX
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code
from tests.unit.client.grpc.scripted import Script, served


def popped(number: int) -> Any:
    part = messages.ReceiveMessageResponse()
    part.message.topic.name, part.message.body = "orders", str(number).encode()
    part.message.system_properties.message_id = f"id-{number}"
    part.message.system_properties.receipt_handle = f"handle-{number}"
    return part


async def test_what_came_before_the_stream_broke_is_not_thrown_away() -> None:
    """A server that keeps it invisible for a push consumer does so for hours."""
    script = Script()
    script.popped, script.break_off = [popped(1), popped(2)], True
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "*"}) as consumer:
        assert [message.body for message in await consumer.receive(16, 10_000)] == [b"1", b"2"]


@pytest.mark.parametrize("ends", [False, True])
async def test_what_came_before_a_receive_was_given_up_is_given_back_uncounted(ends: bool) -> None:
    script = Script()
    script.popped, script.goes_on = [popped(1), popped(2)], True
    async with served(script) as address:
        consumer = SimpleConsumer(address, "kitchen", {"orders": "*"})
        await consumer.start()
        receiving = asyncio.create_task(consumer.receive(16, 3_600_000))
        await script.sent_parts.wait()
        await asyncio.sleep(0.1)        # until they have come
        receiving.cancel()
        await asyncio.wait([receiving])
        if not ends:
            async with asyncio.timeout(10):
                while len(script.changed) < 2:
                    await asyncio.sleep(0.01)
        await consumer.shutdown()
        assert [(each.receipt_handle, each.invisible_duration.ToMilliseconds(), each.suspend)
                for each in script.changed] == [("handle-1", 0, True), ("handle-2", 0, True)]


async def test_no_more_is_taken_than_was_asked_for() -> None:
    script = Script()
    script.popped = [popped(number) for number in range(1000)]
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "*"}) as consumer:
        assert len(await consumer.receive(3, 10_000)) == 3


async def test_a_short_wait_leaves_the_time_that_a_proxy_of_rocketmq_wants() -> None:
    script = Script()
    script.popped = [popped(1)]
    async with served(script) as address, SimpleConsumer(address, "kitchen", {"orders": "*"}) as consumer:
        await consumer.receive(1, 10_000, await_duration_ms=0)
    assert script.time_left_s > 5


def _exponential(initial: int, most: int, factor: float) -> Any:
    policy = messages.Settings().backoff_policy
    policy.exponential_backoff.initial.seconds = initial
    policy.exponential_backoff.max.seconds = most
    policy.exponential_backoff.multiplier = factor
    return policy


def _customized(*seconds: int) -> Any:
    policy = messages.Settings().backoff_policy
    for each in seconds:
        policy.customized_backoff.next.add(seconds=each)
    return policy


@pytest.mark.parametrize("policy", [
    _exponential(1, 100, 3e38), _exponential(1, 100, float("inf")), _exponential(1, 100, float("nan")),
    _exponential(-5, 100, 2), _exponential(0, 0, 2), _exponential(5, -100, 2), _exponential(1 << 60, 1 << 60, 2),
    _customized(-1, 1 << 60)], ids=str)
async def test_delays_that_nobody_can_mean_are_put_within_limits(policy: Any) -> None:
    script = Script()
    policy.max_attempts = -3
    script.backoff = policy
    async with served(script) as address:
        receiver = GrpcReceiver(address.removeprefix("grpc://"), "kitchen", PushConsumerConfig(), list,
                                request_timeout_ms=1_000, is_push=True)
        await receiver.start()
        try:
            rules = receiver.rules
            assert all(0 <= each <= INVISIBLE_MS_MAX for each in rules.retry_delays_ms)
            assert rules.deliveries_max == DELIVERIES_MAX     # or the first failure were a dead letter
            assert rules.retry_delay_ms(-40) == rules.retry_delay_ms(1)
        finally:
            await receiver.close()


async def test_a_server_that_answers_at_once_is_not_asked_without_a_pause() -> None:
    script = Script()
    empty = messages.ReceiveMessageResponse()
    empty.status.code = int(Code.MESSAGE_NOT_FOUND)
    script.popped = [empty]
    async with served(script) as address:
        consumer = PushConsumer(address, "kitchen", lambda batch, context: None, PushConsumerConfig())
        consumer.subscribe("orders")
        async with consumer:
            async with asyncio.timeout(60):
                while not script.receives:
                    await asyncio.sleep(0.01)
            script.receives = 0
            await asyncio.sleep(1)
            assert script.receives <= 1 / 0.02 + 1
