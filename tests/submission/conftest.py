"""A standalone Spark cluster and a Spark Connect server of the package pyspark, and what is submitted to them."""

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyspark
import pytest

from regulus.testing.running_server import free_ports
from tests.java import java_of_tests

SOURCES = Path(__file__).parents[2] / "src"
SPARK_HOME = Path(pyspark.__file__).parent
START_TIMEOUT_S = 120


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of the processes started here: Java, the Python of this test, and no way to the sources but what is shipped."""
    java = java_of_tests(tmp_path_factory.mktemp("java"))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("SPARK")}
    return {**kept, "JAVA_HOME": str(java.home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(SPARK_HOME), "SPARK_DAEMON_MEMORY": "512m"}


@pytest.fixture(scope="session")
def package_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as --py-files takes it."""
    path = tmp_path_factory.mktemp("zip") / "regulus.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for module in sorted((SOURCES / "regulus").rglob("*.py")):
            archive.write(module, module.relative_to(SOURCES))
    return path


class Process:
    """A child whose output is a file; ended by its process id."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._child = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT, env=dict(environment))

    def wait_for(self, text: str) -> str:
        """The first line of the output with `text`."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            for line in self._log.read_text(errors="replace").splitlines():
                if text in line:
                    return line
            if self._child.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(f"{text!r} did not appear in:\n{self._log.read_text(errors='replace')}")

    def stop(self) -> None:
        self._child.terminate()
        try:
            self._child.wait(60)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


Start: TypeAlias = Callable[..., Process]
"""A class of Spark's, by name, with arguments; `through` makes its command line another, variables are its own."""


@contextmanager
def processes(logs: Path, environment: Mapping[str, str]) -> Iterator[Start]:
    """What starts classes of Spark's by name, with arguments; all are ended at the end."""
    started: list[Process] = []

    def run(*arguments: str, through: Callable[..., list[str]] = lambda *command: list(command),
            **variables: str) -> Process:
        process = Process(through(str(SPARK_HOME / "bin" / "spark-class"), *arguments), {**environment, **variables},
                          logs / f"process-{len(started)}.log")
        started.append(process)
        return process

    try:
        yield run
    finally:
        for process in reversed(started):
            process.stop()


@pytest.fixture
def start(tmp_path: Path, environment: dict[str, str]) -> Iterator[Start]:
    """What starts classes of Spark's for a test."""
    with processes(tmp_path, environment) as run:
        yield run


def start_master(start: Start) -> str:
    """The address spark://... of a cluster that has no worker yet."""
    master = start("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    return master.wait_for("Starting Spark master at").rpartition(" ")[2]


def start_worker(start: Start, master: str, directory: Path, **how: Any) -> None:
    """Two cores for a cluster."""
    worker = start("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "1g",
                   "--webui-port", "0", "--work-dir", str(directory), master, **how)
    worker.wait_for("Successfully registered with master")


def start_connect_server(start: Start, *settings: str, **how: Any) -> str:
    """The address sc://... of a Spark Connect server."""
    (port,) = free_ports(1)
    server = start("org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", "--conf", "spark.ui.enabled=false",
                   "--conf", f"spark.connect.grpc.binding.port={port}",
                   "--conf", "spark.connect.grpc.binding.address=127.0.0.1", *settings,
                   "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal", **how)
    server.wait_for("Spark Connect server started at")
    return f"sc://127.0.0.1:{port}"


@pytest.fixture
def standalone_master(start: Start, tmp_path: Path) -> str:
    """The address spark://... of a cluster with one worker of two cores."""
    address = start_master(start)
    start_worker(start, address, tmp_path / "work")
    return address
