"""A task that runs as long as its server: when it ends early, this is logged and it is started again."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

_log = logging.getLogger(__name__)

BEGIN_AGAIN_S = 1.0


class KeptTask:
    def __init__(self, name: str, run: Callable[[], Coroutine[Any, Any, None]],
                 begin_again_s: float = BEGIN_AGAIN_S) -> None:
        """`name` is the task's name in the log. A `run` that returns has finished its work."""
        self._name = name
        self._run = run
        self._begin_again_s = begin_again_s
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._again = None
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        if self._again is not None:
            self._again.cancel()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if task is not self._task or (error is None and not task.cancelled()):
            return
        _log.error("%s was interrupted and begins again in %.1f s", self._name, self._begin_again_s, exc_info=error)
        self._again = self._loop.call_later(self._begin_again_s, self.start)
