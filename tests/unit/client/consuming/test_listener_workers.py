import asyncio
import threading
import time
from functools import partial

import pytest

from regulus.client.consuming.listener_workers import ListenerWorkers, Work
from regulus.client.core.ordered_queue import OrderedQueue, OrderRules
from regulus.client.core.owned_queue import OwnedQueue
from regulus.client.core.token_bucket import TokenBucket
from regulus.client.listener import ConsumeStatus
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

QUEUE = MessageQueue("T", "a", 0)
SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


def works_of(count, owned=None):
    owned = owned or OwnedQueue(QUEUE, 0, 0)
    return [Work(owned, [MessageExt("T", b"%d" % number, {}, queue_offset=number)])
            for number in range(count)]


class Results:
    def __init__(self, expected):
        self.expected = expected
        self.statuses = []
        self.done = asyncio.Event()

    def __call__(self, work, status):
        self.statuses.append((work.messages[0].queue_offset, status))
        if len(self.statuses) == self.expected:
            self.done.set()

    async def all(self):
        async with asyncio.timeout(10):
            await self.done.wait()
        return self.statuses


async def coroutine_listener(messages, context):
    return SUCCESS


def blocking_listener(messages, context):
    return SUCCESS


@pytest.mark.parametrize("listener", [coroutine_listener, blocking_listener])
async def test_every_work_has_one_result(listener):
    results = Results(500)
    workers = ListenerWorkers(listener, 8, results)
    workers.submit(works_of(500))
    assert sorted(await results.all()) == [(number, SUCCESS) for number in range(500)]
    assert workers.running == {}
    await workers.close(1000)


class CallableObject:
    """Not a coroutine function, nor is its call."""

    def __call__(self, messages, context):
        return coroutine_listener(messages, context)


def decorated(function):
    def listen(*arguments, **named):
        return function(*arguments, **named)
    return listen


ODD_LISTENERS = {
    "lambda": lambda messages, context: coroutine_listener(messages, context),
    "partial of a lambda": partial(lambda extra, messages, context: coroutine_listener(messages, context), 1),
    "callable object": CallableObject(),
    "plain decorator": decorated(coroutine_listener),
}


@pytest.mark.parametrize("kind", ODD_LISTENERS)
async def test_what_a_listener_gives_to_be_awaited_is_awaited_in_the_loop(kind):
    results = Results(20)
    workers = ListenerWorkers(ODD_LISTENERS[kind], 4, results)
    workers.submit(works_of(20))
    assert sorted(await results.all()) == [(number, SUCCESS) for number in range(20)]
    await workers.close(1000)
    directly = await workers.call_directly(works_of(1)[0])
    assert directly[0] is SUCCESS


async def test_what_such_a_listener_raises_in_the_loop_is_its_failure(caplog):
    loops = []

    async def failing(messages, context):
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        raise KeyError("odd")

    results = Results(1)
    workers = ListenerWorkers(lambda messages, context: failing(messages, context), 1, results)
    workers.submit(works_of(1))
    assert await results.all() == [(0, LATER)]
    assert loops == [asyncio.get_running_loop()]
    assert "KeyError: 'odd'" in caplog.text
    await workers.close(1000)


async def failing_coroutine(messages, context):
    raise RuntimeError("no")


def failing_function(messages, context):
    raise RuntimeError("no")


@pytest.mark.parametrize("listener", [failing_coroutine, failing_function])
async def test_what_a_listener_raises_is_a_failure_and_ends_no_worker(listener, caplog):
    results = Results(3)
    workers = ListenerWorkers(listener, 1, results)
    workers.submit(works_of(3))
    assert [status for _, status in await results.all()] == [LATER, LATER, LATER]
    raised = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [repr(error) for error in raised] == ["RuntimeError('no')"] * 3
    await workers.close(1000)


async def cancelled_within(messages, context):
    foreign = asyncio.ensure_future(asyncio.Event().wait())
    foreign.cancel()
    await foreign


