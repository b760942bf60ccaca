"""What a pop leaves in the revive topic, whoever wrote it."""

import json

import pytest

from regulus.errors import CorruptRecord
from regulus.record.pop_record import Acks, CheckpointKey, PopCheckpoint, decode_acks, decode_checkpoint

KEY = CheckpointKey("T", "G", 3, 10, 1_700_000_000_123)
CHECKPOINT = PopCheckpoint(key=KEY, broker_name="broker-a", invisible_time=60_000, offsets=(10, 12))
REAL = (b'{"bm":0,"bn":"broker-a","c":"G","d":[0,2],"it":60000,"n":2,"pt":1700000000123,"q":3,'
        b'"reviveTime":1700000060123,"ro":0,"so":10,"t":"T"}')
ACK = b'{"ao":12,"bn":"broker-a","c":"G","pt":1700000000123,"q":3,"so":10,"t":"T"}'


def test_a_checkpoint_is_written_and_read_as_rocketmq_has_it():
    assert CHECKPOINT.encode() == REAL
    assert decode_checkpoint(REAL) == CHECKPOINT


def test_acks_are_written_and_read_as_rocketmq_has_them():
    one, two = Acks(KEY, "broker-a", (12,)), Acks(KEY, "broker-a", (10, 12))
    assert one.encode() == ACK
    assert [decode_acks(each.encode()) for each in (one, two)] == [one, two]


def test_what_was_acknowledged_before_it_was_stored_is_none_of_it():
    """The bit of the last of 32 is the sign of Java's number."""
    value = json.loads(REAL) | {"d": [], "n": 32, "bm": -(1 << 31) | 1}
    assert decode_checkpoint(json.dumps(value).encode()).offsets == tuple(range(11, 41))


HOSTILE = [
    {"n": 1 << 62}, {"n": 33}, {"n": -1}, {"n": float("inf")}, {"n": True}, {"d": [0] * 33}, {"d": [float("inf")]},
    {"d": [-1]}, {"d": 7}, {"d": {"a": 1}}, {"so": float("inf")}, {"so": -1}, {"so": 1 << 63}, {"so": (1 << 63) - 1},
    {"so": "10"}, {"so": 1.5}, {"q": 1 << 31}, {"q": -1}, {"q": float("nan")}, {"pt": float("inf")}, {"pt": None},
    {"it": 1 << 63}, {"it": (1 << 63) - 1}, {"it": -1}, {"bm": float("inf")}, {"t": ""}, {"t": "../T"}, {"t": 1},
    {"t": ["T"]}, {"t": "T" * 300}, {"c": ""}, {"c": "a@b"}, {"c": "G\x02A\x01b"}, {"c": 1}, {"c": None},
    {"bn": "\ud800"},
]


@pytest.mark.parametrize("changed", HOSTILE, ids=lambda each: json.dumps(each)[:40])
def test_a_checkpoint_that_nobody_wrote_is_refused_at_once(changed):
    with pytest.raises(CorruptRecord):
        decode_checkpoint(json.dumps(json.loads(REAL) | changed).encode())


@pytest.mark.parametrize("changed", [
    {"ao": float("inf")}, {"ao": -1}, {"ao": 1 << 63}, {"ao": None}, {"aol": 3}, {"aol": [0] * 33}, {"aol": ["1"]},
    {"so": 1 << 64}, {"q": float("inf")}, {"t": "a/b"}, {"c": "a b"}], ids=lambda each: json.dumps(each)[:40])
def test_acks_that_nobody_wrote_are_refused_at_once(changed):
    with pytest.raises(CorruptRecord):
        decode_acks(json.dumps(json.loads(ACK) | changed).encode())


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"7", b"[" * 100_000, b"\xff", b'{"n":1e999}',
                                  b'{"n":' + b"9" * 10_000 + b"}"], ids=lambda each: repr(each[:12]))
def test_what_is_no_object_is_refused(body):
    for decode in (decode_checkpoint, decode_acks):
        with pytest.raises(CorruptRecord):
            decode(body)


def test_a_count_that_is_no_number_counts_as_none():
    for again in ("9" * 40, "²", "-1", "x"):
        assert decode_checkpoint(json.dumps(json.loads(REAL) | {"rp": again}).encode()).put_again_times == 0


def test_a_checkpoint_has_no_more_messages_than_it_counts():
    assert decode_checkpoint(json.dumps(json.loads(REAL) | {"n": 1}).encode()).offsets == (10,)
