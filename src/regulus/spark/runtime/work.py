"""What Spark has at work."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Work(NamedTuple):
    """The stages that run now, together. `rows` and `size` are of the tasks that are done; 0 where nobody counts."""

    tasks_done: int
    tasks: int
    rows: int
    size: int
    seconds: float
    """Since the first of these stages began."""


Look: TypeAlias = Callable[[], Work | None]
"""None when Spark has no stage at work: it plans, or waits for us."""
