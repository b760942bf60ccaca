"""The one place where the servers read the time.

The time of day may jump, when somebody sets the clock; it is for stamps, and for what is compared with stamps. What
lasts (deadlines, leases, expiries, intervals) goes by the steady clock, which never jumps and means nothing by itself.
"""

import time
from collections.abc import Callable

Clock = Callable[[], int]


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def steady_clock_ms() -> int:
    return time.monotonic_ns() // 1_000_000
