"""Whether each loop of the server goes on: one that has work and gets nowhere is *behind*.

The loops are looked at once a second, by a timer that belongs to none of them. A limit is a number of looks and not a
time: a process that stood still as a whole, as one that was paused, is not taken for one whose loops did.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 1.0
LOOKS_MAX = 10
"""A loop that got nowhere for so many looks is behind, unless its own pauses are longer."""


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
    """`on_looked` takes what is wrong, a sentence each; nothing when all is well."""

    def __init__(self, on_looked: Callable[[Sequence[str]], None]) -> None:
        self._on_looked = on_looked
        self._loops: list[_Loop] = []
        self._faults: list[Callable[[], str]] = []
        self._behind: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, name: str, progress: Callable[[], int], has_work: Callable[[], bool] = _always,
              pause_s: Callable[[], float] = lambda: 0.0, level: int = logging.ERROR) -> None:
        """Look after the loop of that name. `progress` is another number each time that it got somewhere; `pause_s`
        is how long it rests by its settings, which may change; `level`, how loud the log tells of it."""
        self._loops.append(_Loop(name, progress, has_work, pause_s, level))

    def watch_fault(self, fault: Callable[[], str]) -> None:
        """What somebody else tells the log of; an empty text when there is none."""
        self._faults.append(fault)

    def start(self) -> None:
        self.look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Once now, and on from here."""
        self.stop()
        # First, so that whatever happens now is not the end of looking.
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
                _log.warning("%s goes on again", each.name)
        self._on_looked([*wrong, *[text for fault in self._faults if (text := fault())]])
