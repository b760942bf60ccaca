"""The memory of a Python worker of Spark: what it keeps from task to task, and its errors when there is no more."""

import gc
import resource
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from regulus.errors import TaskOutOfMemory

T = TypeVar("T")


@cache
def keep_imports() -> None:
    """Exclude the present objects from garbage collection, once per process.

    Spark's workers collect garbage after each task; with all imported modules, that is most of the time of an empty
    task.
    """
    gc.freeze()


def not_mapped(path: Path, size: int) -> TaskOutOfMemory:
    """The error for a part of a file that the system does not map because memory is short."""
    return TaskOutOfMemory(f"{size >> 20} MiB of {path} cannot be mapped, because {_limit()}")


def told_of_memory(items: Iterator[T]) -> Iterator[T]:
    """The items of an iterator. Raises TaskOutOfMemory when there is no memory for one."""
    try:
        yield from items
    except MemoryError as error:
        said = f" ({error})" if str(error) else ""
        raise TaskOutOfMemory(f"there is no memory for the task's next rows{said}, because {_limit()}; a smaller "
                              "batchRows and maxRecordsPerPartition need less") from error


def _limit() -> str:
    """The limit of this process's memory, with the remedy, as the end of a sentence."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return "the machine has no more: run fewer tasks at a time"
    return (f"the process may have {limit >> 20} MiB in all, as spark.executor.pyspark.memory or ulimit -v says: make "
            "that larger")
