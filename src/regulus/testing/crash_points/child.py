"""Processes that are killed at a point, held at one, or run to their end.

Each is forked from one small process that has the libraries loaded, so that a start takes hundredths of a second and a
child shares neither threads nor connections with the test. Its function is found by its name: it is one of a module,
and its arguments can be pickled.
"""

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from regulus.client.foreign_calls import call
from regulus.errors import CrashPointMissed
from regulus.testing.crash_points import doors
from regulus.testing.crash_points.points import CrashPoint

TIMEOUT_S = 60.0
PASSED_MAX = 200
"""Passes that a child tells of; later ones are not in its report."""

_PRELOADED = ("regulus.testing.crash_points.doors", "regulus.client.consuming.push_consumer", "sqlalchemy.dialects.sqlite",
              "sqlalchemy.dialects.postgresql")
_REACHED = "reached"
_ENDED = "ended"
_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Killed:
    """A process that was killed where it was to be. `passed`: the points before, in their order."""

    point: CrashPoint
    passed: tuple[str, ...]

    def __str__(self) -> str:
        return f"killed {self.point} ({self.point.where}), behind {_told(self.passed)}"


def kill_at(point: CrashPoint, work: Callable[..., object], *arguments: object, message_id: str = "", times: int = 1,
            timeout_s: float = TIMEOUT_S) -> Killed:
    """Have a process do `work(*arguments)`, and kill itself (SIGKILL) when it is at the point the `times`-th time.

    With `message_id` only passes of this message count, and those of which nobody knows yet whose they are. Raises
    CrashPointMissed when it ends, fails or hangs before: then nothing is proven.
    """
    child = _Child(point, work, arguments, message_id=message_id, times=times, is_held=False)
    child.wait(timeout_s)
    if not child.is_reached or child.process.exitcode != -signal.SIGKILL:
        raise child.missed()
    return Killed(point, tuple(child.passed))


def run(work: Callable[..., object], *arguments: object, timeout_s: float = TIMEOUT_S) -> None:
    """The same without an end on the way: as a restart. Raises CrashPointMissed when it fails or hangs."""
    child = _Child(None, work, arguments)
    child.wait(timeout_s)
    if child.said != _ENDED:
        raise child.missed()


class Held:
    """A process one of whose threads stands at a point, while the others go on."""

    def __init__(self, child: "_Child", timeout_s: float) -> None:
        self._child = child
        self._timeout_s = timeout_s

    def let_go(self) -> None:
        """Have it go on."""
        self._child.let_go()

    def join(self) -> None:
        """Until its work is done. Raises CrashPointMissed when it fails or hangs."""
        self._child.wait(self._timeout_s)
        if self._child.said != _ENDED:
            raise self._child.missed()


@contextmanager
def held_at(point: CrashPoint, work: Callable[..., object], *arguments: object, message_id: str = "",
            timeout_s: float = TIMEOUT_S) -> Iterator[Held]:
    """A slow process, such as one whose lease ends: it stands at the point until it may go on, and is killed at the end
    of the block if it is there still. Raises CrashPointMissed."""
    child = _Child(point, work, arguments, message_id=message_id, is_held=True)
    try:
        child.wait_for_point(timeout_s)
        yield Held(child, timeout_s)
    finally:
        child.end()


class _Child:
    def __init__(self, point: CrashPoint | None, work: Callable[..., object], arguments: tuple[object, ...], *,
                 message_id: str = "", times: int = 1, is_held: bool = False) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*_PRELOADED, work.__module__])  # heeded at the first start alone
        self.point = point
        self.passed: list[str] = []
        self.said = ""
        self.is_reached = False
        self._detail = ""
        self._ours, theirs = multiprocessing.Pipe()
        self.process = context.Process(target=_live, daemon=True, args=(
            theirs, point, work, arguments, message_id, times, is_held))
        self.process.start()
        theirs.close()

    def wait(self, timeout_s: float) -> None:
        """Until it is gone; one that takes longer is killed."""
        until = time.monotonic() + timeout_s
        try:
            while self._hear(until):
                pass
            self.process.join(max(0.0, until - time.monotonic()))
        finally:
            self.end()

    def wait_for_point(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while not self.is_reached:
            if not self._hear(until):
                self.end()
                raise self.missed()

    def let_go(self) -> None:
        self._ours.send(None)

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self._ours.close()

    def missed(self) -> CrashPointMissed:
        where = f"did not come to its end {self.point} ({self.point.where})" if self.point else "did not do its work"
        how = {_ENDED: "it ended before", _FAILED: self._detail}.get(
            self.said, f"it hung, or ended with {self.process.exitcode}")
        return CrashPointMissed(f"the process {where}: {how}; it passed {_told(self.passed)}")

    def _hear(self, until: float) -> bool:
        """One word of the child; False at its end, or when the time is over."""
        if not self._ours.poll(max(0.0, until - time.monotonic())):
            return False
        try:
            kind, text = self._ours.recv()
        except EOFError:
            return False
        if kind == _REACHED:
            self.is_reached = True
        elif kind in (_ENDED, _FAILED):
            self.said, self._detail = kind, text
        else:
            self.passed.append(text)
        return True


def _told(passed: "list[str] | tuple[str, ...]") -> str:
    return ", ".join(passed) if passed else "no point"


# --- in the child ----------------------------------------------------------------------------------------------------


def _live(pipe: "Connection[Any, Any]", point: CrashPoint | None, work: Callable[..., object],
          arguments: tuple[object, ...], message_id: str, times: int, is_held: bool) -> None:
    with doors.watching(_Watch(pipe, point, message_id, times, is_held)):
        _, error = call(work, *arguments)
    pipe.send((_ENDED, "") if error is None else (_FAILED, "".join(traceback.format_exception(error))))


class _Watch:
    """Tells the test of each pass, and ends or holds this process where it should."""

    def __init__(self, pipe: "Connection[Any, Any]", point: CrashPoint | None, message_id: str, times: int,
                 is_held: bool) -> None:
        self._pipe = pipe
        self._point = point
        self._message_id = message_id
        self._times_left = times
        self._is_held = is_held
        self._passes_left = PASSED_MAX
        self._one_at_a_time = threading.Lock()

    def __call__(self, point: CrashPoint, ids: doors.Ids) -> None:
        with self._one_at_a_time:
            is_reached = self._is_reached(point, ids)
            if is_reached:
                self._pipe.send((_REACHED, ""))
                if not self._is_held:
                    os.kill(os.getpid(), signal.SIGKILL)
            elif self._passes_left:
                self._passes_left -= 1
                self._pipe.send(("", str(point)))
        if is_reached:
            self._pipe.recv()

    def _is_reached(self, point: CrashPoint, ids: doors.Ids) -> bool:
        if point != self._point or (self._message_id and ids and self._message_id not in ids):
            return False
        self._times_left -= 1
        return self._times_left == 0
