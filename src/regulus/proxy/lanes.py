"""Work at brokers that nobody waits for: one lane for each broker, so that one that is slow or gone holds up only what
is its own."""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from regulus.client.tasks import TaskGroup

AT_ONCE_MAX = 64
"""Jobs under way in one lane."""
WAITING_MAX = 250_000
"""Jobs that wait in all lanes: more than messages can be renewed unless renewalsMax is raised."""

FINISH_MS = 1_000
"""How long what waits may take at the end."""

Job = Callable[[], Awaitable[None]]


class Lanes:
    """A job ends by itself within some seconds, whatever its broker does."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Job]] = {}
        self._working: dict[str, int] = {}
        self._count = 0
        self._tasks = TaskGroup()

    def __len__(self) -> int:
        """Jobs that wait."""
        return self._count

    def put(self, broker: str, job: Job) -> bool:
        """Do it as soon as its lane has room; False when too much waits already."""
        if self._count >= WAITING_MAX:
            return False
        self._waiting.setdefault(broker, deque()).append(job)
        self._count += 1
        if self._working.get(broker, 0) < AT_ONCE_MAX:
            self._working[broker] = self._working.get(broker, 0) + 1
            self._tasks.supervise(partial(self._work, broker), f"work at broker {broker}")
        return True

    async def finish(self) -> None:
        """Wait until nothing waits and nothing is under way; what takes longer than FINISH_MS is not done."""
        await self._tasks.finish(FINISH_MS)

    async def _work(self, broker: str) -> None:
        waiting = self._waiting[broker]
        while waiting:
            self._count -= 1
            await waiting.popleft()()
        self._working[broker] -= 1
        if not self._working[broker]:
            del self._working[broker], self._waiting[broker]
