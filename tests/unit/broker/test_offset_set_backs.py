"""How often an offset was set back is saved, and read again."""

import pytest

from regulus.broker.offset_set_backs import OffsetSetBacks, parse
from regulus.errors import HeaderError
from regulus.wire import encoded_table


def test_the_document_has_what_was_noted() -> None:
    numbers = OffsetSetBacks()
    for key, queue_id in (("T@G", 0), ("T@G", 0), ("T@G", 3), ("U@G", 1), ("V@G", 1)):
        numbers.note(key, queue_id)
    numbers.forget("V@G")
    text = encoded_table.text(numbers.document())
    assert parse(text) == {"T@G": {0: 2, 3: 1}, "U@G": {1: 1}}
    again = OffsetSetBacks()
    again.load(text)
    assert (again.of("T@G", 0), again.of("T@G", 1), again.of("V@G", 1)) == (2, 0, 0)
    assert encoded_table.text(again.document()) == text


@pytest.mark.parametrize("text", ["[]", "{}", '{"offsetSetBacks": {"T@G": 3}}',
                                  '{"offsetSetBacks": {"T@G": {"x": 3}}}'])
def test_what_is_no_such_document_is_refused(text: str) -> None:
    with pytest.raises(HeaderError, match="offsetSetBacks"):
        OffsetSetBacks().load(text)
