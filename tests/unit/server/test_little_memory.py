"""Where the address space has no room for a file of the log, whoever asks for it is told so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, tuple[int, str]], str]:
    """Answers by kind, and the log."""
    done = subprocess.run([sys.executable, "-m", "tests.unit.server.little_memory", str(tmp_path_factory.mktemp("s"))],
                          capture_output=True, text=True, timeout=120, check=False,
                          cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize(("kind", "code"), [("single", 14), ("batch", 14), ("tagged batch", 14), ("pull", 1),
                                            ("view", 1)])
def test_each_request_is_told_the_cause(told: tuple[dict[str, tuple[int, str]], str], kind: str, code: int) -> None:
    answers, _ = told
    assert answers[kind][0] == code
    assert "cannot be mapped (Cannot allocate memory), to be read or written: give the process" in answers[kind][1]


def test_the_log_has_a_line_and_no_traceback(told: tuple[dict[str, tuple[int, str]], str]) -> None:
    _, log = told
    assert "Traceback" not in log
    assert "is refused: " in log
