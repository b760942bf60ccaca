"""How much may begin now: tokens come at a steady rate, and as many as the bucket holds may be taken at once."""

from math import ceil

_ROUNDING_MS = 1e-6


class TokenBucket:
    """`rate` in tokens a second, `burst` tokens at most. Full at first."""

    def __init__(self, rate: float, burst: int, now_ms: int) -> None:
        self._rate_ms = rate / 1000
        self._burst = burst
        self._tokens = float(burst)
        self._at_ms = now_ms

    def take(self, count: int, now_ms: int) -> int:
        """Take `count` tokens, or tell how many ms to wait until they are there; 0: they are taken.

        More than the bucket holds are taken when it is full, and those that follow wait the longer.
        """
        self._tokens = min(self._burst, self._tokens + (now_ms - self._at_ms) * self._rate_ms)
        self._at_ms = now_ms
        lacking = min(count, self._burst) - self._tokens
        if lacking > 0:
            return max(1, ceil(lacking / self._rate_ms - _ROUNDING_MS))
        self._tokens -= count
        return 0
