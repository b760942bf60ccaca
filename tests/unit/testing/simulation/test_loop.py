"""The loop's time, the order of its turns, its workers, and what dies with a node."""

import asyncio
from concurrent.futures import Executor
from random import Random

import pytest

from regulus.server.workers import Line
from regulus.testing.simulation.loop import (
    START_S,
    Node,
    NoProgress,
    SimulatedLoop,
    SimulatedWorkers,
    current_node,
)


@pytest.fixture
def loop() -> SimulatedLoop:
    return SimulatedLoop(Random(1))


def test_time_jumps_to_the_next_timer(loop: SimulatedLoop) -> None:
    async def sleep() -> float:
        await asyncio.sleep(3_600)
        return loop.time()

    assert loop.run_until_complete(sleep()) == pytest.approx(START_S + 3_600)


def test_timers_go_off_in_their_order_and_calls_as_they_were_asked_for(loop: SimulatedLoop) -> None:
    seen: list[str] = []

    async def watch() -> None:
        loop.call_later(2, seen.append, "later")
        loop.call_later(1, seen.append, "sooner")
        loop.call_soon(seen.append, "first")
        loop.call_soon(seen.append, "second")
        await asyncio.sleep(3)

    loop.run_until_complete(watch())
    assert seen == ["first", "second", "sooner", "later"]


def test_who_waits_for_nobody_is_told(loop: SimulatedLoop) -> None:
    with pytest.raises(NoProgress):
        loop.run_until_complete(asyncio.wait_for(loop.create_future(), None))


def test_a_set_of_tasks_is_ordered_by_birth(loop: SimulatedLoop) -> None:
    async def nothing() -> None:
        pass

    async def make() -> list[int]:
        tasks = [loop.create_task(nothing()) for _ in range(50)]
        await asyncio.wait(tasks)
        return [hash(task) for task in tasks]

    hashes = loop.run_until_complete(make())
    assert hashes == list(range(hashes[0], hashes[0] + 50))


def test_what_a_dead_node_began_does_not_go_on(loop: SimulatedLoop) -> None:
    node, seen = Node("a", "10.0.0.1"), []

    async def work(executor: Executor) -> None:
        seen.append(current_node())
        loop.call_later(1, seen.append, "timer")
        await loop.run_in_executor(executor, seen.append, "work")
        seen.append("task")

    async def watch() -> None:
        task = loop.create_task(work(SimulatedWorkers(loop).line(Line.FLUSH)), context=node.context)
        await asyncio.sleep(0)
        node.is_alive = False
        loop.drop(node)
        node.context.run(loop.call_soon, seen.append, "late")
        await asyncio.sleep(10)
        assert not task.done()

    loop.run_until_complete(watch())
    assert seen == [node]


def test_a_line_does_one_thing_after_the_other_and_hands_on_what_it_raised(loop: SimulatedLoop) -> None:
    seen: list[int] = []

    async def work() -> None:
        line = SimulatedWorkers(loop).line(Line.DOCUMENTS)
        first = loop.run_in_executor(line, seen.append, 1)
        second = loop.run_in_executor(line, int, "no number")
        third = loop.run_in_executor(line, seen.append, 2)
        with pytest.raises(ValueError, match="no number"):
            await second
        await asyncio.gather(first, third)

    loop.run_until_complete(work())
    assert seen == [1, 2]


def test_a_shutdown_finishes_what_is_left(loop: SimulatedLoop) -> None:
    seen: list[int] = []

    async def work() -> None:
        workers = SimulatedWorkers(loop)
        workers.line(Line.ROOM).submit(seen.append, 1)
        workers.shutdown()
        assert seen == [1]
        await asyncio.sleep(1)

    loop.run_until_complete(work())
    assert seen == [1]


def test_a_slow_disk_takes_so_many_times_as_long(loop: SimulatedLoop) -> None:
    async def took(slowness: float) -> float:
        workers = SimulatedWorkers(loop)
        workers.slowness = slowness
        begin = loop.now
        await loop.run_in_executor(workers.line(Line.FLUSH), int)
        return loop.now - begin

    loop.chance = Random(1)
    usual = loop.run_until_complete(took(1.0))
    loop.chance = Random(1)
    assert loop.run_until_complete(took(1_000.0)) == pytest.approx(1_000 * usual)
