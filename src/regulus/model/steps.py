"""Work in steps: a generator that yields after each step but the last, so that other work can run in between."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def run_to_end(steps: Generator[None, None, Result]) -> Result:
    """Run all steps at once; what the generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