def exiting(messages, context):
    raise SystemExit(1)


async def exiting_coroutine(messages, context):
    raise SystemExit(1)


def stopping(messages, context):
    return next(iter(()))


async def cancelling_itself(messages, context):
    asyncio.current_task().cancel()
    await asyncio.Event().wait()


async def cancelling_itself_through_another(messages, context):
    asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
    await asyncio.Event().wait()


@pytest.mark.parametrize("listener", [cancelled_within, cancelling_itself, cancelling_itself_through_another, exiting,
                                      exiting_coroutine, stopping])
async def test_a_cancellation_or_exit_out_of_a_listener_is_a_failure_and_every_worker_lives(listener):
    results = Results(60)
    workers = ListenerWorkers(listener, 3, results)
    workers.submit(works_of(60))
    assert sorted(await results.all()) == [(number, LATER) for number in range(60)]
    assert workers.restarts == 0
    await workers.close(1000)


async def test_a_failure_by_cancellation_is_logged_and_what_comes_later_is_consumed(caplog):
    async def listener(messages, context):
        if messages[0].queue_offset < 4:
            asyncio.current_task().cancel()
            await asyncio.Event().wait()
        return SUCCESS

    results = Results(8)
    workers = ListenerWorkers(listener, 2, results)
    workers.submit(works_of(8))
    assert sorted(await results.all()) == [(number, LATER if number < 4 else SUCCESS) for number in range(8)]
    assert [type(record.exc_info[1]) for record in caplog.records] == [asyncio.CancelledError] * 4
    await workers.close(1000)


async def test_a_listener_that_cancels_its_task_and_returns_has_consumed():
    async def listener(messages, context):
        asyncio.current_task().cancel()
        return SUCCESS

    results = Results(6)
    workers = ListenerWorkers(listener, 2, results)
    workers.submit(works_of(3))
    while len(results.statuses) < 3:
        await asyncio.sleep(0)
    workers.submit(works_of(3))
    assert [status for _, status in await results.all()] == [SUCCESS] * 6
    await workers.close(1000)


async def test_workers_end_when_the_program_cancels_all_tasks():
    begun = asyncio.Event()

    async def listener(messages, context):
        begun.set()
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    workers = ListenerWorkers(listener, 3, Results(1))
    workers.submit(works_of(1))
    await begun.wait()
    ended = asyncio.all_tasks() - before
    for task in ended:
        task.cancel()
    await asyncio.wait(ended)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_worker_that_is_cancelled_itself_ends():
    begun = asyncio.Event()

    async def listener(messages, context):
        begun.set()
        await asyncio.Event().wait()

    results = Results(1)
    workers = ListenerWorkers(listener, 1, results)
    workers.submit(works_of(2))
    await begun.wait()
    async with asyncio.timeout(10):
        await workers.close(0)
    assert results.statuses == []


async def test_so_many_coroutines_run_at_the_same_time_and_not_more():
    running, most, release = 0, 0, asyncio.Event()

    async def listener(messages, context):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return SUCCESS

    results = Results(10)
    workers = ListenerWorkers(listener, 4, results)
    workers.submit(works_of(10))
    while running < 4:
        await asyncio.sleep(0)
    assert len(workers.running) == 4
    assert workers.waiting() == 6
    release.set()
    await results.all()
    assert most == 4
    await workers.close(1000)


async def test_a_listener_that_never_waits_leaves_the_loop_to_others():
    def busy():
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass

    async def listener(messages, context):
        busy()
        return SUCCESS

    results = Results(50)
    workers = ListenerWorkers(listener, 2, results)
    workers.submit(works_of(50))
    turns = 0
    while not results.done.is_set():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 5
    await workers.close(1000)


