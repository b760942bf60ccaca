"""Background tasks that do not die unseen."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

_log = logging.getLogger(__name__)

T = TypeVar("T")


class SharedTasks(Generic[T]):
    """Work that several callers want at the same time and that is done once, such as connecting to an address."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[T]] = {}

    async def result(self, key: str, begin: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
        """The result of the task that runs for `key`; `begin` makes one when none does. Raises what the task raises.

        The task goes on when a caller is cancelled: others may wait for it.
        """
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.get_running_loop().create_task(begin(), name=name)
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)

    def cancel(self) -> None:
        for task in list(self._tasks.values()):
            task.cancel()

    def _done(self, key: str, task: asyncio.Task[T]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled():
            task.exception()    # those who still wait get it; when nobody does, nobody needs to hear of it


class TaskGroup:
    """Tasks of one owner: kept alive, their failures logged, all cancelled at its end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

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
        """Wait until all tasks have ended; cancel those that take longer."""
        if self._tasks:
            await asyncio.wait(self.all(), timeout=wait_ms / 1000)
        await self.cancel()

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended; the calling task, if it is one of them, goes on."""
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task %s failed", task.get_name(), exc_info=error)
