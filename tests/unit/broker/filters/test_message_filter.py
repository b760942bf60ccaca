"""Tags by their hash, and properties by conditions."""

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.filters.message_filter import (
    CONDITIONS_CACHED_MAX,
    expression_filter,
    not_served,
    subscription_filter,
)
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


@pytest.mark.parametrize(("kind", "by_tag_only", "by_property"), [
    (None, "", ""), ("", "", ""), ("TAG", "", ""), ("SQL92", "SQL92 (enablePropertyFilter=false)", ""),
    ("XPATH", "XPATH", "XPATH")])
def test_kinds_of_expression(kind, by_tag_only, by_property):
    served = [not_served(kind, BrokerConfig(enable_property_filter=allowed)) for allowed in (False, True)]
    assert [text.removeprefix("The broker does not support consumer to filter message by ") for text in served] == [
        by_tag_only, by_property]


def test_a_condition_reads_properties_and_takes_every_tag():
    wanted = subscription_filter(SubscriptionData(topic="T", sub_string="a > 5", expression_type="SQL92"))
    assert wanted.reads_properties
    assert wanted.takes(7)
    assert [wanted.matches_all({"a": text}) for text in ("5", "6")] == [False, True]


def test_a_wrong_condition_is_refused_each_time_and_read_once():
    for _ in range(2):
        with pytest.raises(HeaderError, match="character 5"):
            expression_filter("a > ", "SQL92")
    assert expression_filter("a > 5", "SQL92") is expression_filter("a > 5", "SQL92")


def test_conditions_that_are_kept_are_bounded():
    first = expression_filter("a = 'first'", "SQL92")
    for number in range(CONDITIONS_CACHED_MAX):
        expression_filter(f"a = {number}", "SQL92")
    assert expression_filter("a = 'first'", "SQL92") is not first
