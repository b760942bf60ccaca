from copy import copy

import pytest

from regulus.errors import MessageIllegal
from regulus.model import message_properties as names
from regulus.model.message import STRAIGHT_TEXT_SIZE_MAX, Message, MessageExt, StraightMessage


def test_several_keys_are_joined_by_spaces():
    assert Message("orders", b"x", keys=["k1", "k2"]).keys == "k1 k2"
    assert Message("orders", b"x", keys=[]).properties == {}


@pytest.mark.parametrize("keys", [7, [7], ["k", None]])
def test_keys_that_are_no_text_are_refused(keys):
    with pytest.raises(MessageIllegal, match=r"keys is .*; give a text, or a list of texts"):
        Message("orders", b"x", keys=keys)


@pytest.mark.parametrize("body", ["text", bytearray(b"x"), memoryview(b"x"), 7, ["x"]])
def test_a_body_that_is_not_bytes_is_refused(body):
    with pytest.raises(MessageIllegal, match=rf"the message body is of type {type(body).__name__}; give bytes"):
        Message("orders", body)


def test_tags_and_keys_are_properties():
    message = Message("orders", b"x", tags="TagA", keys="k1 k2", properties={"city": "Beijing"})
    assert message.properties == {"city": "Beijing", names.TAGS: "TagA", names.KEYS: "k1 k2"}
    assert (message.tags, message.keys, message.message_id) == ("TagA", "k1 k2", "")


def test_the_given_properties_are_copied():
    given = {"a": "1"}
    Message("orders", b"", tags="T", properties=given)
    assert given == {"a": "1"}


def test_a_stored_message_has_its_unique_key():
    message = MessageExt("orders", b"body", {names.UNIQUE_KEY: "C0"}, queue_id=3, store_timestamp=1700000000123)
    assert message.message_id == "C0"
    assert (message.queue_id, message.store_timestamp, message.queue_offset) == (3, 1700000000123, 0)


def test_a_copy_has_all_fields():
    message = MessageExt("orders", b"body", {"a": "1"}, queue_id=3, sys_flag=8, born_host=bytes(20), body_crc=7)
    twin = copy(message)
    assert twin is not message
    assert (twin.topic, twin.body, twin.queue_id, twin.sys_flag, twin.born_host, twin.body_crc) == (
        "orders", b"body", 3, 8, bytes(20), 7)


def test_the_text_of_a_message_has_no_body():
    assert repr(Message("orders", b"secret")) == "Message(topic='orders', body=6 bytes, properties={})"


def test_a_straight_message_begins_empty_with_room_for_the_longest_properties():
    message = StraightMessage()
    assert (message.topic, message.body, message.properties, message.text_size) == ("", b"", {}, 0)
    assert len(message.text) == STRAIGHT_TEXT_SIZE_MAX


def test_a_priority_is_a_property():
    assert Message("orders", b"x", priority=0).properties == {names.PRIORITY: "0"}
    assert [Message("orders", b"x", priority=each).priority for each in (0, 9, 2147483647)] == [0, 9, 2147483647]
    assert Message("orders", b"x").priority is None
    assert MessageExt("orders", b"x", {names.PRIORITY: "abc"}).priority is None


@pytest.mark.parametrize("priority", [-1, 2147483648, "3", 1.0])
def test_a_priority_that_is_none_is_refused(priority):
    with pytest.raises(MessageIllegal, match=r"priority is .*; give a whole number from 0 to 2147483647"):
        Message("orders", b"x", priority=priority)
