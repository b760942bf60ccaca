"""The fields of a message, seen without unpacking it."""

import pytest
from google.protobuf.message import DecodeError

from regulus.wire.grpc import messages
from regulus.wire.grpc.fields import fields


def test_the_fields_of_a_message_stand_one_behind_the_other() -> None:
    made = messages.Message(body=b"b" * 300)
    made.topic.name = "t"
    made.user_properties["k"] = "v"
    data = made.SerializeToString()
    found = {field.number: data[field.start:field.end] for field in fields(data)}
    assert found == {1: b"\x12\x01t", 2: b"\x0a\x01k\x12\x01v", 4: b"b" * 300}


def test_every_kind_of_value_and_a_part_of_the_bytes() -> None:
    data = b"\x08\x96\x01" + b"\x11" + bytes(8) + b"\x1d" + bytes(4) + b"\x22\x02ab"
    assert [tuple(field) for field in fields(data)] == [(1, 1, 3), (2, 4, 12), (3, 13, 17), (4, 19, 21)]
    assert [tuple(field) for field in fields(data, 3, 12)] == [(2, 4, 12)]


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05abcd", b"\x08", b"\x08\x80", b"\x09" + bytes(7), b"\x0b", b"\x0f",
                                  b"\x80" * 11, b"\x0a" + b"\x80" * 10 + b"\x01"])
def test_what_is_cut_short_or_of_no_kind(data: bytes) -> None:
    with pytest.raises(DecodeError):
        list(fields(data))
