"""Background tasks that do not fail unnoticed."""

import asyncio
import contextvars
import logging
import os
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from regulus.errors import ClientClosed, ClientError

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

RESTART_MS_MIN = 1_000
RESTART_MS_MAX = 30_000
"""The first and the longest pause before a failed supervised task begins again. The pause doubles each time, until a
task has run for longer than the longest pause."""


class HomeLoop:
    """The event loop in which a client was started. The client can only be used there, because its connections and
    tasks belong to that loop."""

    __slots__ = ("_loop", "_process")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()

    def check(self) -> None:
        """Raises ClientError in another loop. For a forked child, other checks report that the client is its
        parent's."""
        if asyncio.get_running_loop() is not self._loop and os.getpid() == self._process:
            raise elsewhere()


def elsewhere() -> ClientError:
    return ClientError("this client was started in another event loop, and can only be used and shut down in that one: "
                       "make and shut down a client within each `asyncio.run`, or do everything in one")


class SharedTasks(Generic[T]):
    """Tasks that are shared by callers that want the same result at the same time, such as a connection."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[T]] = {}

    async def result(self, key: str, begin: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """The result of the task that runs for `key`; `begin` makes one when none runs. Raises what the task raises.

        The task continues when a caller is cancelled, because others may wait for it. Raises ClientClosed when the task
        itself is cancelled, and the caller is not.
        """
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.get_running_loop().create_task(begin(), name=name)
            task.add_done_callback(lambda done: self._done(key, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if is_being_cancelled(error) or not task.cancelled():
                raise
            raise ClientClosed(f"the client was shut down before this was done: {name}") from None

    def cancel(self) -> None:
        for task in list(self._tasks.values()):
            task.cancel()

    def _done(self, key: str, task: asyncio.Task[T]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled():
            task.exception()    # retrieved here: waiting callers get it anyway, and without any it need not be logged


class TaskGroup:
    """The tasks of one owner: they are kept referenced, their failures are logged, and all are cancelled at its end.

    `restarts`: how often supervised tasks failed and began again.
    """

    def __init__(self) -> None:
        self.restarts = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, coroutine: Coroutine[object, object, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def supervise(self, begin: Callable[[], Coroutine[object, object, None]], name: str,
                  passing: Callable[[BaseException], str | None] = lambda error: None) -> asyncio.Task[None]:
        """Run the coroutine of `begin` until it returns; when it fails, log why and begin again. Ends when it is
        cancelled.

        `passing` returns one line for an error that may be temporary; it is then logged as a warning without traceback.
        """
        return self.spawn(self._supervised(begin, name, passing), name)

    async def _supervised(self, begin: Callable[[], Coroutine[object, object, None]], name: str,
                          passing: Callable[[BaseException], str | None]) -> None:
        loop = asyncio.get_running_loop()
        rest_ms = RESTART_MS_MIN
        while True:
            begun = loop.time()
            try:
                return await begin()
            except (Exception, asyncio.CancelledError) as error:
                if is_being_cancelled(error):
                    raise
                if loop.time() - begun > RESTART_MS_MAX / 1000:
                    rest_ms = RESTART_MS_MIN
                self.restarts += 1
                if (why := passing(error)) is not None:
                    _log.warning("%s: %s; it continues in %d ms", name, why, rest_ms)
                else:
                    _log.error("task %s died; it begins again in %d ms", name, rest_ms, exc_info=error)
            await asyncio.sleep(rest_ms / 1000)
            rest_ms = min(rest_ms * 2, RESTART_MS_MAX)

    def spawn_with(self, coroutine: Coroutine[object, object, T], name: str,
                   on_done: Callable[[asyncio.Task[T]], None]) -> asyncio.Task[T]:
        """Start a task whose result or failure goes only to `on_done`."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(on_done)
        return task

    def all(self) -> list[asyncio.Task[Any]]:
        return list(self._tasks)

    async def finish(self, wait_ms: int) -> None:
        """Wait until all tasks have ended; cancel those that take longer. Raises ClientError like `cancel`."""
        self._check_loop()
        if self._tasks:
            await asyncio.wait(self.all(), timeout=wait_ms / 1000)
        await self.cancel()

    async def cancel(self, wait_ms: int | None = None) -> bool:
        """Cancel all tasks and wait until they have ended; the calling task, if it is one of them, continues. False
        when some did not end within `wait_ms`. Raises ClientError when they are tasks of another event loop."""
        self._check_loop()
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        if not tasks:
            return True
        _, late = await asyncio.wait(tasks, timeout=None if wait_ms is None else wait_ms / 1000)
        return not late

    def _check_loop(self) -> None:
        task = next(iter(self._tasks), None)
        if task is not None and task.get_loop() is not asyncio.get_running_loop():
            raise elsewhere()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task %s failed", task.get_name(), exc_info=error)


async def in_thread(function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
    """Like `asyncio.to_thread`; at the end of the interpreter, when threads accept no more work, the call runs here."""
    work = partial(contextvars.copy_context().run, function, *arguments, **named)
    try:
        doing = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:
        return work()
    return await doing


class Ending:
    """The end of a client, which has to wait for others. Once begun it is carried out in the event loop in which the
    client was started, even if its callers are cancelled."""

    def __init__(self) -> None:
        self._home: HomeLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def begins(self) -> None:
        """The client starts in this event loop."""
        self._home = HomeLoop()

    def came_to_nothing(self) -> None:
        """The start failed, so that there is nothing to end."""
        self._home = None

    def check(self) -> None:
        """Raises ClientError in another event loop than the one in which the client was started or is starting. Call
        this before taking a lock, because its holder may be in a loop that does not run."""
        if self._home is not None:
            self._home.check()

    async def carry_out(self, end: Callable[[], Coroutine[object, object, None]], name: str) -> None:
        """Carry out the end and wait for it. Raises what it raises; if the caller is cancelled, it continues alone."""
        self._home = HomeLoop()
        self._task = task = asyncio.get_running_loop().create_task(end(), name=name)
        task.add_done_callback(self._carried_out)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_end)
            raise

    def _carried_out(self, task: asyncio.Task[None]) -> None:
        self._home = self._task = None

    async def over(self) -> None:
        """Wait until an end that has begun, if any, is carried out. Raises ClientError like `check`."""
        self.check()
        if self._task is not None:
            await asyncio.wait([self._task])


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s failed", task.get_name(), exc_info=error)


def is_being_cancelled(error: BaseException) -> bool:
    """Whether the error is a cancellation of this task, and not one that was raised by code within it."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
