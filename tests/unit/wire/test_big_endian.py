import pytest

from regulus.wire import big_endian


@pytest.mark.parametrize(("raw", "value"), [("0001", 1), ("7fff", 0x7FFF), ("8000", -0x8000), ("ffff", -1)])
def test_two_bytes(raw, value):
    assert big_endian.int2(b"#" + bytes.fromhex(raw) + b"#", 1) == value


@pytest.mark.parametrize("value", [0, 1, 0x12345678, 2**31 - 1, -1, -(2**31)])
def test_four_bytes(value):
    out = bytearray(b"......")
    big_endian.put4(out, 1, value)
    assert out[:1] == out[5:] == b"."
    assert big_endian.int4(out, 1) == value
    assert big_endian.uint4(bytes(out), 1) == value & 0xFFFFFFFF
