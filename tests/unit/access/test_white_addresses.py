"""Patterns of addresses: whom they match, and which are none."""

import pytest

from regulus.access.white_addresses import PATTERN_LENGTH_MAX, WhiteAddresses
from regulus.errors import ConfigError


@pytest.mark.parametrize(("pattern", "inside", "outside"), [
    ("*", ("10.0.0.1", "fe80::1", "no address"), ()),
    ("*.*.*.*", ("10.0.0.1", "fe80::1"), ()),
    ("10.0.0.1", ("10.0.0.1", "::ffff:10.0.0.1"), ("10.0.0.2", "10.0.0.11", "", "::10.0.0.1")),
    ("10.0.0.*", ("10.0.0.0", "10.0.0.255"), ("10.0.1.0", "110.0.0.1")),
    ("10.0.*.*", ("10.0.9.9",), ("10.1.0.0", "a:0:9:9::1")),
    ("10.0.0.1-5", ("10.0.0.1", "10.0.0.5"), ("10.0.0.0", "10.0.0.6")),
    ("10.5-6.*.*", ("10.5.200.3", "10.6.0.0"), ("10.7.1.1", "10.4.255.255")),
    ("10.0.0.{1,7}", ("10.0.0.1", "10.0.0.7"), ("10.0.0.2", "10.0.0.17")),
    ("10.0.0.1,10.0.0.9", ("10.0.0.1", "10.0.0.9"), ("10.0.0.5",)),
    ("2001:db8::1", ("2001:DB8:0:0:0:0:0:1", "2001:0db8::0001"), ("2001:db8::2", "10.0.0.1")),
    ("fe80::1", ("fe80::1%eth0",), ("fe80::2%eth0",)),
    ("fe80::*", ("fe80::ff", "fe80::ffff"), ("fe80::1:1",)),
    ("fe80::1-ff:*", ("fe80::2:9", "fe80::ff:ffff"), ("fe80::1", "fe80::100:1")),
    ("2::{1,a}", ("2::A", "2::1"), ("2::b",)),
])
def test_a_pattern_matches(pattern, inside, outside):
    addresses = WhiteAddresses([pattern])
    assert [each for each in inside if not addresses.matches(each)] == []
    assert [each for each in outside if addresses.matches(each)] == []


def test_no_pattern_matches_nobody():
    assert not WhiteAddresses(["", "  "]).matches("10.0.0.1")
    assert not WhiteAddresses()
    assert not WhiteAddresses().matches("")


@pytest.mark.parametrize("pattern", [
    "1.2.3", "*.1.1.1", "1-5.*.*.*",
    "1.2.3.300", "1.2.1-5.4", "1.2.3.{1", "a.b.c.d", "1::2::3", "1.2.3.5-1", "1.2.3.-4",
    "1.2.3.4_0", "1.2.3.+4", "::1:*:1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1.2.3.", "1.2.3.0x1", "1.2.3.4/24",
    "1.2.3.٣", "1" * (PATTERN_LENGTH_MAX + 1)])
def test_what_cannot_be_read_is_refused(pattern):
    with pytest.raises(ConfigError, match="white address"):
        WhiteAddresses([pattern])
