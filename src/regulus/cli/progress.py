"""What a job is at, on standard error, so that standard output is the result alone.

Each sentence is shown at once, with the seconds since the job began. While it goes on being true, how far Spark is with
it: on a terminal in one line below, which is renewed; elsewhere in a line now and then, without control characters.
"""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from time import monotonic
from types import TracebackType
from typing import Self, TextIO

from regulus.spark.runtime.work import Look, Work

RENEW_S = 0.5
"""Between two looks."""

FIRST_LINE_S, LINE_GAP_MAX_S = 5.0, 60.0
"""Where there is no terminal: the first line after a sentence, and the longest time to the next; each takes twice the
time of the one before."""

_ERASE = "\r\x1b[2K"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Spark sets it for the programs that it starts itself."""


class _Nowhere(StringIO):
    def write(self, text: str) -> int:
        return len(text)


class Progress:
    """One job's. A thread renews the line from `with` to `end`."""

    def __init__(self, stream: TextIO, is_terminal: bool, clock: Callable[[], float] = monotonic) -> None:
        self._stream = stream
        self._is_terminal = is_terminal
        self._clock = clock
        self._began = clock()
        self._step = ""
        self._look: Look = _nowhere
        self._size = 0
        self._is_drawn = False
        self._last_line = 0.0
        self._gap = FIRST_LINE_S
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="progress", daemon=True)

    @classmethod
    def on_stderr(cls) -> Self:
        """Nowhere where `spark-submit` runs the command, which puts standard error among the results."""
        if _SUBMITTED in os.environ:
            return cls(_Nowhere(), is_terminal=False)
        return cls(sys.stderr, sys.stderr.isatty() and os.environ.get("TERM") != "dumb")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.end()

    def say(self, sentence: str) -> None:
        """It is shown, and the step that the job is at from now on."""
        with self._lock:
            self.clear()
            self._write(f"{self._elapsed()} {sentence}\n")
            self._begin(sentence)
            self._last_line = self._clock()

    def step(self, name: str) -> None:
        """The job's next step, one of many: it is shown where the line is renewed anyway."""
        with self._lock:
            if name != self._step:
                self._begin(name)

    def expect(self, size: int) -> None:
        """The tasks that come next go through so many bytes, which Spark cannot know."""
        with self._lock:
            self._size = size

    @contextmanager
    def watching(self, look: Look) -> Iterator[None]:
        """Where the figures come from. When the `with` is left, nobody looks there any more."""
        self._watch(look)
        try:
            yield
        finally:
            self._watch(_nowhere)

    def clear(self) -> None:
        """Take the line away, for whoever prints something; the next look draws it anew."""
        with self._lock:
            if self._is_drawn:
                self._write(_ERASE)
                self._is_drawn = False

    def end(self) -> None:
        """All is there that the job prints, or it failed: the line is gone for good."""
        self._over.set()
        self.clear()
        if self._thread.is_alive():
            self._thread.join()

    def tick(self) -> None:
        """Show how far it is, where it is time to."""
        with self._lock:
            if self._over.is_set() or not self._step:
                return
            if self._is_terminal:
                columns = shutil.get_terminal_size().columns
                self._write(_ERASE + self._line()[:columns - 1])
                self._is_drawn = True
            elif self._clock() >= self._last_line + self._gap:
                self._write(self._line() + "\n")
                self._last_line = self._clock()
                self._gap = min(2 * self._gap, LINE_GAP_MAX_S)

    def _renew(self) -> None:
        while not self._over.wait(RENEW_S):
            self.tick()

    def _begin(self, step: str) -> None:
        self._step = step
        self._gap = FIRST_LINE_S

    def _watch(self, look: Look) -> None:
        with self._lock:
            self._look = look

    def _line(self) -> str:
        work = self._look()
        known = [] if work is None else figures(work, self._size)
        return f"{self._elapsed()} {self._step}{': ' if known else ' ...'}{', '.join(known)}"

    def _elapsed(self) -> str:
        return f"[{self._clock() - self._began:6.1f} s]"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def figures(work: Work, size: int = 0) -> Sequence[str]:
    """What is done, how fast, and for how long it will go on. `size`: bytes of all tasks, where Spark knows of none."""
    # The rows of tasks that work on files are their numbers.
    rows = 0 if size else work.rows
    done = size * work.tasks_done // max(1, work.tasks) if size else work.size
    texts = []
    if rows:
        texts.append(f"{rows:,} rows")
    if done:
        texts.append(f"{_mebibytes(done)} of {_mebibytes(size)}" if size else _mebibytes(done))
    texts.append(f"{work.tasks_done} of {work.tasks} tasks")
    if work.seconds >= 1 and (rows or done):
        rate = f"{rows / work.seconds:,.0f} rows" if rows else _mebibytes(done / work.seconds)
        texts.append(f"{rate} a second")
    if 0 < work.tasks_done < work.tasks:
        texts.append(f"about {_duration(work.seconds * (work.tasks - work.tasks_done) / work.tasks_done)} left")
    return texts


def _mebibytes(size: float) -> str:
    mebibytes = size / (1 << 20)
    return f"{mebibytes:,.1f} MiB" if mebibytes < 10 else f"{mebibytes:,.0f} MiB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _nowhere() -> None:
    """Spark is not there yet, or not any more."""
