"""The bytes of what waits, by those that RocketMQ wrote."""

from regulus.model.java_hash import java_hash
from regulus.record import timer_units
from regulus.record.timer_units import DEFAULT_KIND, NOWHERE, TimerCheck, TimerRecord, TimerSlot

RECORD = bytes.fromhex("00000034ffffffffffffffff000000010000018bcfe568000000ea6000000000000003e80000008895a7c525"
                       "0000000000000000")


def test_a_record_is_as_rocketmq_writes_it():
    record = TimerRecord(1_700_000_060_000, DEFAULT_KIND, 1_700_000_000_000, 1000, 136, java_hash("TopicT"), NOWHERE)
    assert timer_units.encode(record, NOWHERE) == RECORD
    assert timer_units.decode(b"##" + RECORD, 2) == record
    assert 1_700_000_060_000 // 1000 % timer_units.SLOTS == 512_060


def test_other_bytes_are_no_record():
    for position, byte in ((3, 0x33), (15, 0), (15, 0x10), (28, 0x80), (4, 0x80)):
        data = bytearray(RECORD)
        data[position] = byte
        assert timer_units.decode(bytes(data)) is None, position
    assert timer_units.decode(bytes(52)) is None


def test_a_slot():
    data = timer_units.encode_slot(TimerSlot(1_700_000_060, 0, 104, 3))
    assert data == bytes.fromhex("000000006553f13c000000000000000000000000000000680000000300000000")
    assert timer_units.decode_slot(b"#" + data, 1) == TimerSlot(1_700_000_060, 0, 104, 3)


def test_a_checkpoint_keeps_what_is_ours_behind_what_is_rocketmqs():
    check = TimerCheck(1, 2, 3, 4, 5, 6, 7, 8, 9)
    data = timer_units.encode_check(check)
    assert len(data) == 4096
    assert data[:72] == b"".join(number.to_bytes(8, "big") for number in range(1, 9)) + (9).to_bytes(4, "big") \
        + data[68:72]
    assert timer_units.decode_check(data) == check
    assert timer_units.encode_told_check(check) == data[:56]
    # RocketMQ writes its part anew, with a version that counts it, and leaves ours.
    changed = (77).to_bytes(8, "big") + data[8:48] + (8).to_bytes(8, "big") + data[56:]
    assert timer_units.decode_check(changed) == check._replace(read_ms=77, version_counter=8, log_position=NOWHERE,
                                                               done=0)
    assert timer_units.decode_check(data[:56]) == check._replace(log_position=NOWHERE, done=0)
    assert timer_units.decode_check(b"") == TimerCheck()


def test_a_checkpoint_with_a_flipped_bit_tells_nothing():
    check = TimerCheck(1_700_000_000_000, 52, 1, 1, 0, 1_700_000_000_000, 7, 1000, 0)
    data = timer_units.encode_check(check)
    for position in [*range(32), *range(56, 72)]:
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            assert timer_units.decode_check(bytes(flipped)) == TimerCheck(), (position, bit)
    for position in [*range(32, 56), *range(72, 76)]:   # and where it tells nothing that matters, no wrong thing
        flipped = bytearray(data)
        flipped[position] ^= 1
        found = timer_units.decode_check(bytes(flipped))
        assert found[:4] == check[:4]
        assert found.log_position in (NOWHERE, 1000)
