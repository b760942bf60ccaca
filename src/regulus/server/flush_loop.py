"""Brings the commit log to disk, and releases the answers that wait for it.

All appends of all connections wait for the same flush: while one runs in the worker thread, the next group gathers
(group commit). Answers leave in the order of their appends. One whose time is up leaves with FLUSH_DISK_TIMEOUT; its
message is stored all the same. When the disk fails, what waits is answered SERVICE_NOT_AVAILABLE and the store takes no
more messages until it is opened anew, because after a failed sync nobody knows what the disk holds.
"""

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from regulus.errors import StoreError
from regulus.store.config import MessageStoreConfig
from regulus.transport.connection import Connection
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)


class FlushedStore(Protocol):
    """What is asked of the store here."""

    @property
    def flushed_offset(self) -> int: ...

    def flush_commit_log(self) -> int: ...

    def commit_log_max_offset(self) -> int: ...

    def stop_writes(self, reason: str) -> None: ...


class _Waiting(NamedTuple):
    end: int
    deadline: float
    connection: Connection
    response: RemotingCommand


class FlushLoop:
    def __init__(self, store: FlushedStore, config: MessageStoreConfig, worker: ThreadPoolExecutor) -> None:
        self._store = store
        self._timeout = config.sync_flush_timeout / 1000
        self._interval = config.flush_interval_commit_log / 1000
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Flush once more and release what waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._timer is not None:
            self._timer.cancel()
        await self._flush()

    def answer_when_durable(self, end: int, connection: Connection, response: RemotingCommand) -> None:
        """Send `response` once the log is on disk up to `end`."""
        deadline = self._loop.time() + self._timeout
        self._waiting.append(_Waiting(end, deadline, connection, response))
        self._wake.set()
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._expire)

    async def _run(self) -> None:
        while True:
            if not self._waiting:
                await self._wait_for_work()
            if self._store.flushed_offset < self._store.commit_log_max_offset() or self._waiting:
                await self._flush()

    async def _wait_for_work(self) -> None:
        """Until an answer waits, or the interval at which the log is flushed anyway is over."""
        self._wake.clear()
        timer = self._loop.call_later(self._interval, self._wake.set)
        await self._wake.wait()
        timer.cancel()

    async def _flush(self) -> None:
        try:
            flushed = await self._loop.run_in_executor(self._worker, self._store.flush_commit_log)
        except StoreError as error:
            _log.error("the commit log could not be flushed; no more messages are taken: %s", error)
            self._store.stop_writes(str(error))
            self._release(len(self._waiting), ResponseCode.SERVICE_NOT_AVAILABLE, f"flush failed: {error}")
            return
        count = 0
        for waiting in self._waiting:
            if waiting.end > flushed:
                break
            count += 1
        self._release(count)

    def _expire(self) -> None:
        """Answer what has waited too long; deadlines are in order because all wait equally long."""
        now = self._loop.time()
        count = 0
        for waiting in self._waiting:
            if waiting.deadline > now:
                break
            count += 1
        if count:
            _log.warning("%d answers waited more than %d ms for the disk", count, self._timeout * 1000)
        self._release(count, ResponseCode.FLUSH_DISK_TIMEOUT)
        self._timer = self._loop.call_at(self._waiting[0].deadline, self._expire) if self._waiting else None

    def _release(self, count: int, code: ResponseCode | None = None, remark: str | None = None) -> None:
        """Send the first `count` answers, those of one connection in one write."""
        by_connection: dict[Connection, list[bytes | memoryview]] = {}
        for _ in range(count):
            _, _, connection, response = self._waiting.popleft()
            if code is not None:
                response.code = int(code)
                response.remark = remark
            by_connection.setdefault(connection, []).extend(response.encode_parts())
        for connection, parts in by_connection.items():
            connection.send_many(parts)
