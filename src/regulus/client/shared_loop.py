"""One event loop in a thread of its own, shared by all clients of programs that do not use asyncio themselves.

A forked child gets a loop of its own with its first client: it inherits its parent's loop, but not the thread. No call
in the loop can end it, because all clients of the process depend on it.

The loop runs as long as the program's own code. Before a process ends, its clients finish the work that they have
accepted: at the end of the interpreter, or of the function of a `multiprocessing` child. When the interpreter shuts
down its threads stop, and later calls raise ClientError.
"""

import asyncio
import atexit
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, runtime_checkable
from weakref import WeakSet

from regulus.client import real_threads
from regulus.errors import ClientError
from regulus.transport.event_loop import loop_factory

R = TypeVar("R")

_log = logging.getLogger(__name__)
THREAD_NAME = "regulus-clients"

_lock = real_threads.new_lock()
_loops: "list[_SharedLoop]" = []

_THREADS_MAX = 32
"""Calls that clients make in threads at the same time, such as checks of transactions; more calls wait."""

_ANSWER_MAX_S = 10
"""Seconds that the end of a process waits for an answer of the loop, besides the time that its clients need: the loop
may hang."""

_BEGUN_AT_ONCE = 64
"""Coroutines that are begun in one turn of the loop. A thread submits them faster than they begin, and one turn for all
of them would take seconds, in which no answer is read while time-outs run."""


@runtime_checkable
class Owing(Protocol):
    """A client that accepts work and does it later."""

    def owed_ms(self) -> int:
        """ms that its shutdown may take for work that it has accepted and not done yet; 0 without such work."""

    async def end_with_process(self) -> None: ...


_owing: "WeakSet[Owing]" = WeakSet()


def _begin_anew() -> None:
    """Reset everything in a forked child, including the lock, which the parent may have held."""
    global _lock
    _lock = real_threads.new_lock()
    _loops.clear()
    _owing.clear()


os.register_at_fork(after_in_child=_begin_anew)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """The coroutine's result, run in the shared event loop. Raises what it raises; ClientError in that loop itself."""
    if not sys.is_finalizing() and _loops and _is_running(_loops[0].loop):
        coroutine.close()
        raise ClientError("a blocking client was called in the event loop of the blocking clients, which would wait "
                          "for itself: in a coroutine function await an asyncio client, or give a plain function, "
                          "which runs in a thread; a queue selector must not call a client")
    return submit(coroutine).result()


def submit(coroutine: Coroutine[Any, Any, R]) -> "Future[R]":
    """Begin the coroutine in the shared event loop and return at once. Cancelling the future cancels the coroutine.
    Raises ClientError if no loop can run."""
    future: Future[R] = Future()
    try:
        _loop().hand_over(coroutine, future)
    except ClientError:
        coroutine.close()
        raise
    return future


def call(function: Callable[[], R]) -> R:
    """Call a function in the shared event loop, to which the clients' parts belong; returns its result."""
    async def called() -> R:
        return function()
    return run(called())


def made(client: Callable[[], R]) -> R:
    """Create a client in the shared event loop. Raises ClientError if its calls could never return."""
    real_threads.check()
    result = call(client)
    if isinstance(result, Owing):
        call(lambda: _owing.add(result))
    return result


def _loop() -> "_SharedLoop":
    if sys.is_finalizing():
        raise ClientError("a blocking client was called while the interpreter shuts down, when the thread of its event "
                          "loop has stopped: shut the client down before, at the end of the program or by `with`")
    with _lock:
        if not _loops:
            _loops.append(_SharedLoop())
        return _loops[0]


class _SharedLoop:
    def __init__(self) -> None:
        """Start the loop in a thread. Raises ClientError when no thread can be started."""
        real_threads.check()
        self.loop = loop_factory()()
        self.loop.set_default_executor(real_threads.pool(_THREADS_MAX, "regulus"))
        self._handed: deque[tuple[Coroutine[Any, Any, Any], Future[Any]]] = deque()
        self._is_begin_due = False
        self._handing = real_threads.new_lock()
        try:
            real_threads.start(partial(_keep_running, self.loop), THREAD_NAME)
        except RuntimeError as error:
            self.loop.close()
            raise ClientError(f"a blocking client needs a thread, which cannot be started here: {error}") from error
        processes = sys.modules.get("multiprocessing.util")
        if processes is not None and sys.modules["multiprocessing"].parent_process() is not None:
            processes.Finalize(None, _end, exitpriority=0)      # such a child ends without calling `atexit` functions

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
        # Only one call of this may be scheduled at a time: with two, each turn would begin twice as many coroutines.
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
    """Whether the current code runs in this loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    while not loop.is_closed():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            # The error has ended its task, and callers that wait for the task get it.
            _log.error("a callback in the event loop of the blocking clients raised %s; the loop continues",
                       type(error).__name__, exc_info=error)


def _end() -> None:
    """Let the clients finish their accepted work, before the threads of this process stop."""
    if not _loops:
        return
    asking, ending = Future[int](), Future[None]()
    try:
        _loops[0].hand_over(_owed_ms(), asking)
        if wait_ms := asking.result(_ANSWER_MAX_S):
            _loops[0].hand_over(_shut_down(), ending)
            ending.result(wait_ms / 1000 + _ANSWER_MAX_S)
    except TimeoutError:
        _log.warning("the process ends before the blocking clients have finished their work: their event loop does not "
                     "answer")


async def _owed_ms() -> int:
    return max((client.owed_ms() for client in _owing), default=0)


async def _shut_down() -> None:
    clients = [client for client in _owing if client.owed_ms()]
    for raised in await asyncio.gather(*(client.end_with_process() for client in clients), return_exceptions=True):
        if raised is not None:
            _log.warning("a client was not shut down at the end of the process", exc_info=raised)


atexit.register(_end)


class Blocking(ABC):
    """A blocking client, which `with` starts and shuts down."""

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
