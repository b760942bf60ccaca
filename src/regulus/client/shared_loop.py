"""One event loop in a thread of its own, shared by all that is asyncio and used by programs that are not.

A forked child gets a loop of its own with its first client: it has its parent's, but not the thread. Nothing that is
called in the loop ends it, for all clients of the process live there.
"""

import asyncio
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from regulus.errors import ClientError
from regulus.transport.event_loop import loop_factory

R = TypeVar("R")

_log = logging.getLogger(__name__)
THREAD_NAME = "regulus-clients"

_lock = threading.Lock()
_loops: "list[_SharedLoop]" = []

_BEGUN_AT_ONCE = 64
"""Coroutines that are begun in one turn of the loop. A thread hands them over faster than they begin, and one turn for
all of them would take seconds, in which no answer is read and time-outs run."""


def _begin_anew() -> None:
    """In a forked child, whose parent may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _loops.clear()


os.register_at_fork(after_in_child=_begin_anew)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """The coroutine's result, run in the shared event loop. Raises what it raises; ClientError in that loop itself."""
    if _loops and _is_running(_loops[0].loop):
        coroutine.close()
        raise ClientError("a blocking client was called in the event loop of the blocking clients, which would wait "
                          "for itself: in a coroutine function await an asyncio client, or give a plain function, "
                          "which runs in a thread; a queue selector calls no client")
    return submit(coroutine).result()


def submit(coroutine: Coroutine[Any, Any, R]) -> "Future[R]":
    """Begin the coroutine in the shared event loop and return at once. Cancelling the future cancels the coroutine."""
    future: Future[R] = Future()
    _loop().hand_over(coroutine, future)
    return future


def call(function: Callable[[], R]) -> R:
    """The function's result, called in the shared event loop, where the clients' parts live."""
    async def called() -> R:
        return function()
    return run(called())


def _loop() -> "_SharedLoop":
    with _lock:
        if not _loops:
            _loops.append(_SharedLoop())
        return _loops[0]


class _SharedLoop:
    def __init__(self) -> None:
        self.loop = loop_factory()()
        self._handed: deque[tuple[Coroutine[Any, Any, Any], Future[Any]]] = deque()
        self._is_begin_due = False
        self._handing = threading.Lock()
        threading.Thread(target=_keep_running, args=(self.loop,), name=THREAD_NAME, daemon=True).start()

    def hand_over(self, coroutine: Coroutine[Any, Any, R], future: "Future[R]") -> None:
        with self._handing:
            self._handed.append((coroutine, future))
            was_due, self._is_begin_due = self._is_begin_due, True
        if not was_due:
            self.loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        for _ in range(min(len(self._handed), _BEGUN_AT_ONCE)):
            coroutine, future = self._handed.popleft()
            task = self.loop.create_task(coroutine)
            future.add_done_callback(partial(self._cancel, task))
            task.add_done_callback(partial(_tell, future))
        # One of these is due at a time: with a second beside it, each turn would begin twice as many.
        with self._handing:
            is_due = self._is_begin_due = bool(self._handed)
        if is_due:
            self.loop.call_soon(self._begin)

    def _cancel(self, task: "asyncio.Task[Any]", future: "Future[Any]") -> None:
        if future.cancelled():
            self.loop.call_soon_threadsafe(task.cancel)


def _tell(future: "Future[R]", task: "asyncio.Task[R]") -> None:
    error = None if task.cancelled() else task.exception()
    if task.cancelled():
        future.cancel()
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the caller is called by this loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    while not loop.is_closed():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            # Its task has ended with it, and whoever waits for that hears of it.
            _log.error("a callback in the event loop of the blocking clients raised %s; the loop goes on",
                       type(error).__name__, exc_info=error)


class Blocking(ABC):
    """A client that `with` starts and shuts down."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def shutdown(self) -> None: ...

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.shutdown()
