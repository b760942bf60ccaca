"""The walk over a log says of each record what the store's dispatch reads of it."""

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.errors import CorruptRecord, TruncatedRecord
from regulus.model import sys_flag
from regulus.model.java_hash import tags_code
from regulus.model.message import MessageExt
from regulus.model.topics import SCHEDULE_TOPIC
from regulus.record import message_record
from regulus.record.dispatch_request import request_at
from regulus.record.index_entry import index_key, key_hash
from regulus.record.log_units import BODY_FLAW, FIELDS, ZEROS_FLAW, LogWalk
from tests.stores import HOST, NOW

BASE = 4096
DELAYS = (1000, 5000)
texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=12)


def a_log(messages: list[MessageExt]) -> bytes:
    log = b""
    for number, message in enumerate(messages):
        message.physical_offset = BASE + len(log)
        message.queue_offset = number
        message.store_timestamp = NOW + number
        log += message_record.encode(message)
    return log


def a_message(topic: str = "TopicA", body: bytes = b"hello", flags: int = 0, queue_id: int = 3,
              **properties: str) -> MessageExt:
    return MessageExt(topic, body, dict(properties), queue_id, 0, flags, NOW - 5, HOST, HOST)


def walk(log: bytes, *, check_crc: bool = True, with_tags: bool = True, with_index: bool = True,
         limit: int | None = None, room: int = 100, hashes_max: int = 1000, start: int = 0):
    """The walk, its rows as dicts, and the hashes."""
    walked = LogWalk(DELAYS, check_crc, with_tags, with_index)
    table = np.zeros((len(FIELDS), room), dtype=np.int64)
    hashes = np.zeros(hashes_max, dtype=np.int64)
    rows = walked.walk(log, memoryview(log), start, len(log) if limit is None else limit, BASE,
                       table.reshape(-1).data, room, hashes.data)
    return walked, [dict(zip(FIELDS, column, strict=True)) for column in table[:, :rows].T.tolist()], hashes.tolist()


@given(st.lists(st.builds(dict, topic=texts.filter(bool), TAGS=texts, KEYS=texts, UNIQ_KEY=texts,
                          DELAY=st.sampled_from(["", "1", "9", "x", "0"]), other=texts), max_size=6))
def test_as_dispatch_reads_them(properties):
    messages = [a_message(topic=each.pop("topic"), **each) for each in properties]
    log = a_log(messages)
    walked, rows, hashes = walk(log)
    assert walked.fault is None
    assert walked.position == len(log)
    topics = list(walked.topics)
    at = used = 0
    for row in rows:
        request = request_at(log, at, len(log), True)
        assert row["position"] == at
        assert (row["size"], row["queue_id"], row["queue_offset"], row["sys_flag"], row["store_timestamp"],
                row["tags_code"], row["flaw"]) == (
            request.size, request.queue_id, request.queue_offset, request.sys_flag, request.store_timestamp,
            request.tags_code, 0)
        assert topics[row["topic"]].decode() == request.topic
        keys = [request.uniq_key, *request.keys.split(" ")]
        expected = [key_hash(index_key(request.topic, key)) for key in keys if key]
        assert hashes[used:used + row["entries"]] == expected
        used += row["entries"]
        at += request.size
    assert walked.hashes_used == used


def test_the_schedule_topic_has_delivery_times():
    rows = walk(a_log([a_message(SCHEDULE_TOPIC, DELAY=level, TAGS="a") for level in ("1", "2", "7", "0")]))[1]
    assert [row["tags_code"] for row in rows] == [NOW + 1000, NOW + 1 + 5000, NOW + 2 + 5000, tags_code("a")]
    assert walk(a_log([a_message("orders", DELAY="1", TAGS="a")]))[1][0]["tags_code"] == tags_code("a")


