"""What a process is told of time, chance and itself, replaced while a run lasts.

The clients and servers read `time`, `random` and `os` where they need them; here is the one place that stands in for
all of these, so that they need not know of it.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from regulus.client import shared_loop, unique_key
from regulus.client.consuming import listener_calls as calls
from regulus.store import disk, recovery
from regulus.testing.simulation.in_the_loop import LoopWorkers, refuse_blocking
from regulus.testing.simulation.loop import begin_serials, current_node

EPOCH_S = 1_790_000_000.0
"""The time of day at the beginning of every run."""
PROCESS_ID = 4242
_SCAN_WINDOW = 256 << 10
"""Memory that each start of a store takes, and that the small files here do not need."""


@contextmanager
def pretended(seed: int, steady_s: Callable[[], float], begin_s: float) -> Iterator[None]:
    """`steady_s`: the steady clock, which said `begin_s` at EPOCH_S. Of one process only one run can be under way."""
    chance = random.Random(f"{seed} process")
    state = random.getstate()
    wall_s = EPOCH_S - begin_s

    def wall_clock() -> float:
        node = current_node()
        return wall_s + steady_s() + (node.clock_s if node is not None else 0.0)

    replaced: list[tuple[Any, str, Any]] = [
        (time, "time", wall_clock),
        (time, "time_ns", lambda: int(wall_clock() * 1e9)),
        (time, "monotonic", steady_s),
        (time, "monotonic_ns", lambda: int(steady_s() * 1e9)),
        (os, "getpid", lambda: PROCESS_ID),
        (os, "urandom", chance.randbytes),
        (disk, "boot_id", _boot_id),
        (unique_key, "_instances", count(1)),
        (unique_key, "local_address", _own_host),
        (recovery, "SCAN_WINDOW", _SCAN_WINDOW),
        (calls, "ListenerWorkers", LoopWorkers),
        (shared_loop, "submit", refuse_blocking),
    ]
    kept = [(place, name, getattr(place, name)) for place, name, _ in replaced]
    random.seed(seed)
    begin_serials()
    for place, name, stand_in in replaced:
        setattr(place, name, stand_in)
    try:
        yield
    finally:
        for place, name, own in kept:
            setattr(place, name, own)
        random.setstate(state)


def _own_host() -> str:
    node = current_node()
    return node.host if node is not None else "127.0.0.1"


def _boot_id() -> str:
    node = current_node()
    return f"{node.host} {node.boot}" if node is not None else ""
