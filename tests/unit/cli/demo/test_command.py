"""The demo as a user runs it, with few flights."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from regulus.cli.demo.command import demo
from regulus.cli.exit_codes import ExitCode


@pytest.mark.spark
@pytest.mark.once
def test_the_demo_commits_kills_settles_and_proves(tmp_path: Path, unused_tcp_port_factory: Callable[[], int]) -> None:
    directory = tmp_path / "run"
    # Left to itself it takes the usual ports where they are free, as another demo may at the same moment.
    ports = ["--port", str(unused_tcp_port_factory()), "--namesrv-port", str(unused_tcp_port_factory())]
    done = subprocess.run([sys.executable, "-m", "regulus.cli.main", "demo", "--flights", "2500", "--seed", "7", *ports,
                           "--directory", str(directory)], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n2500 committed = 2500 applied or parked, 0 lost, 0 doubled\n" in done.stdout
    for name in ("relay", "broker", "consumer"):
        assert re.search(rf"^  {name} +killed at .* s, started again at .* s$", done.stdout, re.MULTILINE)
    # What dies may be sent back twice, or sent again.
    verdict = r" 2,?500 keys sent = 2,?488 applied \+ 12 dead-lettered, 0 lost"
    assert re.search(verdict + r"; \d+ cop(y|ies) in it w(as|ere) sent again", done.stdout)
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert re.search(verdict, page)
    for name in ("relay", "broker", "consumer"):
        assert f"{name} killed" in page
    assert "Ledger by carrier" in page
    assert f"pipeline run --store {directory / 'store'}" in done.stdout


def test_a_directory_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    done = subprocess.run([sys.executable, "-m", "regulus.cli.main", "demo", "--directory", str(tmp_path)],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == ExitCode.USAGE
    assert "name another with --directory" in done.stderr
    assert (tmp_path / "precious").read_text() == "keep"


def test_flights_and_all_of_them_are_two_answers_to_one_question(tmp_path: Path) -> None:
    done = CliRunner().invoke(demo, ["--all", "--flights", "5", "--directory", str(tmp_path / "run")])
    assert done.exit_code == ExitCode.USAGE
    assert "give one of them" in done.output
    assert not (tmp_path / "run").exists()
