"""A child process with its output in a file, ended by its own process id."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path


class ChildEnded(Exception):
    """A process that should run has ended; the text carries the end of what it wrote."""


class ChildProcess:
    """One started process. `stop` is a polite end (SIGTERM), `kill` is not."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: dict[str, str], cwd: Path) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            # In a session of its own, as services are: the system shares processors out fairly between sessions.
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                             stderr=subprocess.STDOUT, env=env, cwd=cwd, start_new_session=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def check_alive(self) -> None:
        """Raises ChildEnded when the process is gone."""
        status = self._process.poll()
        if status is not None:
            tail = self.log.read_text(errors="replace")[-3000:]
            raise ChildEnded(f"{self.name} ended with {status}; the end of {self.log}:\n{tail}")

    def stop(self, timeout_s: float = 30.0) -> int:
        """Ask it to end and wait; a process that does not is killed and reported. Returns the exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ChildEnded(f"{self.name} did not end within {timeout_s:.0f} s of SIGTERM and was killed") from None

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(60)
