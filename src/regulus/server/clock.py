"""The only module of the servers that reads the time.

The time of day may jump, when the clock is set; it is for timestamps, and for comparisons with timestamps. Durations
(deadlines, leases, expiries, intervals) use the steady clock, which never jumps and has no meaning of its own. Values
of the first are called `now_ms` everywhere, those of the second `steady_ms`; the two are never compared.
"""

import time
from collections.abc import Callable

Clock = Callable[[], int]


def wall_clock_ms() -> int:
    """The value of `now_ms`."""
    return time.time_ns() // 1_000_000


def steady_clock_ms() -> int:
    """The value of `steady_ms`."""
    return time.monotonic_ns() // 1_000_000
