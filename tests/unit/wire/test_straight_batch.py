"""Which batches are plain, and what their messages become. That both ways agree is in tests/property."""

import pytest

from regulus.model.message import Message
from regulus.wire import message_batch
from regulus.wire.remoting_command import RemotingCommand
from regulus.wire.straight_batch import StraightBatchReader

STAMP = b"MSG_REGION\x01R\x02"


def a_message(body: bytes = b"hi", flag: int = 0, **properties: str) -> Message:
    return Message("T", body, flag=flag, properties={"UNIQ_KEY": "K", **properties})


def read(*messages: Message, cut: int | None = None, topic: str = "T", row: int = -1) -> StraightBatchReader | None:
    reader = StraightBatchReader(frozenset((b"DELAY", b"MSG_REGION")))
    command = RemotingCommand(320, body=message_batch.encode(messages)[:cut])
    return reader if reader.read(command, topic, b"", row, STAMP) else None


def test_each_message_is_handed_out_with_its_body_and_properties_as_often_as_wanted():
    batch = read(a_message(b"one", flag=-2, KEYS="k"), a_message(b"", TAGS="t"), row=8)
    assert batch is not None
    for _ in range(2):
        seen = [(bytes(each.view[each.body_start:each.body_end]), each.flag, bytes(each.text[:each.text_size]))
                for each in batch]
        assert seen == [(b"one", -2, b"UNIQ_KEY\x01K\x02KEYS\x01k\x028" + STAMP),
                        (b"", 0, b"UNIQ_KEY\x01K\x02TAGS\x01t\x029" + STAMP)]
    assert (batch.count, batch.message.topic, batch.message.topic_text) == (2, "T", b"T")


@pytest.mark.parametrize("properties", [{"DELAY": "1"}, {"MSG_REGION": "R"}, {"UNIQ_KEY": ""}, {"a": "\u4e2d"},
                                        {"TAGS": 'a"b'}, {"a": "x" * 32_750}])
def test_an_unusual_message_makes_the_batch_unusual(properties):
    assert read(a_message(), a_message(**properties), a_message()) is None


@pytest.mark.parametrize("cut", [0, 3, 21, 30, -1])
def test_a_batch_that_is_empty_or_cut_short_is_not_plain(cut):
    assert read(a_message(), cut=cut) is None


def test_a_topic_with_other_letters_is_not_plain():
    assert read(a_message(), topic="\u4e2d") is None
