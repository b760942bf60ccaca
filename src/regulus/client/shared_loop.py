"""One event loop in a thread of its own, shared by all that is asyncio and used by programs that are not.

A forked child gets a loop of its own with its first client: it has its parent's, but not the thread. Nothing that is
called in the loop ends it, for all clients of the process live there.
"""

import asyncio
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from regulus.errors import ClientError
from regulus.transport.event_loop import loop_factory

R = TypeVar("R")

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


def _begin_anew() -> None:
    """In a forked child, whose parent may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _loops.clear()


os.register_at_fork(after_in_child=_begin_anew)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """The coroutine's result, run in the shared event loop. Raises what it raises; ClientError in that loop itself."""
    if _loops and _is_running(_loops[0]):
        coroutine.close()
        raise ClientError("a blocking client was called in the event loop of the blocking clients, which would wait "
                          "for itself: in a coroutine function await an asyncio client, or give a plain function, "
                          "which runs in a thread; a queue selector calls no client")
    return submit(coroutine).result()


def submit(coroutine: Coroutine[Any, Any, R]) -> "Future[R]":
    """Begin the coroutine in the shared event loop and return at once."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


def call(function: Callable[[], R]) -> R:
    """The function's result, called in the shared event loop, where the clients' parts live."""
    async def called() -> R:
        return function()
    return run(called())


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _loops:
            loop = loop_factory()()
            threading.Thread(target=_keep_running, args=(loop,), name="regulus-clients", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


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
