"""Logs which step blocked the event loop for long: while it lasts, no other client is served.

Each step of ours that may take long is timed: two readings of a clock for all requests of one read, a tick, a walk of
the dispatch. The name of a step is made only when it took long.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from regulus.transport.connection import Connection, OnRequests
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

STEP_MS_MAX = 100
"""A step that takes longer is logged."""
CODES_NAMED_MAX = 5
LONGEST_KEPT_S = 60.0
"""How long the longest step is remembered, at least."""

P = ParamSpec("P")
R = TypeVar("R")


class Watchdog:
    """Times steps. `clock` returns seconds and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._longest_s = self._longest_before_s = 0.0
        self._turn_at_s: float | None = None

    def longest_ms(self) -> float:
        """The longest step of the last one to two minutes, if this is called at least once a minute."""
        now_s = self._clock()
        if self._turn_at_s is None:
            self._turn_at_s = now_s + LONGEST_KEPT_S
        elif now_s >= self._turn_at_s:
            is_old = now_s >= self._turn_at_s + LONGEST_KEPT_S
            self._longest_before_s, self._longest_s = 0.0 if is_old else self._longest_s, 0.0
            self._turn_at_s = now_s + LONGEST_KEPT_S
        return max(self._longest_s, self._longest_before_s) * 1000

    def note(self, name: str, took_s: float) -> None:
        """A step took so long."""
        if took_s > self._longest_s:
            self._longest_s = took_s
        if took_s > STEP_MS_MAX / 1000:
            _tell(name, took_s)

    def watched(self, name: str, step: Callable[P, R]) -> Callable[P, R]:
        """The step, timed."""
        clock, limit_s = self._clock, STEP_MS_MAX / 1000

        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            began = clock()
            try:
                return step(*args, **kwargs)
            finally:
                took = clock() - began
                if took > self._longest_s or took > limit_s:
                    self.note(name, took)
        return timed

    def watched_requests(self, on_requests: OnRequests) -> OnRequests:
        """The handler, timed; its name is made from the requests of one read."""
        clock, limit_s = self._clock, STEP_MS_MAX / 1000

        def timed(connection: Connection, requests: list[RemotingCommand]) -> None:
            began = clock()
            on_requests(connection, requests)
            took = clock() - began
            if took > self._longest_s:
                self._longest_s = took
            if took > limit_s:
                _tell(f"{_codes(requests)} of {connection.peer.remote_text}", took)
        return timed


def _tell(name: str, took_s: float) -> None:
    _log.warning("the event loop did nothing else for %d ms: %s", took_s * 1000, name)


def _codes(requests: list[RemotingCommand]) -> str:
    """`2 requests 310, 1 request 34`, the most frequent first."""
    counts = Counter(request.code for request in requests).most_common(CODES_NAMED_MAX)
    return ", ".join([f"{count} request{'s' if count > 1 else ''} {code}" for code, count in counts])
