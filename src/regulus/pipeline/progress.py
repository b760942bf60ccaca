"""What a job tells while it runs: one sentence when it begins something that takes time."""

from collections.abc import Callable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]


def say_nothing(sentence: str) -> None:
    """For callers who do not want to hear it."""
