"""How far Spark is with what it runs now, by its own books: stages, tasks, rows and bytes.

Spark counts a task's rows when the task is done, so the figures grow task by task. Bytes it knows of files that it
reads itself: of what comes from Python its metric ("data returned from Python workers") adds up a worker's tasks again
and again, and tells several times what there is. In a session of Spark Connect the server tells its client, which hears
of tasks and bytes alone.
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
    """Looks into a session, from any thread, as long as the `with` lasts."""
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
    """What a sequence of Scala holds."""
    each = sequence.iterator()
    while each.hasNext():
        yield each.next()


@contextmanager
def _told_by_server(spark: Any) -> Iterator[Look]:
    """By a handler, which hears of each query while its client waits for it."""
    news = ServerNews(monotonic)
    spark.registerProgressHandler(news)
    try:
        yield lambda: news.work
    finally:
        spark.removeProgressHandler(news)


class ServerNews:
    """What a Spark Connect server said last of the query that runs."""

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
