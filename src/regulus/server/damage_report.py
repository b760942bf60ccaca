"""Limits repeated log lines about damage: a client that asks for a damaged message asks again every few seconds."""

from regulus.server.clock import Clock, steady_clock_ms

REPORT_INTERVAL_MS = 60_000
"""ms after which the same damage is logged again."""
SENTENCES_MAX = 1000
"""The number of sentences that are remembered; at the limit all are forgotten, and logged again."""


class DamageReport:
    def __init__(self, clock: Clock = steady_clock_ms) -> None:
        self._clock = clock
        self._due_ms: dict[str, int] = {}

    def is_due(self, sentence: str) -> bool:
        """Whether to log it now; if so, it counts as logged, and is not due again for a while."""
        now_ms = self._clock()
        if now_ms < self._due_ms.get(sentence, now_ms):
            return False
        if len(self._due_ms) >= SENTENCES_MAX:
            self._due_ms.clear()
        self._due_ms[sentence] = now_ms + REPORT_INTERVAL_MS
        return True
