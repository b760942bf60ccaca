"""Background tasks that do not die unseen."""

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
"""How long a supervised task rests before it begins anew: twice as long each time, until it lived for that long."""


class HomeLoop:
    """The event loop in which a client was started, and alone can be used: its connections and tasks are there."""

    __slots__ = ("_loop", "_process")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()

    def check(self) -> None:
        """Raises ClientError in another loop. A forked child hears elsewhere that the client is its parent's."""
        if asyncio.get_running_loop() is not self._loop and os.getpid() == self._process:
            raise elsewhere()


def elsewhere() -> ClientError:
    return ClientError("this client was started in another event loop, and can be used and shut down in that alone: "
                       "make and shut down a client within each `asyncio.run`, or do all in one")


class SharedTasks(Generic[T]):
    """Work that several callers want at the same time and that is done once, such as connecting to an address."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[T]] = {}

    async def result(self, key: str, begin: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """The result of the task that runs for `key`; `begin` makes one when none does. Raises what the task raises.

        The task goes on when a caller is cancelled: others may wait for it. Raises ClientClosed when the task is
        cancelled, which none of its callers was.
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
            task.exception()    # those who still wait get it; when nobody does, nobody needs to hear of it


class TaskGroup:
    """Tasks of one owner: kept alive, their failures logged, all cancelled at its end.

    `restarts`: how often supervised tasks died and began anew.
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
        """Run what `begin` makes until it returns; when it dies, say why and begin anew. Ends when it is cancelled.

        `passing` gives one line for a death by what may pass by itself, which is a warning then, without traceback.
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
                    _log.warning("%s: %s; it goes on in %d ms", name, why, rest_ms)
                else:
                    _log.error("task %s died; it begins anew in %d ms", name, rest_ms, exc_info=error)
            await asyncio.sleep(rest_ms / 1000)
            rest_ms = min(rest_ms * 2, RESTART_MS_MAX)

    def spawn_with(self, coroutine: Coroutine[object, object, T], name: str,
                   on_done: Callable[[asyncio.Task[T]], None]) -> asyncio.Task[T]:
        """A task whose result or failure goes to `on_done` and nowhere else."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(on_done)
        return task

    def all(self) -> list[asyncio.Task[Any]]:
        return list(self._tasks)

    async def finish(self, wait_ms: int) -> None:
        """Wait until all tasks have ended; cancel those that take longer. Raises ClientError as `cancel`."""
        self._check_loop()
        if self._tasks:
            await asyncio.wait(self.all(), timeout=wait_ms / 1000)
        await self.cancel()

    async def cancel(self, wait_ms: int | None = None) -> bool:
        """Cancel all tasks and wait until they have ended; the calling task, if it is one of them, goes on. False when
        some did not end within `wait_ms`. Raises ClientError when they are tasks of another event loop."""
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
    """As `asyncio.to_thread`; at the end of the interpreter, when no thread takes anything any more, here and now."""
    work = partial(contextvars.copy_context().run, function, *arguments, **named)
    try:
        doing = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:
        return work()
    return await doing


class Ending:
    """The end of a client that waits for others: what was begun is carried out, whoever waits for it no longer, in the
    event loop in which the client was started."""

    def __init__(self) -> None:
        self._home: HomeLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def begins(self) -> None:
        """The client starts here, and has an end to come."""
        self._home = HomeLoop()

    def came_to_nothing(self) -> None:
        """The start failed, and left nothing to end."""
        self._home = None

    def check(self) -> None:
        """Raises ClientError in another event loop than the client was started in, or is being. Ask before any lock:
        who has it may be in a loop that does not run."""
        if self._home is not None:
            self._home.check()

    async def carry_out(self, end: Callable[[], Coroutine[object, object, None]], name: str) -> None:
        """Raises what the end raises; a caller that is cancelled leaves it to itself."""
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
        """Until the one that was begun, if any, is carried out. Raises ClientError as `check`."""
        self.check()
        if self._task is not None:
            await asyncio.wait([self._task])


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s failed", task.get_name(), exc_info=error)


def is_being_cancelled(error: BaseException) -> bool:
    """Whether the error is this task's own cancellation, and not one that code within it brought about."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
