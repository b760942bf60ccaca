"""Storms that grow: the same action among N, 2 N and 4 N others, and how the broker's processor time grows with them.

A single action must not cost more because there are many others: its cost among 4 N others is at most `GROWTH_MAX`
times its cost among N. An action of all N may cost four times as much; twice that is more than noise.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from regulus.model.java_hash import tags_code
from regulus.testing.attack.field import PULL_SUBSCRIPTION, Field, Talk, cpu_seconds
from regulus.testing.running_server import ServerProcess
from regulus.wire.bodies import ConsumerData, HeartbeatData, SubscriptionData
from regulus.wire.codes import RequestCode
from regulus.wire.headers import PullMessageRequest, UpdateAndCreateTopicRequest, UpdateConsumerOffsetRequest

FACTORS = (1, 2, 4)
GROWTH_MAX = 2.5
LINEAR_GROWTH_MAX = 8.0
NOISE_S = 0.05
"""Processor time below which nothing is compared: the system counts hundredths of a second."""
PULL_SUSPEND = 2
IN_FLIGHT = 64

Deed = Callable[[ServerProcess, int], Awaitable[float]]
"""Performs an action among that many others; returns the processor seconds that it took."""


async def _grow(field: Field, name: str, count: int, deed: Deed, growth_max: float) -> None:
    costs = []
    for factor in FACTORS:
        server = field.server(field.home / f"{name}-{factor}" / "store")
        server.start()
        costs.append(await deed(server, count * factor))
        server.kill()
    growth = max(costs[-1], NOISE_S) / max(costs[0], NOISE_S)
    field.note = f"{count * FACTORS[0]} to {count * FACTORS[-1]}: " + " / ".join(f"{cost:.2f}" for cost in costs) + " s"
    if growth > growth_max:
        field.find(f"{name}: {field.note}, {growth:.1f} times as much, {growth_max} are allowed")


async def _all(talk: Talk, asked: list[tuple[RequestCode, dict[str, str], bytes]]) -> None:
    for first in range(0, len(asked), IN_FLIGHT):
        await asyncio.gather(*(talk.ask(code, ext, body) for code, ext, body in asked[first:first + IN_FLIGHT]))


def _heartbeat(group: str, client: int) -> bytes:
    data = ConsumerData(group_name=group, message_model="CLUSTERING",
                        subscription_data_set=[SubscriptionData.compile("T", "*", 1)])
    return HeartbeatData(client_id=f"client-{client}", consumer_data_set=[data], producer_data_set=[]).encode()


async def members(field: Field) -> None:
    """N consumers of one group come and go: all of them take part, so it may cost N times one."""

    async def deed(server: ServerProcess, count: int) -> float:
        begun = cpu_seconds(server.pid)
        async with AsyncExitStack() as stack:
            for first in range(0, count, IN_FLIGHT):
                talks = await asyncio.gather(*(stack.enter_async_context(Talk(server.port))
                                               for _ in range(min(IN_FLIGHT, count - first))))
                await asyncio.gather(*(talk.ask(RequestCode.HEART_BEAT, body=_heartbeat("G", first + number))
                                       for number, talk in enumerate(talks)))
        async with Talk(server.port) as talk:
            await talk.ask(RequestCode.GET_ALL_TOPIC_CONFIG)     # everything before it is done
        return cpu_seconds(server.pid) - begun

    await _grow(field, "members of a group", 60, deed, LINEAR_GROWTH_MAX)


async def holds(field: Field) -> None:
    """Sends to a queue where N pulls wait for another tag."""

    async def deed(server: ServerProcess, count: int) -> float:
        async with Talk(server.port) as talk:
            await talk.send("T", b"first", properties={"TAGS": "A"})
            header = PullMessageRequest("G", "T", 0, 1, sys_flag=PULL_SUSPEND | PULL_SUBSCRIPTION, subscription="B",
                                        suspend_timeout_millis=60_000, expression_type="TAG")
            for _ in range(count):
                talk.tell(RequestCode.PULL_MESSAGE, header.ext())
            assert tags_code("A") != tags_code("B")
            await talk.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
            begun = cpu_seconds(server.pid)
            for _ in range(200):
                await talk.send("T", b"x", properties={"TAGS": "A"})
            return cpu_seconds(server.pid) - begun

    await _grow(field, "held pulls", 2_000, deed, GROWTH_MAX)


async def topics(field: Field) -> None:
    """Ten new topics among N."""

    def made(first: int, count: int) -> list[tuple[RequestCode, dict[str, str], bytes]]:
        return [(RequestCode.UPDATE_AND_CREATE_TOPIC, UpdateAndCreateTopicRequest(
            topic=f"topic-{first + number}", default_topic="TBW102", read_queue_nums=4, write_queue_nums=4,
            perm=6).ext(), b"") for number in range(count)]

    async def deed(server: ServerProcess, count: int) -> float:
        async with Talk(server.port) as talk:
            await _all(talk, made(0, count))
            begun = cpu_seconds(server.pid)
            for request in made(count, 10):
                await talk.ask(*request)
            return cpu_seconds(server.pid) - begun

    await _grow(field, "topics", 150, deed, GROWTH_MAX)


async def groups(field: Field) -> None:
    """Ten new groups among N, each with an offset."""

    async def deed(server: ServerProcess, count: int) -> float:
        async with Talk(server.port) as talk:
            await _all(talk, [(RequestCode.HEART_BEAT, {}, _heartbeat(f"group-{number}", 0))
                              for number in range(count)])
            await _all(talk, [(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequest(
                consumer_group=f"group-{number}", topic="T", queue_id=0, commit_offset=1).ext(), b"")
                for number in range(count)])
            begun = cpu_seconds(server.pid)
            for number in range(10):
                await talk.ask(RequestCode.HEART_BEAT, body=_heartbeat(f"new-{number}", 0))
            return cpu_seconds(server.pid) - begun

    await _grow(field, "groups", 150, deed, GROWTH_MAX)
