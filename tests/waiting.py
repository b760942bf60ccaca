"""Waiting for a condition, never for a time: it is looked at every few milliseconds, within a limit."""

import asyncio
import time
from collections.abc import Callable

WITHIN_S = 60.0


async def until(condition: Callable[[], object], what: str = "", within_s: float = WITHIN_S,
                every_s: float = 0.001) -> None:
    """Return once `condition` holds. Raises AssertionError, which names `what`, when it does not hold in time.

    With `every_s=0` it is looked at in each turn of the loop, so that a state that soon passes is seen.
    """
    try:
        async with asyncio.timeout(within_s):
            while not condition():
                await asyncio.sleep(every_s)
    except TimeoutError:
        raise AssertionError(f"{what or 'the condition'}: not within {within_s} s") from None


def wait_until(condition: Callable[[], object], what: str = "", within_s: float = WITHIN_S) -> None:
    """Like `until`, for tests without an event loop."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"{what or 'the condition'}: not within {within_s} s"
        time.sleep(0.02)
