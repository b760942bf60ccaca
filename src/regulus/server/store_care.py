"""What a store needs besides appends and reads: room ahead of the writer, queues and checkpoint on disk.

Both have lines of work of their own. Room ahead must not wait behind a flush, because a writer that outruns it makes
the room itself, on the event loop; and the flush of the log must not wait behind that of thousands of queues.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from regulus.errors import StoreError
from regulus.server.clock import Clock
from regulus.server.kept_task import KeptTask
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

_log = logging.getLogger(__name__)

FAULT_REPORT_INTERVAL_MS = 60_000       # a fault that lasts is told again so often


class StoreCare:
    def __init__(self, store: FileMessageStore, config: MessageStoreConfig, steady_clock: Clock,
                 allocator: Executor, queue_flusher: Executor) -> None:
        self._store = store
        self._config = config
        self._steady_clock = steady_clock
        self._allocator = allocator
        self._queue_flusher = queue_flusher
        self._loop = asyncio.get_running_loop()
        self._task = KeptTask("bringing queues and checkpoint to disk", self._run)
        self._allocation: asyncio.Future[None] | None = None
        self._next_thorough_ms = steady_clock() + config.flush_consume_queue_thorough_interval
        self._fault = ""
        self._fault_told_ms = 0

    def start(self) -> None:
        self.make_room()
        self._task.start()

    async def stop(self) -> None:
        await self._task.stop()
        if self._allocation is not None:
            await asyncio.wait([self._allocation])
        await self._loop.run_in_executor(self._queue_flusher, lambda: None)     # which comes behind what has begun

    def make_room(self) -> None:
        """Begin to make room when the writer comes near the end of it; returns at once."""
        if self._store.wants_allocation and (self._allocation is None or self._allocation.done()):
            self._allocation = self._loop.run_in_executor(self._allocator, self._store.allocate_ahead)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._config.flush_interval_consume_queue / 1000)
            self._store.finish_start()
            await self._flush_queues()
            self._tell_fault()

    async def _flush_queues(self) -> None:
        steady_ms = self._steady_clock()
        is_thorough = steady_ms >= self._next_thorough_ms
        if is_thorough:
            self._next_thorough_ms = steady_ms + self._config.flush_consume_queue_thorough_interval
        flush: Callable[[], None] = self._flush_thoroughly if is_thorough else self._flush_dirty
        try:
            await self._loop.run_in_executor(self._queue_flusher, flush)
        except StoreError as error:
            _log.error("consume queues were not flushed: %s", error)

    def _flush_dirty(self) -> None:
        self._store.flush_consume_queues(self._config.flush_consume_queue_least_pages)
        self._store.flush_mark()

    def _flush_thoroughly(self) -> None:
        self._store.flush_queue_table()
        self._store.flush_checkpoint()
        self._store.flush_mark()

    def _tell_fault(self) -> None:
        """Say why messages are refused when it begins, while it lasts, and when it is over."""
        fault, steady_ms = self._store.fault, self._steady_clock()
        if fault and (fault != self._fault or steady_ms >= self._fault_told_ms + FAULT_REPORT_INTERVAL_MS):
            _log.error("messages are refused: %s", fault)
            self._fault_told_ms = steady_ms
        elif self._fault and not fault:
            _log.warning("messages are taken again")
        self._fault = fault
