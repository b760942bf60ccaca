"""The worker threads of a server besides that of its event loop: one for each line of work.

Work in one line runs in the order in which it was requested; lines do not wait for each other. Other implementations,
such as a simulation that does the work itself, must behave in the same way.
"""

import errno
from concurrent.futures import Executor, ThreadPoolExecutor
from enum import Enum
from typing import Protocol


class Line(Enum):
    FLUSH = "disk"              # the commit log, for which answers wait
    DOCUMENTS = "documents"     # of a broker, or of a name server
    ROOM = "room"               # ahead of the writer, which makes it itself when it is not there in time
    QUEUES = "queues"           # may take seconds with thousands of them
    RETENTION = "retention"
    ACCOUNTS = "accounts"       # files of access control, which may take a second
    CHECK = "check"             # of what a start did not check, and rebuilding it


class Workers(Protocol):
    def line(self, line: Line) -> Executor:
        """The executor of a line, the same at each call. Raises OSError when the system provides no thread for it."""

    def shutdown(self) -> None:
        """Stop; returns when all work that was begun is done."""


class ThreadWorkers:
    """One thread for each line. It is started with the line: a thread started at the first work might be refused by the
    system much later, and the work would be lost."""

    def __init__(self) -> None:
        self._lines: dict[Line, ThreadPoolExecutor] = {}

    def line(self, line: Line) -> Executor:
        executor = self._lines.get(line)
        if executor is None:
            executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"regulus-{line.value}")
            try:
                executor.submit(_begin)
            except RuntimeError as error:
                raise OSError(errno.EAGAIN, f"no thread for {line.value} ({error}): raise how many this user or "
                                            "service may have, by ulimit -u or TasksMax") from error
            self._lines[line] = executor
        return executor

    def shutdown(self) -> None:
        for executor in self._lines.values():
            executor.shutdown()


def _begin() -> None:
    """The first work of a thread."""
