import pytest

from regulus.record.batch_unit import UNIT_SIZE, BatchUnit, decode_all, encode

# The first two units that RocketMQ 5.3.3 wrote for a batch of three messages and a single one.
WRITTEN = bytes.fromhex(
    "0000000000000000000001680000000000000000000001a2293634da00000000000000000003ffffffff00000000"
    "0000000000000168000000bd0000000000000074000001a22936350800000000000000030001ffffffff00000000")
UNITS = [BatchUnit(0, 360, 0, 1795987748058, 0, 3), BatchUnit(360, 189, 116, 1795987748104, 3, 1)]


def test_units_are_those_of_rocketmq():
    assert list(decode_all(WRITTEN)) == UNITS
    assert b"".join(map(encode, UNITS)) == WRITTEN


def test_the_next_message_is_behind_all_of_a_record():
    assert [unit.next_offset for unit in UNITS] == [3, 4]


def test_zeros_are_no_unit():
    (unit,) = decode_all(bytes(UNIT_SIZE))
    assert not unit.is_valid
    assert all(each.is_valid for each in UNITS)


@pytest.mark.parametrize("field", [{"physical_offset": -1}, {"size": 0}, {"queue_offset": -1}, {"message_count": 0},
                                   {"message_count": -1}])
def test_one_that_says_nothing_that_can_be_is_none(field):
    assert not UNITS[0]._replace(**field).is_valid
