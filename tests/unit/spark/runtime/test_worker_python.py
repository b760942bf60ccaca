import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from regulus.errors import OptionError
from regulus.spark.runtime import worker_python
from regulus.spark.runtime.worker_python import name_python

SPARK = Path(pyspark.__file__).parent
SCRIPT = str(worker_python.SCRIPT)


def named(master: str = "local[2]", **environment: str) -> str:
    name_python(environment, master)
    return environment["PYSPARK_PYTHON"]


@pytest.mark.parametrize("master", ["local", "local[2]", "local[2,4]", "local[*]"])
def test_workers_on_this_machine_start_by_the_script(master):
    assert named(master) == SCRIPT
    assert named(master, SPARK_HOME=str(SPARK), PYSPARK_PYTHON="") == SCRIPT


def test_elsewhere_they_start_by_this_python():
    assert named("spark://there:7077") == sys.executable
    assert named("local-cluster[2,1,1024]") == sys.executable
    assert named("spark://there:7077", PYSPARK_PYTHON=SCRIPT) == sys.executable, "of a session before"
    assert named(SPARK_HOME="/opt/spark") == sys.executable
    assert named(PYSPARK_PYTHON="/usr/bin/python3.12") == "/usr/bin/python3.12"


def test_a_copy_without_rights_is_no_program(monkeypatch, tmp_path):
    (tmp_path / "script.sh").touch(0o644)
    monkeypatch.setattr(worker_python, "SCRIPT", tmp_path / "script.sh")
    assert named() == sys.executable


def test_a_path_with_a_space_is_passed_by_for_spark_would_not_start_it(monkeypatch, tmp_path):
    """Seen in Spark 4.2: tasks run with such a Python, but no data source is found."""
    (tmp_path / "a b.sh").touch(0o755)
    monkeypatch.setattr(worker_python, "SCRIPT", tmp_path / "a b.sh")
    assert named() == sys.executable
    monkeypatch.setattr(sys, "executable", "/home/a b/python")
    with pytest.raises(OptionError, match="PYSPARK_PYTHON to a link"):
        named()
    assert named(PYSPARK_PYTHON="/tmp/link") == "/tmp/link"


@pytest.mark.parametrize(("before", "after"), [
    ("", ""), ("/a b", "/a b"), (f"{SPARK}/python/lib/pyspark.zip:/a b:{SPARK}/jars/spark-core.jar:/c*", "/a b:/c*"),
    (f"{SPARK}/python/lib/pyspark.zip", "")])
def test_the_script_leaves_out_what_spark_puts_first_and_nothing_else(before, after):
    code = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:], sep='|')"
    done = subprocess.run([SCRIPT, "-c", code, "a b", ""], capture_output=True, text=True, check=True, env={
        **os.environ, "SPARK_HOME": str(SPARK), "PYTHONPATH": before, "REGULUS_WORKER_PYTHON": sys.executable})
    assert done.stdout == f"{after}|['a b', '']\n"


def test_the_script_takes_our_daemon_for_sparks():
    environment = {**os.environ, "REGULUS_WORKER_PYTHON": "/bin/echo"}
    words = ["-m", "pyspark.daemon", "pyspark.worker"]
    done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "-m regulus.spark.runtime.worker_daemon pyspark.worker\n"


@pytest.mark.spark
def test_a_worker_has_sparks_modules_from_their_compiled_files(spark):
    places = spark.sparkContext.range(1).map(lambda _: (pyspark.__cached__, sys.executable)).collect()
    assert places == [(pyspark.__cached__, sys.executable)]
