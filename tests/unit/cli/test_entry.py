import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regulus.cli.exit_codes import ExitCode

_KILLED = "import os, signal\nos.kill(os.getpid(), signal.{name})\n"
SERVERS = (["broker", "--port", "0"], ["nameserver", "--port", "0", "--kv-config", "kv.json"],
           ["up", "--port", "0", "--namesrv-port", "0"])


def run(tmp_path: Path, module: str, name: str, *arguments: str,
        ignored: bool = False) -> subprocess.CompletedProcess[str]:
    """With a signal that comes while `module` is imported."""
    (tmp_path / f"{module}.py").write_text(_KILLED.format(name=name) + f"raise ImportError('{module} is not there')\n")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "regulus", *arguments]
    if ignored:
        command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60,
                          env={**os.environ, "PYTHONPATH": paths, "HOME": str(tmp_path)})


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_before_anything_began_ends_it_without_a_traceback(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, "click", name, "broker")
    assert done.returncode == -signal.Signals[name]
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server[0])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_before_a_server_has_a_loop_ends_it_without_a_traceback(tmp_path: Path, name: str,
                                                                         server: list[str]) -> None:
    done = run(tmp_path, "uvloop", name, *server, "--listen", "127.0.0.1")
    assert done.returncode == -signal.Signals[name]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "store").exists()


def test_who_was_started_with_interrupts_ignored_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, "uvloop", "SIGINT", "topic", "list", "-n", "127.0.0.1:1", ignored=True)
    assert done.returncode == ExitCode.NOT_REACHABLE


def test_an_interrupt_of_a_command_that_has_begun_is_told_by_its_status(tmp_path: Path) -> None:
    done = run(tmp_path, "uvloop", "SIGINT", "topic", "list", "-n", "127.0.0.1:1")
    assert done.returncode == ExitCode.INTERRUPTED
    assert done.stderr.strip() == ""
