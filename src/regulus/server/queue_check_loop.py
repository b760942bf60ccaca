"""The deep check: after a start, queues that nobody has used yet are compared with the log, a few at a time.

A start opens thousands of queues only when they are first used. This looks at all of them soon, says when it is done,
and takes those out of use that do not agree with the log, before somebody is served from them.
"""

import asyncio
import logging
from concurrent.futures import Executor
from typing import Protocol

_log = logging.getLogger(__name__)

QUEUES_PER_STEP = 200
"""Queues looked at in one go by the worker."""
PAUSE_S = 0.05
"""Between two steps, so that the worker leaves the interpreter to the event loop."""


class CheckedStore(Protocol):
    """What is asked of the store here."""

    def resting_queues(self) -> list[tuple[str, int]]: ...

    def look_at_queues(self, queues: list[tuple[str, int]]) -> list[tuple[str, int, str]]: ...

    def take_out_queue(self, topic: str, queue_id: int, fault: str) -> str: ...


class QueueCheckLoop:
    def __init__(self, store: CheckedStore, worker: Executor, pause_s: float = PAUSE_S) -> None:
        self._store = store
        self._worker = worker
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._loop.create_task(self.run())
        self._task.add_done_callback(_tell_end)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def run(self) -> None:
        """Look at each queue that rests now, once."""
        queues = self._store.resting_queues()
        if not queues:
            return
        fault_count = 0
        for first in range(0, len(queues), QUEUES_PER_STEP):
            step = queues[first:first + QUEUES_PER_STEP]
            for found in await self._loop.run_in_executor(self._worker, self._store.look_at_queues, step):
                sentence = self._store.take_out_queue(*found)
                if sentence:
                    fault_count += 1
                    _log.error("%s; until then it is not served", sentence)
            await asyncio.sleep(self._pause_s)
        _log.log(logging.WARNING if fault_count else logging.INFO,
                 "the deep check is done: of %d queues that were not used yet, %d do not agree with the log",
                 len(queues), fault_count)


def _tell_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("the deep check ended early; the next start begins it again", exc_info=task.exception())
