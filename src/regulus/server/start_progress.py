"""Logs the progress of a start: a walk of the log may take minutes, and silence looks like a hang."""

import logging
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

FIRST_LINE_S = 2.0
"""Seconds after the beginning of a step; each later line comes after twice the time."""


class StartProgress:
    """Logs progress. `clock` returns seconds and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._distance = FIRST_LINE_S

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note that `done` bytes of a step are done; 0 when it begins, and a `total` of 0 when it is unknown."""
        now = self._clock()
        if done == 0:
            size = f": up to {total >> 20} MiB" if total else ""
            _log.info("%s%s", step, size)
            self._distance = FIRST_LINE_S
        elif now < self._next:
            return
        else:
            _log.info("%s: %d of up to %d MiB are done", step, done >> 20, total >> 20)
            self._distance *= 2
        self._next = now + self._distance
