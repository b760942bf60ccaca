"""The one place where the servers read the time.

The time of day may jump, when somebody sets the clock; it is for stamps, and for what is compared with stamps. What
lasts (deadlines, leases, expiries, intervals) goes by the steady clock, which never jumps and means nothing by itself.
Everywhere a moment of the first is called `now_ms`, one of the second `steady_ms`; the two are never compared.
"""

import time
from collections.abc import Callable

Clock = Callable[[], int]


def wall_clock_ms() -> int:
    """What is handed on as `now_ms`."""
    return time.time_ns() // 1_000_000


def steady_clock_ms() -> int:
    """What is handed on as `steady_ms`."""
    return time.monotonic_ns() // 1_000_000
