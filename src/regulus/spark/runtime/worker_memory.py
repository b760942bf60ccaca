"""What a Python worker of Spark keeps in memory from task to task, and what it says when it may not have more."""

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
    """Once per process: what is there now is not looked at when garbage is collected.

    Spark's workers collect behind each task; with all that is imported, that is most of what an empty task takes.
    """
    gc.freeze()


def not_mapped(path: Path, size: int) -> TaskOutOfMemory:
    """The error for a part of a file that the system does not map for want of room."""
    return TaskOutOfMemory(f"{size >> 20} MiB of {path} cannot be mapped, because {_limit()}")


def told_of_memory(items: Iterator[T]) -> Iterator[T]:
    """The items. Raises TaskOutOfMemory where there is no memory for one."""
    try:
        yield from items
    except MemoryError as error:
        said = f" ({error})" if str(error) else ""
        raise TaskOutOfMemory(f"there is no memory for the task's next rows{said}, because {_limit()}; a smaller "
                              "batchRows and maxRecordsPerPartition need less") from error


def _limit() -> str:
    """What bounds the memory of this process, with the remedy."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return "the machine has no more: run fewer tasks at a time"
    return (f"the process may have {limit >> 20} MiB in all, as spark.executor.pyspark.memory or ulimit -v says: make "
            "that larger")
