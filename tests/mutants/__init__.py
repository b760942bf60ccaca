"""Faults put into the code by hand, each with the tests that must go red: proof that those tests can.

`make mutants` puts them in one at a time and names those that live. Code that guards data brings its own: a list named
`MUTANTS` in a module of this package. `old` stands once in the file, so short texts last longer than long ones.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`path` is below src/; `tests` are arguments of pytest, of which at least one test must fail."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


def mutants() -> list[Mutant]:
    """All of this package's lists, in the order of their modules."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    return [mutant for module in modules for mutant in getattr(module, "MUTANTS", ())]


def mutated(mutant: Mutant, source: str) -> str:
    """Raises ValueError when the list no longer fits the code."""
    count = source.count(mutant.old)
    if count != 1:
        raise ValueError(f"{mutant.name}: {mutant.path} has {mutant.old!r} {count} times: choose a text that it has "
                         "once")
    if mutant.old == mutant.new:
        raise ValueError(f"{mutant.name}: nothing is changed")
    return source.replace(mutant.old, mutant.new)
