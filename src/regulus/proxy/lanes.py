"""Requests to brokers that no call waits for. Each broker has a lane of its own, so that a slow one delays no other."""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from regulus.client.tasks import TaskGroup

AT_ONCE_MAX = 64
"""Jobs under way in one lane; further ones of the broker wait."""
WAITING_MAX = 250_000
"""Jobs that wait in all lanes. At one more, `put` refuses it. The number is above the default of renewalsMax, so that
all messages can be renewed at the same time."""

FINISH_MS = 1_000
"""How long jobs may still take when the server stops."""

Job = Callable[[], Awaitable[None]]


class Lanes:
    """Runs jobs, at most AT_ONCE_MAX a broker at a time. Each job must end by itself within some seconds, even if its
    broker does not answer."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Job]] = {}
        self._working: dict[str, int] = {}
        self._count = 0
        self._tasks = TaskGroup()

    def __len__(self) -> int:
        """Number of jobs that wait in all lanes."""
        return self._count

    def put(self, broker: str, job: Job) -> bool:
        """Run the job as soon as its lane has room. False if too many jobs wait already; it is dropped then."""
        if self._count >= WAITING_MAX:
            return False
        self._waiting.setdefault(broker, deque()).append(job)
        self._count += 1
        if self._working.get(broker, 0) < AT_ONCE_MAX:
            self._working[broker] = self._working.get(broker, 0) + 1
            self._tasks.supervise(partial(self._work, broker), f"work at broker {broker}")
        return True

    async def finish(self) -> None:
        """Wait until all jobs are done. Jobs that take longer than FINISH_MS are cancelled."""
        await self._tasks.finish(FINISH_MS)

    async def _work(self, broker: str) -> None:
        waiting = self._waiting[broker]
        while waiting:
            self._count -= 1
            await waiting.popleft()()
        self._working[broker] -= 1
        if not self._working[broker]:
            del self._working[broker], self._waiting[broker]
