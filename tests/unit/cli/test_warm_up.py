"""The archive of Spark's classes: written by one command, taken by the next."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regulus.cli.spark_session import command_java
from regulus.errors import MissingJava
from regulus.spark.runtime.class_archive import archive_of

USED = """
import sys
from regulus.cli.spark_session import command_session
with command_session("local[1]") as session:
    assert session.range(3).count() == 3
    beans = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    print([word for word in beans.getInputArguments() if "SharedArchiveFile" in word])
    print(sum(1 for line in open(f"/proc/{session._sc._gateway.proc.pid}/maps") if sys.argv[1] in line))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "regulus"


def test_a_command_takes_the_archive_that_is_there(cache):
    java = command_java()
    assert java.options == ""
    archive = archive_of(java.home, cache)
    archive.parent.mkdir(exist_ok=True)
    archive.touch()
    assert str(archive) in command_java().options


@pytest.mark.spark
@pytest.mark.once
def test_java_writes_an_archive_and_maps_it_at_the_next_start(cache, monkeypatch):
    # The Java of the tests has an archive of its own, and Java puts no archive on another.
    monkeypatch.delenv("JAVA_HOME", raising=False)
    try:
        java = command_java()
    except MissingJava:
        pytest.skip("there is no other Java than that of the tests")
    if not (java.home / "lib" / "server" / "classes.jsa").exists():
        pytest.skip(f"the Java in {java.home} ships no archive, and makes none")

    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=500, check=False,
                              env={**os.environ, "PYTHONPATH": ":".join(sys.path)})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "MiB in" in run("-m", "regulus.cli.main", "spark", "warm-up")
    [archive] = cache.glob("spark-*.jsa*")
    assert archive == archive_of(java.home, cache)
    options, mapped = run("-c", USED, archive.name).splitlines()
    assert archive.name in options
    assert int(mapped) > 0
