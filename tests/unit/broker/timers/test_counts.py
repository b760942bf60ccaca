"""How many messages of each topic wait for a time of their own: what is counted, and RocketMQ's document of it."""

import json

import pytest

from regulus.broker.timers.counts import TimerCounts
from regulus.errors import HeaderError
from regulus.model.java_hash import java_hash
from regulus.record.timer_units import DEFAULT_KIND, DELETE_KIND, TimerRecord
from regulus.wire import encoded_table

NOW = 1_700_000_000_000


def record(topic: str, kind: int = DEFAULT_KIND) -> TimerRecord:
    return TimerRecord(NOW, kind, NOW, 0, 100, java_hash(topic))


def table(counts: TimerCounts) -> dict[str, int]:
    return {topic: metric.count for topic, metric in counts.wrapper().timing_count.items()}


def test_what_was_taken_out_counts_nothing():
    counts = TimerCounts()
    for _ in range(3):
        counts.entered(record("T"), "T", NOW)
    counts.entered(record("U"), "U", NOW)
    counts.entered(record("T", DEFAULT_KIND | DELETE_KIND), "T", NOW)
    assert (table(counts), counts.total) == ({"T": 2, "U": 1}, 3)
    for kind in (DEFAULT_KIND, DEFAULT_KIND, DEFAULT_KIND, DEFAULT_KIND | DELETE_KIND):
        counts.done(java_hash("T"), kind, NOW)
    assert table(counts) == {"T": 0, "U": 1}


def test_what_was_taken_out_more_than_once_takes_nothing_away_from_other_topics():
    counts = TimerCounts()
    counts.entered(record("U"), "U", NOW)
    counts.entered(record("T"), "T", NOW)
    for _ in range(5):
        counts.entered(record("T", DEFAULT_KIND | DELETE_KIND), "T", NOW)
    assert (table(counts), counts.total) == ({"T": -4, "U": 1}, 1)
    for _ in range(5):
        counts.done(java_hash("T"), DEFAULT_KIND | DELETE_KIND, NOW)
    counts.done(java_hash("T"), DEFAULT_KIND, NOW)
    assert (table(counts), counts.total) == ({"T": 0, "U": 1}, 1)


def test_a_topic_that_is_deleted_is_counted_no_more():
    counts = TimerCounts()
    counts.entered(record("T"), "T", NOW)
    counts.remove_topic("T", NOW)
    counts.remove_topic("never there", NOW)
    counts.done(java_hash("T"), DEFAULT_KIND, NOW)
    assert (table(counts), counts.version) == ({}, 2)


def test_the_document_is_rocketmqs():
    counts = TimerCounts()
    counts.entered(record("T"), "T", NOW)
    counts.entered(record("T"), "T", NOW + 7)
    text = encoded_table.text(counts.document())
    assert text == ('{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1700000000007},'
                    '"timingCount":{"T":{"count":2,"timeStamp":1700000000007}}}')
    again = TimerCounts()
    again.load(text)
    assert encoded_table.text(again.document()) == text
    again.done(java_hash("T"), DEFAULT_KIND, NOW + 9)
    assert json.loads(encoded_table.text(again.document()))["dataVersion"] == {
        "counter": 3, "stateVersion": 0, "timestamp": NOW + 9}


def test_counting_anew_goes_on_with_the_version():
    counts = TimerCounts()
    counts.load('{"dataVersion":{"counter":9,"stateVersion":2,"timestamp":5},"timingCount":{"T":{"count":4,'
                '"timeStamp":5}}}')
    counts.begin_anew(6, NOW)
    assert (table(counts), counts.version) == ({}, 10)
    counts.begin_anew(50, NOW)
    assert counts.version == 51


def test_a_document_that_is_none_is_refused():
    counts = TimerCounts()
    with pytest.raises(HeaderError):
        counts.follow('{"timingCount":[]}')
    counts.load('{"timingCount":[]}')       # at a start: then it is counted anew
    assert (table(counts), counts.version) == ({}, 0)
