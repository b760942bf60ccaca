"""Tokens come at their rate, and no more are kept than the bucket holds."""

from hypothesis import given
from hypothesis import strategies as st

from regulus.client.core.token_bucket import TokenBucket


def test_a_full_bucket_gives_its_burst_at_once_and_then_its_rate():
    bucket = TokenBucket(rate=10, burst=3, now_ms=0)
    assert [bucket.take(1, 0) for _ in range(4)] == [0, 0, 0, 100]
    assert [bucket.take(1, 99), bucket.take(1, 100), bucket.take(1, 100)] == [1, 0, 100]


def test_a_pause_fills_the_bucket_and_no_more():
    bucket = TokenBucket(rate=10, burst=3, now_ms=0)
    for _ in range(3):
        bucket.take(1, 0)
    assert [bucket.take(1, 1_000_000) for _ in range(4)] == [0, 0, 0, 100]


def test_more_than_it_holds_is_given_by_a_full_one_and_paid_for_afterwards():
    bucket = TokenBucket(rate=10, burst=3, now_ms=0)
    assert bucket.take(5, 0) == 0
    assert bucket.take(1, 0) == 300
    assert (bucket.take(5, 400), bucket.take(5, 500)) == (100, 0)


@given(rate=st.floats(0.01, 1e6), burst=st.integers(1, 1_000), counts=st.lists(st.integers(1, 64), max_size=50))
def test_what_waits_as_told_is_given_and_never_faster_than_the_rate(rate, burst, counts):
    bucket, now, given_out = TokenBucket(rate, burst, 0), 0, 0
    for count in counts:
        while wait := bucket.take(count, now):
            now += wait
        assert given_out <= burst + rate * now / 1000 + 1e-6
        given_out += count
