import pytest

from regulus.errors import CorruptRecord, TruncatedRecord
from regulus.record import message_record
from regulus.record.dispatch_request import request_at, request_of
from regulus.record.index_entry import index_key, key_hash
from tests.unit.record.test_message_record import KNOWN_RECORD, known_message, known_straight_message


def test_known_bytes():
    request = request_at(b"1" + KNOWN_RECORD, 1, 121, True)
    assert (request.size, request.is_blank, request.topic, request.queue_id, request.queue_offset,
            request.physical_offset, request.store_timestamp, request.sys_flag, request.tags_code, request.keys,
            request.uniq_key, request.delay_level, request.prepared_transaction_offset) == (
        120, False, "TopicA", 1, 5, 1000, 1700000000123, 0, 2598919, "k1", "", 0, 0)
    assert request.properties() == {"TAGS": "TagA", "KEYS": "k1"}


@pytest.mark.parametrize(("properties", "facts"), [
    ({}, (0, "", "", 0)),
    ({"UNIQ_KEY": "C0", "DELAY": "3"}, (0, "", "C0", 3)),
    ({"DELAY": "soon", "TAGSX": "TagA", "TAG": "TagA"}, (0, "", "", 0)),
    ({"DELAY": "-1"}, (0, "", "", 0)),
    ({"TAGS": "标签", "KEYS": "键一 键二"}, (857175, "键一 键二", "", 0)),
])
def test_four_properties_are_read(properties, facts):
    record = message_record.encode(known_message(properties=properties))
    request = request_at(record, 0, len(record), True)
    assert (request.tags_code, request.keys, request.uniq_key, request.delay_level) == facts


def test_a_later_duplicate_wins_and_an_empty_value_does_not_count():
    message = known_message(properties={"a": "12345678"})
    record = message_record.encode(message).replace(b"a\x0112345678\x02", b"TAGS\x01A\x02TAGS"[:11])
    assert request_at(record, 0, len(record), True).tags_code == ord("A")


def test_a_wrong_checksum_is_found_only_when_asked_for():
    record = KNOWN_RECORD.replace(b"hello", b"hullo")
    assert request_at(record, 0, 120, False).topic == "TopicA"
    with pytest.raises(CorruptRecord, match="checksum"):
        request_at(record, 0, 120, True)


@pytest.mark.parametrize("limit", [0, 7, 8, 90, 119])
def test_a_record_cut_short_is_truncated(limit):
    with pytest.raises(TruncatedRecord) as caught:
        request_at(b"abc" + KNOWN_RECORD, 3, 3 + limit, True)
    assert caught.value.position == 3


@pytest.mark.parametrize("properties", [
    {}, {"TAGS": "标签", "KEYS": "k1 k2", "UNIQ_KEY": "C0", "DELAY": "3"}, {"DELAY": "soon"}, {"DELAY": "-1"},
    {"DELAY": "３"},
])
def test_a_request_made_of_a_message_is_that_read_from_its_record(properties):
    message = known_message(properties=properties, sys_flag=8, prepared_transaction_offset=77)
    record = message_record.encode(message)
    made, read = request_of(message), request_at(record, 0, len(record), True)
    for name in ("size", "is_blank", "topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp",
                 "prepared_transaction_offset", "sys_flag", "tags_code", "keys", "uniq_key", "delay_level"):
        assert getattr(made, name) == getattr(read, name), name


def test_properties_that_end_in_zeros_were_cut_off():
    record = KNOWN_RECORD[:-4] + bytes(4)
    assert request_at(record, 0, 120, False).keys == ""
    with pytest.raises(CorruptRecord, match="zeros"):
        request_at(record, 0, 120, True)


def test_a_request_made_of_a_straight_message_is_that_read_from_its_record():
    message = known_straight_message()
    record = message_record.encode(message)
    made, read = request_of(message), request_at(record, 0, len(record), True)
    for name in ("size", "is_blank", "topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp",
                 "prepared_transaction_offset", "sys_flag", "tags_code", "delay_level"):
        assert getattr(made, name) == getattr(read, name), name
    assert (made.uniq_key, made.uniq_hash) == ("", key_hash(index_key("TopicA", "C0")))
    assert (read.uniq_key, read.uniq_hash) == ("C0", -1)
    assert (made.keys, made.keys_hash) == ("", key_hash(index_key("TopicA", "k1")))
    assert (read.keys, read.keys_hash) == ("k1", -1)


@pytest.mark.parametrize("keys", ["k1 k2", "\u4e2d", "a\tb", ""])
def test_keys_that_are_no_word_of_ascii_stay_text(keys):
    message = known_straight_message()
    size = len(keys.encode())
    message.text[message.text_size:message.text_size + size] = keys.encode()
    message.keys_start, message.keys_end = message.text_size, message.text_size + size
    made = request_of(message)
    assert (made.keys, made.keys_hash) == (keys, -1)
