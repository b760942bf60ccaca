"""Brings the commit log to disk, and releases the answers that wait for it.

All appends of all connections wait for the same flush: while one runs in the worker thread, the next group gathers
(group commit). Answers leave in the order of their appends, as bytes that were made at the append; only an answer that
must say something else is read again. One whose time is up leaves with FLUSH_DISK_TIMEOUT; its message is stored all
the same. When the disk fails, what waits is answered SERVICE_NOT_AVAILABLE and the store takes no
more messages until it is opened anew, because after a failed sync nobody knows what the disk holds.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol

from regulus.errors import StoreError
from regulus.store.config import MessageStoreConfig
from regulus.transport.connection import Connection
from regulus.wire.codes import ResponseCode
from regulus.wire.frame_reader import FrameReader

_log = logging.getLogger(__name__)


class FlushedStore(Protocol):
    """What is asked of the store here."""

    @property
    def flushed_offset(self) -> int: ...

    def flush_commit_log(self) -> int: ...

    def commit_log_max_offset(self) -> int: ...

    def stop_writes(self, reason: str) -> None: ...


class _Waiting(NamedTuple):
    """Answers to requests that came together."""

    end: int
    deadline: float
    connection: Connection
    frames: bytes


class FlushLoop:
    """`on_released` follows each time that answers left because their messages are on disk."""

    def __init__(self, store: FlushedStore, config: MessageStoreConfig, worker: ThreadPoolExecutor,
                 on_released: Callable[[], None]) -> None:
        self._store = store
        self._on_released = on_released
        self._timeout = config.sync_flush_timeout / 1000
        self._interval = config.flush_interval_commit_log / 1000
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._flushing: Future[int] | None = None
        self._interval_timer: asyncio.TimerHandle | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether answers wait for the disk."""
        return bool(self._waiting)

    def start(self) -> None:
        self._interval_timer = self._loop.call_later(self._interval, self._flush_at_interval)

    async def stop(self) -> None:
        """Flush once more and release what waits."""
        if self._interval_timer is not None:
            self._interval_timer.cancel()
        while self._flushing is not None:
            await asyncio.gather(asyncio.wrap_future(self._flushing), return_exceptions=True)
        await asyncio.gather(asyncio.wrap_future(self._begin()), return_exceptions=True)
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()

    def answer_when_durable(self, end: int, connection: Connection, frames: bytes) -> None:
        """Send `frames`, whole answers, once the log is on disk up to `end`."""
        deadline = self._loop.time() + self._timeout
        self._waiting.append(_Waiting(end, deadline, connection, frames))
        if self._flushing is None:
            self._begin()
        if self._deadline_timer is None:
            self._deadline_timer = self._loop.call_at(deadline, self._expire)

    def _flush_at_interval(self) -> None:
        if self._flushing is None and self._store.flushed_offset < self._store.commit_log_max_offset():
            self._begin()
        self._interval_timer = self._loop.call_later(self._interval, self._flush_at_interval)

    def _begin(self) -> Future[int]:
        self._flushing = self._worker.submit(self._store.flush_commit_log)
        self._flushing.add_done_callback(self._hand_over)
        return self._flushing

    def _hand_over(self, flush: Future[int]) -> None:
        """From the worker thread to the loop's; that of `run_in_executor` takes twice as long."""
        self._loop.call_soon_threadsafe(self._end, flush)

    def _end(self, flush: Future[int]) -> None:
        self._flushing = None
        try:
            flushed = flush.result()
        except StoreError as error:
            _log.error("the commit log could not be flushed; no more messages are taken: %s", error)
            self._store.stop_writes(str(error))
            if self._interval_timer is not None:
                self._interval_timer.cancel()
            self._release(len(self._waiting), ResponseCode.SERVICE_NOT_AVAILABLE, f"flush failed: {error}")
            return
        count = 0
        for waiting in self._waiting:
            if waiting.end > flushed:
                break
            count += 1
        if count < len(self._waiting):
            self._begin()
        if count:
            self._release(count)
            self._on_released()

    def _expire(self) -> None:
        """Answer what has waited too long; deadlines are in order because all wait equally long."""
        now = self._loop.time()
        count = 0
        for waiting in self._waiting:
            if waiting.deadline > now:
                break
            count += 1
        if count:
            _log.warning("the disk took more than %d ms; answers were sent without it", self._timeout * 1000)
        self._release(count, ResponseCode.FLUSH_DISK_TIMEOUT)
        self._deadline_timer = self._loop.call_at(self._waiting[0].deadline, self._expire) if self._waiting else None

    def _release(self, count: int, code: ResponseCode | None = None, remark: str | None = None) -> None:
        """Send the first `count` of what waits, that of one connection in one write; as if refused when `code` says
        so."""
        by_connection: dict[Connection, list[bytes]] = {}
        for _ in range(count):
            _, _, connection, frames = self._waiting.popleft()
            if code is not None:
                frames = _refusals(frames, code, remark)
            by_connection.setdefault(connection, []).append(frames)
        for connection, parts in by_connection.items():
            connection.write(b"".join(parts))


def _refusals(frames: bytes, code: ResponseCode, remark: str | None) -> bytes:
    """The same answers, places of the messages included, with another code."""
    reader = FrameReader()
    reader.feed(frames)
    answers = reader.frames()
    for answer in answers:
        answer.code = int(code)
        answer.remark = remark
    return b"".join([answer.encode() for answer in answers])
