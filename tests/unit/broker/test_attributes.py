"""Attributes given as a list of changes."""

import pytest

from regulus.broker.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, altered, parse_changes
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
    made = altered(TOPIC_ATTRIBUTES, None, {"+message.type": "FIFO", "+cleanup.policy": "COMPACTION"})
    assert made == {"message.type": "FIFO", "cleanup.policy": "COMPACTION"}
    assert altered(TOPIC_ATTRIBUTES, made, {"+message.type": "NORMAL"})["message.type"] == "NORMAL"
    assert altered(TOPIC_ATTRIBUTES, made, {"-message.type": ""}) == {"cleanup.policy": "COMPACTION"}


def test_an_attribute_given_again_unchanged_is_fine():
    made = {"cleanup.policy": "COMPACTION"}
    assert altered(TOPIC_ATTRIBUTES, made, {"+cleanup.policy": "COMPACTION"}) == made


@pytest.mark.parametrize(("current", "changes"), [
    ({}, {"+unknown": "1"}), ({}, {"+message.type": "LOUD"}), ({}, {"+cleanup.policy": "COMPACTION"}),
    ({}, {"-message.type": ""}), ({"cleanup.policy": "DELETE"}, {"-cleanup.policy": ""}),
    ({}, {"+reserve.time": "-2"})])
def test_what_may_not_be_is_refused(current, changes):
    with pytest.raises(HeaderError):
        altered(TOPIC_ATTRIBUTES, current, changes)


def test_groups_have_attributes_of_their_own():
    assert altered(GROUP_ATTRIBUTES, {}, {"+priority.factor": "100"}) == {"priority.factor": "100"}
    with pytest.raises(HeaderError):
        altered(GROUP_ATTRIBUTES, {}, {"+priority.factor": "101"})
