"""Background work of a store besides appends and reads: room ahead of the writer, queues and checkpoint on disk.

Both have their own workers. Room ahead must not wait for a flush, because a writer without room makes it itself, on the
event loop; and the flush of the log must not wait for that of thousands of queues.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from concurrent.futures import Executor

from regulus.errors import StoreError
from regulus.server.clock import Clock
from regulus.server.kept_task import KeptTask
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

_log = logging.getLogger(__name__)

FAULT_REPORT_INTERVAL_MS = 60_000       # the interval at which a lasting fault is logged again
TABLE_RETRY_INTERVAL_MS = 10_000        # the shortest interval between two writes of an incomplete table of queues

_PLACE = re.compile(r"\S*/\S*|\d+")
"""The place of a fault, and its numbers: a change of these does not make it another fault."""


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
        self._table_retry_ms = 0
        self.rounds = 0
        """The number of completed rounds."""
        self._refusal = _LastingFault("messages are refused", "messages are taken again")
        self._flush_fault = _LastingFault("queues, index or what is known of them are not brought to disk",
                                          "queues, index and what is known of them are brought to disk again")
        self._timer_fault = _LastingFault("what waits for a time of its own is not brought to disk",
                                          "what waits for a time of its own is brought to disk again")
        self._deletion_fault = _LastingFault("deleted messages may come back after a power cut",
                                             "deleted messages do not come back after a power cut any more",
                                             logging.WARNING)

    def start(self) -> None:
        self.make_room()
        self._task.start()

    async def stop(self) -> None:
        await self._task.stop()
        if self._allocation is not None:
            await asyncio.wait([self._allocation])
        await self._loop.run_in_executor(self._queue_flusher, lambda: None)     # which runs after what has begun

    @property
    def faults(self) -> str:
        """What the disk refuses now; empty when it refuses nothing."""
        lasting = (self._refusal, self._flush_fault, self._timer_fault)
        return "; ".join([fault.text for fault in lasting if fault.text])

    def make_room(self) -> None:
        """Begin to make room when the writer comes near its end; returns at once."""
        if self._store.wants_allocation and (self._allocation is None or self._allocation.done()):
            self._allocation = self._loop.run_in_executor(self._allocator, self._store.allocate_ahead)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._config.flush_interval_consume_queue / 1000)
            self._store.finish_start()
            await self._flush_queues()
            await self._flush_timers()
            self._deletion_fault.tell(self._store.deletion_fault, self._steady_clock())
            self._tell_refusal()
            self.rounds += 1

    async def _flush_queues(self) -> None:
        steady_ms = self._steady_clock()
        is_table_due = self._store.wants_queue_table and steady_ms >= self._table_retry_ms
        is_thorough = is_table_due or steady_ms >= self._next_thorough_ms
        if is_thorough:
            self._table_retry_ms = steady_ms + TABLE_RETRY_INTERVAL_MS
            self._next_thorough_ms = steady_ms + self._config.flush_consume_queue_thorough_interval
        flush: Callable[[], None] = self._flush_thoroughly if is_thorough else self._flush_dirty
        try:
            await self._loop.run_in_executor(self._queue_flusher, flush)
        except StoreError as error:
            self._flush_fault.tell(str(error), steady_ms)
        else:
            self._flush_fault.tell("", steady_ms)

    async def _flush_timers(self) -> None:
        flush = self._store.begin_timers()
        if flush is None:
            return
        is_done = False
        try:
            await self._loop.run_in_executor(self._queue_flusher, flush)
            is_done = True
        except StoreError as error:
            self._timer_fault.tell(str(error), self._steady_clock())
        else:
            self._timer_fault.tell("", self._steady_clock())
        finally:
            self._store.timers.end_flush(is_done)

    def _flush_dirty(self) -> None:
        self._store.flush_consume_queues(self._config.flush_consume_queue_least_pages)
        self._store.flush_mark()

    def _flush_thoroughly(self) -> None:
        self._store.flush_queue_table()
        self._store.flush_checkpoint()
        self._store.flush_mark()

    def _tell_refusal(self) -> None:
        """Log a refusal of the disk. There may be room again without any send that would find it, so it is tried
        here."""
        self._refusal.tell("" if self._store.is_writable else self._store.fault, self._steady_clock())


class _LastingFault:
    """Logs a fault when it begins or changes, from time to time while it lasts, and when it is over."""

    def __init__(self, begun: str, over: str, level: int = logging.ERROR) -> None:
        self._begun = begun
        self._over = over
        self._level = level
        self._fault = ""
        self._kind = ""
        self._told_ms = 0

    @property
    def text(self) -> str:
        """The current fault; empty when there is none."""
        return f"{self._begun}: {self._fault}" if self._fault else ""

    def tell(self, fault: str, steady_ms: int) -> None:
        self._fault = fault
        kind = _PLACE.sub("", fault)
        if fault and (kind != self._kind or steady_ms >= self._told_ms + FAULT_REPORT_INTERVAL_MS):
            _log.log(self._level, "%s: %s", self._begun, fault)
            self._told_ms = steady_ms
        elif self._kind and not fault:
            _log.warning("%s", self._over)
        self._kind = kind
