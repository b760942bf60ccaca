"""Calls `tick` of the parts that depend on the time.

A tick returns the ms until the next one is wanted; new requests may shorten that wait, hence the upper limit.
"""

import asyncio
from collections.abc import Callable

from regulus.server.clock import Clock

TICK_INTERVAL_MAX_MS = 100
TICK_INTERVAL_MIN_MS = 1


class TickLoop:
    def __init__(self, tick: Callable[[int], int | None], clock: Clock,
                 interval_max_ms: int = TICK_INTERVAL_MAX_MS) -> None:
        self._tick = tick
        self._clock = clock
        self._interval_max_ms = interval_max_ms
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_hurried = False
        self.ticks = 0
        """The number of completed ticks."""

    def start(self) -> None:
        self._timer = self._loop.call_later(0, self._run)

    def hurry(self) -> None:
        """Tick in the loop's next turn instead of the time wanted by the last tick: there is new work for a tick."""
        if self._timer is not None and not self._is_hurried:
            self._timer.cancel()
            self._timer = self._loop.call_later(0, self._run)
            self._is_hurried = True

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        wait_ms: int | None = None
        self._timer = None
        self._is_hurried = False
        try:
            wait_ms = self._tick(self._clock())
            self.ticks += 1
        finally:
            # The event loop reports an error of one tick; the ticks continue.
            wait_ms = self._interval_max_ms if wait_ms is None else min(wait_ms, self._interval_max_ms)
            self._timer = self._loop.call_later(max(wait_ms, TICK_INTERVAL_MIN_MS) / 1000, self._run)
