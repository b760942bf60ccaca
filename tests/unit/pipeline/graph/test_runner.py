"""Pipelines run, run again, and fail in one sentence."""

import fcntl
import json
import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regulus.errors import PipelineError
from regulus.pipeline.graph.graph_run import server_address
from regulus.pipeline.graph.runner import NOBODY, Hearer, RunOrder, RunResult, _Story, run_pipeline
from regulus.pipeline.graph.spec import read_spec
from regulus.spark.runtime.java import Java
from regulus.spark.runtime.work import Work
from tests.java import java_of_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC = """\
name: numbers
storage: file:///nowhere
configuration:
  spark.sql.shuffle.partitions: "2"
  spark.sql.warehouse.dir: a-static-setting-that-no-flow-may-see
libraries:
  - glob: {include: tables/**}
"""
TABLES = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.table
def numbers_lines():
    return spark.readStream.format("text").load(spark.conf.get("numbers.from"))


@dp.materialized_view
def numbers_total():
    return spark.read.table("numbers_lines").agg(F.sum(F.col("value").cast("bigint")).alias("total"))
"""


@pytest.fixture
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    return java_of_tests(tmp_path_factory.mktemp("java"))


@pytest.fixture
def server(spark: "SparkSession") -> Iterator[str]:
    """A Connect server, which keeps no table of a pipeline."""
    yield server_address(spark)
    for table in ("numbers_lines", "numbers_total"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def make(directory: Path, tables: str = TABLES) -> Path:
    (directory / "tables").mkdir(parents=True)
    (directory / "tables" / "numbers.py").write_text(tables)
    (directory / "spark-pipeline.yml").write_text(SPEC)
    return directory


def order(directory: Path, **changes: object) -> RunOrder:
    spec = read_spec(directory, str(directory / "storage"))
    return RunOrder(**{"spec": spec, "parameters": {"numbers.from": str(directory / "in it's")},  # type: ignore[arg-type]
                       **changes})


def run(directory: Path, java: Java | None = None, hearer: Hearer = NOBODY, **changes: object) -> RunResult:
    return run_pipeline(order(directory, **changes), java, os.environ, hearer)


@pytest.mark.spark
@pytest.mark.once
def test_a_flow_that_fails_is_named_and_the_next_run_reads_only_what_is_new(
        tmp_path: Path, server: str, spark: "SparkSession") -> None:
    make(tmp_path, TABLES.replace('F.sum(F.col("value").cast("bigint"))', 'F.raise_error(F.lit("it broke"))'))
    source = tmp_path / "in it's"
    source.mkdir()
    (source / "a.txt").write_text("1\n2\n3\n")
    with pytest.raises(PipelineError) as caught:
        run(tmp_path, remote=server,
            parameters={"numbers.from": str(source), "spark.sql.pipelines.maxFlowRetryAttempts": "0"})
    assert str(caught.value).startswith("flow 'numbers_total' failed: ")
    assert "it broke" in str(caught.value)
    assert "\n" not in str(caught.value)

    (tmp_path / "tables" / "numbers.py").write_text(TABLES)
    (source / "b.txt").write_text("40\n")
    steps: list[str] = []
    second = run(tmp_path, remote=server, hearer=Hearer(say=steps.append))
    assert steps == ["reading the definitions", "running the flows"]
    assert second.states == {"numbers_lines": "COMPLETED", "numbers_total": "COMPLETED"}
    assert second.rows == {"numbers_lines": 1}
    assert [row.total for row in spark.table("numbers_total").collect()] == [46]


@pytest.mark.spark
@pytest.mark.once
def test_a_definition_file_that_fails_is_named_with_the_line(tmp_path: Path, server: str) -> None:
    make(tmp_path, "\nraise ValueError('not today')\n" + TABLES)
    with pytest.raises(PipelineError) as caught:
        run(tmp_path, remote=server)
    assert f"{tmp_path}/tables/numbers.py:2: ValueError: not today" in str(caught.value)


def test_two_runs_at_a_time_are_one_too_many(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "storage").mkdir()
    with (tmp_path / "storage" / "pipeline.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(PipelineError, match=r"another run of the pipeline in .* is going on"):
            run(tmp_path, Java(tmp_path, 17, "a test"))


def test_a_java_that_does_not_start_is_told_with_its_words(tmp_path: Path) -> None:
    make(tmp_path)
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\necho no memory left for this Java >&2\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    with pytest.raises(PipelineError, match="Java gateway process exited") as caught:
        run(tmp_path, Java(home, 17, "a test"))
    assert "pipeline.log" in str(caught.value)
    assert "no memory left for this Java" in (tmp_path / "storage" / "pipeline.log").read_text()


KILL_JAVA = """
import os
import signal
from pathlib import Path

