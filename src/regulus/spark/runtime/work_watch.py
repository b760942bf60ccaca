"""Watches the progress of what Spark runs, by its own figures: stages, tasks, rows and bytes.

Spark counts a task's rows when the task is done, so the figures grow task by task. It knows the bytes only of files
that it reads itself: its metric for Python ("data returned from Python workers") counts a worker's tasks repeatedly,
and is several times too large. In a session of Spark Connect the server reports to its client, only tasks and bytes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from regulus.spark.runtime.work import Look, Work


@contextmanager
def watched(spark: SparkSession) -> Iterator[Look]:
    """A function that looks into a session, from any thread, within the `with` block."""
    try:
        context: Any = spark.sparkContext
    except PySparkException:
        with _told_by_server(spark) as look:
            yield look
        return
    yield lambda: _seen_in_java(context)


def _seen_in_java(context: Any) -> Work | None:
    try:
        stages = [stage for stage in _listed(context._jsc.sc().statusStore().activeStages())
                  if stage.submissionTime().isDefined()]
        if not stages:
            return None
        began_ms = min(stage.submissionTime().get().getTime() for stage in stages)
        return Work(
            tasks_done=sum(stage.numCompleteTasks() for stage in stages),
            tasks=sum(stage.numTasks() for stage in stages),
            rows=sum(stage.inputRecords() for stage in stages),
            size=sum(stage.inputBytes() for stage in stages),
            seconds=max(0.0, context._jvm.System.currentTimeMillis() - began_ms) / 1000)
    except Py4JError:
        return None     # Java is gone, or going: the job itself will say so


def _listed(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    each = sequence.iterator()
    while each.hasNext():
        yield each.next()


@contextmanager
def _told_by_server(spark: Any) -> Iterator[Look]:
    """A function that gives the last report of the server, which a handler receives while the client waits for a
    query."""
    news = ServerNews(monotonic)
    spark.registerProgressHandler(news)
    try:
        yield lambda: news.work
    finally:
        spark.removeProgressHandler(news)


class ServerNews:
    """The last report of a Spark Connect server about the running query."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.work: Work | None = None
        self._clock = clock
        self._began: dict[str, float] = {}

    def __call__(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None,
                 done: bool) -> None:
        known = list(stages or ())
        if done or not known:
            self.work = None
            self._began.clear()
            return
        began = self._began.setdefault(operation_id or "", self._clock())
        self.work = Work(
            tasks_done=sum(stage.num_completed_tasks for stage in known), tasks=sum(stage.num_tasks for stage in known),
            rows=0, size=sum(stage.num_bytes_read for stage in known), seconds=self._clock() - began)
