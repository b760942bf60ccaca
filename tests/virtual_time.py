"""Time that passes when nothing else is left to do: a test of time-outs takes none, and measures them exactly.

For tests whose servers run in the test's own loop: then nothing can come from anywhere else.
"""

import asyncio
import functools
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from unittest import mock

T = TypeVar("T")
_DELIVERY_S = 0.001
"""Real time that the loopback interface gets before nothing is on its way any more."""


class VirtualClock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for no timer: when no socket is ready, it is the time of the next one."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            return super().select(None)
        ready = super().select(0) or (super().select(_DELIVERY_S) if timeout > 0 else [])
        if not ready and timeout > 0:
            self._clock.now_s += timeout
        return ready


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """Runs an async test, or a part of one, in a loop of its own, where `time.monotonic` and the loop's time are the
    virtual one."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> T:
        clock = VirtualClock()
        with mock.patch.object(time, "monotonic", clock.monotonic), asyncio.Runner(
                loop_factory=lambda: asyncio.SelectorEventLoop(_JumpingSelector(clock))) as runner:
            return runner.run(test(*args, **kwargs))

    return run


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


def pass_time(ms: int) -> None:
    """As if something had kept the loop busy for so long."""
    clock = time.monotonic.__self__     # type: ignore[attr-defined]
    assert isinstance(clock, VirtualClock)
    clock.now_s += ms / 1000
