"""Work with a database in rounds, which can be stopped between two of them."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from regulus.client.tasks import TaskGroup
from regulus.reliability.database_errors import passing, refusal

SHUTDOWN_WAIT_MS = 30_000
"""How long a current round may take at the end; most take a few seconds."""


async def check_first(engine: Engine, check: Callable[[], None]) -> None:
    """Run `check` before the rounds begin, on a connection of `engine`. Raises what `check` raises; DatabaseUnanswered
    and DatabaseRefused for errors of the driver."""
    try:
        await asyncio.to_thread(check)
    except DBAPIError as error:
        raise refusal(engine, error, is_let_in=False) from error


class Rounds:
    """Runs rounds. `restarts`: how often a round failed, for example because the database was unreachable, and the task
    started again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks = TaskGroup()
        self._under_way = asyncio.Lock()
        self.stopping = asyncio.Event()

    @property
    def restarts(self) -> int:
        return self._tasks.restarts

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start `work`, which runs until `stopping`, and does each round in `round`."""
        self.stopping.clear()
        self._tasks.supervise(work, self._name, passing)

    def round(self) -> asyncio.Lock:
        """A lock to be held during each round: `finish` waits for its holder."""
        return self._under_way

    async def rest(self, time_ms: int) -> None:
        """Wait between two rounds; a shutdown ends the wait."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), time_ms / 1000)

    async def finish(self) -> None:
        """Give the current round its time, and begin no other."""
        self.stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_WAIT_MS / 1000), self._under_way:
                pass
        await self._tasks.cancel()
