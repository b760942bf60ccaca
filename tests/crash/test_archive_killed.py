"""An archive job killed at each of its steps: the next run ends with the bytes of a run that nobody disturbed."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.archives import archive_store, archived_rows, files_of
from tests.stores import fill, open_store

from regulus.pipeline.archive.compact import CompactConfig, compact
from regulus.pipeline.archive.config import ArchiveConfig
from regulus.pipeline.archive.run import run_archive
from regulus.pipeline.range_tasks import LocalTasks

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parent.parent.parent
RANGE_SIZE = 3000
LATER = 4_000_000_000_000
PRELUDE = """
import os, signal, sys
from regulus.pipeline.archive.run import run_archive
from regulus.pipeline.archive.compact import CompactConfig, compact
from regulus.pipeline.archive.config import ArchiveConfig
from regulus.pipeline.range_tasks import LocalTasks, SparkTasks

store, archive, fatal = sys.argv[1], sys.argv[2], int(sys.argv[3])
steps = []

def step(name):
    if len(steps) == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
    steps.append(name)

class Torn(LocalTasks):
    # Dies in the midst of its tasks when the fatal step is -1.
    def run(self, work, tasks):
        results = super().run(work, tasks[:1])
        if fatal < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return results + super().run(work, tasks[1:])
"""
ARCHIVE = PRELUDE + f"""
config = ArchiveConfig(store_path=store, archive_path=archive, range_size={RANGE_SIZE})
run_archive(Torn(), config, "run", None, None, step)
"""
COMPACT = PRELUDE + f"""
config = CompactConfig(archive_path=archive, range_size=1 << 20, keep_superseded_ms=0)
compact(Torn(), config, "run", {LATER}, None, step)
"""
WITH_SPARK = PRELUDE + f"""
from pathlib import Path
from regulus.spark.runtime.session import open_session
from tests.java import java_of_tests
spark = open_session(lambda: java_of_tests(Path(sys.argv[4])), os.environ, "local[2]",
                     {{"spark.driver.memory": "1g", "spark.log.level": "ERROR"}})
config = ArchiveConfig(store_path=store, archive_path=archive, range_size={RANGE_SIZE})
run_archive(SparkTasks(spark), config, "run", None, None, step)
"""


def a_store(root: Path) -> Path:
    """One log file with two topics, which makes three ranges."""
    store = open_store(root, mapped_file_size_commit_log=1 << 16)
    fill(store, 20, queues=2)
    fill(store, 10, topic="TopicB", first=100)
    store.close()
    return root


def killed(script: str, store: Path, archive: Path, fatal: int, *more: str) -> None:
    """Runs the script, which kills itself, and ends what it started: a JVM outlives the one that asked for it."""
    log = archive.with_name(f"{archive.name}.log")
    with log.open("w") as output, subprocess.Popen(
            [sys.executable, "-c", script, str(store), str(archive), str(fatal), *more], cwd=ROOT, stdout=output,
            stderr=output, env={"PYTHONPATH": ":".join([str(ROOT), *sys.path]), "PATH": "/usr/bin:/bin"},
            start_new_session=True) as child:
        status = child.wait()
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    assert status == -signal.SIGKILL, log.read_text()


def steps_of_an_archive_run(tmp_path: Path) -> list[str]:
    steps: list[str] = []
    config = ArchiveConfig(store_path=str(a_store(tmp_path / "store")), archive_path=str(tmp_path / "undisturbed"),
                           range_size=RANGE_SIZE)
    run_archive(LocalTasks(), config, "run", None, None, steps.append)
    return steps


def visible(archive: Path) -> list[int]:
    if not (archive / "_manifest").is_dir() or not any((archive / "_manifest").glob("*/*.json")):
        return []
    return sorted(row["physical_offset"] for row in archived_rows(archive, subscribePattern=".*"))


def test_killed_at_each_step_and_run_again_gives_the_same_bytes(tmp_path: Path) -> None:
    steps = steps_of_an_archive_run(tmp_path)
    assert {"tasks", "check", "move 0", "move 1", "manifest", "committed", "end"} <= set(steps)
    undisturbed = files_of(tmp_path / "undisturbed")
    everything = visible(tmp_path / "undisturbed")
    seen = set()
    for fatal in range(-1, len(steps)):
        archive = tmp_path / f"killed-{fatal}"
        killed(ARCHIVE, tmp_path / "store", archive, fatal)
        # What a reader sees in between is whole ranges, each message once.
        between = visible(archive)
        assert between == everything[:len(between)]
        seen.add(len(between))
        archive_store(tmp_path / "store", archive, range_size=RANGE_SIZE)
        assert files_of(archive) == undisturbed, steps[fatal]
    assert len(seen) == 1 + steps.count("manifest")


def test_killed_again_and_again_one_run_goes_on_with_the_other(tmp_path: Path) -> None:
    steps = steps_of_an_archive_run(tmp_path)
    archive = tmp_path / "killed"
    first_commit = steps.index("committed")
    for fatal in (-1, 1, first_commit - 1, first_commit + 2, 2):
        killed(ARCHIVE, tmp_path / "store", archive, fatal)
    archive_store(tmp_path / "store", archive, range_size=RANGE_SIZE)
    assert files_of(archive) == files_of(tmp_path / "undisturbed")


def test_compaction_killed_at_each_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    archive_store(a_store(tmp_path / "store"), tmp_path / "small", range_size=RANGE_SIZE)
    everything = visible(tmp_path / "small")
    steps: list[str] = []

    def run(archive: Path) -> int:
        """Puts together what is small, then removes what that replaced; at which step the second begins."""
        config = CompactConfig(archive_path=str(archive), range_size=1 << 20, keep_superseded_ms=0)
        compact(LocalTasks(), config, "run", LATER, None, steps.append)
        first = len(steps)
        compact(LocalTasks(), config, "run", LATER, None, steps.append)
        return first

    archive_store(tmp_path / "store", tmp_path / "compacted", range_size=RANGE_SIZE)
    first = run(tmp_path / "compacted")
    count = len(steps)
    assert {"tasks", "manifest", "unlink manifest", "unlink file"} <= set(steps)
    for fatal in range(-1, count):
        archive = tmp_path / f"killed-{fatal}"
        archive_store(tmp_path / "store", archive, range_size=RANGE_SIZE)
        if fatal >= first:
            compact(LocalTasks(), CompactConfig(archive_path=str(archive), range_size=1 << 20), "run", LATER, None,
                    steps.append)
        killed(COMPACT, tmp_path / "store", archive, fatal - first if fatal >= first else fatal)
        assert visible(archive) == everything
        run(archive)
        assert files_of(archive) == files_of(tmp_path / "compacted")


@pytest.mark.spark
def test_killed_with_spark_the_next_run_gives_the_same_bytes(tmp_path: Path) -> None:
    steps = steps_of_an_archive_run(tmp_path)
    archive = tmp_path / "killed"
    killed(WITH_SPARK, tmp_path / "store", archive, steps.index("manifest"), str(tmp_path / "java"))
    assert visible(archive) == []
    assert any((archive / "messages").rglob("*.parquet"))
    archive_store(tmp_path / "store", archive, range_size=RANGE_SIZE)
    assert files_of(archive) == files_of(tmp_path / "undisturbed")
