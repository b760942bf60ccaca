"""Which damage was told in the log lately: whoever asks for a damaged message asks again every few seconds."""

from regulus.server.clock import Clock, steady_clock_ms

REPORT_INTERVAL_MS = 60_000
"""The same damage is told again so often."""
SENTENCES_MAX = 1000
"""So many are remembered; then each is told anew."""


class DamageReport:
    def __init__(self, clock: Clock = steady_clock_ms) -> None:
        self._clock = clock
        self._due_ms: dict[str, int] = {}

    def is_due(self, sentence: str) -> bool:
        """Whether to tell it now; then it is told, and not due for a while."""
        now_ms = self._clock()
        if now_ms < self._due_ms.get(sentence, now_ms):
            return False
        if len(self._due_ms) >= SENTENCES_MAX:
            self._due_ms.clear()
        self._due_ms[sentence] = now_ms + REPORT_INTERVAL_MS
        return True
