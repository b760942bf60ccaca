"""The threads of a server beside its event loop's: one for each line of work.

What is done in one line is done one after the other, in the order in which it was asked for; lines do not wait for each
other. Whoever hands in other workers, such as a simulation that does the work itself, keeps to that.
"""

import errno
from concurrent.futures import Executor, ThreadPoolExecutor
from enum import Enum
from typing import Protocol


class Line(Enum):
    FLUSH = "disk"              # the commit log, for which answers wait
    DOCUMENTS = "documents"     # of a broker, or of a name server
    ROOM = "room"               # ahead of the writer, who makes it himself when it is not there in time
    QUEUES = "queues"           # may take seconds with thousands of them
    RETENTION = "retention"
    ACCOUNTS = "accounts"       # files of access control, which may take a second
    CHECK = "check"             # of what a start did not look at, and building it anew


class Workers(Protocol):
    def line(self, line: Line) -> Executor:
        """The same one at each call. Raises OSError when the system gives no thread for it."""

    def shutdown(self) -> None:
        """Returns when everything that was begun is done."""


class ThreadWorkers:
    """A thread for each line. It is there once the line is: one that began with its first work might be refused by the
    system in the middle of a night, and what it should have done with it."""

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
