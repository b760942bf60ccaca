"""One event loop in a thread of its own, shared by all that is asyncio and used by programs that are not.

A forked child gets a loop of its own with its first client: it has its parent's, but not the thread.
"""

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from regulus.transport.event_loop import loop_factory

R = TypeVar("R")

_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []
os.register_at_fork(after_in_child=_loops.clear)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """The coroutine's result, run in the shared event loop. Raises what it raises."""
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
            threading.Thread(target=loop.run_forever, name="regulus-clients", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


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
