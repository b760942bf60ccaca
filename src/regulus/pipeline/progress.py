"""The progress of a job while it runs: one sentence when it begins something that takes time."""

from collections.abc import Callable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]


def say_nothing(sentence: str) -> None:
    """Ignore the sentence, for callers that do not need it."""
