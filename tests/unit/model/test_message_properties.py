import pytest

from regulus.model.message_properties import format as format_properties
from regulus.model.message_properties import parse


@pytest.mark.parametrize(("text", "properties"), [
    ("", {}),
    ("TAGS\x01TagA\x02KEYS\x01k1\x02", {"TAGS": "TagA", "KEYS": "k1"}),
    ("TAGS\x01TagA\x02KEYS\x01k1", {"TAGS": "TagA", "KEYS": "k1"}),
    ("a\x011\x02a\x012\x02", {"a": "2"}),
    ("a\x01\x02b\x012\x02", {"b": "2"}),
    ("\x011\x02b\x012\x02", {"b": "2"}),
    ("no separator\x02b\x012\x02", {"b": "2"}),
    ("a\x011\x012\x02", {"a": "1\x012"}),
    ("\x02\x02a\x011\x02\x02", {"a": "1"}),
    ("城市\x01北京\x02", {"城市": "北京"}),
])
def test_parse(text, properties):
    assert parse(text) == properties


def test_format_ends_each_entry():
    assert format_properties({"TAGS": "TagA", "KEYS": "k1"}) == "TAGS\x01TagA\x02KEYS\x01k1\x02"


def test_format_leaves_out_empty_values():
    assert format_properties({"a": "", "b": "2"}) == "b\x012\x02"
