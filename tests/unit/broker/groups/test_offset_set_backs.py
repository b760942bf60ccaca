"""The number of a set-back is saved, and read again."""

import pytest

from regulus.broker.groups import offset_set_backs
from regulus.broker.groups.offset_set_backs import REMOVED_KEPT_MS, OffsetSetBacks, parse
from regulus.errors import HeaderError
from regulus.wire import encoded_table


def test_the_document_has_what_was_noted() -> None:
    numbers = OffsetSetBacks()
    for key, queue_id in (("T@G", 0), ("T@G", 0), ("T@G", 3), ("U@G", 1), ("V@G", 1)):
        numbers.note(key, queue_id, 1000)
    numbers.forget("V@G")
    numbers.note_removed("G", 1000)
    text = encoded_table.text(numbers.document())
    assert parse(text) == ({"T@G": {0: 1001, 3: 1002}, "U@G": {1: 1003}}, 1005, {"G": 1005})
    again = OffsetSetBacks()
    again.load(text)
    assert (again.of("T@G", 0), again.of("T@G", 1), again.of("V@G", 1)) == (1001, 0, 0)
    assert encoded_table.text(again.document()) == text
    again.note("T@G", 0, 5)
    assert again.of("T@G", 0) == 1006


def test_a_document_from_before_there_were_deletions_is_read() -> None:
    assert parse('{"offsetSetBacks":{"T@G":{"0":2}}}') == ({"T@G": {0: 2}}, 0, {})


def test_only_what_is_begun_after_a_deletion_has_a_number() -> None:
    numbers = OffsetSetBacks()
    numbers.begin("T@G", 0)
    numbers.note_removed("G", 1000)
    numbers.begin("T@H", 0)
    assert numbers.table == {"T@H": {0: 1000}}


@pytest.mark.parametrize("text", ["[]", "{}", '{"offsetSetBacks": {"T@G": 3}}',
                                  '{"offsetSetBacks": {"T@G": {"x": 3}}}',
                                  '{"removedAt": "x", "offsetSetBacks": {}}'])
def test_what_is_no_such_document_is_refused(text: str) -> None:
    with pytest.raises(HeaderError, match="offsetSetBacks"):
        OffsetSetBacks().load(text)


def test_what_is_remembered_of_deleted_groups_is_bounded_by_number_and_by_time(monkeypatch):
    monkeypatch.setattr(offset_set_backs, "REMOVED_MAX", 3)
    numbers = OffsetSetBacks()
    for name in ("a", "b", "a", "c", "d"):
        numbers.note_removed(name, 1_000)
    assert numbers.removed == {"a": 1_002, "c": 1_003, "d": 1_004}
    again = OffsetSetBacks()
    again.load(encoded_table.text(numbers.document()))
    assert again.removed == numbers.removed
    again.note_removed("e", 1_003 + REMOVED_KEPT_MS)
    assert list(again.removed) == ["c", "d", "e"]
    again.note_removed("f", 1_005 + REMOVED_KEPT_MS)
    assert list(again.removed) == ["e", "f"]
