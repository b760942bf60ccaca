"""Tasks of a job that works on files: carried out by Spark, one a partition, their results brought to the driver.

Inputs and results are small; what a task makes stays in the files that it writes, and no row passes the JVM. For a
small store the tasks can as well run in this process, which is done before a JVM has started.
"""

import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from regulus.errors import OptionError, RegulusError
from regulus.spark.runtime.worker_memory import keep_imports

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_CORES_UNKNOWN = 8
"""Taken for the cluster's size where a Spark Connect client cannot see it."""


class Task(Protocol):
    """What a task is told."""

    @property
    def size(self) -> int:
        """Bytes that it goes through."""


@dataclass(frozen=True, slots=True)
class Look:
    """A task that looks at names alone."""

    path: str
    size: int = 0


T = TypeVar("T", bound=Task)
R = TypeVar("R")


class Tasks(Protocol):
    """Where tasks run."""

    @property
    def parallelism(self) -> int:
        """How many run at the same time."""

    def run(self, work: Callable[[T, str], R], tasks: Sequence[T]) -> list[R]:
        """What `work(task, attempt)` returns for each task, in order; they run side by side, and again after a fault.

        `attempt` is a different text for each try. Raises what a task raised, if it is one of our own errors.
        """


class SeenTasks:
    """Those of another, of which is told how many bytes they go through before they begin."""

    def __init__(self, tasks: Tasks, expect: Callable[[int], None]) -> None:
        self.parallelism = tasks.parallelism
        self._tasks = tasks
        self._expect = expect

    def run(self, work: Callable[[T, str], R], tasks: Sequence[T]) -> list[R]:
        self._expect(sum(task.size for task in tasks))
        return self._tasks.run(work, tasks)


class LocalTasks:
    """One after another in this process."""

    parallelism = 1

    def run(self, work: Callable[[T, str], R], tasks: Sequence[T]) -> list[R]:
        return [work(task, "0") for task in tasks]


class SparkTasks:
    """As many at a time as the session has cores."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self.parallelism = _cores(spark)

    def run(self, work: Callable[[T, str], R], tasks: Sequence[T]) -> list[R]:
        if not tasks:
            return []

        def carry_out(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            import pyarrow as pa
            from pyspark import TaskContext

            keep_imports()
            context = TaskContext.get()
            assert context is not None
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    try:
                        result: Any = work(tasks[number], f"{context.stageId()}-{context.taskAttemptId()}")
                    except RegulusError as error:
                        # As a value: raised, it would come back wrapped in Spark's words, and be tried again.
                        result = _Raised(error)
                    yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64()),
                                                      pa.array([pickle.dumps(result)], pa.binary())],
                                                     names=["number", "result"])

        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        rows = numbers.mapInArrow(carry_out, "number bigint, result binary").collect()
        results = {row.number: pickle.loads(row.result) for row in rows}
        for result in results.values():
            if isinstance(result, _Raised):
                raise result.error
        return [results[number] for number in range(len(tasks))]


def check_shared(tasks: Tasks, directory: Path) -> None:
    """Raises OptionError when tasks do not see what this program writes into the directory, which is made.

    One look for each core: whoever shares the directory with some of the machines alone may pass.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".seen-") as mark:
        if not all(tasks.run(_is_there, [Look(mark.name)] * tasks.parallelism)):
            raise OptionError(f"Spark's tasks do not see what is written into {directory} here: name a directory that "
                              "all machines share, or do without Spark (--cores 0)")


def _is_there(mark: Look, attempt: str) -> bool:
    return Path(mark.path).exists()


class _Raised:
    def __init__(self, error: RegulusError) -> None:
        self.error = error


def _cores(spark: "SparkSession") -> int:
    from pyspark.errors import PySparkException

    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        return _CORES_UNKNOWN
