"""The digest of a sink's rows. That writer, both ways through the broker and the walk of the log agree on it is in
tests/property."""

import random

import pytest

from regulus.model.message import Message
from regulus.wire.row_digest import digest_of, digest_on


def row(body: bytes = b"a", flag: int = 0, **properties: str) -> Message:
    return Message("T", body, flag=flag, properties=properties)


def test_it_stays_what_brokers_have_saved() -> None:
    rows = [row(b"one", KEYS="k"), row(b"", flag=-1), row(b"three", TAGS="t", own="\u4e2d")]
    assert digest_of(rows) == 58828410424478393


def test_it_goes_on_from_where_it_was() -> None:
    rows = [row(b"%d" % number) for number in range(5)]
    assert digest_of(rows[3:], digest_of(rows[:3])) == digest_of(rows) != digest_of(rows[3:])


def test_places_count() -> None:
    rows = [row(b"%d" % number) for number in range(2000)]
    digests = {digest_of(rows)}
    chance = random.Random(1)
    for _ in range(50):
        one, other = chance.sample(range(2000), 2)
        rows[one], rows[other] = rows[other], rows[one]
        digests.add(digest_of(rows))
    assert len(digests) == 51
    assert 0 <= max(digests) < 1 << 63


@pytest.mark.parametrize("name", [
    "UNIQ_KEY", "SINK", "SEQ", "SINK_DIGEST", "MSG_REGION", "TRACE_ON", "CLUSTER", "DELAY", "REAL_TOPIC", "REAL_QID"])
def test_what_differs_each_time_or_brokers_add_does_not_count(name: str) -> None:
    assert digest_of([row(KEYS="k", **{name: "x"})]) == digest_of([row(KEYS="k")])


@pytest.mark.parametrize("other", [row(b"b", KEYS="k"), row(KEYS="l"), row(), row(TAGS="k"), row(KEYS="k", flag=1),
                                   row(KEYS="k", own="1"), row(KEYS="k", WAIT="true")])
def test_all_else_counts(other: Message) -> None:
    assert digest_of([other]) != digest_of([row(KEYS="k")])


def test_numbers_of_31_bits_stay_apart() -> None:
    assert digest_on(digest_on(0, (1 << 31) - 1), 0) != digest_on(digest_on(0, 0), (1 << 31) - 1)
