"""Background tasks that do not die unseen."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

T = TypeVar("T")


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
