"""The trace of a run, in order: lines to read, and a digest by which two runs are compared."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

_QUIET = ("regulus.server.watchdog",)
"""Logs real time."""


class Trace:
    """The trace. `now` returns the seconds since the beginning. Lines are kept only if `is_kept`; the digest is the
    same. `home` is removed from lines that are only to be read, because its name differs each time."""

    def __init__(self, now: Callable[[], float], is_kept: bool, home: Path) -> None:
        self.lines: list[str] = []
        self.digest = 0
        self._now = now
        self._home = f"{home}/"
        self.is_kept = is_kept

    def say(self, who: str, text: str) -> None:
        line = f"{self._now():10.4f}  {who:12} {text}"
        self.digest = crc32(line.encode(), self.digest)
        if self.is_kept:
            self.lines.append(line)

    def carried(self, sender: str, receiver: str, data: bytes) -> None:
        """Note bytes that arrived. Only their number is the same each time: an error of a disk contains its path."""
        self.digest = crc32(f"{self._now():.6f}{sender}{receiver}{len(data)}".encode(), self.digest)

    def note(self, who: str, text: str) -> None:
        """Note a line that is only to be read."""
        if self.is_kept:
            self.lines.append(f"{self._now():10.4f}  {who:12}   {text.replace(self._home, '')}")


class _Here(logging.Filter):
    """Accepts only log records of this thread: a run has no other one, and those of other threads do not belong to
    it."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread == self._thread


class LogListener(logging.Handler):
    """Writes the code's log into the trace; `on_error` is called for errors."""

    def __init__(self, trace: Trace, who: Callable[[], str], on_error: Callable[[str], None]) -> None:
        super().__init__(logging.DEBUG if trace.is_kept else logging.ERROR)
        self.addFilter(_Here())
        self._trace = trace
        self._who = who
        self._on_error = on_error

    def emit(self, record: logging.LogRecord) -> None:
        if record.name in _QUIET:
            return
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        self._trace.note(self._who(), f"[{record.levelname.lower()}] {record.name.removeprefix('regulus.')}: {text}")
        if record.levelno >= logging.ERROR:
            self._on_error(f"{record.name.removeprefix('regulus.')} logged: {text}")


class WarningListener(logging.Handler):
    """Calls `hear` with each warning."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.addFilter(_Here())
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(record.getMessage())
