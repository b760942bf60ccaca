"""A Spark driver with its JVMs and workers, to be killed as a whole or in parts; only what it started is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_EXECUTOR = "CoarseGrainedExecutorBackend"
_WORKER = " pyspark.worker"     # of a worker and of the daemon that forked it, whichever daemon that is


class Driver:
    """A Python program that is started as often as wanted, in a process group of its own."""

    def __init__(self, script: Path, arguments: Sequence[str], log: Path, python_path: Path) -> None:
        self._command = [sys.executable, str(script), *arguments]
        self._log = log
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(python_path), *sys.path])}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=log,
                                             env=self._environment, start_new_session=True)

    def kill(self) -> None:
        """All at once: driver, JVMs and workers."""
        if self._process is not None:
            for pid in (*descendants(self._process.pid), self._process.pid):
                kill(pid)
            self._process.wait()

    def kill_executor(self, number: int) -> bool:
        """One executor's JVM with its workers; whether there was one."""
        executors = [pid for pid in self._descendants() if _EXECUTOR in command_line(pid)]
        if not executors:
            return False
        executor = sorted(executors)[number % len(executors)]
        return sum(map(kill, (executor, *descendants(executor)))) > 0

    def kill_workers(self) -> bool:
        """The forked processes that run tasks; whether there was one."""
        return sum(kill(pid) for pid in self._descendants()
                   if _WORKER in command_line(pid) and _WORKER in command_line(parent(pid))) > 0

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def _descendants(self) -> list[int]:
        assert self._process is not None
        return descendants(self._process.pid)


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def descendants(root: int) -> list[int]:
    """The deepest first."""
    parents = {int(path.name): parent(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found = [root]
    for pid in found:
        found += [child for child, of in parents.items() if of == pid]
    return found[:0:-1]


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
