"""Work in steps: a generator that yields after each step but the last, so that others have a turn in between."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def run_to_end(steps: Generator[None, None, Result]) -> Result:
    """What a generator returns when all its steps are done at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
