"""The Spark session of a command: Java as this machine has it, errors alone on the terminal, and an end."""

import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from regulus.cli.options import LocalPath
from regulus.cli.progress import Progress
from regulus.model.local_path import address_fault
from regulus.spark.runtime import class_archive
from regulus.spark.runtime.error_reason import error_of
from regulus.spark.runtime.extras import require_extra
from regulus.spark.runtime.java import Java, JavaPlaces, find_java
from regulus.spark.runtime.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""The frames of a command are ours: nobody asks where in the program a column was named, and to note it takes time."""

_LOG_LEVEL = "REGULUS_SPARK_LOG"
"""The variable that lets Spark's log be seen. It is off: what fails is told in one sentence, which would stand behind
the traces of each task."""

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Of PySpark in this process, which say once more, in JSON, what the error says that they log."""

_JAVA_ENDS_S = 300

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


class SparkDirectory(LocalPath):
    """A directory that Spark reads, with its whole path. It must be there, unless a Spark Connect server reads it: that
    sees other disks, and says itself what it does not find."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False, resolve_path=True, path_type=None)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if os.environ.get("SPARK_REMOTE"):
            if fault := address_fault(value):
                self.fail(fault, param, ctx)
            return str(Path(value).absolute())
        return os.fsdecode(super().convert(value, param, ctx))


@contextmanager
def command_session(master: str, settings: Mapping[str, str] = _NO_SETTINGS,
                    progress: Progress | None = None) -> "Iterator[SparkSession]":
    """The session that the surroundings ask for, see `open_session`; stopped at the end, unless it was there before.
    `progress` shows how far it is with what it runs.

    Raises MissingJava where a JVM must be started, MissingExtra where there is no Spark.
    """
    require_extra("spark", "Spark")
    from pyspark.sql import SparkSession

    is_ours = SparkSession.getActiveSession() is None
    if progress is not None and is_ours:
        progress.say("starting Spark")
    level = os.environ.get(_LOG_LEVEL, "OFF")
    if level == "OFF":
        _silence_pyspark()
    with _interrupts_kept_from_spark():
        session = open_session(command_java, os.environ, master, {"spark.log.level": level, **_SETTINGS, **settings})
        if progress is not None:
            progress.step("looking at what is there")
        try:
            with _seen(session, progress):
                yield session
        finally:
            if is_ours:
                session.stop()


def _silence_pyspark() -> None:
    from pyspark.logger import PySparkLogger

    nothing = logging.CRITICAL + 1
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).setLevel(nothing)
    logging.getLogger("py4j").setLevel(nothing)


@contextmanager
def _interrupts_kept_from_spark() -> Iterator[None]:
    """Around a session, from before its start: Spark would take SIGINT, also where it was ignored.

    Spark's own handler asks Java to end the jobs, over the connection that it has just interrupted. And what was under
    way there is logged with a trace, on the way to an end that one word tells.
    """
    if threading.current_thread() is not threading.main_thread() or find_spec("py4j") is None:
        yield       # another thread handles no signal, and a client of Spark Connect alone takes none
        return
    before = signal.getsignal(signal.SIGINT)
    came = threading.Event()

    def say_and_raise(number: int, frame: FrameType | None) -> None:
        came.set()
        logging.disable(logging.CRITICAL)
        click.echo("regulus: interrupted", err=True)
        raise KeyboardInterrupt

    if callable(before):
        signal.signal(signal.SIGINT, say_and_raise)
    context: Any = import_module("pyspark.core.context")
    sparks = context.signal
    context.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)
    try:
        yield
    finally:
        context.signal = sparks
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)
        if came.is_set():
            raise KeyboardInterrupt from None       # whatever followed from the connection that was cut off


@contextmanager
def _seen(session: "SparkSession", progress: Progress | None) -> Iterator[None]:
    if progress is None:
        yield
        return
    from regulus.spark.runtime.work_watch import watched

    with watched(session) as look, progress.watching(look):
        yield


@contextmanager
def spark_refusals() -> Iterator[None]:
    """What Spark refuses as an error of ours, in one sentence. Raises RegulusError."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise error_of(str(error)) from error


def command_java() -> Java:
    """With Spark's classes as `regulus spark warm-up` kept them, if it did. Raises MissingJava."""
    places = java_places()
    java = find_java(places)
    if java.passed_over:
        click.echo(f"{java.passed_over} is passed over; taken is {java.home}", err=True)
    archive = class_archive.archive_of(java.home, places.cache)
    return replace(java, options=class_archive.used(archive)) if archive.exists() else java


def end_java() -> None:
    """End the Java of the sessions that this process had, and wait until it has written what it writes at its end."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_JAVA_ENDS_S)


def java_places() -> JavaPlaces:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return JavaPlaces(java_home=os.environ.get("JAVA_HOME", ""), path=os.environ.get("PATH", ""),
                      cache=Path(home) / "regulus")
