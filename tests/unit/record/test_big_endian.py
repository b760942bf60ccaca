import pytest

from regulus.record import big_endian

NUMBERS = [0, 1, -1, 127, 128, 255, 256, 0x01020304, 0x7FFFFFFF, -0x80000000]
LARGE = [*NUMBERS, 0x7FFFFFFFFFFFFFFF, -0x8000000000000000, 0x0102030405060708, 0xFFFFFFFF]


@pytest.mark.parametrize("number", NUMBERS)
def test_four_bytes(number):
    cells = bytearray(b"......")
    assert big_endian.put4(cells, 1, number) == 5
    assert cells == b"." + number.to_bytes(4, "big", signed=True) + b"."
    assert big_endian.int4(memoryview(cells), 1) == number


@pytest.mark.parametrize("number", LARGE)
def test_eight_bytes(number):
    cells = bytearray(b"..........")
    assert big_endian.put8(memoryview(cells), 1, number) == 9
    assert cells == b"." + number.to_bytes(8, "big", signed=True) + b"."
    assert big_endian.int8(bytes(cells), 1) == number


def test_what_is_too_large_loses_its_high_bytes():
    cells = bytearray(6)
    big_endian.put4(cells, big_endian.put2(cells, 0, 0x12345), 0xFFFFFFFF7)
    assert cells.hex() == "2345fffffff7"
