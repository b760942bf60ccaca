from array import array
from datetime import datetime

import pytest

from regulus.errors import TruncatedRecord
from regulus.record import index_entry
from regulus.record.index_entry import IndexEntry, IndexHeader


def test_key_hash():
    assert index_entry.key_hash(index_entry.index_key("TopicA", "k1")) == 1903240649


def test_the_hash_that_has_no_absolute_value_is_0():
    assert index_entry.key_hash("polygenelubricants") == 0


@pytest.mark.parametrize(("topic", "key"), [("TopicA", "k1"), ("TopicA", "0A0000050001"), ("", "olygenelubricants")])
def test_the_hash_of_a_key_in_bytes(topic, key):
    text = b"\x02" + key.encode() + b"\x02"
    expected = index_entry.key_hash(index_entry.index_key(topic, key))
    assert index_entry.key_hash_on(topic.encode(), bytearray(text), 1, len(text) - 1) == expected
    assert index_entry.key_hash_on(topic.encode(), text, 1, 1) == -1


def test_positions_in_a_file_of_the_usual_size():
    assert index_entry.slot_position(3240649) == 12_962_636
    assert index_entry.entry_position(5_000_000, 1) == 40 + 20_000_000 + 20
    assert index_entry.file_size(5_000_000, 20_000_000) == 420_000_040


def test_entries_go_in_front_of_their_chains():
    hashes, previous, heads = array("q", [5, 13, 6, 5, 2**31 - 1]), array("i", bytes(20)), array("i", bytes(32))
    index_entry.chain(memoryview(hashes)[:3], memoryview(previous)[:3], memoryview(heads), 1)
    index_entry.chain(memoryview(hashes)[3:], memoryview(previous)[3:], memoryview(heads), 4)
    assert previous.tolist() == [0, 1, 0, 2, 0]
    assert heads.tolist() == [0, 0, 0, 0, 0, 4, 3, 5]


def test_entry_and_header_bytes():
    entry = IndexEntry(key_hash=1903240649, physical_offset=1000, time_difference=0, previous=0)
    assert index_entry.encode_entry(entry) == bytes.fromhex("717125c9 00000000000003e8 00000000 00000000")
    header = IndexHeader(1700000000123, 1700000000123, 1000, 1000, 1, 2)
    assert index_entry.encode_header(header) == bytes.fromhex(
        "0000018bcfe5687b" * 2 + "00000000000003e8" * 2 + "00000001 00000002")
    assert index_entry.decode_entry(b"." + index_entry.encode_entry(entry), 1) == entry
    assert index_entry.decode_header(index_entry.encode_header(header)) == header


def test_a_fresh_file_has_entry_1_next():
    assert index_entry.decode_header(bytes(40)).index_count == 1


@pytest.mark.parametrize(("store", "begin", "seconds"), [
    (5000, 0, 0), (5000, 2000, 3), (5999, 2000, 3), (1000, 2000, 0), (2**31 * 1000 + 5000, 1, 2**31 - 1),
])
def test_time_difference(store, begin, seconds):
    assert index_entry.time_difference(store, begin) == seconds


@pytest.mark.parametrize("decode", [index_entry.decode_entry, index_entry.decode_header])
def test_what_is_cut_short_is_refused(decode):
    with pytest.raises(TruncatedRecord):
        decode(bytes(19))


def test_names_of_files():
    name = index_entry.file_name(1_700_000_000_123, "")
    assert datetime.strptime(name[:14], "%Y%m%d%H%M%S").timestamp() == 1_700_000_000
    assert name[14:] == "123"
    assert index_entry.file_name(0, "99990101000000000") == "99990101000000001"
    assert index_entry.file_name(2**62, "").startswith("9999123")
