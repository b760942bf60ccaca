"""A task that ends in a way that nobody wanted is told of and begun again."""

import asyncio

import pytest

from regulus.server.kept_task import KeptTask


@pytest.mark.parametrize("error", [ValueError("broken"), asyncio.CancelledError()])
async def test_a_task_that_breaks_off_is_told_and_begun_again(error: BaseException,
                                                              caplog: pytest.LogCaptureFixture) -> None:
    begun = 0
    again = asyncio.Event()

    async def run() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise error
        again.set()
        await asyncio.Event().wait()

    task = KeptTask("looking after it", run, begin_again_s=0)
    task.start()
    async with asyncio.timeout(60):
        await again.wait()
    assert [message[:32] for message in caplog.messages] == ["looking after it was interrupted"]
    await task.stop()
    assert len(caplog.messages) == 1


async def test_a_task_that_is_done_stays_done(caplog: pytest.LogCaptureFixture) -> None:
    ended = asyncio.Event()

    async def run() -> None:
        ended.set()

    task = KeptTask("looking once", run, begin_again_s=0)
    task.start()
    await ended.wait()
    await asyncio.sleep(0)
    await task.stop()
    assert caplog.messages == []


async def test_a_task_that_is_stopped_while_it_waits_to_begin_again_does_not(
        caplog: pytest.LogCaptureFixture) -> None:
    begun = 0

    async def run() -> None:
        nonlocal begun
        begun += 1
        raise ValueError("broken")

    task = KeptTask("looking after it", run, begin_again_s=0)
    task.start()
    async with asyncio.timeout(60):
        while not caplog.messages:
            await asyncio.sleep(0)
    await task.stop()
    for _ in range(3):
        await asyncio.sleep(0)
    assert begun == 1


async def test_a_stop_ends_a_task_that_is_to_begin_again(caplog: pytest.LogCaptureFixture) -> None:
    begun = 0

    async def run() -> None:
        nonlocal begun
        begun += 1
        raise ValueError("a fault of our own")

    task = KeptTask("looking after it", run, begin_again_s=0.001)
    task.start()
    async with asyncio.timeout(60):
        while not caplog.messages:
            await asyncio.sleep(0)
    await task.stop()
    begun_before = begun
    timer = asyncio.Event()
    asyncio.get_running_loop().call_later(0.005, timer.set)
    await timer.wait()
    assert begun == begun_before
