"""Calls a listener for many batches of messages at once, with a fixed number of workers and no task per message.

A coroutine function runs in workers of the event loop. Any other function runs in threads that are started when there
is work for them; their results come back in handfuls, so that the loop is woken once for many of them.
"""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from regulus.client.client_instance import steady_ms
from regulus.client.core.owned_queue import OwnedQueue
from regulus.client.listener import ConsumeContext, ConsumeStatus, MessageListener
from regulus.client.tasks import TaskGroup, is_being_cancelled
from regulus.model.message import MessageExt

_log = logging.getLogger(__name__)

T = TypeVar("T")

_YIELD_AFTER = 0.005
"""Seconds that workers may keep the event loop when the listener never waits for anything."""


class Work:
    """One call of the listener. `is_expiring`: it takes too long, and its messages are being sent back; `is_expired`:
    they all have been."""

    __slots__ = ("context", "is_expired", "is_expiring", "messages", "owned", "started_ms")

    def __init__(self, owned: OwnedQueue, messages: list[MessageExt]) -> None:
        self.owned = owned
        self.messages = messages
        self.context = ConsumeContext(owned.queue)
        self.started_ms = 0
        self.is_expiring = False
        self.is_expired = False


OnResult = Callable[[Work, ConsumeStatus], None]


class ListenerWorkers:
    """`on_result` is called in the event loop, once for each work that was submitted, unless `close` comes first. Works
    of queues that were given up before they began are not begun: they end as RECONSUME_LATER.

    A listener may answer what is no ConsumeStatus; whatever it raises counts as RECONSUME_LATER, its `sys.exit()` in a
    thread and cancellations from within included. `restarts`: how often a worker died nevertheless.
    """

    def __init__(self, listener: MessageListener, count: int, on_result: OnResult) -> None:
        self.running: dict[Work, None] = {}     # in the order in which they began
        self._listener = listener
        self._count = count
        self._on_result = on_result
        self._ready: deque[Work] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks = TaskGroup()
        self._threads: list[threading.Thread] = []
        self._handed: SimpleQueue[Work | None] = SimpleQueue()
        self._finished: deque[tuple[Work, ConsumeStatus]] = deque()
        self._is_drain_due = False
        self._loop = asyncio.get_running_loop()
        self.is_async = is_async_listener(listener)
        if self.is_async:
            for number in range(count):
                self._tasks.supervise(self._work, f"listener worker {number}")

    @property
    def restarts(self) -> int:
        return self._tasks.restarts

    def submit(self, works: list[Work]) -> None:
        """Have the listener called for each work, in no particular order."""
        if self.is_async:
            self._ready.extend(works)
            self._wake_one()
            return
        for work in works:
            self._hand_over(work)

    def waiting(self) -> int:
        """Works that were submitted and not begun."""
        return len(self._ready) if self.is_async else self._handed.qsize()

    async def close(self, wait_ms: int) -> None:
        """Begin no more; give what runs `wait_ms` to end."""
        self._ready.clear()
        with suppress(Empty):
            while True:
                self._handed.get_nowait()
        until = self._loop.time() + wait_ms / 1000
        while self.running and self._loop.time() < until:
            await asyncio.sleep(0.01)
        for _ in self._threads:
            self._handed.put(None)
        await self._tasks.cancel()

    async def call_directly(self, work: Work) -> tuple[ConsumeStatus, BaseException | None]:
        """One call outside the workers: what the listener answered, and what it raised."""
        return await self._call_async(work) if self.is_async else await asyncio.to_thread(self._call, work)

    async def _call_async(self, work: Work) -> tuple[ConsumeStatus, BaseException | None]:
        try:
            return await self._listener(work.messages, work.context), None  # type: ignore[misc]
        except (Exception, asyncio.CancelledError) as error:
            if is_being_cancelled(error):
                raise
            return ConsumeStatus.RECONSUME_LATER, error

    def _call(self, work: Work) -> tuple[ConsumeStatus, BaseException | None]:
        try:
            return self._listener(work.messages, work.context), None  # type: ignore[return-value]
        except BaseException as error:
            return ConsumeStatus.RECONSUME_LATER, error

    # --- in the event loop -------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        ready = self._ready
        loop = self._loop
        yield_at = loop.time() + _YIELD_AFTER
        while True:
            if not ready:
                idle = loop.create_future()
                self._idle.append(idle)
                await idle
                yield_at = loop.time() + _YIELD_AFTER
                continue
            work = ready.popleft()
            if work.owned.is_given_up:
                self._on_result(work, ConsumeStatus.RECONSUME_LATER)
                continue
            if ready:
                self._wake_one()
            work.started_ms = steady_ms()
            self.running[work] = None
            try:
                status, error = await self._call_async(work)
            finally:
                self.running.pop(work, None)
            if error is not None:
                _log_failure(work, error)
            self._on_result(work, status)
            if loop.time() > yield_at:
                await asyncio.sleep(0)
                yield_at = loop.time() + _YIELD_AFTER

    def _wake_one(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    # --- in threads --------------------------------------------------------------------------------------------------

    def _hand_over(self, work: Work) -> None:
        self._handed.put(work)
        busy = len(self.running) + self._handed.qsize()
        if len(self._threads) < min(busy, self._count):
            thread = threading.Thread(target=self._run_thread, name=f"listener-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run_thread(self) -> None:
        while (work := self._handed.get()) is not None:
            status = ConsumeStatus.RECONSUME_LATER
            if not work.owned.is_given_up:
                work.started_ms = steady_ms()
                self.running[work] = None
                status, error = self._call(work)
                if error is not None:
                    _log_failure(work, error)
            self._finished.append((work, status))
            if not self._is_drain_due:
                self._is_drain_due = True
                try:
                    self._loop.call_soon_threadsafe(self._drain)
                except RuntimeError:
                    return  # the loop was closed while the listener ran: nobody waits for the result

    def _drain(self) -> None:
        # Cleared first: a result that is appended from now on asks for another drain.
        self._is_drain_due = False
        while self._finished:
            work, status = self._finished.popleft()
            self.running.pop(work, None)
            self._on_result(work, status)


async def call_safely(callback: Callable[[T], object], argument: T) -> tuple[object, Exception | None]:
    """What an application's callback answered, and what it raised. Only a coroutine function is called in the loop."""
    try:
        if is_async_listener(callback):
            return await callback(argument), None  # type: ignore[misc]
        return await asyncio.to_thread(callback, argument), None
    except Exception as error:
        return None, error
    except asyncio.CancelledError as error:
        if is_being_cancelled(error):
            raise
        cancelled = RuntimeError("the callback was cancelled from within")
        cancelled.__cause__ = error
        return None, cancelled


def is_async_listener(listener: Callable[..., object]) -> bool:
    """True for coroutine functions and for objects whose call is one."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004


def _log_failure(work: Work, error: BaseException) -> None:
    _log.warning("the listener failed for %d messages of %s, from offset %d; they are tried again later",
                 len(work.messages), work.owned.queue, work.messages[0].queue_offset, exc_info=error)
