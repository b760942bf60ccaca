"""Who wants the time gets it, as early as asked for, and again after a fault."""

import asyncio

import pytest

from regulus.server.tick_loop import TickLoop


async def ticks(answers: list[int | Exception | None], interval_max_ms: int = 100) -> list[int]:
    """The times told until all answers were used."""
    told: list[int] = []
    done = asyncio.Event()

    def tick(now_ms: int) -> int | None:
        told.append(now_ms)
        if len(told) == len(answers):
            done.set()
        answer = answers[min(len(told), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    loop = TickLoop(tick, lambda: 1_000 + len(told), interval_max_ms)
    loop.start()
    await asyncio.wait_for(done.wait(), 30)
    loop.stop()
    return told


async def test_the_next_tick_comes_when_it_is_wanted() -> None:
    """And not at the limit, for which `ticks` would not wait."""
    assert await ticks([0, 0, 0, 0], interval_max_ms=60_000) == [1_000, 1_001, 1_002, 1_003]


async def test_a_long_wait_is_cut_to_the_limit() -> None:
    """For what is asked for `ticks` would not wait."""
    assert len(await ticks([60_000, None, 60_000], interval_max_ms=5)) == 3


async def test_time_goes_on_after_a_fault() -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    assert len(await ticks([0, RuntimeError("broken"), 0])) == 3
    assert len(reported) == 1


async def test_a_stopped_loop_is_silent() -> None:
    told: list[int] = []
    loop = TickLoop(lambda now_ms: told.append(now_ms), lambda: 0)
    loop.start()
    loop.stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == []


@pytest.mark.parametrize("wait_ms", [0, 1])
async def test_work_due_now_does_not_starve_the_event_loop(wait_ms: int) -> None:
    told: list[int] = []

    def tick(now_ms: int) -> int:
        told.append(now_ms)
        return wait_ms

    loop = TickLoop(tick, lambda: 0)
    loop.start()
    for _ in range(10):
        await asyncio.sleep(0)
    loop.stop()
    assert len(told) < 10


async def test_a_hurried_tick_comes_at_once_and_once() -> None:
    told: list[int] = []
    is_told = asyncio.Event()

    def tick(now_ms: int) -> None:
        told.append(now_ms)
        loop.hurry()        # by the tick itself, which says what it wants when it ends
        is_told.set()

    loop = TickLoop(tick, lambda: 0, interval_max_ms=60_000)
    loop.hurry()            # before the start there is nothing to hurry
    loop.start()
    for count in (1, 2, 3):
        await asyncio.wait_for(is_told.wait(), 30)
        is_told.clear()
        assert len(told) == count
        loop.hurry()
        loop.hurry()
    loop.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(told) == 3


async def test_only_ticks_that_came_to_their_end_count() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    is_told = asyncio.Event()
    number = 0

    def tick(now_ms: int) -> int:
        nonlocal number
        number += 1
        if number == 1:
            raise ValueError("this tick fails")
        is_told.set()
        return 60_000

    loop = TickLoop(tick, lambda: 0, interval_max_ms=60_000)
    loop.start()
    while not number:
        await asyncio.sleep(0)
    loop.hurry()
    await asyncio.wait_for(is_told.wait(), 30)
    assert (number, loop.ticks) == (2, 1)
    loop.stop()
