"""One Spark session for the whole run."""

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def _session(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from regulus.spark.session import open_session
    from tests.java import java_of_tests

    session = open_session(lambda: java_of_tests(tmp_path_factory.mktemp("java")), os.environ, "local[2]", {
        "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={os.devnull}",
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def spark(_session: "SparkSession") -> "Iterator[SparkSession]":
    """That session. Java keeps the plan of each frame that Python has, with what it caches and broadcasts (8 MB a
    join). Frames lie in cycles, for which Python looks too rarely with the objects of all tests around: Java's memory
    was full."""
    yield _session
    gc.collect()


@pytest.fixture(scope="module", autouse=True)
def _plans_interpreted(request: pytest.FixtureRequest) -> Iterator[None]:
    """A job's test runs each of its plans once, over few rows: to compile it, and to plan it anew by what its stages
    gave, takes Spark longer than to run it."""
    if request.node.get_closest_marker("jobs") is None:
        yield
        return
    session: SparkSession = request.getfixturevalue("spark")
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                "spark.sql.adaptive.enabled": "false"}
    for name, value in settings.items():
        session.conf.set(name, value)
    yield
    for name in settings:
        session.conf.unset(name)