children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
(java,) = [child for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "java"]
os.kill(int(java), signal.SIGKILL)
"""


@pytest.mark.spark
@pytest.mark.once
def test_a_java_that_ends_in_the_middle_ends_the_run(tmp_path: Path, java: Java) -> None:
    make(tmp_path, KILL_JAVA)
    with pytest.raises(PipelineError, match="Spark's Java ended in the middle of the run, with status -9"):
        run(tmp_path, java)


def test_a_storage_elsewhere_needs_a_server_there(tmp_path: Path) -> None:
    spec = read_spec(make(tmp_path), "s3://bucket/numbers")
    with pytest.raises(PipelineError, match="set SPARK_REMOTE"):
        run_pipeline(RunOrder(spec=spec), Java(tmp_path, 17, "a test"), {})


def test_all_and_some_contradict_each_other(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(PipelineError, match="give --full-refresh-all alone"):
        run(tmp_path, Java(tmp_path, 17, "a test"), full_refresh_all=True, refresh=("numbers_lines",))


def test_a_storage_that_cannot_be_written(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "storage").touch()
    with pytest.raises(PipelineError, match="name another place with --storage"):
        run(tmp_path, Java(tmp_path, 17, "a test"))


# --- what is told of a run -------------------------------------------------------------------------------------------


def story(tmp_path: Path, *events: dict[str, object]) -> tuple[_Story, list[object]]:
    told: list[object] = []
    one = _Story(tmp_path / "spec.yml")
    one.follow(StringIO("".join(json.dumps(event) + "\n" for event in events)),
               Hearer(say=told.append, flow=lambda flow, state: told.append((flow, state)), work=told.append))
    (tmp_path / "pipeline.log").write_text("WARNING: something\nError: the last line\n")
    return one, told


def says(text: str) -> dict[str, object]:
    return {"event": "run", "text": text}


def test_states_are_told_once_each_and_rows_are_added_up(tmp_path: Path) -> None:
    one, told = story(
        tmp_path, says("Flow a.b.lines is RUNNING."), says("Flow a.b.lines is RUNNING."),
        {"event": "batch", "flow": "a.b.lines", "rows": 3, "sources": []},
        {"event": "batch", "flow": "a.b.lines", "rows": 4, "sources": [{"start": None, "end": "{7}"}]},
        says("Flow a.b.lines has COMPLETED."), says("Run is COMPLETED."))
    assert told == [("lines", "RUNNING"), ("lines", "COMPLETED")]
    assert (one.result.rows, one.result.offsets) == ({"lines": 7}, {"lines": "{7}"})


def test_steps_and_the_work_of_spark_are_told(tmp_path: Path) -> None:
    work = Work(tasks_done=1, tasks=2, rows=30, size=0, seconds=1.5)
    _, told = story(tmp_path, {"event": "step", "text": "reading the definitions"},
                    {"event": "work", "work": work._asdict()}, {"event": "work", "work": None})
    assert told == ["reading the definitions", work, None]


def test_the_first_flow_that_failed_for_good_counts(tmp_path: Path) -> None:
    traceback = ("Flow 'a.b.lines' has FAILED.\nError: [PYTHON_DATA_SOURCE_ERROR] Traceback:\n  File ...\n"
                 "regulus.errors.OptionError: the store has no topic 'x'; it has y\n SQLSTATE: 38000")
    one, told = story(tmp_path, says("Flow 'a.b.mended' has FAILED.\nError: once"), says(traceback),
                      says("Flow a.b.mended has COMPLETED."),
                      says("Flow 'a.b.total' SKIPPED due to upstream failure(s)."),
                      {"event": "failed", "text": "Run failed"})
    assert ("total", "SKIPPED") in told
    assert one.sentence(tmp_path / "pipeline.log", keeps_log=False) == (
        "flow 'lines' failed: the store has no topic 'x'; it has y")


@pytest.mark.parametrize(("text", "words"), [
    ("[LOCATION_ALREADY_EXISTS] Cannot name ...", "the server's catalog has forgotten the tables"),
    ("StatusCode.UNAVAILABLE: failed to connect to all addresses", "the Spark Connect server does not answer"),
    ("java.lang.OutOfMemoryError: Java heap space", "give it more with --heap"),
    ("", "Error: the last line"),
])
def test_known_troubles_come_with_their_mend(tmp_path: Path, text: str, words: str) -> None:
    one, _ = story(tmp_path, *([{"event": "failed", "text": text}] if text else []))
    sentence = one.sentence(tmp_path / "pipeline.log", keeps_log=True)
    assert words in sentence
    assert sentence.endswith(f"Spark's words are in {tmp_path / 'pipeline.log'}")
