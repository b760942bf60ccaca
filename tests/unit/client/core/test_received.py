from regulus.client.core.received import prepare
from regulus.model import sys_flag as flags
from regulus.model.message import MessageExt
from regulus.wire import compression


def test_tags_are_compared_by_text_because_hashes_collide():
    # "Aa" and "BB" have the same Java hash.
    messages = [MessageExt("T", b"x", {"TAGS": "Aa"}), MessageExt("T", b"x", {"TAGS": "BB"}), MessageExt("T", b"x", {})]
    assert [each.tags for each in prepare(messages, {"Aa"}, "%RETRY%G", 0, 3)] == ["Aa"]
    assert len(prepare(messages, (), "%RETRY%G", 0, 3)) == 3


def test_a_retry_shows_its_own_topic():
    retry = MessageExt("%RETRY%G", b"x", {"RETRY_TOPIC": "T"})
    assert prepare([retry], (), "%RETRY%G", 0, 1)[0].topic == "T"


def test_a_compressed_body_is_unpacked():
    body = b"abc" * 1000
    packed = MessageExt("T", compression.compress(body, flags.COMPRESSION_ZLIB), {},
                        sys_flag=flags.COMPRESSED | flags.COMPRESSION_ZLIB)
    assert prepare([packed], (), "%RETRY%G", 0, 1)[0].body == body


def test_the_queue_range_is_told():
    message = prepare([MessageExt("T", b"x", {})], (), "%RETRY%G", 3, 17)[0]
    assert (message.properties["MIN_OFFSET"], message.properties["MAX_OFFSET"]) == ("3", "17")