def test_rollbacks_are_not_indexed_and_halves_are():
    flags = (sys_flag.TRANSACTION_ROLLBACK, sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_COMMIT)
    rows = walk(a_log([a_message(flags=flag, KEYS="a  b") for flag in flags]))[1]
    assert [row["entries"] for row in rows] == [0, 2, 2]
    assert [row["entries"] for row in walk(a_log([a_message(KEYS="a")]), with_index=False)[1]] == [0]


def test_a_later_property_wins():
    log = bytearray(a_log([a_message(TAGS="AAAA", X="12")]))
    at = log.index(b"X\x0112\x02")
    first = log.index(b"TAGS\x01AAAA\x02")
    assert first < at
    log[at:at + 5] = b"T\x0112\x02"
    assert walk(bytes(log))[1][0]["tags_code"] == tags_code("AAAA")
    two = a_log([a_message(TAGS="A", TAGX="B")]).replace(b"TAGX", b"TAGS")
    assert walk(two)[1][0]["tags_code"] == tags_code("B")


def test_what_is_not_asked_for_is_not_read():
    messages = [a_message(SCHEDULE_TOPIC, DELAY="1", TAGS="a", KEYS="k"), a_message(TAGS="a", KEYS="k")]
    rows = walk(a_log(messages), with_tags=False, with_index=False)[1]
    assert [(row["tags_code"], row["entries"]) for row in rows] == [(NOW + 1000, 0), (0, 0)]


def test_damage_is_marked_and_passed():
    log = bytearray(a_log([a_message(body=b"first", K="v"), a_message(body=b"second", K="v")]))
    log[log.index(b"first")] ^= 1
    assert [row["flaw"] for row in walk(bytes(log))[1]] == [BODY_FLAW, 0]
    assert [row["flaw"] for row in walk(bytes(log), check_crc=False)[1]] == [0, 0]
    log[-1] = 0
    assert [row["flaw"] for row in walk(bytes(log))[1]] == [BODY_FLAW, ZEROS_FLAW]


def test_where_and_why_a_walk_ends():
    log = a_log([a_message(), a_message()])
    size = len(log) // 2
    blank = message_record.blank(1000)
    walked, rows, _ = walk(log + blank)
    assert (len(rows), walked.position, walked.is_blank, walked.fault) == (2, len(log), True, None)
    walked, rows, _ = walk(log + bytes(100))
    assert (len(rows), walked.position, walked.is_blank) == (2, len(log), False)
    assert isinstance(walked.fault, CorruptRecord)
    walked, rows, _ = walk(log, limit=len(log) - 1)
    assert (len(rows), walked.position) == (1, size)
    assert isinstance(walked.fault, TruncatedRecord)
    walked, rows, _ = walk(log, room=1)
    assert (len(rows), walked.position, walked.fault) == (1, size, None)


def test_a_record_of_another_place_is_none():
    first, second = a_log([a_message()]), a_log([a_message()])
    walked, rows, _ = walk(first + second)
    assert len(rows) == 1
    with pytest.raises(CorruptRecord, match="record says it is at 4096"):
        raise walked.fault


def test_a_walk_stops_before_a_record_whose_hashes_have_no_room():
    log = a_log([a_message(KEYS="a b c"), a_message(KEYS="d e f")])
    walked, rows, _ = walk(log, hashes_max=6)
    assert (len(rows), walked.position, walked.hashes_used, walked.fault) == (1, len(log) // 2, 3, None)
    _, rows, hashes = walk(log, hashes_max=6, start=walked.position)
    assert hashes[:3] == [key_hash(index_key("TopicA", key)) for key in "def"]


def test_hosts_of_the_sixth_version_move_the_fields():
    six = bytes(16) + bytes(4)
    message = MessageExt("t", b"body", {"TAGS": "a"}, 1, 0, 0, NOW, six, six)
    row = walk(a_log([message]))[1][0]
    assert (row["flaw"], row["store_timestamp"], row["tags_code"]) == (0, NOW, tags_code("a"))
    assert crc32(b"body") & 0x7FFFFFFF == message.body_crc