async def test_other_functions_run_in_at_most_so_many_threads_at_once():
    gate, names = threading.Semaphore(0), set()

    def listener(messages, context):
        names.add(threading.get_ident())
        gate.acquire()
        return SUCCESS

    results = Results(6)
    workers = ListenerWorkers(listener, 3, results)
    workers.submit(works_of(6))
    while len(names) < 3:
        await asyncio.sleep(0.001)
    assert workers.waiting() == 3
    gate.release(6)
    await results.all()
    assert len(names) == 3
    await workers.close(1000)


@pytest.mark.parametrize("is_async", [True, False])
async def test_works_of_a_lost_queue_end_without_being_begun(is_async):
    called = []

    def blocking(messages, context):
        called.append(messages[0].queue_offset)
        return SUCCESS

    async def coroutine(messages, context):
        return blocking(messages, context)

    lost = OwnedQueue(QUEUE, 0, 0)
    lost.give_up()
    results = Results(4)
    workers = ListenerWorkers(coroutine if is_async else blocking, 1, results)
    workers.submit(works_of(3, lost))
    workers.submit(works_of(1))
    assert await results.all() == [(0, LATER), (1, LATER), (2, LATER), (0, SUCCESS)]
    assert called == [0]
    await workers.close(1000)


async def test_closing_begins_no_more_and_waits_for_what_runs():
    begun, release = asyncio.Event(), asyncio.Event()

    async def listener(messages, context):
        begun.set()
        await release.wait()
        return SUCCESS

    results = Results(1)
    workers = ListenerWorkers(listener, 1, results)
    workers.submit(works_of(5))
    await begun.wait()
    closing = asyncio.ensure_future(workers.close(10_000))
    await asyncio.sleep(0)
    release.set()
    await closing
    assert results.statuses == [(0, SUCCESS)]


async def test_no_worker_begins_in_place_of_one_that_ends_while_another_still_works():
    """It would end at once, and the next one too, and the loop would do nothing else."""
    begun: list[int] = []
    release = [asyncio.Event(), asyncio.Event()]

    class Counted(ListenerWorkers):
        def _begin_worker(self, number):
            begun.append(number)
            super()._begin_worker(number)

    async def listener(messages, context):
        await release[messages[0].queue_offset].wait()
        return SUCCESS

    results = Results(2)
    workers = Counted(listener, 2, results)
    workers.submit(works_of(2))
    closing = asyncio.ensure_future(workers.close(10_000))
    for event in release:
        for _ in range(20):
            await asyncio.sleep(0)
        event.set()
    await closing
    assert len(results.statuses) == 2
    assert begun == [0, 1]


async def test_closing_leaves_what_waits_for_a_thread():
    begun, release, called = threading.Event(), threading.Event(), []

    def listener(messages, context):
        called.append(messages[0].queue_offset)
        begun.set()
        release.wait(60)
        return SUCCESS

    workers = ListenerWorkers(listener, 1, Results(1))
    workers.submit(works_of(5))
    await asyncio.to_thread(begun.wait, 10)
    closing = asyncio.ensure_future(workers.close(10_000))
    await asyncio.sleep(0)
    assert workers.waiting() == 0
    release.set()
    await closing
    assert called == [0]


async def test_closing_does_not_wait_longer_than_told():
    async def listener(messages, context):
        await asyncio.Event().wait()

    workers = ListenerWorkers(listener, 1, Results(1))
    workers.submit(works_of(1))
    while not workers.running:
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await workers.close(1)


@pytest.mark.parametrize("listener", [coroutine_listener, blocking_listener])
async def test_a_direct_call_bypasses_the_workers(listener):
    workers = ListenerWorkers(listener, 1, Results(1))
    assert await workers.call_directly(works_of(1)[0]) == (SUCCESS, None)
    await workers.close(1000)


