"""A rate is that of the last second that is over."""

from regulus.server.byte_rate import ByteRate


def test_what_went_in_the_last_whole_second_counts() -> None:
    rate = ByteRate(100.0)
    rate.add(300, 100.2)
    rate.add(200, 100.9)
    assert rate.bytes_in_second(100.95) == 0        # it is not over
    assert rate.bytes_in_second(101.5) == 500
    rate.add(70, 101.9)
    assert rate.bytes_in_second(102.0) == 70
    assert rate.bytes_in_second(103.0) == 0


def test_a_second_without_anything_counts_as_nothing() -> None:
    rate = ByteRate(0.0)
    rate.add(300, 0.5)
    assert rate.bytes_in_second(2.5) == 0
