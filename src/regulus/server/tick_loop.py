"""Tells those who wait for the time what time it is.

A tick answers in how many ms it wants the next one; new requests may shorten that wait, hence the upper limit.
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
        """Those that came to their end."""

    def start(self) -> None:
        self._timer = self._loop.call_later(0, self._run)

    def hurry(self) -> None:
        """Tick in the loop's next turn, and not when the last tick wanted to: there is work for a tick since."""
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
            # An error of one tick is reported by the event loop; time goes on all the same.
            wait_ms = self._interval_max_ms if wait_ms is None else min(wait_ms, self._interval_max_ms)
            self._timer = self._loop.call_later(max(wait_ms, TICK_INTERVAL_MIN_MS) / 1000, self._run)