async def test_a_fault_with_one_result_of_a_thread_holds_up_no_other():
    results = Results(3)
    told = []

    def on_result(work, status):
        if work.messages[0].queue_offset == 1:
            raise KeyError("a fault of ours")
        results(work, status)

    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    workers = ListenerWorkers(blocking_listener, 1, on_result)
    workers._is_drain_due = True    # so that all are drained at once
    workers.submit(works_of(4))
    while len(workers._finished) < 4:
        await asyncio.sleep(0.001)
    workers._loop.call_soon(workers._drain)
    assert await results.all() == [(0, SUCCESS), (2, SUCCESS), (3, SUCCESS)]
    assert [repr(each) for each in told] == ["KeyError('a fault of ours')"]
    await workers.close(1000)


# --- a rate --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listener", [coroutine_listener, blocking_listener])
async def test_what_has_no_tokens_waits_and_is_begun_by_nobody(monkeypatch, listener):
    monkeypatch.setattr("regulus.client.consuming.listener_workers.steady_ms", lambda: 0)
    results = Results(3)
    workers = ListenerWorkers(listener, 1, results, TokenBucket(1, 3, 0))
    for work in works_of(5):
        workers.submit([work])
    assert [offset for offset, _ in await results.all()] == [0, 1, 2]
    assert (workers.waiting(), workers.running) == (2, {})
    await workers.close(0)
    assert len(results.statuses) == 3


async def test_what_was_given_up_needs_no_tokens(monkeypatch):
    monkeypatch.setattr("regulus.client.consuming.listener_workers.steady_ms", lambda: 0)
    results = Results(3)
    workers = ListenerWorkers(coroutine_listener, 1, results, TokenBucket(1, 1, 0))
    lost = OwnedQueue(QUEUE, 0, 0)
    lost.give_up()
    workers.submit([*works_of(1), *works_of(2, lost), *works_of(1)])
    assert [status for _, status in await results.all()] == [SUCCESS, LATER, LATER]
    assert workers.waiting() == 1
    await workers.close(0)


@pytest.mark.parametrize("is_blocking", [False, True])
async def test_no_tokens_are_taken_for_what_no_worker_is_free_for(monkeypatch, is_blocking):
    """A listener that hung gets no more at once afterwards than the bucket holds."""
    now = 0
    monkeypatch.setattr("regulus.client.consuming.listener_workers.steady_ms", lambda: now)
    goes_on, goes_on_here = threading.Event(), asyncio.Event()

    def blocking(messages, context):
        goes_on.wait(60)
        return SUCCESS

    async def waiting(messages, context):
        await goes_on_here.wait()
        return SUCCESS

    results = Results(3)
    workers = ListenerWorkers(blocking if is_blocking else waiting, 1, results, TokenBucket(0.001, 2, 0))
    for now in (0, 2_000_000, 4_000_000):   # noqa: B007 - the clock
        workers.submit(works_of(2))
    goes_on.set()
    goes_on_here.set()
    await results.all()
    assert workers.waiting() == 3
    await workers.close(1000)
    assert len(results.statuses) == 3


async def test_what_waits_for_tokens_is_not_begun_without_its_lock(monkeypatch):
    now = 0
    monkeypatch.setattr("regulus.client.consuming.listener_workers.steady_ms", lambda: now)
    goes_on = asyncio.Event()

    async def waiting(messages, context):
        await goes_on.wait()
        return SUCCESS

    results = Results(2)
    workers = ListenerWorkers(waiting, 1, results, TokenBucket(0.001, 3, 0))
    locked = OrderedQueue(QUEUE, 0, 0, OrderRules(batch_size_max=1, reconsume_times_max=-1, suspend_ms=10),
                          locked_until_ms=30_000)
    locked.queued(locked.pulled([MessageExt("T", b"", {}, queue_offset=7)], 8), {})
    step = locked.next_step(0)
    workers.submit([*works_of(1), Work(locked, step.messages), *works_of(1)])
    now = 30_000
    goes_on.set()
    assert await results.all() == [(0, SUCCESS), (0, SUCCESS)]
    assert not locked.is_busy
    locked.locked_until_ms = 60_000
    assert locked.next_step(now) == step
    await workers.close(1000)
