"""Tags by their hash."""

import pytest

from regulus.broker.message_filter import expression_filter, is_tag, subscription_filter
from regulus.errors import HeaderError
from regulus.model.message_filter import EVERYTHING
from regulus.wire.bodies import SubscriptionData


@pytest.mark.parametrize(("expression", "codes"), [
    ("*", None), ("", None), (None, None), ("TagA", {2598919}), (" TagA ||TagB|| ", {2598919, 2598920})])
def test_an_expression_becomes_hashes(expression, codes):
    assert expression_filter(expression).tags_codes == codes


def test_an_expression_that_names_no_tag_is_wrong():
    with pytest.raises(HeaderError):
        expression_filter("||")


def test_a_subscription_s_own_hashes_are_taken():
    own = SubscriptionData(topic="T", sub_string="TagA", code_set=frozenset({5}))
    assert subscription_filter(own).tags_codes == {5}
    assert subscription_filter(SubscriptionData(topic="T", sub_string="TagA")).tags_codes == {2598919}
    assert subscription_filter(SubscriptionData(topic="T")) is EVERYTHING


@pytest.mark.parametrize(("kind", "answer"), [(None, True), ("", True), ("TAG", True), ("SQL92", False)])
def test_kinds_of_expression(kind, answer):
    assert is_tag(kind) is answer
