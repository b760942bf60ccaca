"""Limits a rate: tokens arrive at a steady rate, and as many as the bucket holds may be taken at once."""

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
        """Take `count` tokens and return 0, or take none and return how many ms to wait until they are there.

        A count larger than the bucket is taken when the bucket is full; the next tokens then take longer to arrive.
        """
        self._tokens = min(self._burst, self._tokens + (now_ms - self._at_ms) * self._rate_ms)
        self._at_ms = now_ms
        lacking = min(count, self._burst) - self._tokens
        if lacking > 0:
            return max(1, ceil(lacking / self._rate_ms - _ROUNDING_MS))
        self._tokens -= count
        return 0
