"""Flushes the commit log to disk, at an interval, and at once while answers wait for it.

All appends of all connections wait for the same flush: while one runs in the worker thread, the next group gathers
(group commit). When the disk fails, waiting requests are refused and the store accepts no more messages until it is
opened again, because after a failed sync the content of the disk is unknown.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Protocol

from regulus.errors import StoreError
from regulus.server.durability import Durability
from regulus.store.config import MessageStoreConfig
from regulus.wire.codes import ResponseCode

_log = logging.getLogger(__name__)


def _ignore(flushed: int) -> None: ...


def _accept() -> None: ...


class FlushedStore(Protocol):
    """What the loop needs from the store."""

    @property
    def flushed_offset(self) -> int: ...

    def flush_commit_log(self) -> int: ...

    def commit_log_max_offset(self) -> int: ...

    def stop_writes(self, reason: str) -> None: ...


class FlushLoop:
    """Meets one condition of `durability`, if answers wait for it: the disk has the log.

    `on_flushed` is called each time with the flushed offset, and `on_failed` when the disk has failed, before waiting
    requests are refused.
    """

    def __init__(self, store: FlushedStore, config: MessageStoreConfig, worker: Executor, durability: Durability, *,
                 is_awaited: bool = True, on_flushed: Callable[[int], None] = _ignore,
                 on_failed: Callable[[], None] = _accept) -> None:
        self._store = store
        self._durability = durability
        self._flushed = durability.require(ResponseCode.FLUSH_DISK_TIMEOUT, self.hasten) if is_awaited else None
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._interval = config.flush_interval_commit_log / 1000
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._flushing: Future[int] | None = None
        self._interval_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._interval_timer = self._loop.call_later(self._interval, self._flush_at_interval)

    async def stop(self) -> None:
        """Flush once more, which releases waiting answers."""
        if self._interval_timer is not None:
            self._interval_timer.cancel()
        while self._flushing is not None:
            await asyncio.gather(asyncio.wrap_future(self._flushing), return_exceptions=True)
        await asyncio.gather(asyncio.wrap_future(self._begin()), return_exceptions=True)

    def hasten(self) -> None:
        """Flush at once, unless a flush is running."""
        if self._flushing is None:
            self._begin()

    def _flush_at_interval(self) -> None:
        # First, so that an exception does not end the flushing.
        self._interval_timer = self._loop.call_later(self._interval, self._flush_at_interval)
        if self._flushing is None and self._store.flushed_offset < self._store.commit_log_max_offset():
            self._begin()

    def _begin(self) -> Future[int]:
        self._flushing = self._worker.submit(self._store.flush_commit_log)
        self._flushing.add_done_callback(self._hand_over)
        return self._flushing

    def _hand_over(self, flush: Future[int]) -> None:
        """Pass the result from the worker thread to the loop's thread; `run_in_executor` takes twice as long."""
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
            self._on_failed()
            self._durability.refuse(f"flush failed: {error}")
            return
        # The next flush begins before the answers of this one are written: the disk and the loop work at the same time.
        if self._durability.is_awaited_behind(flushed):
            self._begin()
        if self._flushed is not None:
            self._flushed.reached(flushed)
        self._on_flushed(flushed)
