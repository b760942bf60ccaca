"""Attributes given as a list of changes."""

import pytest

from regulus.broker.attributes import (
    GROUP_ATTRIBUTES,
    TOPIC_ATTRIBUTES,
    altered,
    is_popped_by_priority,
    parse_changes,
    priority_factor,
    unserved_in,
)
from regulus.errors import HeaderError


@pytest.mark.parametrize(("text", "changes"), [
    ("", {}), ("+message.type=FIFO", {"+message.type": "FIFO"}), ("+a=1, -b", {"+a": "1", "-b": ""}),
    ("+a=b=c", {"+a": "b=c"})])
def test_a_list_of_changes_is_read(text, changes):
    assert parse_changes(text) == changes


@pytest.mark.parametrize("text", ["a=1", "+a", "-a=1", "+", "-", "+a=", "+a=1,+a=2"])
def test_what_is_neither_added_nor_deleted_is_refused(text):
    with pytest.raises(HeaderError):
        parse_changes(text)


def test_attributes_are_added_altered_and_deleted():
    made = altered(TOPIC_ATTRIBUTES, None, {"+message.type": "FIFO", "+cleanup.policy": "DELETE"})
    assert made == {"message.type": "FIFO", "cleanup.policy": "DELETE"}
    assert altered(TOPIC_ATTRIBUTES, made, {"+message.type": "NORMAL"})["message.type"] == "NORMAL"
    assert altered(TOPIC_ATTRIBUTES, made, {"-message.type": ""}) == {"cleanup.policy": "DELETE"}


def test_an_attribute_given_again_unchanged_is_fine():
    made = {"cleanup.policy": "COMPACTION"}
    assert altered(TOPIC_ATTRIBUTES, made, {"+cleanup.policy": "COMPACTION"}) == made


@pytest.mark.parametrize(("current", "changes"), [
    ({}, {"+unknown": "1"}), ({}, {"+message.type": "LOUD"}), ({}, {"+cleanup.policy": "DELETE"}),
    ({}, {"-message.type": ""}), ({"cleanup.policy": "DELETE"}, {"-cleanup.policy": ""}),
    ({}, {"+reserve.time": "-2"}), ({"cleanup.policy": "COMPACTION"}, {"+cleanup.policy": "DELETE"})])
def test_what_may_not_be_is_refused(current, changes):
    with pytest.raises(HeaderError):
        altered(TOPIC_ATTRIBUTES, current, changes)


@pytest.mark.parametrize(("known", "key", "value", "legal"), [
    (TOPIC_ATTRIBUTES, "message.type", "LOUD", "UNSPECIFIED, NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY or MIXED"),
    (TOPIC_ATTRIBUTES, "queue.type", "LOUD", "SimpleCQ or BatchCQ"),
    (TOPIC_ATTRIBUTES, "reserve.time", "-2", "minutes, or -1"),
    (GROUP_ATTRIBUTES, "priority.factor", "101", "0 to 100")])
def test_a_value_that_is_none_is_refused_with_those_that_are(known, key, value, legal):
    with pytest.raises(HeaderError, match=f"^value '{value}' is not allowed for the attribute {key}: write {legal}$"):
        altered(known, None, {f"+{key}": value})


def test_groups_have_attributes_of_their_own():
    for factor in ("0", "50", "100"):
        assert altered(GROUP_ATTRIBUTES, {}, {"+priority.factor": factor}) == {"priority.factor": factor}
    for factor in ("101", "-1", "", "many", "1000", "\u0663", "1" * 5000):
        with pytest.raises(HeaderError):
            altered(GROUP_ATTRIBUTES, {}, {"+priority.factor": factor})


@pytest.mark.parametrize(("kind", "is_popped_so"), [
    ({"message.type": "PRIORITY"}, True), ({"message.type": "MIXED"}, False), ({"message.type": "NORMAL"}, False),
    ({}, False)])
def test_only_a_topic_of_priorities_is_popped_by_them(kind, is_popped_so):
    assert is_popped_by_priority(kind) is is_popped_so


@pytest.mark.parametrize(("attributes", "factor"), [
    ({}, 100), ({"priority.factor": "0"}, 0), ({"priority.factor": "30"}, 30), ({"priority.factor": "many"}, 100),
    ({"priority.factor": "101"}, 100)])
def test_a_group_without_a_factor_or_with_none_that_counts_pops_by_priority_alone(attributes, factor):
    assert priority_factor(attributes) == factor


UNSERVED = [(TOPIC_ATTRIBUTES, "cleanup.policy", "COMPACTION"), (TOPIC_ATTRIBUTES, "reserve.time", "60"),
            (TOPIC_ATTRIBUTES, "message.type", "LITE")]


@pytest.mark.parametrize(("known", "key", "value"), UNSERVED)
def test_what_is_not_done_is_refused_with_what_to_do_instead(known, key, value):
    with pytest.raises(HeaderError, match=f"^{key}={value} is not served by this broker: "):
        altered(known, None, {f"+{key}": value})


@pytest.mark.parametrize(("known", "key", "value"), UNSERVED)
def test_where_it_stands_already_it_is_told_may_stay_and_may_go(known, key, value):
    made = {key: value}
    assert [text.partition(" is not")[0] for text in unserved_in(known, made)] == [f"{key}={value}"]
    assert altered(known, made, {f"+{key}": value}) == made
    assert altered(known, made, {f"-{key}": ""}) == {}


def test_what_is_done_is_not_told():
    assert unserved_in(TOPIC_ATTRIBUTES, {"queue.type": "BatchCQ", "message.type": "FIFO", "unknown": "1"}) == []
