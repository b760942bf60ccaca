"""Runs the tasks of a job that works on files: in Spark, one per partition, with their results sent to the driver.

Inputs and results are small; the output of a task is in the files that it writes, and no row passes through the JVM.
For a small store the tasks can run in this process instead, which takes less time than starting a JVM.
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
"""Cores that are assumed if a Spark Connect client cannot see the cluster's size."""


class Task(Protocol):
    """The input of a task."""

    @property
    def size(self) -> int:
        """Bytes that it processes."""


@dataclass(frozen=True, slots=True)
class Look:
    """The input of a task that only looks at names of files."""

    path: str
    size: int = 0


T = TypeVar("T", bound=Task)
R = TypeVar("R")


class Tasks(Protocol):
    """Runs tasks."""

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time."""

    def run(self, work: Callable[[T, str], R], tasks: Sequence[T]) -> list[R]:
        """The results of `work(task, attempt)` for each task, in order. Tasks run in parallel, and again after a fault.

        `attempt` is a different text for each try. Raises the error of a task, if it is one of our own.
        """


class SeenTasks:
    """Runs tasks by another runner, and first reports to `expect` how many bytes they process."""

    def __init__(self, tasks: Tasks, expect: Callable[[int], None]) -> None:
        self.parallelism = tasks.parallelism
        self._tasks = tasks
        self._expect = expect

    def run(self, work: Callable[[T, str], R], tasks: Sequence[T]) -> list[R]:
        self._expect(sum(task.size for task in tasks))
        return self._tasks.run(work, tasks)


class LocalTasks:
    """Runs tasks one after another in this process."""

    parallelism = 1

    def run(self, work: Callable[[T, str], R], tasks: Sequence[T]) -> list[R]:
        return [work(task, "0") for task in tasks]


class SparkTasks:
    """Runs tasks in a Spark session, as many at a time as it has cores."""

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
                        # Returned as a value: if raised, Spark would wrap its text, and try the task again.
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
    """Make the directory. Raises OptionError when tasks do not see what this program writes into it.

    There is one check for each core, so the error may be missed if only some of the machines share the directory.
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
