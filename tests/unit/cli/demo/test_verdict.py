"""The sentence that the demo ends with, and when it is good."""

import pytest

from regulus.cli.demo.verdict import is_whole, sentence
from regulus.reliability.ledger import Audit, Exceptions


def test_what_is_applied_and_what_is_parked_are_one_sum():
    found = Audit(committed=7, applied=5, parked=Exceptions(count=2))
    assert sentence(found) == "7 committed = 7 applied or parked, 0 lost, 0 doubled"
    assert is_whole(found, 7)
    assert not is_whole(found, 8)


@pytest.mark.parametrize("name", ["lost", "doubled", "unmade", "overdue"])
def test_an_exception_is_no_good_verdict(name):
    assert not is_whole(Audit(committed=7, applied=7, **{name: Exceptions(count=1)}), 7)


def test_what_is_under_way_is_not_settled():
    assert not is_whole(Audit(committed=7, applied=6, under_way=1), 7)
