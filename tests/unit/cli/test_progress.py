"""What people see of a job: lines where nobody can renew one, one line where somebody can."""

import io
import re
from itertools import pairwise

import pytest

from regulus.cli.progress import FIRST_LINE_S, LINE_GAP_MAX_S, Progress, figures
from regulus.spark.runtime.work import Work

HALF = Work(tasks_done=10, tasks=40, rows=1_200_000, size=0, seconds=12.0)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lines_of(progress: Progress, clock: Clock, stream: io.StringIO, seconds: int) -> list[str]:
    """What is printed while somebody ticks once a second."""
    before = len(stream.getvalue())
    for _ in range(seconds):
        clock.now += 1
        progress.tick()
    return stream.getvalue()[before:].splitlines()


def test_figures_say_rows_rate_tasks_and_the_time_that_is_left():
    assert figures(HALF) == ["1,200,000 rows", "10 of 40 tasks", "100,000 rows a second", "about 36 s left"]
    assert figures(HALF._replace(tasks_done=0, rows=0)) == ["0 of 40 tasks"]
    assert figures(HALF._replace(tasks_done=40, rows=5, seconds=0.5)) == ["5 rows", "40 of 40 tasks"]
    assert figures(HALF._replace(tasks_done=1, seconds=600.0))[-1] == "about 6 h 30 min left"


def test_figures_of_tasks_that_work_on_files_are_their_bytes():
    assert figures(HALF._replace(rows=10), size=400 << 20) == [
        "100 MiB of 400 MiB", "10 of 40 tasks", "8.3 MiB a second", "about 36 s left"]
    assert figures(HALF._replace(rows=0, size=3 << 20)) == [
        "3.0 MiB", "10 of 40 tasks", "0.2 MiB a second", "about 36 s left"]


def test_a_pipe_gets_each_sentence_and_a_line_now_and_then(clock):
    stream = io.StringIO()
    progress = Progress(stream, is_terminal=False, clock=clock)
    progress.say("starting Spark")
    assert lines_of(progress, clock, stream, int(FIRST_LINE_S)) == ["[   5.0 s] starting Spark ..."]
    with progress.watching(lambda: HALF):
        progress.say("reading orders")
        told = lines_of(progress, clock, stream, 300)
    assert told[0] == ("[  10.0 s] reading orders: 1,200,000 rows, 10 of 40 tasks, 100,000 rows a second, "
                       "about 36 s left")
    times = [float(line[1:8]) for line in told]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps[:4] == [10, 20, 40, LINE_GAP_MAX_S]
    assert set(gaps[4:]) == {LINE_GAP_MAX_S}
    assert re.fullmatch(r"[ -~\n]*", stream.getvalue()), "control characters"


def test_steps_that_follow_one_another_quickly_are_one_line_now_and_then(clock):
    stream = io.StringIO()
    progress = Progress(stream, is_terminal=False, clock=clock)
    progress.say("archiving")
    told = []
    for number in range(60):
        progress.step(f"step {number}")
        told += lines_of(progress, clock, stream, 1)
    assert told[0] == "[   5.0 s] step 4 ..."
    assert len(told) == 60 / FIRST_LINE_S


def test_a_terminal_has_one_line_that_is_renewed_and_taken_away(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    progress = Progress(stream, is_terminal=True, clock=clock)
    progress.say("reading orders")
    with progress.watching(lambda: HALF):
        for _ in range(3):
            clock.now += 1
            progress.tick()
    progress.clear()
    stream.write("a result\n")
    progress.tick()
    progress.end()
    progress.tick()
    assert on_screen(stream.getvalue()) == ["[   0.0 s] reading orders", "a result", ""]
    renewed = re.findall(r"\x1b\[2K([^\r\n]+)", stream.getvalue())
    assert renewed[:2] == ["[   1.0 s] reading orders: 1,200,000 ro", "[   2.0 s] reading orders: 1,200,000 ro"]


def on_screen(text: str) -> list[str]:
    """The lines of a terminal that got this."""
    lines = [""]
    for part in re.split(r"(\n|\r\x1b\[2K)", text):
        if part == "\n":
            lines.append("")
        elif part.startswith("\r"):
            lines[-1] = ""
        else:
            lines[-1] += part
    return lines


def test_nobody_looks_any_more_when_the_session_is_left(clock):
    progress = Progress(io.StringIO(), is_terminal=True, clock=clock)
    looks = []

    def look() -> None:
        looks.append(1)

    progress.say("reading")
    with progress.watching(look):
        progress.tick()
    progress.tick()
    assert len(looks) == 1


def test_its_thread_ends_with_it():
    stream = io.StringIO()
    with Progress(stream, is_terminal=True) as progress:
        progress.say("reading")
        assert progress._thread.is_alive()
    assert not progress._thread.is_alive()
    assert on_screen(stream.getvalue())[-1] == ""


def test_a_command_that_spark_submit_runs_says_nothing_among_its_results(monkeypatch, capsys):
    for variable in ("", "PYSPARK_GATEWAY_PORT"):
        if variable:
            monkeypatch.setenv(variable, "1")
        with Progress.on_stderr() as progress:
            progress.say("starting Spark")
        assert bool(capsys.readouterr().err) is not bool(variable)
