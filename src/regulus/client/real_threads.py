"""Starts threads of the operating system, even if gevent has replaced threads by greenlets, and until the process ends.

Greenlets cannot be used here: a greenlet runs only while the thread that made it waits in gevent's functions, which an
event loop never does.
"""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

try:
    from _queue import SimpleQueue  # in `queue`, gevent may have replaced it
except ImportError:
    from queue import SimpleQueue

from regulus.client.foreign_calls import call
from regulus.errors import ClientError

__all__ = ["SimpleQueue", "check", "new_lock", "pool", "start"]

P = ParamSpec("P")
T = TypeVar("T")


def check() -> None:
    """Raises ClientError if no thread of the operating system can be started."""
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        raise ClientError("eventlet has replaced threads by greenlets, and a blocking client needs a real thread for "
                          "its event loop: use workers with real threads (gunicorn -k gthread) or gevent's")


def start(target: Callable[[], object], name: str) -> None:
    """Run `target` in a daemon thread. Raises RuntimeError when none can be started."""
    gevent = _gevent()
    if gevent is None:
        threading.Thread(target=target, name=name, daemon=True).start()
    else:
        gevent.get_original("_thread", "start_new_thread")(target, ())


def new_lock() -> threading.Lock:
    """A lock between threads of the operating system; its holder must not wait for a greenlet."""
    gevent = _gevent()
    made: threading.Lock = (threading.Lock if gevent is None else gevent.get_original("_thread", "allocate_lock"))()
    return made


def pool(count: int, name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, name) if _gevent() is None else _RealPool(count, name)


def _gevent() -> Any:
    """The gevent module with the original functions, if gevent has replaced threads; else None."""
    gevent = sys.modules.get("gevent.monkey")
    return gevent if gevent is not None and gevent.is_module_patched("threading") else None


class _RealPool(ThreadPoolExecutor):
    """A pool of at most `count` threads, which are started when there is work and live as long as the process."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, name)
        self._count = count
        self._started = 0
        self._idle = 0
        self._lock = new_lock()
        self._works: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._works.put((future, partial(fn, *args, **kwargs)))
        with self._lock:
            is_short = self._works.qsize() > self._idle and self._started < self._count
            self._started += is_short
        if is_short:
            start(self._work, "regulus pool")
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for _ in range(self._started):
            self._works.put(None)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            work = self._works.get()
            with self._lock:
                self._idle -= 1
            if work is None:
                return
            future, function = work
            if not future.set_running_or_notify_cancel():
                continue
            result, error = call(function)
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)
