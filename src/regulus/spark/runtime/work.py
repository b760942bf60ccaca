"""The work that Spark is doing."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Work(NamedTuple):
    """The stages that run now, together. `rows` and `size` are of finished tasks; 0 where they are not counted."""

    tasks_done: int
    tasks: int
    rows: int
    size: int
    seconds: float
    """Time since the first of these stages began."""


Look: TypeAlias = Callable[[], Work | None]
"""Gives the present work; None when no stage is running, because Spark is planning or waiting."""
