"""Tags by their hash."""

import pytest

from regulus.broker.message_filter import expression_codes, is_tag, is_wanted, tags_codes
from regulus.errors import HeaderError
from regulus.wire.bodies import SubscriptionData


@pytest.mark.parametrize(("expression", "codes"), [
    ("*", None), ("", None), (None, None), ("TagA", {2598919}), (" TagA ||TagB|| ", {2598919, 2598920})])
def test_an_expression_becomes_hashes(expression, codes):
    assert expression_codes(expression) == codes


def test_an_expression_that_names_no_tag_is_wrong():
    with pytest.raises(HeaderError):
        expression_codes("||")


def test_a_subscription_s_own_hashes_are_taken():
    assert tags_codes(SubscriptionData(topic="T", sub_string="TagA", code_set=frozenset({5}))) == {5}
    assert tags_codes(SubscriptionData(topic="T", sub_string="TagA")) == {2598919}


def test_untagged_messages_match_only_everything():
    assert is_wanted(0, None)
    assert not is_wanted(0, frozenset({2598919}))
    assert is_wanted(2598919, frozenset({2598919}))


@pytest.mark.parametrize(("kind", "answer"), [(None, True), ("", True), ("TAG", True), ("SQL92", False)])
def test_kinds_of_expression(kind, answer):
    assert is_tag(kind) is answer
