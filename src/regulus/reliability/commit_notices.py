"""Waits for the next commit of an outbox: by LISTEN on PostgreSQL with psycopg, otherwise for a fixed time."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Engine

from regulus.reliability.outbox import CHANNEL

_SLICE_S = 0.5
"""A thread that listens cannot be stopped; so it returns by itself this often, and a shutdown waits no longer."""


class CommitNotices:
    """Listens from `async with` on, over a separate connection. `wait` raises whatever ends that connection."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Any = None
        self._listening: asyncio.Task[bool] | None = None

    async def __aenter__(self) -> Self:
        if self._engine.dialect.name == "postgresql" and self._engine.dialect.driver == "psycopg":
            self._connection = await asyncio.to_thread(self._listen)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._listening is not None:
            await asyncio.wait((self._listening,))      # the thread is still using the connection
        if self._connection is not None:
            self._connection.close()

    async def wait(self, stopping: asyncio.Event, time_ms: int) -> None:
        """Wait for a commit since the last wait, for the time, or for the shutdown."""
        if self._connection is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), time_ms / 1000)
            return
        until = asyncio.get_running_loop().time() + time_ms / 1000
        while (left := until - asyncio.get_running_loop().time()) > 0 and not stopping.is_set():
            self._listening = asyncio.create_task(asyncio.to_thread(_hears, self._connection, min(left, _SLICE_S)))
            if await asyncio.shield(self._listening):
                return

    def _listen(self) -> Any:
        borrowed = self._engine.raw_connection()
        connection: Any = borrowed.driver_connection
        borrowed.detach()
        connection.autocommit = True
        connection.execute(f"LISTEN {CHANNEL}")
        return connection


def _hears(connection: Any, time_s: float) -> bool:
    return any(True for _ in connection.notifies(timeout=time_s, stop_after=1))
