"""RocketMQ's own mqadmin, kept running for many commands."""

import os
import subprocess
import threading
from pathlib import Path
from types import TracebackType

from real_rocketmq import java_command

_END = "end-of-command"


class AdminTool:
    """mqadmin of one release on one name server. A context manager: the process lives as long as the block."""

    def __init__(self, version: str, home: Path, name_server: str) -> None:
        self._name_server = name_server
        self._command = java_command(version, home, "AdminRunner", [],
                                     ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"))
        self._env = {**os.environ, "ROCKETMQ_HOME": str(home)}
        self._home = home
        self._lock = threading.Lock()

    def __enter__(self) -> "AdminTool":
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, env=self._env, cwd=self._home)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait(60)

    def run(self, *arguments: str) -> str:
        """What the command prints, standard output and error together; `-n` with the name server is added."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write("\t".join([*arguments, "-n", self._name_server]) + "\n")
            self._process.stdin.flush()
            lines = []
            for line in self._process.stdout:
                if line.rstrip() == _END:
                    return "".join(lines).removesuffix("\n")
                lines.append(line)
        raise RuntimeError(f"mqadmin ended in {arguments}: {''.join(lines)}")
