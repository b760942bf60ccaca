"""The list of mutants fits the code and the tests of today."""

import re

import pytest

from tests.mutants import ROOT, Mutant, mutants, mutated

ALL = mutants()


def test_no_two_have_one_name() -> None:
    names = [mutant.name for mutant in ALL]
    assert len(names) == len(set(names)) >= 60


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_it_can_be_tried(mutant: Mutant) -> None:
    source = (ROOT / "src" / mutant.path).read_text(encoding="utf-8")
    compile(mutated(mutant, source), mutant.path, "exec")
    assert mutant.tests
    for test in mutant.tests:
        path, _, function = test.partition("::")
        assert (ROOT / path).exists(), test
        if function:
            text = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"def {re.escape(function.partition('[')[0])}\(", text), test
