"""Detects loops of the server that make no progress: one that has work and makes none is *behind*.

A timer that belongs to none of the loops checks them once a second. A limit is a number of checks and not a time: when
the whole process is suspended, its loops do not count as stuck.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 1.0
LOOKS_MAX = 10
"""A loop without progress for this many checks is behind, unless its own pauses are longer."""


def _always() -> bool:
    return True


@dataclass(slots=True)
class _Loop:
    name: str
    progress: Callable[[], int]
    has_work: Callable[[], bool]
    pause_s: Callable[[], float]
    level: int
    seen: int = -1
    still_looks: int = 0

    def look(self) -> bool:
        """Whether it is behind."""
        progress = self.progress()
        is_still = progress == self.seen and self.has_work()
        self.still_looks = self.still_looks + 1 if is_still else 0
        self.seen = progress
        return self.still_looks >= LOOKS_MAX + 2 * self.pause_s() / LOOK_INTERVAL_S


class Health:
    """Checks the loops. `on_looked` is called with a sentence for each fault; with none when all is well."""

    def __init__(self, on_looked: Callable[[Sequence[str]], None]) -> None:
        self._on_looked = on_looked
        self._loops: list[_Loop] = []
        self._faults: list[Callable[[], str]] = []
        self._behind: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, name: str, progress: Callable[[], int], has_work: Callable[[], bool] = _always,
              pause_s: Callable[[], float] = lambda: 0.0, level: int = logging.ERROR) -> None:
        """Check the loop of that name. `progress` returns another number after each progress; `pause_s` is its
        configured pause, which may change; `level` is the log level of its faults."""
        self._loops.append(_Loop(name, progress, has_work, pause_s, level))

    def watch_fault(self, fault: Callable[[], str]) -> None:
        """Also report a fault that another module logs; its text is empty when there is none."""
        self._faults.append(fault)

    def start(self) -> None:
        self.look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Check now, and regularly from then on."""
        self.stop()
        # First, so that an exception does not end the checks.
        self._timer = self._loop.call_later(LOOK_INTERVAL_S, self.look)
        wrong: list[str] = []
        for each in self._loops:
            if each.look():
                wrong.append(f"{each.name} got nowhere for {each.still_looks * LOOK_INTERVAL_S:.0f} s")
                if each.name not in self._behind:
                    _log.log(each.level, "%s", wrong[-1])
                self._behind.add(each.name)
            elif each.name in self._behind:
                self._behind.discard(each.name)
                _log.warning("%s makes progress again", each.name)
        self._on_looked([*wrong, *[text for fault in self._faults if (text := fault())]])
