"""Work with a database that is done again and again: one round after the other, and an end between two."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from regulus.client.tasks import TaskGroup
from regulus.reliability.database_errors import passing, refusal

SHUTDOWN_WAIT_MS = 30_000
"""How long a round under way may take at the end; most are over in a few seconds."""


async def check_first(engine: Engine, check: Callable[[], None]) -> None:
    """Before the rounds begin, by a connection of `engine`. Raises what `check` raises; DatabaseUnanswered and
    DatabaseRefused for what the driver says."""
    try:
        await asyncio.to_thread(check)
    except DBAPIError as error:
        raise refusal(engine, error, is_let_in=False) from error


class Rounds:
    """`restarts`: how often a round died, as when the database was away, and the task began anew."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks = TaskGroup()
        self._under_way = asyncio.Lock()
        self.stopping = asyncio.Event()

    @property
    def restarts(self) -> int:
        return self._tasks.restarts

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """`work` goes on until `stopping`, and does each round in `round`."""
        self.stopping.clear()
        self._tasks.supervise(work, self._name, passing)

    def round(self) -> asyncio.Lock:
        """To be held by each: `finish` waits for the one that holds it."""
        return self._under_way

    async def rest(self, time_ms: int) -> None:
        """Between two rounds; over at once at the end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), time_ms / 1000)

    async def finish(self) -> None:
        """Give the round under way its time, and begin no other."""
        self.stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_WAIT_MS / 1000), self._under_way:
                pass
        await self._tasks.cancel()
