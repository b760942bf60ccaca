"""A few properties, read where a record lies."""

import pytest

from regulus.model.message import MessageExt
from regulus.record import message_record
from regulus.record.named_properties import UNREADABLE, read_named

NAMES = [b"a", b"b"]


def read(text: str, values: list[str | None]) -> int:
    """Of a record with these property bytes, as they stand."""
    message = MessageExt("T", b"x", {"PLACEHOLDER": "y" * (len(text) - 13)} if len(text) > 13 else {})
    record = bytearray(message_record.encode(message))
    made = message_record.decode(bytes(record))
    assert made.properties == message.properties
    at = record.rindex(b"PLACEHOLDER")
    record[at:] = text.encode()
    return read_named(record, 0, len(record), NAMES, values)


def test_what_a_record_lacks_is_not_taken_from_the_one_before() -> None:
    values: list[str | None] = ["of another", "of another"]
    read("a\x011\x02pad\x01xxxxxxxx\x02", values)
    assert values == ["1", None]


@pytest.mark.parametrize(("text", "found"), [
    ("a\x011\x02b\x012\x02c\x01xxxxxx", ["1", "2"]),
    ("a\x011\x02a\x012\x02c\x01xxxxxx", ["2", None]),       # a later one wins
    ("a\x01\x02b\x012\x02c\x01xxxxxxx", [None, "2"]),        # no value
    ("\x011\x02b\x012\x02c\x01xxxxxxx", [None, "2"]),        # no name
    ("ab\x011\x02bb\x012\x02c\x01xxxx", [None, None]),
])
def test_a_property_counts_with_a_name_and_a_value(text: str, found: list[str | None]) -> None:
    values: list[str | None] = [None, None]
    read(text, values)
    assert values == found


def test_what_is_no_record_is_said_to_be_none() -> None:
    assert read_named(b"\0" * 10, 0, 10, NAMES, [None, None]) == UNREADABLE
