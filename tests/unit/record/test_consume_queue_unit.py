import pytest

from regulus.errors import TruncatedRecord
from regulus.record import consume_queue_unit
from regulus.record.consume_queue_unit import FILLER, ConsumeQueueUnit

UNIT = ConsumeQueueUnit(physical_offset=1000, size=120, tags_code=2598919)
BYTES = bytes.fromhex("00000000000003e8 00000078 000000000027a807")


def test_encode():
    assert consume_queue_unit.encode(UNIT) == BYTES
    assert consume_queue_unit.encode(FILLER) == bytes.fromhex("0000000000000000 7fffffff 0000000000000000")


def test_decode_at_a_position():
    assert consume_queue_unit.decode(b"xyz" + BYTES, 3) == UNIT


def test_a_unit_cut_short_is_refused():
    with pytest.raises(TruncatedRecord) as caught:
        consume_queue_unit.decode(BYTES, 1)
    assert caught.value.position == 1


def test_decode_all():
    assert list(consume_queue_unit.decode_all(BYTES * 2)) == [UNIT, UNIT]
    with pytest.raises(TruncatedRecord):
        consume_queue_unit.decode_all(BYTES[:-1])


def test_only_a_unit_of_a_record_or_filler_is_valid():
    assert UNIT.is_valid
    assert FILLER.is_valid
    assert not consume_queue_unit.decode(bytes(20)).is_valid


@pytest.mark.parametrize("unit", [UNIT, FILLER, ConsumeQueueUnit(2**62, 1, -(2**31))])
def test_encode_into_writes_the_same_bytes_in_place(unit):
    cells = bytearray(b"." * 22)
    consume_queue_unit.encode_into(memoryview(cells), 1, unit.physical_offset, unit.size, unit.tags_code)
    assert bytes(cells) == b"." + consume_queue_unit.encode(unit) + b"."
