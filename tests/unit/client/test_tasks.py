import asyncio

import pytest

from regulus.client import tasks as tasks_module
from regulus.client.tasks import Ending, SharedTasks, TaskGroup
from regulus.errors import ClientClosed, ClientError


async def test_a_task_that_fails_is_logged(caplog):
    async def fail():
        raise RuntimeError("no")
    tasks = TaskGroup()
    task = tasks.spawn(fail(), "the failing one")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert "task the failing one failed" in caplog.text
    assert tasks.all() == []


async def test_cancelling_waits_for_the_end_of_all_tasks():
    ended = []

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)
    tasks = TaskGroup()
    for _ in range(3):
        tasks.spawn(wait(), "waits")
    await asyncio.sleep(0)
    await tasks.cancel()
    assert ended == [1, 1, 1]


async def test_finishing_waits_first_and_cancels_then():
    tasks = TaskGroup()
    quick = tasks.spawn(asyncio.sleep(0), "quick")
    slow = tasks.spawn(asyncio.sleep(60), "slow")
    await tasks.finish(10)
    assert not quick.cancelled()
    assert slow.cancelled()


async def test_a_result_goes_to_its_own_receiver():
    async def answer():
        return 42
    received = []
    tasks = TaskGroup()
    await tasks.spawn_with(answer(), "answers", lambda task: received.append(task.result()))
    assert received == [42]


async def test_shared_work_is_done_once_for_all_who_want_it():
    begun = []

    async def work():
        begun.append(1)
        await asyncio.sleep(0)
        return 42
    shared = SharedTasks()
    assert await asyncio.gather(*(shared.result("key", work, "work") for _ in range(3))) == [42, 42, 42]
    assert len(begun) == 1
    assert await shared.result("key", work, "work") == 42
    assert len(begun) == 2


async def test_shared_work_goes_on_when_one_caller_is_cancelled():
    release = asyncio.Event()

    async def work():
        await release.wait()
        return 42
    shared = SharedTasks()
    one = asyncio.ensure_future(shared.result("key", work, "work"))
    two = asyncio.ensure_future(shared.result("key", work, "work"))
    await asyncio.sleep(0)
    one.cancel()
    release.set()
    assert await two == 42


async def test_the_failure_of_shared_work_reaches_everybody():
    async def work():
        raise RuntimeError("no")
    shared = SharedTasks()
    outcomes = await asyncio.gather(*(shared.result("key", work, "work") for _ in range(2)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["no", "no"]


async def test_who_waits_for_shared_work_that_is_cancelled_was_not_cancelled():
    shared = SharedTasks()
    waiting = [asyncio.ensure_future(shared.result("key", lambda: asyncio.sleep(60), "work")) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    shared.cancel()
    await asyncio.wait(waiting)
    assert isinstance(waiting[0].exception(), ClientClosed)
    assert waiting[1].cancelled()


async def test_a_supervised_task_that_dies_is_told_and_begins_anew_after_growing_rests(monkeypatch, caplog):
    monkeypatch.setattr(tasks_module, "RESTART_MS_MIN", 1)
    faults = [KeyError("first"), RuntimeError("second"), asyncio.CancelledError(), ValueError("fourth")]

    async def work():
        if faults:
            raise faults.pop(0)
    tasks = TaskGroup()
    await tasks.supervise(work, "the brittle one")
    assert tasks.restarts == 4
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"task the brittle one died; it begins again in {rest} ms" for rest in (1, 2, 4, 8)]
    assert "first" in caplog.text


async def test_a_supervised_task_that_is_cancelled_ends_and_is_no_failure(caplog):
    begun = asyncio.Event()

    async def work():
        begun.set()
        await asyncio.Event().wait()
    tasks = TaskGroup()
    task = tasks.supervise(work, "waits")
    await begun.wait()
    await tasks.cancel()
    assert task.cancelled()
    assert tasks.restarts == 0
    assert caplog.records == []


async def test_a_supervised_task_that_is_cancelled_while_it_rests_ends(monkeypatch):
    died = asyncio.Event()

    async def work():
        died.set()
        raise RuntimeError("no")
    tasks = TaskGroup()
    tasks.supervise(work, "rests")
    await died.wait()
    async with asyncio.timeout(10):
        await tasks.cancel()
    assert tasks.restarts == 1


async def test_a_death_that_somebody_can_explain_is_one_line(caplog, monkeypatch):
    monkeypatch.setattr(tasks_module, "RESTART_MS_MIN", 1)
    deaths = [OSError("away"), ValueError("a fault")]

    async def work():
        if deaths:
            raise deaths.pop(0)
    tasks = TaskGroup()
    await tasks.supervise(work, "the work", lambda error: f"it is {error}" if isinstance(error, OSError) else None)
    assert tasks.restarts == 2
    assert [(record.levelname, record.getMessage(), bool(record.exc_info)) for record in caplog.records] == [
        ("WARNING", "the work: it is away; it continues in 1 ms", False),
        ("ERROR", "task the work died; it begins again in 2 ms", True)]


async def test_an_end_is_carried_out_though_who_asked_for_it_waits_no_longer(caplog):
    may_end, has_ended = asyncio.Event(), []

    async def end():
        await may_end.wait()
        has_ended.append(True)
        raise ValueError("late")

    ending = Ending()
    await ending.over()
    asking = asyncio.create_task(ending.carry_out(end, "end of it"))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    waiting = asyncio.create_task(ending.over())
    await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    await waiting
    assert has_ended == [True]
    assert [record.getMessage() for record in caplog.records] == ["end of it failed"]


def test_an_end_that_was_begun_in_another_loop_is_not_waited_for():
    """Though its client was never started: that of a start that failed."""
    ending = Ending()

    async def begin():
        asking = asyncio.create_task(ending.carry_out(asyncio.Event().wait, "end of it"))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])

    async def wait():
        async with asyncio.timeout(10):
            with pytest.raises(ClientError, match="another event loop"):
                await ending.over()

    with asyncio.Runner() as first:
        first.run(begin())
        asyncio.run(wait())
    asyncio.run(ending.over())      # it was cancelled with its loop


async def test_who_waits_for_an_end_hears_what_it_raises(caplog):
    async def end():
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        await Ending().carry_out(end, "end of it")
    assert caplog.records == []
