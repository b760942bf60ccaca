"""What a filter takes."""

from regulus.model.message_filter import EVERYTHING, Filter


def test_untagged_messages_match_only_everything():
    assert EVERYTHING.takes(0)
    assert not Filter(frozenset({2598919})).takes(0)
    assert Filter(frozenset({2598919})).takes(2598919)


def test_tags_are_decided_by_their_hash_alone():
    assert not EVERYTHING.reads_properties
    assert EVERYTHING.matches_all({})
