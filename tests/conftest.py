"""Fixtures of all tests, and a header that says which build is tested.

The package brings the fixtures as a pytest plugin; naming them serves an uninstalled checkout.
"""

import gc
import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from functools import cache
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import regulus.record.message_record
from regulus.client import shared_loop
from regulus.testing.fixtures import broker_process, make_broker_process, regulus_server, simulated_regulus
from regulus.testing.running_server import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

__all__ = ["broker_process", "caplog", "make_broker_process", "pytest_collection_modifyitems", "pytest_configure",
           "pytest_report_header", "pytest_xdist_make_scheduler", "regulus_server", "simulated_regulus", "spark",
           "unused_tcp_port", "unused_tcp_port_factory"]
settings.register_profile("regulus", deadline=None)     # a busy machine must not fail a property by the clock
settings.load_profile("regulus")
SESSION = "tests of the Spark session"
CLUSTERS = "submission"
"""The folder of tests that start Spark clusters: of those of its run, the longest files."""
_USES_SESSION = re.compile(r"^(?:async )?def test_\w+\([^)]*\bspark\b", re.MULTILINE)


@cache
def scope(path: str) -> str:
    """Tests of one scope run in one worker. A second Spark session would have its Java
    warm up once more; the other tests stay together by files."""
    return SESSION if _USES_SESSION.search(Path(path).read_text(encoding="utf-8")) else path


def pytest_configure() -> None:
    # A script's `make test &` runs with interrupts ignored, which the programs that tests start would take over.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The largest scope goes first and the long files next, so that the workers end together.
    long = {item.path for item in items if item.get_closest_marker("once") or item.path.parent.name == CLUSTERS}
    items.sort(key=lambda item: (scope(str(item.path)) != SESSION, item.path not in long))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadFileScheduling":
    from xdist.scheduler import LoadFileScheduling

    class Scopes(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(super()._split_scope(nodeid))

    return Scopes(config, log)


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest) -> Iterator[pytest.LogCaptureFixture]:
    """pytest's own, but for a coroutine without what the blocking clients say.

    They share one thread of the process. What an earlier test's client still says there (that its broker is gone)
    is nothing that this test has caused.
    """
    def mine(record: logging.LogRecord) -> bool:
        return record.threadName != shared_loop.THREAD_NAME

    if not iscoroutinefunction(request.function):
        yield caplog
        return
    caplog.handler.addFilter(mine)
    yield caplog
    caplog.handler.removeFilter(mine)


@pytest.fixture(scope="session")
def unused_tcp_port_factory() -> Callable[[], int]:
    """In place of pytest-asyncio's: nobody else is given a port before it is taken, or while its server is down."""
    return lambda: free_ports(1)[0]


@pytest.fixture
def unused_tcp_port(unused_tcp_port_factory: Callable[[], int]) -> int:
    return unused_tcp_port_factory()


@pytest.fixture(scope="session")
def _spark_session(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from regulus.spark.runtime.session import open_session
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
def spark(_spark_session: "SparkSession") -> "Iterator[SparkSession]":
    """One session for the whole run. Java keeps the plan of each frame that Python has, with what it caches and
    broadcasts (8 MB a join). Frames lie in cycles, for which Python looks too rarely with the objects of all tests
    around: Java's memory was full."""
    yield _spark_session
    gc.collect()


def pytest_report_header() -> str:
    path = regulus.record.message_record.__file__ or ""
    return f"regulus: {'interpreted' if path.endswith('.py') else 'compiled'} ({path.partition('/regulus/record')[0]})"
