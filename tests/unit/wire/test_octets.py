import pytest

from regulus.wire.octets import put, put_number


def test_a_piece_is_written_where_it_should_be() -> None:
    out = bytearray(b"......")
    assert put(out, 1, b"abcdef", 2, 5) == 4
    assert out == b".cde.."
    assert put(out, 6, b"abcdef", 3, 3) == 6


@pytest.mark.parametrize("value", [0, 9, 10, 100, 999, 1 << 62])
def test_a_number_is_written_in_decimal_digits(value: int) -> None:
    out = bytearray(30)
    end = put_number(out, 2, value)
    assert out[2:end] == str(value).encode()
    assert not out[:2].strip(b"\0")
    assert not out[end:].strip(b"\0")
