from regulus.client.core.received import decode_to_the_first_bad, is_any_packed, prepare, prepare_what_fits
from regulus.model import sys_flag as flags
from regulus.model.message import MessageExt
from regulus.record import message_record
from regulus.wire import compression


def test_tags_are_compared_by_text_because_hashes_collide():
    # "Aa" and "BB" have the same Java hash.
    messages = [MessageExt("T", b"x", {"TAGS": "Aa"}), MessageExt("T", b"x", {"TAGS": "BB"}), MessageExt("T", b"x", {})]
    assert [each.tags for each in prepare(messages, {"Aa"}, "%RETRY%G", 0, 3)[0]] == ["Aa"]
    assert len(prepare(messages, (), "%RETRY%G", 0, 3)[0]) == 3


def test_a_retry_shows_its_own_topic():
    retry = MessageExt("%RETRY%G", b"x", {"RETRY_TOPIC": "T"})
    assert prepare([retry], (), "%RETRY%G", 0, 1)[0][0].topic == "T"


def test_what_was_forwarded_with_the_properties_of_a_retry_keeps_the_topic_that_it_was_sent_to():
    forwarded = MessageExt("U", b"x", {"RETRY_TOPIC": "T"})
    assert prepare([forwarded], (), "%RETRY%G", 0, 1)[0][0].topic == "U"


def test_a_compressed_body_is_unpacked():
    body = b"abc" * 1000
    packed = MessageExt("T", compression.compress(body, flags.COMPRESSION_ZLIB), {},
                        sys_flag=flags.COMPRESSED | flags.COMPRESSION_ZLIB)
    assert prepare([packed], (), "%RETRY%G", 0, 1)[0][0].body == body


def packed(offset, size, tag="A"):
    body = compression.compress(bytes(size), flags.COMPRESSION_ZLIB)
    return MessageExt("T", body, {"TAGS": tag}, sys_flag=flags.COMPRESSED | flags.COMPRESSION_ZLIB, queue_offset=offset)


def test_packed_bodies_are_unpacked_until_the_room_is_full():
    messages = [packed(3, 600), MessageExt("T", bytes(5000), {"TAGS": "A"}, queue_offset=4), packed(5, 9000, tag="B"),
                packed(6, 600), packed(8, 600), MessageExt("T", b"x", {"TAGS": "A"}, queue_offset=9)]
    kept, unreadable, rest = prepare_what_fits(messages, {"A"}, "%RETRY%G", 0, 9, 1000)
    assert [(each.queue_offset, len(each.body)) for each in kept] == [(3, 600), (4, 5000), (6, 600)]
    assert (unreadable, rest) == ({}, 8)
    assert messages[4].sys_flag & flags.COMPRESSED
    assert len(messages[4].body) < 600
    assert prepare_what_fits([packed(3, 600)], (), "%RETRY%G", 0, 9, 1)[2] is None


def test_whether_anything_is_packed():
    assert is_any_packed([MessageExt("T", b"x", {}), packed(0, 10)])
    assert not is_any_packed([MessageExt("T", b"x", {}, sys_flag=flags.TRANSACTION_PREPARED)])


def test_the_queue_range_is_told():
    message = prepare([MessageExt("T", b"x", {})], (), "%RETRY%G", 3, 17)[0][0]
    assert (message.properties["MIN_OFFSET"], message.properties["MAX_OFFSET"]) == ("3", "17")


def test_a_body_that_cannot_be_unpacked_is_told_and_kept_as_it_was_stored_and_the_others_are_fine():
    plain = MessageExt("T", b"good", {}, queue_offset=6)
    bad = MessageExt("%RETRY%G", b"no stream", {"RETRY_TOPIC": "T"}, queue_offset=7,
                     sys_flag=flags.COMPRESSED | flags.COMPRESSION_ZLIB)
    messages, unreadable = prepare([plain, bad], (), "%RETRY%G", 0, 9)
    assert [(each.topic, each.body) for each in messages] == [("T", b"good"), ("T", b"no stream")]
    assert unreadable.keys() == {7}
    assert "body is not a zlib stream" in unreadable[7]


def test_what_lies_before_a_bad_record_is_read():
    records = [message_record.encode(MessageExt("T", b"%d" % number, {}, queue_offset=number)) for number in range(3)]
    damaged = records[0] + records[1] + b"\0\0\0\0" + records[2][4:]
    assert [each.body for each in decode_to_the_first_bad(damaged)] == [b"0", b"1"]
    assert decode_to_the_first_bad(records[0][:-1]) == []
