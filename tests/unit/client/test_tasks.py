import asyncio

from regulus.client.tasks import TaskGroup


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
