"""Where a message goes, and what its copies keep."""

import pytest

from regulus.broker import placement
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes, offset_message_id

HERE = host_bytes("10.0.0.1", 10911)


def message(topic: str = "T", **properties: str) -> MessageExt:
    return MessageExt(topic, b"body", dict(properties), queue_id=2, flag=5, sys_flag=1, born_timestamp=9,
                      born_host=b"b" * 8, store_host=HERE, reconsume_times=3, physical_offset=77)


@pytest.mark.parametrize(("level", "queue_id"), [("1", 0), ("18", 17), ("19", 17)])
def test_a_delayed_message_is_parked(level, queue_id):
    parked = message(DELAY=level)
    placement.place(parked, 18, 1000, 0)
    assert (parked.topic, parked.queue_id) == ("SCHEDULE_TOPIC_XXXX", queue_id)
    assert parked.properties == {"DELAY": level, "REAL_TOPIC": "T", "REAL_QID": "2"}


@pytest.mark.parametrize("properties", [{}, {"DELAY": "0"}, {"DELAY": "abc"}, {"DELAY": "-3"}])
def test_others_stay(properties):
    stays = message(**properties)
    placement.place(stays, 18, 1000, 0)
    assert (stays.topic, stays.queue_id, stays.properties) == ("T", 2, properties)


def test_when_due_it_goes_home_with_all_it_had():
    parked = message(DELAY="4", KEYS="k")
    placement.place(parked, 18, 1000, 0)
    home = placement.when_due(parked)
    assert (home.topic, home.queue_id, home.body, home.flag, home.born_timestamp) == ("T", 2, b"body", 5, 9)
    assert (home.reconsume_times, home.store_host, home.sys_flag) == (3, HERE, 1)
    assert home.properties == {"DELAY": "4", "KEYS": "k", "REAL_TOPIC": "T", "REAL_QID": "2"}
    assert home.properties is not parked.properties


@pytest.mark.parametrize("properties", [
    {}, {"REAL_TOPIC": "T"}, {"REAL_TOPIC": "T", "REAL_QID": "x"},
    {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"}])
def test_a_message_without_a_home_is_dropped(properties):
    assert placement.when_due(message("SCHEDULE_TOPIC_XXXX", **properties)) is None


def test_the_first_failure_notes_the_first_copy_and_later_ones_keep_it():
    first = message(UNIQ_KEY="K")
    retry = placement.retry_copy(first, "G", 0, 3, HERE)
    origin_id = offset_message_id(HERE, 77)
    assert (retry.topic, retry.queue_id, retry.reconsume_times) == ("%RETRY%G", 0, 4)
    assert retry.properties == {"UNIQ_KEY": "K", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": origin_id, "DELAY": "3"}
    assert first.properties == {"UNIQ_KEY": "K"}
    retry.physical_offset = 999
    again = placement.retry_copy(retry, "G", 0, 4, HERE)
    assert again.properties["RETRY_TOPIC"] == "T"
    assert again.properties["ORIGIN_MESSAGE_ID"] == origin_id
    assert again.reconsume_times == 5


def test_a_dead_letter_says_where_it_came_from():
    letter = placement.dead_letter_copy(message(DELAY="5"), "G", HERE)
    assert (letter.topic, letter.queue_id, letter.reconsume_times) == ("%DLQ%G", 0, 4)
    assert letter.properties == {
        "DELAY": "0", "RETRY_TOPIC": "T", "DLQ_ORIGIN_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": offset_message_id(HERE, 77), "DLQ_ORIGIN_MESSAGE_ID": offset_message_id(HERE, 77)}


@pytest.mark.parametrize(("text", "queue_id"), [
    ("3", 3), ("2147483647", 2147483647), ("2147483648", 0), ("99999999999", 0), ("-1", 0), ("x", 0), ("٣", 0),
    ("", 0)])
def test_a_queue_that_no_record_can_name_is_the_first(text, queue_id):
    assert placement.committed(message(REAL_TOPIC="T", REAL_QID=text)).queue_id == queue_id
