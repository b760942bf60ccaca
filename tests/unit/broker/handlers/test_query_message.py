"""Reading without consuming."""

import pytest

from regulus.broker.outcome import HOLD
from regulus.record import message_record
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    GetMaxOffsetRequest,
    QueryMessageRequest,
    SearchOffsetByTimestampRequest,
    ViewMessageByIdRequest,
)


@pytest.fixture
def rig(rig):
    for number in range(3):
        rig.send(body=b"%d" % number, properties={"KEYS": f"a{number} all", "UNIQ_KEY": f"K{number}"})
        rig.now_ms += 1000
    return rig


def query(rig, key, *, unique=False, max_num=32):
    return rig.ask(RequestCode.QUERY_MESSAGE, QueryMessageRequest(
        topic="TopicA", key=key, max_num=max_num, begin_timestamp=0, end_timestamp=rig.now_ms,
        unique_key_query=unique).ext())


def bodies(response):
    return [message.body for message in message_record.decode_all(response.body)]


def test_a_key_finds_its_messages(rig):
    response = query(rig, "all")
    assert bodies(response) == [b"0", b"1", b"2"]
    assert set(response.ext) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
    assert len(bodies(query(rig, "all", max_num=2))) == 2


def test_a_unique_key_finds_its_message_whatever_number_was_wanted(rig):
    assert bodies(query(rig, "K1", unique=True, max_num=0)) == [b"1"]


def test_a_key_without_messages_is_not_found(rig):
    response = query(rig, "nobody")
    assert (response.code, response.remark) == (ResponseCode.QUERY_NOT_FOUND,
                                                "can not find message, maybe time range not correct")


def test_one_message_by_its_place(rig):
    offset = rig.stored("TopicA")[1].physical_offset
    assert bodies(rig.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequest(offset=offset).ext())) == [b"1"]
    response = rig.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequest(offset=99_999).ext())
    assert (response.code, response.remark) == (1, "can not find message by the offset, 99999")


@pytest.mark.parametrize(("back_ms", "boundary", "offset"), [
    (3000, None, "0"), (2500, None, "1"), (2500, "LOWER", "1"), (2500, "UPPER", "0"), (0, None, "3"),
    (2000, "upper", "1")])
def test_the_offset_at_a_time(rig, back_ms, boundary, offset):
    header = SearchOffsetByTimestampRequest(topic="TopicA", queue_id=0, timestamp=rig.now_ms - back_ms,
                                            boundary_type=boundary)
    assert rig.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header.ext()).ext == {"offset": offset}


def test_the_bounds_of_a_queue(rig):
    ext = GetMaxOffsetRequest(topic="TopicA", queue_id=0).ext()
    assert rig.ask(RequestCode.GET_MAX_OFFSET, ext).ext == {"offset": "3"}
    assert rig.ask(RequestCode.GET_MIN_OFFSET, ext).ext == {"offset": "0"}
    assert rig.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, ext).ext == {"timestamp": str(rig.now_ms - 3000)}


def test_a_queue_that_is_not_there_is_empty(rig):
    ext = GetMaxOffsetRequest(topic="Nothing", queue_id=0).ext()
    assert rig.ask(RequestCode.GET_MAX_OFFSET, ext).ext == {"offset": "0"}
    assert rig.ask(RequestCode.GET_MIN_OFFSET, ext).ext == {"offset": "0"}
    assert rig.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, ext).ext == {"timestamp": "-1"}


def test_an_answer_holds_the_newest_that_fit_a_frame(rig, monkeypatch):
    size = len(rig.store.record_bytes(rig.stored("TopicA")[0].physical_offset))
    monkeypatch.setattr("regulus.broker.handlers.query_message.QUERY_SIZE_MAX", 2 * size)
    assert bodies(query(rig, "all")) == [b"1", b"2"]
    monkeypatch.setattr("regulus.broker.handlers.query_message.QUERY_SIZE_MAX", size - 1)
    assert bodies(query(rig, "all")) == [b"2"]


def test_a_long_search_is_answered_later(rig, monkeypatch):
    found = rig.store.query_message("TopicA", "all", 32, 0, rig.now_ms)

    def in_steps(*asked):
        for _ in range(3):
            yield
        return found

    monkeypatch.setattr(rig.store, "query_message_in_steps", in_steps)
    assert rig.handle(RequestCode.QUERY_MESSAGE, QueryMessageRequest(
        topic="TopicA", key="all", max_num=32, begin_timestamp=0, end_timestamp=rig.now_ms).ext()) is HOLD
    assert [rig.broker.long_answers.tick() for _ in range(3)] == [0, 0, None]
    [answer] = rig.notices()
    assert bodies(answer) == [b"0", b"1", b"2"]
