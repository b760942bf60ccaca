import pytest

from regulus.client.core.inner_batches import from_offset, is_inner_batch, is_of_inner_batch, unwrap
from regulus.client.core.received import prepare, prepare_what_fits
from regulus.errors import MessageIllegal
from regulus.model import sys_flag as flags
from regulus.model.message import Message, MessageExt
from regulus.wire import compression, message_batch


def inner_batch(*tags, base=7, says=None, packed=False):
    body = message_batch.encode([Message("T", b"m%d" % index, tag, properties={"UNIQ_KEY": f"A{index}"}, flag=index)
                                 for index, tag in enumerate(tags)])
    flag = flags.NEED_UNWRAP | flags.INNER_BATCH | flags.MULTI_TAGS
    if packed:
        body, flag = compression.compress(body), flag | flags.COMPRESSED | flags.COMPRESSION_ZLIB
    return MessageExt("T", body, {"UNIQ_KEY": "B", "INNER_NUM": str(len(tags) if says is None else says),
                                  "INNER_BASE": str(base)},
                      queue_id=3, sys_flag=flag, queue_offset=base, physical_offset=1000, born_timestamp=5,
                      born_host=b"12345678", store_host=b"abcdefgh", store_timestamp=6, reconsume_times=0,
                      store_size=99)


def test_each_message_has_its_own_place_and_what_it_was_sent_with():
    messages = unwrap(inner_batch("x", "y", "x"))
    assert [(each.queue_offset, each.body, each.tags, each.message_id, each.flag) for each in messages] == [
        (7, b"m0", "x", "A0", 0), (8, b"m1", "y", "A1", 1), (9, b"m2", "x", "A2", 2)]
    assert {(each.topic, each.queue_id, each.born_timestamp, each.born_host, each.store_host, each.store_timestamp,
             each.physical_offset, each.store_size) for each in messages} == {
                 ("T", 3, 5, b"12345678", b"abcdefgh", 6, 1000, 99)}
    assert all(is_of_inner_batch(each) and not is_inner_batch(each) and each.sys_flag & flags.MULTI_TAGS
               for each in messages)


@pytest.mark.parametrize(("says", "of_it"), [(2, "it has 3 messages and says that it has 2"),
                                             (4, "it has 3 messages and says that it has 4")])
def test_one_that_does_not_have_what_it_says_would_lie_on_its_neighbours_places(says, of_it):
    with pytest.raises(MessageIllegal, match=of_it):
        unwrap(inner_batch("", "", "", says=says))


def test_one_that_is_cut_short_is_told():
    batch = inner_batch("", "")
    batch.body = batch.body[:-1]
    with pytest.raises(MessageIllegal, match="inner batch"):
        unwrap(batch)


@pytest.mark.parametrize("packed", [False, True])
def test_a_pull_gives_the_messages_of_one_under_their_own_tags(packed):
    plain = MessageExt("T", b"z", {"TAGS": "x"}, queue_offset=10)
    kept, unreadable = prepare([inner_batch("x", "y", "x", packed=packed), plain], {"x"}, "%RETRY%G", 2, 11)
    assert [(each.queue_offset, each.body) for each in kept] == [(7, b"m0"), (9, b"m2"), (10, b"z")]
    assert unreadable == {}
    assert {(each.properties["MIN_OFFSET"], each.properties["MAX_OFFSET"]) for each in kept} == {("2", "11")}
    assert not any(each.sys_flag & flags.COMPRESSED for each in kept)


def test_a_packed_one_waits_for_room_and_takes_it():
    batches = [inner_batch("", "", packed=True), inner_batch("", base=9, packed=True)]
    kept, _, rest = prepare_what_fits(batches, (), "%RETRY%G", 0, 9, 10)
    assert [each.queue_offset for each in kept] == [7, 8]
    assert rest == 9


def test_one_that_cannot_be_read_stays_whole_and_is_told():
    kept, unreadable = prepare([inner_batch("", says=9), inner_batch("", base=8)], {"x"}, "%RETRY%G", 0, 9)
    assert [(each.queue_offset, is_inner_batch(each)) for each in kept] == [(7, True)]
    assert "inner batch" in unreadable[7]


def test_whoever_begins_in_its_midst_gets_what_follows():
    messages = unwrap(inner_batch("", "", ""))
    assert [each.queue_offset for each in from_offset(messages, 8)] == [8, 9]


def test_others_are_none():
    assert not is_inner_batch(MessageExt("T", b"", {}))
    assert not is_inner_batch(MessageExt("T", b"", {}, sys_flag=flags.NEED_UNWRAP))
    assert not is_of_inner_batch(MessageExt("T", b"", {}))
    assert not is_of_inner_batch(inner_batch(""))
