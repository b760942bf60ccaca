"""The Spark session of a command: it finds Java on this machine, shows only errors on the terminal, and is stopped at
the end."""

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
"""The setting would note where in the program a column was named. That takes time, and users of a command do not need
it."""

_LOG_LEVEL = "REGULUS_SPARK_LOG"
"""The variable that sets the level of Spark's log. It is off by default: a failure is one sentence, which would
otherwise follow the traces of each task."""

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark in this process, which repeat errors in JSON."""

_JAVA_ENDS_S = 300

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


class SparkDirectory(LocalPath):
    """The absolute path of a directory that Spark reads. It must exist, except for a Spark Connect server, which sees
    other disks and reports itself if it is missing."""

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
    """The session that the environment asks for, see `open_session`; it is stopped at the end if it was started here.
    `progress` shows how far its work is.

    Raises MissingJava if a JVM must be started and there is no Java, MissingExtra if Spark is not installed.
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
    """Keep Spark from handling SIGINT, which it would do even if SIGINT was ignored. To be used around a session, from
    before its start.

    Spark's own handler asks Java to end the jobs, over the connection that the signal has just interrupted. The
    interrupted calls are then logged with traces, where one word is enough.
    """
    if threading.current_thread() is not threading.main_thread() or find_spec("py4j") is None:
        yield       # only the main thread handles signals, and without py4j Spark does not take any
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
            raise KeyboardInterrupt from None       # instead of any error from the interrupted connection


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
    """Turn an error of Spark into one of ours, which is one sentence. Raises RegulusError."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise error_of(str(error)) from error


def command_java() -> Java:
    """The Java to use, with the archive of Spark's classes from `regulus spark warm-up` if there is one. Raises
    MissingJava."""
    places = java_places()
    java = find_java(places)
    if java.passed_over:
        click.echo(f"{java.passed_over} is passed over; {java.home} is used", err=True)
    archive = class_archive.archive_of(java.home, places.cache)
    return replace(java, options=class_archive.used(archive)) if archive.exists() else java


def end_java() -> None:
    """End the Java of the sessions of this process, and wait until it has written its files at its end."""
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
